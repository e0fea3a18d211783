"""What becomes of input that is odd, malformed or damaged: an answer that names it, and nothing lost."""

import base64
import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc
from pyarrow.parquet import encryption

from dedup.api import deduplicate as find_duplicates
from dedup.cli import run as cli
from dedup.errors import DataError, DedupError, SchemaError, StorageError
from dedup.files.systems import readable
from dedup.layers.near.layer import NearLayer
from dedup.run.faults import recognise
from dedup.run.growing import Growth
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config

QUARANTINE = "input.on_bad_record=quarantine"
BY_DRIVER = "driver.search_bytes=1_000_000_000"
"""Where who reads is asked and not who searches: the driver is sooner done with it."""
UNIQUE = "0d67ba03-5334-4db7-a0c8-1b6e733266d2"
TEXT = "one text of several words that is long enough for a few shingles"


@pytest.fixture
def deduplicate(tmp_path):
    """Return a function that runs the job on a path, with these settings; Spark's workers read with the same code."""

    def act(*settings, source=None, id_column="id"):
        config = load_config(None, None, [f"input.id_column={id_column}", *settings])
        return run_in_memory(Job(inputs=[str(source or tmp_path / "in")], output=str(tmp_path / "out"), config=config))

    return act


def read(tmp_path, name, kind="parquet"):
    return sorted(ds.dataset(tmp_path / "out" / name, format=kind).to_table().to_pylist(), key=repr)


def write_parquet(tmp_path, name="a.parquet", **columns):
    (tmp_path / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), tmp_path / "in" / name)


def write_lines(tmp_path, *lines, name="a.jsonl"):
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / name).write_bytes(b"".join(each + b"\n" for each in lines))


RECORDS = [json.dumps({"id": number, "text": f"text number {number}"}).encode() for number in range(3)]
BROKEN = [b'{"id": 7, "text": "cut sho', b"no json at all", b'"a string"', b'{"id": 8, "text": "trailing"} }}x{']


def test_malformed_json_ends_the_job_and_is_shown(deduplicate, tmp_path):
    write_lines(tmp_path, *RECORDS, BROKEN[0])

    with pytest.raises(DataError, match="every record must be whole") as caught:
        deduplicate()
    assert """'{"id": 7, "text": "cut sho' in """ in str(caught.value)
    assert f"{tmp_path}/in/a.jsonl" in str(caught.value)
    assert QUARANTINE in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("setting", ["fail", "quarantine"])
def test_malformed_json_ends_alike_on_spark(spark, tmp_path, setting):
    write_lines(tmp_path, *RECORDS, BROKEN[0])
    config = load_config(None, None, ["input.id_column=id", f"input.on_bad_record={setting}", BY_DRIVER])
    job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=config)

    if setting == "fail":
        with pytest.raises(DataError, match=r"^--input: every record must be whole \(got no JSON object: .* in /"):
            run(spark, job)
    else:
        assert run(spark, job)["quarantined"] == 1
        assert [row["record"] for row in read(tmp_path, "quarantine")] == [BROKEN[0].decode()]
        assert [row["id"] for row in read(tmp_path, "kept", "json")] == [0, 1, 2]


def test_malformed_json_is_set_aside_with_its_file(deduplicate, tmp_path):
    write_lines(tmp_path, RECORDS[0], BROKEN[0], RECORDS[1])
    write_lines(tmp_path, RECORDS[2], *BROKEN[1:3], name="b c+%.jsonl")

    report = deduplicate(QUARANTINE)

    assert (report["documents"], report["kept"], report["quarantined"]) == (3, 3, 3)
    assert read(tmp_path, "quarantine") == sorted(
        [
            {"file": f"{tmp_path}/in/{name}", "reason": "no JSON object", "record": line.decode()}
            for name, line in [("a.jsonl", BROKEN[0]), ("b c+%.jsonl", BROKEN[1]), ("b c+%.jsonl", BROKEN[2])]
        ],
        key=repr,
    )
    assert [row["id"] for row in read(tmp_path, "kept", "json")] == [0, 1, 2]


def test_whole_json_makes_no_quarantine(deduplicate, tmp_path):
    write_lines(tmp_path, *RECORDS)

    assert deduplicate(QUARANTINE)["quarantined"] == 0
    assert not (tmp_path / "out" / "quarantine").exists()


def test_json_without_one_whole_record_is_refused(deduplicate, tmp_path):
    write_lines(tmp_path, *BROKEN[:2])

    with pytest.raises(DataError, match=r"must have a JSON object on each line \(got none in .*a\.jsonl; pandas"):
        deduplicate(QUARANTINE)


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"[" * 3000 + b"]" * 3000, "values nested too deep"), (b"9" * 4301, "more than 4,300 digits")],
)
def test_whole_json_that_cannot_be_read_is_refused_with_the_reason(deduplicate, tmp_path, value, reason):
    line = b'{"id": 9, "text": "a", "x": ' + value + b"}"
    for lines in ([b"\xef\xbb\xbf" + line, *RECORDS], [*RECORDS, line]):
        write_lines(tmp_path, *lines)
        with pytest.raises(DataError, match=rf"every record must be whole \(got .*{reason}"):
            deduplicate()
    deduplicate(QUARANTINE)
    assert reason in read(tmp_path, "quarantine")[0]["reason"]

    write_lines(tmp_path, line)
    with pytest.raises(DataError, match=rf"must have a JSON object on each line \(got .*{reason} in"):
        deduplicate()


@pytest.mark.parametrize(
    ("depth", "setting", "message"),
    [
        (900, "input.id_column=", "cannot be read as jsonl .values nested too deep"),
        (900, "output.format=parquet", "values are nested too deep"),
        (300, "output.format=jsonl", "must fit jsonl"),
    ],
)
def test_values_nested_too_deep_for_what_is_asked_are_refused(deduplicate, tmp_path, depth, setting, message):
    write_lines(tmp_path, *RECORDS, b'{"id": 9, "text": "a", "x": ' + b"[" * depth + b"]" * depth + b"}")

    with pytest.raises(DedupError, match=message):
        deduplicate(setting)
    assert deduplicate()["kept"] == len(RECORDS) + 1


class Keys(encryption.KmsClient):
    """Keys that are no secret."""

    def wrap_key(self, key_bytes, master_key_identifier):
        del master_key_identifier
        return base64.b64encode(key_bytes)


@pytest.mark.parametrize("in_clear", [True, False])
def test_encrypted_parquet_is_refused(deduplicate, tmp_path, in_clear):
    rows = pa.table({"id": [1, 2], "text": [TEXT, TEXT], "x": [3, 4]})
    chosen = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["x"]}, plaintext_footer=in_clear)
    connection = encryption.KmsConnectionConfig()
    properties = encryption.CryptoFactory(lambda _: Keys()).file_encryption_properties(connection, chosen)
    (tmp_path / "in").mkdir()
    with pq.ParquetWriter(tmp_path / "in" / "a.parquet", rows.schema, encryption_properties=properties) as file:
        file.write_table(rows)

    with pytest.raises(DataError, match=r"a\.parquet .*encrypted"):
        deduplicate()


CSV = [b"id,text", b"1,a text", b"2", b'3,"another, quoted"', b"4,too,many"]


def test_malformed_csv_ends_the_job(deduplicate, tmp_path):
    write_lines(tmp_path, *CSV, name="a.csv")

    with pytest.raises(DataError, match="every record must be whole"):
        deduplicate()


def test_malformed_csv_is_set_aside(deduplicate, tmp_path):
    write_lines(tmp_path, *CSV, name="a.csv")

    report = deduplicate(QUARANTINE)

    assert (report["documents"], report["quarantined"]) == (2, 2)
    assert [(row["file"], row["record"]) for row in read(tmp_path, "quarantine")] == [
        (f"{tmp_path}/in/a.csv", "2"),
        (f"{tmp_path}/in/a.csv", "4,too,many"),
    ]
    assert {row["id"] for row in read(tmp_path, "kept", "csv")} == {1, 3}


def test_csv_files_whose_columns_come_in_another_order_are_read_by_their_names(deduplicate, tmp_path):
    write_lines(tmp_path, b"id,text", b"1,a", name="a.csv")
    write_lines(tmp_path, b"text,id", b"b,2", name="b.csv")

    assert deduplicate()["kept"] == 2
    assert (tmp_path / "out" / "kept" / "b.csv").read_bytes() == b"text,id\nb,2\n"


@pytest.mark.parametrize("others", [0, 3])
def test_a_truncated_parquet_file_is_named(deduplicate, tmp_path, others):
    for number in range(others):
        write_parquet(tmp_path, f"{number}.parquet", id=[number], text=[TEXT])
    write_parquet(tmp_path, "cut.parquet", id=[7], text=[TEXT])
    whole = (tmp_path / "in" / "cut.parquet").read_bytes()
    (tmp_path / "in" / "cut.parquet").write_bytes(whole[:-20])

    with pytest.raises(DataError, match=r"in/cut\.parquet cannot be read as parquet"):
        deduplicate()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["cut.jsonl.gz", "cut.jsonl.bz2", "cut.csv.zst", "cut.txt.lz4"])
def test_no_bytes_are_no_compressed_file(deduplicate, tmp_path, name):
    kind = name.split(".")[1]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a.{kind}").write_text(
        {"jsonl": '{"id": 1, "text": "a"}\n', "csv": "id,text\n1,a\n", "txt": "a"}[kind]
    )
    (tmp_path / "in" / name).touch()

    with pytest.raises(DataError, match=rf"in/cut\.{kind}\.\w+ cannot be read as \w+ \(it has no bytes"):
        deduplicate(id_column="" if kind == "txt" else "id")


@pytest.mark.parametrize(
    "said",
    [OSError("AWS Error SLOW_DOWN during GetObject operation: less"), OSError(errno.EIO, os.strerror(errno.EIO))],
)
def test_a_file_that_its_storage_does_not_give_is_no_damaged_one(deduplicate, tmp_path, monkeypatch, said):
    """Of a damaged one a run on Spark drops the stages that it has finished."""
    write_lines(tmp_path, *RECORDS)

    def refuse(*_):
        raise said

    monkeypatch.setattr("dedup.files.formats.jsonl.open_bytes", refuse)
    with pytest.raises(StorageError, match=r"in/a\.jsonl: must be a path that can be read .*\((AWS|Input)"):
        deduplicate()


def test_memory_that_runs_out_is_told_and_not_taken_for_a_damaged_file(tmp_path, monkeypatch, capsys):
    write_lines(tmp_path, *RECORDS)

    def fail(*_):
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    with pytest.raises(MemoryError), readable("a folder"):
        fail()
    monkeypatch.setattr("dedup.files.formats.jsonl.open_bytes", fail)
    words = ["--input", f"{tmp_path}/in", "--output", f"{tmp_path}/out", "--id-column", "id", "--engine", "memory"]
    assert cli.main(words) == 2
    assert capsys.readouterr().err.startswith("dedup: memory ran out (malloc of size 64 failed); free some")


def test_a_parquet_file_damaged_within_is_named(deduplicate, tmp_path):
    write_parquet(tmp_path, id=list(range(2000)), text=[f"{TEXT} {number}" for number in range(2000)])
    content = bytearray((tmp_path / "in" / "a.parquet").read_bytes())
    content[40:4000] = bytes(3960)
    (tmp_path / "in" / "a.parquet").write_bytes(content)

    with pytest.raises(DataError, match=r"in/a\.parquet cannot be read"):
        deduplicate()


def test_parquet_files_of_several_schemas_each_stay_as_they_are(deduplicate, tmp_path):
    write_parquet(tmp_path, "a.parquet", id=[1], text=["a text"], left=["x"])
    write_parquet(tmp_path, "b.parquet", right=[2.5], id=[2], text=["another"])

    deduplicate()

    for name in ("a.parquet", "b.parquet"):
        assert pq.read_table(tmp_path / "out" / "kept" / name).equals(pq.read_table(tmp_path / "in" / name))


def test_parquet_files_whose_types_differ_are_refused(deduplicate, tmp_path):
    write_parquet(tmp_path, "a.parquet", id=[1], text=["a text"])
    write_parquet(tmp_path, "b.parquet", id=["two"], text=["another"])

    with pytest.raises(SchemaError, match="must be alike in all files"):
        deduplicate()


@pytest.mark.parametrize("name", ["in.jsonl", "in.csv", "in.parquet"])
def test_a_column_that_is_misspelt_is_answered_with_the_nearest(tmp_path, name):
    table = pa.table({"key": ["1"], "body": ["some words"]})
    if name.endswith("jsonl"):
        (tmp_path / name).write_text('{"key": "1", "body": "some words"}\n')
    else:
        (pq.write_table if name.endswith("parquet") else csv.write_csv)(table, tmp_path / name)

    with pytest.raises(SchemaError, match=r"\(got 'bdy', .* has (body, key|key, body); did you mean body\?\)"):
        find_duplicates(tmp_path / name, text_column="bdy", engine="memory")
    with pytest.raises(SchemaError, match=r"input.text_column: must be the name of one column .* \(got '', "):
        find_duplicates(tmp_path / name, text_column="", engine="memory")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "text": [["a", "b"]]}, r"column 'text' must be a string \(got list"),
        ({"id": [1.5], "text": ["a"]}, r"column 'id' must be an integer or a string \(got double"),
        ({"id": [1], "body": ["a"]}, r"must be the name of one column of the input \(got 'text', .* id, body\)"),
    ],
)
def test_columns_that_cannot_serve_are_refused_by_name(deduplicate, tmp_path, columns, message):
    write_parquet(tmp_path, **columns)

    with pytest.raises(SchemaError, match=message):
        deduplicate()


def test_bytes_that_are_no_text_and_null_characters_are_compared_and_kept_as_they_are(deduplicate, tmp_path):
    texts = [b"\xff\xfe broken \xc3( bytes in a text", b"nul\0 in the midst of words", b"\0", b"\xed\xa0\x80 half"]
    write_parquet(tmp_path, id=list(range(5)), text=pa.array([*texts, texts[0]], pa.binary()))

    report = deduplicate()

    assert (report["kept"], report["identical"]) == (4, 1)
    assert [row["text"] for row in read(tmp_path, "kept")] == texts


def test_one_document_stays(deduplicate, tmp_path):
    write_parquet(tmp_path, id=[1], text=[TEXT])

    assert (deduplicate()["kept"], read(tmp_path, "duplicates")) == (1, [])


EMPTY = pa.array(["", "  \n", None, "...!", "\u200b"] * 10)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["mode=exact"],
        ["mode=exact", "output.mode=annotate"],
        ["mode=exact", "layers=['exact', 'near']", "exact.compare=text"],
    ],
)
def test_documents_without_a_token_all_stay_and_are_counted(deduplicate, tmp_path, settings):
    write_parquet(tmp_path, id=list(range(50)), text=EMPTY)

    # Nothing that an earlier run has left in this thread is there.
    with ThreadPoolExecutor(1) as anew:
        report = anew.submit(deduplicate, *settings).result()

    assert (report["kept"], report["documents_empty"], report["empty_rate"]) == (50, 50, 1.0)


def test_a_batch_without_a_token_stays(tmp_path):
    write_parquet(tmp_path, id=list(range(50)), text=EMPTY)
    job = Job(
        inputs=[str(tmp_path / "in")],
        output=str(tmp_path / "out"),
        config=load_config(settings={"input.id_column": "id"}),
    )
    with ThreadPoolExecutor(1) as anew:
        report = anew.submit(run_in_memory, job, Growth(store=str(tmp_path / "store"), batch="a")).result()

    assert report["kept"] == 50


@pytest.mark.parametrize("search_bytes", [0, 10**9])
def test_documents_without_a_token_all_stay_on_spark(spark, tmp_path, search_bytes):
    write_parquet(tmp_path, id=list(range(50)), text=EMPTY)
    settings = {"input.id_column": "id", "mode": "exact", "driver.search_bytes": search_bytes}
    job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=load_config(settings=settings))

    assert run(spark, job)["kept"] == 50


def test_documents_of_one_token_are_compared(deduplicate, tmp_path):
    write_parquet(tmp_path, id=list(range(6)), text=["a", "b", "A", " a! ", "b", "c"])

    report = deduplicate()

    assert (report["kept"], report["identical"], report["documents_short"]) == (3, 3, 6)


def test_columns_may_be_named_as_the_job_names_its_own(deduplicate, tmp_path):
    names = ["doc_id", "component_id", "text", "id", "left_id", "a.b", "c d", "`e`", "signature", "_dedup_malformed"]
    row = {name: f"{name} of 1" for name in names}
    write_parquet(tmp_path, **{name: [value, f"other {name} 2"] for name, value in row.items()})

    report = deduplicate(id_column="a.b")

    assert report["kept"] == 2
    assert read(tmp_path, "kept")[0] == row


def test_ids_may_hold_any_character(deduplicate, tmp_path):
    ids = ["two\nlines", "\0", "\x1b[31m", "<script>alert(1)</script>", "ü'\"`,"]
    write_parquet(tmp_path, id=ids, text=[TEXT] * len(ids))

    deduplicate()

    assert {row["id"] for name in ("kept", "duplicates") for row in read(tmp_path, name)} == set(ids)


BROKEN_STRINGS = pa.array([b"a", b"caf\xe9", b"c"], pa.binary()).view(pa.string())
NO_UTF8 = {
    "ids of parquet": r"ids must be UTF-8 \(got b'caf\\xe9' in {in}/a.parquet\)",
    "ids of orc": r"ids must be UTF-8 \(got b'caf\\xe9' in {in}/a.orc\)",
    "ids of arrow": r"ids must be UTF-8 \(got b'caf\\xe9' in {in}/a.arrow\)",
    "a column of parquet": r"{in}/a.parquet cannot be read as parquet \(it holds b'note\\xff\\xfe', which is not",
    "a field of arrow": r"{in}/a.arrow cannot be read as arrow \(it holds b'note\\xff\\xfe', which is not UTF-8\)",
    "a footer of parquet": r"{in}/a.parquet cannot be read as parquet \(it holds b'te\\xff\\xfe', which is not UTF-8\)",
    "a file": r"it holds b'{in}/b\\xff.parquet', which is not UTF-8",
    "a folder": r"it holds b'{in}/lang=\\xff', which is not UTF-8",
}
"""Names and values that are no UTF-8, and what is said of them."""


def write_no_utf8(folder, kind):
    folder.mkdir()
    table = pa.table({"id": list("abc"), "text": [TEXT] * 3, "note12": [{"note34": 1}] * 3})
    if kind.startswith("ids"):
        table = table.set_column(0, "id", BROKEN_STRINGS)
    path = folder / f"a.{kind.rpartition(' of ')[2] if ' of ' in kind else 'parquet'}"
    if path.suffix == ".orc":
        orc.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, path, store_schema=False)
    content = path.read_bytes()
    if kind == "a column of parquet":
        path.write_bytes(content.replace(b"note12", b"note\xff\xfe"))
    if kind == "a field of arrow":
        path.write_bytes(content.replace(b"note34", b"note\xff\xfe"))
    if kind == "a footer of parquet":
        # The path of a column, and not its name.
        path.write_bytes(content.replace(b"\x04text\x15", b"\x04te\xff\xfe\x15"))
    if kind == "a file":
        (folder / os.fsdecode(b"b\xff.parquet")).hardlink_to(path)
    if kind == "a folder":
        (folder / os.fsdecode(b"lang=\xff")).mkdir()


@pytest.mark.parametrize("kind", NO_UTF8)
def test_what_is_no_utf8_ends_the_job_with_a_line_that_names_it(deduplicate, tmp_path, kind):
    write_no_utf8(tmp_path / "in", kind)

    with pytest.raises(DedupError, match=NO_UTF8[kind].replace("{in}", f"{tmp_path}/in")) as refused:
        deduplicate()
    assert str(refused.value).isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("kind", ["ids of parquet", "a column of parquet", "a file"])
def test_what_is_no_utf8_ends_alike_on_spark(spark, tmp_path, kind):
    write_no_utf8(tmp_path / "in", kind)
    config = load_config(None, None, ["input.id_column=id"])

    with pytest.raises(DedupError, match=NO_UTF8[kind].replace("{in}", f"{tmp_path}/in")):
        run(spark, Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=config))


def test_values_that_are_no_utf8_are_kept_as_they_are_and_read_with_a_sign_in_their_place(deduplicate, tmp_path):
    write_parquet(tmp_path, id=list("abc"), text=BROKEN_STRINGS, note=BROKEN_STRINGS)

    report = deduplicate("input.source_column=note", 'keep.merge=["first:note"]')

    assert sorted(report["survival_by_source"]) == ["a", "c", "caf\N{REPLACEMENT CHARACTER}"]
    kept = ds.dataset(tmp_path / "out" / "kept").to_table().sort_by("id")
    assert kept["text"].cast(pa.binary()).to_pylist() == [b"a", b"caf\xe9", b"c"]
    with pytest.raises(DataError, match=r"output.format: strings must be UTF-8 .*\(it holds b'caf\\xe9', which is not"):
        run_in_memory(
            Job(
                inputs=[str(tmp_path / "in")],
                output=str(tmp_path / "lines"),
                config=load_config(None, None, ["input.id_column=id", "output.format=jsonl"]),
            )
        )


def test_an_offset_beyond_its_buffer_is_told_and_does_not_end_the_process(deduplicate, tmp_path):
    (tmp_path / "in").mkdir()
    offsets, content = pa.py_buffer(np.array([0, 1, 1 << 30, 2], np.int32)), pa.py_buffer(b"abc")
    broken = pa.Array.from_buffers(pa.string(), 3, [None, offsets, content])
    for number, name in enumerate(("id", "text", "note")):
        table = pa.table({"id": list("abc"), "text": [TEXT] * 3, "note": list("abc")}).set_column(number, name, broken)
        with pa.ipc.new_file(str(tmp_path / "in" / "a.arrow"), table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(DataError, match=r"in/a.arrow cannot be read as arrow \("):
            deduplicate()


def test_an_earlier_report_that_is_no_utf8_is_none(tmp_path):
    write_lines(tmp_path, *RECORDS)
    for name in ("report.json", "_CURRENT"):
        (tmp_path / "old").mkdir(exist_ok=True)
        (tmp_path / "old" / name).write_bytes(b"\xff")
        job = Job(inputs=[f"{tmp_path}/in"], output=f"{tmp_path}/out", config=load_config(), baseline=f"{tmp_path}/old")
        with pytest.raises(StorageError, match="must be the output of an earlier run"):
            run_in_memory(job)


@pytest.mark.parametrize("layers", [["near"], ["exact"], ["lines", "near"], ["passages"], ["containment"]])
def test_an_input_without_documents_is_refused_whatever_the_layers(deduplicate, tmp_path, layers):
    write_parquet(tmp_path, id=pa.array([], pa.int64()), text=pa.array([], pa.string()))

    with pytest.raises(DataError, match="must hold at least one document"):
        deduplicate(f"layers={layers}")


def test_files_without_rows_count_for_nothing(deduplicate, tmp_path):
    write_lines(tmp_path, *RECORDS)
    write_lines(tmp_path, name="empty.jsonl")

    assert deduplicate()["documents"] == 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("in.jsonl", b"", r"--input: must hold at least one document \(it has none\)"),
        ("in.jsonl", '{"id": 1, "text": "a"}\n'.encode("utf-16"), r"\(got UTF-16 for UTF-8 in .*in.jsonl;"),
        ("in.csv", "id,text\n1,a\n".encode("utf-16"), "csv must be UTF-8, and this looks like UTF-16"),
        ("in.csv", b"ID,TEXT\n1,a\n", r"'(id|text)', .* has ID, TEXT; did you mean (ID|TEXT)\?"),
    ],
)
def test_the_cause_is_told_of_files_that_other_programs_write(deduplicate, tmp_path, name, content, said):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)

    with pytest.raises(DedupError, match=said):
        deduplicate()


def test_an_input_that_changes_while_it_is_read_is_not_published(spark, tmp_path, monkeypatch):
    write_parquet(tmp_path, id=[1, 2], text=[TEXT, "another text"])
    config = load_config(None, None, ["input.id_column=id", BY_DRIVER])
    job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=config)
    find = NearLayer.find

    def change(*args, **kwargs):
        write_parquet(tmp_path, "late.parquet", id=[3], text=["a late text"])
        return find(*args, **kwargs)

    monkeypatch.setattr(NearLayer, "find", change)
    with pytest.raises(DataError, match="must not change while the job reads it"):
        run(spark, job)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("java.io.IOException: No space left on device", StorageError, "no space is left"),
        ("java.lang.OutOfMemoryError: Java heap space", DedupError, "ran out of memory"),
        (
            f"java.nio.file.NoSuchFileException: /scratch/blockmgr-{UNIQUE}/24",
            StorageError,
            "spark.local.dir: must keep",
        ),
        (
            f"java.io.FileNotFoundException: /scratch/spark-{UNIQUE}/blockmgr-{UNIQUE}/0c/a.index (No such file)",
            StorageError,
            "spark.local.dir: must keep",
        ),
    ],
)
def test_faults_of_the_machine_say_what_to_do(spark, said, kind, words):
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as Spark raises it

    assert spark
    known = recognise(PySparkException(said))

    assert type(known) is kind
    assert words in str(known)
    assert recognise(PySparkException("something else")) is None
    assert recognise(ValueError(said)) is None


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOENT, "spark.local.dir: must keep Spark's files"), (errno.ENOSPC, "no space is left")],
)
def test_a_folder_of_spark_that_the_driver_cannot_write_to_is_one_line(spark, tmp_path, monkeypatch, number, words):
    folder = f"{tmp_path}/spark-{UNIQUE}/pyspark-{UNIQUE}"

    def fail(*_, **__):
        raise OSError(number, os.strerror(number), f"{folder}/a")

    write_parquet(tmp_path, id=[1, 2], text=[TEXT, "another text"])
    config = load_config(None, None, ["input.id_column=id", BY_DRIVER])
    monkeypatch.setattr(spark.sparkContext, "_serialize_to_jvm", fail)

    with pytest.raises(StorageError, match=f"^{words}.*repeat the command, which goes on$"):
        run(spark, Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=config))


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv", "text"])
def test_a_text_that_would_take_all_memory_is_refused_by_its_id(deduplicate, tmp_path, kind):
    (tmp_path / "in").mkdir()
    rows = [{"id": "a", "text": "short"}, {"id": "b", "text": "x" * 1001}, {"id": "c", "text": "ü" * 500}]
    if kind == "text":
        for row in rows:
            (tmp_path / "in" / f"{row['id']}.txt").write_text(row["text"], "utf-8")
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / "a.parquet")
    elif kind == "jsonl":
        (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = "".join(f"{row['id']},{row['text']}\n" for row in rows)
        (tmp_path / "in" / "a.csv").write_text(f"id,text\n{lines}", "utf-8")
    id_column = "" if kind == "text" else "id"

    with pytest.raises(DataError, match=r"at most 1,000 bytes \(got 1,001 of id '.*b.*' in .*\); take it out"):
        deduplicate("input.max_text_bytes=1000", id_column=id_column)
    assert deduplicate("input.max_text_bytes=1001", id_column=id_column)["documents"] == 3
