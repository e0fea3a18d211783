"""Every row with what became of it."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dedup.errors import DataError, SchemaError
from dedup.files.formats.json_line import clear_members
from dedup.files.listing import list_files
from dedup.files.sink import annotate, check_names
from dedup.files.storage import Storage
from tests.files.tables import changed_by_spark
from tests.files.test_sink import load, read_table, rows_of, store, write_table

NAMES = ["dedup_kept", "dedup_representative_id", "dedup_jaccard"]
IDS = ["plain", 'a "quote", and\nlines', None]


def notes_of(rows):
    columns = [pa.array(rows, pa.int64()), pa.array([False, True, False][: len(rows)], pa.bool_())]
    ids, jaccards = pa.array(IDS[: len(rows)], pa.string()), pa.array([0.5, None, 1.0][: len(rows)], pa.float64())
    return pa.table([*columns, ids, jaccards], names=["row", *NAMES])


def run(path, tmp_path, chosen):
    source, rows = rows_of(path)
    notes = notes_of(rows[chosen])
    check_names(source, NAMES)
    written = annotate(source, 0, notes, folder=str(tmp_path / "out"))
    expected = [(True, None, None)] * len(rows)
    for place, note in zip(chosen, notes.drop(["row"]).to_pylist(), strict=True):
        expected[place] = tuple(note.values())
    assert (written.kept, written.removed) == (
        len(rows) - sum(not each[0] for each in expected),
        sum(not each[0] for each in expected),
    )
    return tmp_path / "out" / path.name, expected


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows"])
@pytest.mark.parametrize("chosen", [[], [0], [1, 2, 4]])
def test_tables_gain_columns_and_keep_the_others(tmp_path, name, chosen):
    table = changed_by_spark()
    write_table(table, tmp_path / name)

    path, expected = run(tmp_path / name, tmp_path, chosen)

    found = read_table(path)
    assert found.drop(NAMES).equals(read_table(tmp_path / name))
    assert found.schema.metadata == table.schema.metadata
    assert [tuple(row.values()) for row in found.select(NAMES).to_pylist()] == expected


def test_spark_reads_what_was_added_to_a_file_of_its_own(spark, tmp_path):
    spark.createDataFrame([(1, "a"), (2, "b")], "id long, text string").coalesce(1).write.parquet(str(tmp_path / "in"))
    [path] = (tmp_path / "in").glob("*.parquet")

    written, expected = run(path, tmp_path, [1])

    rows = spark.read.parquet(str(written)).collect()
    assert [tuple(row) for row in rows] == [(1, "a", *expected[0]), (2, "b", *expected[1])]


LINES = [b'{"id": 0, "text": "a", "z": 1.0} \r\n', b'{"id":1, "text":"{}"}\n', b"\n", b'{"id":2 }']


@pytest.mark.parametrize("ending", ["", ".zst"])
@pytest.mark.parametrize("chosen", [[], [0], [0, 1, 2]])
def test_objects_gain_members_at_their_ends(tmp_path, ending, chosen):
    store(tmp_path / f"a.jsonl{ending}", b"".join(LINES))

    path, expected = run(tmp_path / f"a.jsonl{ending}", tmp_path, chosen)

    found = load(path).splitlines(keepends=True)
    lines = [line for line in LINES if line.strip()]
    for line, original, note in zip(found, lines, expected, strict=True):
        assert line.startswith(original.rstrip()[:-1])
        assert line.endswith(original[len(original.rstrip()) :])
        assert list(json.loads(line).items())[-3:] == list(zip(NAMES, note, strict=True))
        assert {**json.loads(original), **dict(zip(NAMES, note, strict=True))} == json.loads(line)


def test_an_empty_object_gains_members(tmp_path):
    store(tmp_path / "a.jsonl", b'{"id":1,"text":"x"}\n{}\n')

    path, _ = run(tmp_path / "a.jsonl", tmp_path, [1])

    assert list(json.loads(load(path).splitlines()[1])) == NAMES


@pytest.mark.parametrize("chosen", [[], [0], [0, 1, 2]])
def test_records_gain_cells(tmp_path, chosen):
    content = b'\xef\xbb\xbfid,text\r\n0,"two\r\nlines"\r\n1,b\r\n2,c'
    store(tmp_path / "a.csv", content)

    path, expected = run(tmp_path / "a.csv", tmp_path, chosen)

    rows = list(csv.reader(io.StringIO(load(path).decode("utf-8-sig"), newline="")))
    assert rows[0] == ["id", "text", *NAMES]
    before = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [row[:2] for row in rows] == before
    for row, (kept, other, jaccard) in zip(rows[1:], expected, strict=True):
        assert (row[2], row[3]) == (str(kept).lower(), other or "")
        assert (float(row[4]) if row[4] else None) == jaccard
    assert load(path).count(b"\r\n") == content.count(b"\r\n")


@pytest.mark.parametrize("name", ["dedup_kept", "DEDUP_jaccard"])
def test_a_name_that_the_input_has_is_refused_before_work(tmp_path, name):
    pq.write_table(pa.table({"id": [1], "text": ["a"], name: [1]}), tmp_path / "a.parquet")
    source, _ = rows_of(tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=f"adds the column '{name}', which the input must not have"):
        check_names(source, NAMES)

    store(tmp_path / "a.jsonl", b'{"id":1,"text":"a"}\n' * 200 + json.dumps({name: 1, "id": 1, "text": "a"}).encode())
    source, _ = rows_of(tmp_path / "a.jsonl")
    with pytest.raises(SchemaError, match=name):
        annotate(source, 0, notes_of(np.array([0])), folder=str(tmp_path / "out"))
    assert not list((tmp_path / "out").iterdir())


ADDED = b',"dedup_representative_id":"a}b","dedup_component_id":"a{b","dedup_jaccard":0.1}'


@pytest.mark.parametrize("ending", ["", ".zst"])
def test_ids_are_cleared_of_the_members_that_were_added(tmp_path, ending):
    path = tmp_path / f"a.jsonl{ending}"
    begins = [b'\xef\xbb\xbf{"id": "a{b", "of": {"dedup_jaccard": 1, "dedup_component_id":"a}b"}', b'{ "id":"a}b"']
    lines = [begins[0] + ADDED + b" \r\n", b"\n", begins[1] + ADDED.replace(b"a}b", b"c") + b"\n", begins[1] + b"}"]
    store(path, b"".join(lines[:3]))
    [file] = list_files([str(path)]).files
    cleared = {"dedup_representative_id": ["dedup_jaccard"], "dedup_component_id": []}

    def clear(output):
        return file.format.clear(file, cleared, lambda ids: pc.is_in(ids, pa.array(["a}b"])), output)

    assert clear(None) == 1
    with Storage().create(f"{tmp_path}/new") as output:
        assert clear(output) == 1

    (tmp_path / "new").rename(tmp_path / f"new.jsonl{ending}")
    rest = b',"dedup_representative_id":null,"dedup_component_id":"a{b","dedup_jaccard":null} \r\n'
    assert load(tmp_path / f"new.jsonl{ending}") == begins[0] + rest + lines[1] + lines[2]


def test_ids_that_are_cleared_are_in_no_buffer(tmp_path):
    rows = pa.table({"id": ["1", "2", "3"], "dedup_representative_id": ["id18q", "5", None]})
    with pa.ipc.new_file(tmp_path / "a.arrow", rows.schema) as writer:
        writer.write_table(rows)
    [file] = list_files([str(tmp_path / "a.arrow")]).files

    with Storage().create(f"{tmp_path}/b.arrow") as output:
        cleared = {"dedup_representative_id": []}
        assert file.format.clear(file, cleared, lambda ids: pc.is_in(ids, pa.array(["id18q"])), output) == 1

    assert pa.ipc.open_file(tmp_path / "b.arrow").read_all()[1].to_pylist() == [None, "5", None]
    assert b"id18q" not in (tmp_path / "b.arrow").read_bytes()


def test_lines_that_end_otherwise_than_they_were_written_are_refused():
    with pytest.raises(DataError, match=r"lines must end as output\.mode annotate wrote them"):
        clear_members(b'{"dedup_jaccard": 0.1}', ["dedup_jaccard"], "a.jsonl")
