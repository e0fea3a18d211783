"""Which files are the corpus, and what they are called."""

import os

import pytest

from dedup.errors import StorageError
from dedup.files.listing import list_files, naming

SEVERAL = "--input: all inputs must have one format"
FILTER = "pass --set 'input.name_filter="
KNOWN = "parquet, arrow, orc, jsonl, csv or text"


EMPTY = "it has no file to read; names that begin with . or _ are hidden"


def place(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def listed(folder, *names, **options):
    return [file.relative for file in list_files([f"{folder}/{name}" for name in names], **options).files]


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("a.parquet", "parquet", None),
        ("a.zstd.parquet", "parquet", None),
        ("a.feather", "arrow", None),
        ("a.orc", "orc", None),
        ("a.jsonl", "jsonl", None),
        ("a.json.gz", "jsonl", "gzip"),
        ("a.ndjson.zst", "jsonl", "zstd"),
        ("A.CSV.GZ", "csv", "gzip"),
        ("README.md.bz2", "text", "bz2"),
        ("v1.0 of a+b, 100%.txt", "text", None),
        ("ü.rst.lz4", "text", "lz4"),
    ],
)
def test_format_and_compression_are_told_from_the_name(tmp_path, name, kind, compression):
    place(tmp_path, name)
    for path in (tmp_path, tmp_path / name):
        [file] = list_files([str(path)]).files
        assert (file.relative, file.format.name, file.compression) == (name, kind, compression)


def test_hidden_files_are_no_data_but_partitions_are(tmp_path):
    place(tmp_path, "t/_SUCCESS", "t/_delta_log/0.json", "t/.git/a.txt", "t/.a.parquet", "t/x/a.parquet")
    place(tmp_path, "t/_code=007/day=2024-01-01/a.parquet", "t/_tmp/a.parquet")

    assert listed(tmp_path, "t") == ["_code=007/day=2024-01-01/a.parquet", "x/a.parquet"]
    assert listed(tmp_path, "t/*") == listed(tmp_path, "t")


def test_the_folder_that_one_is_in_and_the_one_above_are_inputs(tmp_path, monkeypatch):
    place(tmp_path, "a.csv", "in/b.csv", "in/.hidden/c.csv")
    monkeypatch.chdir(tmp_path / "in")

    found = [[each.relative for each in list_files([given]).files] for given in (".", "./", "..")]

    assert found == [["b.csv"], ["b.csv"], ["a.csv", "in/b.csv"]]


def test_globs_keep_what_lies_below_their_fixed_part(tmp_path):
    place(tmp_path, "in/a/1.csv", "in/b/1.csv", "in/b/2.csv", "in/c/1.csv", "in/top.csv")

    assert listed(tmp_path, "in/*/1.csv") == ["a/1.csv", "b/1.csv", "c/1.csv"]
    assert listed(tmp_path, "in/{a,b}") == ["a/1.csv", "b/1.csv", "b/2.csv"]
    assert listed(tmp_path, "in/[^a]/?.csv") == ["b/1.csv", "b/2.csv", "c/1.csv"]
    assert listed(tmp_path, "in/b/1.csv") == ["1.csv"]
    assert listed(tmp_path, "in/", name_filter="t*") == ["top.csv"]


def test_globs_pass_files_beside_their_folders(tmp_path):
    place(tmp_path, "data/README.md", "data/one/a.jsonl", "data/two/b.jsonl")

    assert listed(tmp_path, "data/*/*.jsonl") == ["one/a.jsonl", "two/b.jsonl"]

    place(tmp_path, "data/one/more", "data/two/more/c.jsonl")

    assert listed(tmp_path, "data/*/more/*.jsonl") == ["two/more/c.jsonl"]


def test_a_file_named_as_the_folder_of_another_gets_its_root_in_front(tmp_path):
    place(tmp_path, "one/x.jsonl/part.jsonl", "two/x.jsonl", "three/one/x.jsonl")
    assert listed(tmp_path, "one/x.jsonl", "two") == ["part.jsonl", "x.jsonl"]
    assert listed(tmp_path, "one/x*", "two") == ["one/x.jsonl/part.jsonl", "two/x.jsonl"]

    with pytest.raises(StorageError, match=r"would need a folder named as .*/three/one/x\.jsonl; rename"):
        list_files([f"{tmp_path}/one", f"{tmp_path}/three/one"])


def test_a_file_that_is_spelled_in_two_ways_is_one(tmp_path, monkeypatch):
    place(tmp_path, "data/sub/a.jsonl")
    monkeypatch.chdir(tmp_path)

    for other in ("data/sub", f"file://{tmp_path}/data/sub", "data/../data//sub"):
        with pytest.raises(StorageError, match=r"must lead to each file once \(got data/sub/a\.jsonl.* from data and "):
            list_files(["data", other])


def test_links_to_a_folder_that_they_lie_in_are_refused_before_they_are_followed(tmp_path):
    """One had each row read 41 times, until the system follows no more; two are listed for hours."""
    place(tmp_path, "data/sub/a.jsonl")
    for name in ("sub/one", "sub/two"):
        (tmp_path / "data" / name).symlink_to(tmp_path / "data")

    with pytest.raises(
        StorageError, match=r"--input .*data/sub/(one|two): must lead elsewhere than to a folder that it"
    ):
        listed(tmp_path, "data")


def test_links_that_lead_to_each_other_are_refused_before_they_are_followed(tmp_path):
    place(tmp_path, "data/a/a.jsonl", "data/b/b.jsonl", "out/c.jsonl")
    for name, other in (("data/a/one", "data/b"), ("data/b/two", "data/a"), ("data/out", "out"), ("out/up", ".")):
        (tmp_path / name).symlink_to(tmp_path / other)

    for folder in ("data", "data/out"):
        with pytest.raises(StorageError, match=r"--input .*/(one|two|up)[^ ]*: must lead elsewhere than to a folder"):
            listed(tmp_path, folder)


def test_a_folder_that_a_link_leads_to_again_is_read_once(tmp_path):
    place(tmp_path, "data/sub/a.jsonl")
    (tmp_path / "data" / "again").symlink_to(tmp_path / "data" / "sub")

    with pytest.raises(StorageError, match=r"each file once \(got .*a\.jsonl as .*a\.jsonl from"):
        listed(tmp_path, "data")


def test_errors_that_name_another_option_are_whole_but_for_advice_on_that_of_the_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none").mkdir()
    place(tmp_path, "a; b.dat")

    for given, words in (
        (
            "none",
            "must be a file, a folder of files or a glob (it has no file to read; names that begin with . or _ are",
        ),
        ("a; b.dat", "its format cannot be guessed from 'a; b.dat'"),
    ):
        with pytest.raises(StorageError) as caught, naming("--sample"):
            list_files([given])
        assert str(caught.value).removesuffix(" hidden)") == f"--sample {given}: {words}"


def test_names_that_collide_get_their_roots_in_front(tmp_path):
    place(tmp_path, "x/in/a.csv", "y/in/a.csv", "z/b.csv")

    assert listed(tmp_path, "x/in", "z") == ["a.csv", "b.csv"]
    assert listed(tmp_path, "x", "y") == ["x/in/a.csv", "y/in/a.csv"]
    with pytest.raises(StorageError, match=r"must differ in folder or name \(got .*x/in/a.csv and .*y/in/a.csv"):
        listed(tmp_path, "x/in", "y/in")
    with pytest.raises(StorageError, match=r"must lead to each file once \(got .*x/in/a.csv from .*x and .*x/in\)"):
        listed(tmp_path, "x", "x/in")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["none"], "--input {0}/none: must be a file, a folder of files or a glob (it does not exist)"),
        (["in", "none.csv"], "--input {0}/none.csv: must be a file, a folder of files or a glob (it does not exist)"),
        (["none/*.csv"], "--input {0}/none/*.csv: must be a file, a folder of files or a glob (it does not exist)"),
        (["empty"], f"--input {{0}}/empty: must be a file, a folder of files or a glob ({EMPTY})"),
        (["hidden"], f"--input {{0}}/hidden: must be a file, a folder of files or a glob ({EMPTY})"),
        (
            ["odd"],
            f"--input {{0}}/odd: its format cannot be guessed from 'a.xlsx'; pass --format {KNOWN}",
        ),
        (
            ["in", "other"],
            f"{SEVERAL} ({{0}}/in is csv, {{0}}/other is jsonl); {FILTER}*.csv' to read those alone",
        ),
        (
            ["mixed"],
            (
                f"{SEVERAL} ({{0}}/mixed/a.CSV is csv, {{0}}/mixed/b.txt is text, {{0}}/mixed/d.jsonl is jsonl); "
                f"{FILTER}{{{{*.CSV,*.csv.gz}}}}' to read those alone"
            ),
        ),
        (
            ["output"],
            (
                "--input {0}/output: must not be the output of a run (it has dedup.toml and report.json); the rows "
                "that stayed are in its folder kept"
            ),
        ),
        (
            ["untold"],
            (
                f"--input {{0}}/untold: its format cannot be guessed from 'LICENSE'; {FILTER}*.jsonl' to leave "
                f"it out, or --format {KNOWN}"
            ),
        ),
        (["packed"], "{0}/packed/a.csv.xz: must be compressed as one of gz, zst, bz2, lz4, or not at all (got xz)"),
    ],
)
def test_an_input_of_no_format_is_refused_by_name(tmp_path, inputs, message):
    place(tmp_path, "in/a.csv", "other/a.json", "odd/a.xlsx", "hidden/_a.csv", "mixed/a.CSV", "mixed/b.txt")
    place(tmp_path, "mixed/c.csv.gz", "mixed/d.jsonl", "untold/LICENSE", "untold/a.jsonl")
    place(tmp_path, "output/dedup.toml", "output/report.json", "output/kept/a.jsonl")
    place(tmp_path, "packed/a.csv.xz")
    (tmp_path / "empty" / "deeper").mkdir(parents=True)

    with pytest.raises(StorageError) as refused:
        listed(tmp_path, *inputs)

    assert str(refused.value) == message.format(tmp_path)


def test_a_pipe_is_refused_before_anyone_waits_for_it(tmp_path):
    place(tmp_path, "in/a.jsonl")
    os.mkfifo(tmp_path / "in" / "b.jsonl")

    for name in ("in", "in/b.jsonl"):
        with pytest.raises(StorageError, match=r"--input .*b\.jsonl: must be a file, to be read more than once"):
            list_files([str(tmp_path / name)])
    assert listed(tmp_path, "in", name_filter="a*") == ["a.jsonl"]


def test_a_name_filter_that_leaves_no_file_is_answered(tmp_path):
    place(tmp_path, "a.csv")

    with pytest.raises(StorageError, match=r"input\.name_filter: must match .* \(got '\*\.none'\)"):
        list_files([str(tmp_path)], name_filter="*.none")


def test_the_fingerprint_tells_files_that_came_went_or_were_written_again(tmp_path):
    def fingerprint():
        return list_files([str(tmp_path)]).fingerprint

    place(tmp_path, "a.txt")
    found = [fingerprint()]
    assert fingerprint() == found[0]
    place(tmp_path, "sub/b.txt")
    found.append(fingerprint())
    os.utime(tmp_path / "a.txt", (0, 0))
    found.append(fingerprint())
    (tmp_path / "a.txt").write_text("longer")
    os.utime(tmp_path / "a.txt", (0, 0))
    assert len({*found, fingerprint()}) == 4


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("{*.py,*.md}", ["a.py", "b.md"]), ("*LICEN[CS]E*", ["LICENSE.txt"]), ("[^a]*.md", ["b.md"])],
)
def test_a_name_filter_is_a_glob_of_hadoop(tmp_path, pattern, expected):
    for name in ("a.py", "b.md", "LICENSE.txt", "c.rst"):
        (tmp_path / name).write_text("text")

    found = list_files([str(tmp_path)], format="text", name_filter=pattern)

    assert [file.relative for file in found.files] == expected
