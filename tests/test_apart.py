"""Inputs, outputs and stores that share a place, by whatever name."""

from pathlib import Path

import pytest

from dedup.errors import StorageError
from dedup.files.storage import Storage
from dedup.run.apart import check_apart, check_outside, check_store


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("outer/data", "same", "real/below", "linking"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "linking" / "inner").symlink_to(tmp_path / "real" / "below")


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("same", "same"),
        ("./outer/../same/", "same/"),
        ("outer/data", "outer"),
        ("outer", "outer/clean"),
        ("real/below", "link"),
        ("link/below", "real"),
        ("linking", "real"),
        ("file:{here}/same", "same"),
        ("same", "file://{here}/link/../same"),
        ("o*r/data", "outer"),
        ("*", "clean"),
        ("data/*", "data/clean"),
        ("cle[a-m]?", "clean"),
        ("{{raw,clean}}/x", "clean"),
        ("{{raw/x,clean}}", "clean"),
        ("clean.partial/result/kept", "clean"),
        ("clean.replaced/kept", "clean"),
        ("clean.lock", "clean"),
        ("s3a://bucket/corpus/part", "s3://bucket/corpus"),
        ("s3a://user:pass@bucket/corpus", "s3a://bucket/corpus/clean"),
        ("hdfs://name/corpus", "/corpus/clean"),
        ("abfs://c@account.dfs.core.windows.net/corpus", "abfss://C@account/corpus/clean"),
        ("wasbs://c@account.blob.core.windows.net/corpus", "abfs://c@account.dfs.core.windows.net/corpus/clean"),
    ],
)
def test_an_output_that_overlaps_an_input_is_refused_and_both_are_named(tmp_path, source, output):
    source, output = (path.format(here=tmp_path) for path in (source, output))

    with pytest.raises(StorageError, match="must lie apart from every input") as refused:
        check_apart(["elsewhere", source], output)

    assert source in str(refused.value)
    assert output in str(refused.value)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("same", "same2"),
        ("data/part.parquet", "data/clean"),
        ("data/*.parquet", "data/clean"),
        ("data/*/raw", "data/part.d/clean"),
        ("s3a://bucket/corpus", "s3a://other/corpus"),
        ("s3a://bucket/corpus", "corpus"),
        ("/corpus/raw", "hdfs://name/corpus/clean"),
        ("abfs://raw@account.dfs.core.windows.net/corpus", "abfs://clean@account.dfs.core.windows.net/corpus"),
    ],
)
def test_an_output_beside_the_input_is_allowed(source, output):
    check_apart([source], output)


@pytest.mark.parametrize(
    ("source", "store"),
    [
        ("same", "same"),
        ("same", "./outer/../same/store"),
        ("real/below", "link/below/store"),
        ("linking", "real/below/store"),
        ("outer/*", "outer/store"),
        ("file://{here}/same", "same/store"),
        ("store/a.jsonl", "store"),
    ],
)
def test_a_store_that_overlaps_an_input_is_refused_and_both_are_named(tmp_path, source, store):
    source = source.format(here=tmp_path)

    with pytest.raises(StorageError, match=f"^--store {store}: must lie apart from every input") as refused:
        check_store(["elsewhere", source], store)

    assert source in str(refused.value)


def test_a_store_may_have_the_name_of_an_input_and_more():
    check_store(["same", "clean"], "same.partial")


@pytest.mark.parametrize(
    ("mark", "path", "words"),
    [
        ("real/batches/_delta_log/0.json", "real/new", "outside of every store"),
        ("real/batches/_delta_log/0.json", "link/below/deeper/new", "outside of every store"),
        ("real/batches/_delta_log/0.json", "linking/inner/new", "outside of every store"),
        ("real/batches/_delta_log/0.json", "file:{here}/linking/../link/new", "outside of every store"),
        ("real/_DEDUP", "link/new", "outside of every output"),
        ("new/_DEDUP", "new", "missing or empty"),
        ("new/a.jsonl", "new", r"missing or empty \(it holds a.jsonl\)"),
        ("new/sets/segment=1/a.parquet", "new", r"whole store \(it holds sets/segment=1 and no batches"),
        ("new/stores/batches/_delta_log/0.json", "new", r"missing or empty \(it holds stores\)"),
    ],
)
def test_a_new_store_has_a_place_of_its_own(tmp_path, mark, path, words):
    Path(mark).parent.mkdir(parents=True, exist_ok=True)
    Path(mark).touch()

    with pytest.raises(StorageError, match=words):
        check_store([], path.format(here=tmp_path))


@pytest.mark.parametrize("found", ["bands/_delta_log/0.json", "batches/_delta_log/0.json", "batches/part", ".keep"])
def test_a_store_goes_on_where_it_was_begun(found):
    Path("new", found).parent.mkdir(parents=True)
    Path("new", found).touch()

    check_store([], "new")


def test_folders_around_a_url_are_told():
    asked = []

    class Silent:
        def exists(self, path):
            asked.append(path)
            return False

    check_outside(Silent(), "s3://bucket/a//b/../c/out")

    assert asked == [f"s3://bucket{folder}/batches/_delta_log" for folder in ("", "/a", "/a/c")]


def test_a_link_to_a_place_in_a_store_is_in_the_store(tmp_path):
    (tmp_path / "real/batches/_delta_log").mkdir(parents=True)
    (tmp_path / "out").symlink_to("real/out")

    with pytest.raises(StorageError, match=f"{tmp_path}/real is one"):
        check_outside(Storage(), "out")
