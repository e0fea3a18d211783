"""Rows of several files in one, and in another format."""

import gzip
import io
import json
import subprocess
import sys
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from dedup.errors import SchemaError
from dedup.files.compression import compress
from dedup.files.formats import load_format
from dedup.files.listing import list_files
from dedup.files.repack import common_schema, group, repack, write_ids
from dedup.files.source import open_source
from dedup.files.splits import FilePart, Split, split_files
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config
from tests.files.test_sink import load
from tests.files.test_source import COUNT, NAMES, TEXTS, place

PARQUET, JSONL = load_format("parquet"), load_format("jsonl")


def prepare(path, **columns):
    listing = list_files([str(path)])
    return open_source(listing, **{"id_column": "id", "text_column": "text", **columns}), split_files(listing, 2000)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_every_format_goes_into_every_other(tmp_path, name, kind):
    source, splits = prepare(place(tmp_path, name))
    rows = np.concatenate([piece.batch["row"].to_numpy() for split in splits for piece in source.read(split)])
    schema = common_schema(source)
    if kind == "csv" and name != "a.csv":
        with pytest.raises(SchemaError, match="csv must have no lists, structs or maps"):
            repack(source, splits, {}, path=str(tmp_path / "x.csv"), format=load_format(kind), schema=schema)
        schema = pa.schema([field for field in schema if field.name != "meta"])

    target = tmp_path / "out" / f"all.{kind}"
    written = repack(source, splits, {0: rows[[0, 5]]}, path=str(target), format=load_format(kind), schema=schema)

    assert (written.kept, written.removed) == (COUNT - 2, 2)
    stays = [row for row in range(COUNT) if row not in {0, 5}]
    if kind == "jsonl":
        found = [json.loads(line) for line in load(target).splitlines()]
    elif kind == "parquet":
        found = pq.read_table(target).to_pylist()
    else:
        options = pcsv.ConvertOptions(strings_can_be_null=True, column_types={"text": pa.string()})
        found = pcsv.read_csv(target, parse_options=pcsv.ParseOptions(newlines_in_values=True), convert_options=options)
        found = found.to_pylist()
    assert [int(row["id"]) for row in found] == stays
    expected = [TEXTS[row] for row in stays]
    assert [row["text"] or None for row in found] == [text or None for text in expected]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_output_files_share_the_rows_in_their_order(tmp_path, count):
    source, splits = prepare(place(tmp_path, "a.jsonl"))

    groups = group(splits, count)

    assert [split for each in groups for split in each] == splits
    assert len(groups) == count
    sizes = [sum(split.size for split in each) for each in groups]
    assert max(sizes) - min(sizes) <= 2 * max(split.size for split in splits)
    for number, each in enumerate(groups):
        path = str(tmp_path / "out" / f"{number}.parquet")
        write_ids(source, each, {}, path=path, format=PARQUET)
    found = [pq.read_table(tmp_path / "out" / f"{number}.parquet")["id"].to_pylist() for number in range(count)]
    assert [row for rows in found for row in rows] == list(range(COUNT))


def test_groups_of_nothing_are_empty():
    assert group([], 2) == [[], []]
    assert group([Split(parts=(FilePart(file=0, size=0),))], 1) == [[Split(parts=(FilePart(file=0, size=0),))]]


def test_files_of_unlike_columns_are_one_table(tmp_path):
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "text": ["a"], "left": ["x"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"right": [2.5], "id": [2], "text": ["b"]}), tmp_path / "b.parquet")
    source, splits = prepare(tmp_path)

    repack(
        source,
        splits,
        {},
        path=str(tmp_path / "out.jsonl.gz"),
        format=JSONL,
        schema=common_schema(source),
    )

    assert [json.loads(line) for line in load(tmp_path / "out.jsonl.gz").splitlines()] == [
        {"id": 1, "text": "a", "left": "x", "right": None},
        {"id": 2, "text": "b", "left": None, "right": 2.5},
    ]


def test_values_of_two_types_in_one_column_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a", "z": 1}\n{"id": 2, "text": "b", "z": "x"}\n')
    source, _ = prepare(tmp_path)

    with pytest.raises(SchemaError, match=r"columns must be of one type in all records \(.*a\.jsonl"):
        common_schema(source)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()])
def test_a_null_alone_in_a_record_of_csv_stays_a_record(tmp_path, kind):
    texts = pa.array(["a", None, "b,"], pa.string()).cast(kind)
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema([("text", kind)])) as rows:
        rows.write(pa.table({"text": texts}))
    source, splits = prepare(tmp_path / "a.parquet", id_column="")

    path = tmp_path / "o.csv"
    repack(source, splits, {}, path=str(path), format=load_format("csv"), schema=common_schema(source))

    assert path.read_bytes() == b'"text"\n"a"\n""\n"b,"\n'


def test_lines_become_rows_with_what_their_texts_were_read_as(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a\\ud800", "meta": {"\\udc00": ["\\ud800"]}}\n')
    source, splits = prepare(tmp_path)

    repack(source, splits, {}, path=str(tmp_path / "o.jsonl"), format=JSONL, schema=common_schema(source))

    expected = {"id": 1, "text": "a\ufffd", "meta": {"\ufffd": ["\ufffd"]}}
    assert json.loads(load(tmp_path / "o.jsonl")) == expected


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_an_integer_beyond_64_bits_is_refused_and_not_rounded(tmp_path, number):
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1, "text": "a", "z": number}))
    source, _ = prepare(tmp_path)

    with pytest.raises(SchemaError, match=r"an integer is beyond 64 bits"):
        common_schema(source)


@pytest.mark.parametrize(
    ("settings", "other", "words"),
    [
        ({"output.format": "csv"}, [[1]], "csv must have no lists, structs or maps"),
        ({"output.files": 1}, ["a"], r"columns must be of one type in all records \(.*b\.parquet"),
    ],
)
def test_columns_that_no_file_of_the_output_could_have_are_refused_before_the_search(
    tmp_path, monkeypatch, settings, other, words
):
    monkeypatch.setattr("dedup.run.local.execute", lambda *_, **__: 1 / 0)
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for path, values in zip(paths, ([[1]], other), strict=True):
        pq.write_table(pa.table({"text": ["a"], "z": values}), path)
    config = load_config(settings=settings)

    with pytest.raises(SchemaError, match=words):
        run_in_memory(Job(inputs=paths, output=str(tmp_path / "out"), config=config))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("parquet", pa.array([pa.MonthDayNano([1, 2, 3])])),
        ("csv", pa.array([b"\xff"])),
        ("csv", pa.array([1 << 62], pa.timestamp("us"))),
        ("csv", pa.array([1 << 62], pa.timestamp("us", "Europe/Berlin"))),
        ("csv", pa.array([(1 << 31) - 1], pa.date32()).dictionary_encode()),
        ("jsonl", pa.array([1 << 62], pa.timestamp("us"))),
        ("jsonl", pa.array([0], pa.timestamp("us", "Nowhere/Else"))),
        ("jsonl", pa.array([[0]], pa.list_view(pa.time64("ns")))),
    ],
)
def test_values_that_a_format_cannot_hold_are_refused_by_its_name(tmp_path, kind, values):
    rows = pa.table({"id": [1], "text": ["a"], "z": values})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), rows.schema) as file:
        file.write(rows)
    source, splits = prepare(tmp_path / "a.arrow")

    with pytest.raises(SchemaError, match=f"values must fit {kind}"):
        repack(source, splits, {}, path=str(tmp_path / "o"), format=load_format(kind), schema=common_schema(source))


def test_a_timestamp_in_lines_is_spelled_alike_in_every_unit(tmp_path):
    moments = [pa.array([86_400_000], pa.timestamp("ms")).cast(pa.timestamp(unit)) for unit in ("s", "us", "ns")]
    rows = pa.table({"text": ["a"], **dict(zip("xyz", moments, strict=True))})
    pq.write_table(rows, tmp_path / "a.parquet")
    source, splits = prepare(tmp_path / "a.parquet", id_column="")

    repack(source, splits, {}, path=str(tmp_path / "o.jsonl"), format=JSONL, schema=rows.schema)

    written = json.loads(load(tmp_path / "o.jsonl"))
    assert [written[name] for name in "xyz"] == ["1970-01-02T00:00:00"] * 3


def test_a_duration_in_lines_is_spelled_alike_in_every_unit(tmp_path):
    values = [86_403_000_000_000, -1_000, 0, None]
    spans = pa.array(values, pa.duration("ns"))
    fine = pa.array([86_403_000_000_001, 1, 2_000_003, -1], pa.duration("ns"))
    rows = pa.table({"text": [*"abcd"], "x": spans, "y": spans.cast("duration[us]"), "z": fine})
    pq.write_table(rows, tmp_path / "a.parquet")
    source, splits = prepare(tmp_path / "a.parquet", id_column="")

    repack(source, splits, {}, path=str(tmp_path / "o.jsonl"), format=JSONL, schema=common_schema(source))

    written = [json.loads(line) for line in load(tmp_path / "o.jsonl").splitlines()]
    expected = ["1 day, 0:00:03", "-1 day, 23:59:59.999999", "0:00:00", None]
    assert [row["x"] for row in written] == [row["y"] for row in written] == expected
    assert [row["z"] for row in written] == [
        "1 day, 0:00:03.000000001",
        "0:00:00.000000001",
        "0:00:00.002000003",
        "-1 day, 23:59:59.999999999",
    ]


def test_a_time_of_day_in_lines_has_all_its_nanoseconds_wherever_it_stands(tmp_path):
    kind = pa.time64("ns")
    flat = pa.array([1, 3_723_000_000_000, None], kind)
    rows = pa.table(
        {
            "text": [*"abc"],
            "flat": flat,
            "packed": flat.dictionary_encode(),
            "list": pa.array([[1], [None], None], pa.list_(kind)),
            "large": pa.array([[1], [None], None], pa.large_list(kind)),
            "fixed": pa.array([[1], [None], None], pa.list_(kind, 1)),
            "struct": pa.array([{"a": 1, "b": 2}, {"a": None}, None], pa.struct([("a", kind), ("b", pa.int8())])),
            "map": pa.array([[("k", [1])], [], None], pa.map_(pa.string(), pa.list_(kind))),
        }
    )
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), rows.schema) as file:
        file.write(rows)
    source, splits = prepare(tmp_path / "a.arrow", id_column="")

    repack(source, splits, {}, path=str(tmp_path / "o.jsonl"), format=JSONL, schema=common_schema(source))

    first, second, _ = (json.loads(line) for line in load(tmp_path / "o.jsonl").splitlines())
    told = "00:00:00.000000001"
    assert first == {
        "text": "a",
        **dict.fromkeys(("flat", "packed"), told),
        **{name: [told] for name in ("list", "large", "fixed")},
        "struct": {"a": told, "b": 2},
        "map": [["k", [told]]],
    }
    assert second["flat"] == second["packed"] == "01:02:03.000000000"


def test_the_command_writes_nanoseconds_in_lines_as_python_does(tmp_path):
    kinds = {"at": pa.timestamp("ns"), "took": pa.duration("ns"), "daily": pa.time64("ns")}
    columns = {name: pa.array([1], pa.int64()).cast(kind) for name, kind in kinds.items()}
    pq.write_table(pa.table({"text": ["some words"], **columns}), tmp_path / "a.parquet")
    job = [sys.executable, "-m", "dedup", "run", "--input", f"{tmp_path}/a.parquet", "--output", f"{tmp_path}/out"]

    subprocess.run([*job, "--engine", "memory", "--set", "output.format=jsonl"], check=True, capture_output=True)

    [written] = (tmp_path / "out" / "kept").iterdir()
    row = json.loads(written.read_text())
    assert [row[name] for name in kinds] == [
        "1970-01-01T00:00:00.000000001",
        "0:00:00.000000001",
        "00:00:00.000000001",
    ]


def test_a_cell_of_csv_has_the_value_of_any_flat_type(tmp_path):
    views = pa.array(["a", 'b"', None], pa.string_view())
    columns = {
        "text": views,
        "named": pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), views),
        "uuid": pa.array([uuid.UUID(int=1), None, uuid.UUID(int=2)], pa.uuid()),
        "json": pa.array(['{"a":1}', None, "2"], pa.json_()),
        "runs": pc.run_end_encode(pa.array([5, 5, None])),
    }
    rows = pa.table(columns)
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), rows.schema) as file:
        file.write(rows)
    source, splits = prepare(tmp_path / "a.arrow", id_column="")

    repack(source, splits, {}, path=str(tmp_path / "o.csv"), format=load_format("csv"), schema=rows.schema)

    kinds = pcsv.ConvertOptions(strings_can_be_null=True, column_types=dict.fromkeys(columns, pa.string()))
    assert pcsv.read_csv(tmp_path / "o.csv", convert_options=kinds).to_pydict() == {
        "text": ["a", 'b"', None],
        "named": ['b"', None, "a"],
        "uuid": [f"{uuid.UUID(int=1)}", None, f"{uuid.UUID(int=2)}"],
        "json": ['{"a":1}', None, "2"],
        "runs": ["5", "5", None],
    }


def test_texts_become_rows_and_ids_are_their_paths(tmp_path):
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    source, splits = prepare(tmp_path, id_column="")

    repack(
        source,
        splits,
        {0: np.array([0])},
        path=str(tmp_path / "o.jsonl"),
        format=JSONL,
        schema=common_schema(source),
    )

    assert json.loads(load(tmp_path / "o.jsonl")) == {"path": str(tmp_path / "b.txt"), "text": "b.txt"}


def test_gzip_holds_no_time():
    stream = io.BytesIO()
    with compress(stream, "gzip") as packed:
        packed.write(b"a text")

    assert gzip.decompress(stream.getvalue()) == b"a text"
    # RFC 1952: four bytes of MTIME, 0 for none.
    assert stream.getvalue()[4:8] == bytes(4)
