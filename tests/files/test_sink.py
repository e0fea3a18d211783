"""What is written: kept and removed together are the input."""

import datetime as dt
import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from dedup.errors import DataError
from dedup.files.formats import load_format, parquet
from dedup.files.formats.ipc import find_compression
from dedup.files.listing import COMPRESSIONS, list_files
from dedup.files.repack import common_schema, repack
from dedup.files.sink import write
from dedup.files.source import open_source
from dedup.files.splits import split_files
from tests.files.tables import FLAT, changed_by_spark, tables

JSONL = load_format("jsonl")
ENDINGS = ["", *(f".{ending}" for ending in COMPRESSIONS)]
BYTES = {
    "lines.jsonl": b'{"id": 0, "text": "a", "z": {}}\n\n{"text":"b","id":1,"n":[1,2,{"k":null}],"one":1,"One":1.0}\r\n'
    b'{"id": 2, "text": "\\u00e9 \xc3\xa9", "none": null}\n  {"id":3,"text":""}\n{"id": 4, "text": "last"}',
    "bom.jsonl": b'\xef\xbb\xbf{"id": 0, "text": "a"}\n{"id": 1, "text": "b"}\n',
    "cells.csv": b'id,text\r\n0,plain\r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,a stray " quote\r\n3,\r\n4,last',
    "bom.csv": b'\xef\xbb\xbf"id","text"\n0,a\n1,"b"\n2,\xc3\xa9\n',
}


def store(path, content):
    """Write bytes, compressed as the name ends."""
    codec = COMPRESSIONS.get(path.suffix[1:])
    with pa.CompressedOutputStream(str(path), codec) if codec else path.open("wb") as stream:
        stream.write(content)


def load(path):
    codec = COMPRESSIONS.get(path.suffix[1:])
    if codec is None:
        return path.read_bytes()
    with pa.CompressedInputStream(str(path), codec) as stream:
        return stream.read()


def rows_of(path, **columns):
    listing = list_files([str(path)])
    source = open_source(listing, **{"id_column": "id", "text_column": "text", **columns})
    pieces = [piece for split in split_files(listing, 1 << 20) for piece in source.read(split)]
    return source, np.concatenate([piece.batch.column("row").to_numpy() for piece in pieces])


def divide(source, removed, tmp_path):
    folders = {"kept_folder": str(tmp_path / "kept"), "removed_folder": str(tmp_path / "removed")}
    written = write(source, 0, np.array(removed, np.int64), **folders)
    relative = source.listing.files[0].relative
    return written, tmp_path / "kept" / relative, tmp_path / "removed" / relative


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("choice", [[], [0], [1], [-1], [0, 1], "all"])
def test_kept_and_removed_records_are_the_bytes_of_the_input(tmp_path, name, ending, choice):
    path = tmp_path / f"{name}{ending}"
    store(path, BYTES[name])
    source, rows = rows_of(path)
    removed = rows if choice == "all" else np.unique(rows[choice])

    written, kept, gone = divide(source, removed, tmp_path)

    header = BYTES[name][: BYTES[name].index(b"\n") + 1] if ".csv" in name else b""
    assert load(kept).startswith(header)
    spans = _spans(BYTES[name], name)
    expected = b"".join(content for row, content in spans if row not in removed.tolist())
    assert load(kept) == expected
    assert written.removed == len(removed)
    if len(removed):
        assert written.kept == len(rows) - len(removed)
        assert load(gone) == header + b"".join(content for row, content in spans if row in removed.tolist())
    else:
        assert not gone.exists()
        assert kept.read_bytes() == path.read_bytes()


def _spans(content, name):
    """Return (row, bytes) of every record and blank line; None where it is no row."""
    if ".csv" not in name:
        spans, place = [], 0
        for line in content.splitlines(keepends=True):
            spans.append((place if line.strip() else None, line))
            place += len(line)
        return spans
    spans, rest, row = [], content, -1
    lines = rest.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    record = b""
    for line in lines:
        record += line
        if record.count(b'"') % 2 and b"stray" not in record:
            continue
        spans.append((row if record.strip() else None, record))
        row += bool(record.strip())
        record = b""
    return spans


def write_table(table, path, **options):
    """Write a table as the format of the name, in units of four rows."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=4, **options)
    elif path.suffix == ".orc":
        orc.write_table(table, path, **options)
    else:
        opener = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
        with opener(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table, max_chunksize=4)


def read_table(path):
    if path.suffix == ".parquet":
        return pq.ParquetFile(path, arrow_extensions_enabled=True).read()
    if path.suffix == ".orc":
        return orc.ORCFile(path).read()
    with pa.memory_map(str(path)) as source:
        return (pa.ipc.open_stream if path.suffix == ".arrows" else pa.ipc.open_file)(source).read_all()


def check_tables(path, removed, tmp_path):
    """Divide a file and compare what comes out with what pyarrow reads of it."""
    before = read_table(path)
    source, rows = rows_of(path)
    assert rows.tolist() == list(range(before.num_rows))

    written, kept, gone = divide(source, removed, tmp_path)

    stays = np.setdiff1d(rows, removed)
    assert written.removed == len(removed)
    same(read_table(kept), pick(before, stays))
    if len(removed):
        assert written.kept == len(stays)
        same(read_table(gone), pick(before, removed))
    return kept


def pick(table, rows):
    return pa.concat_tables([table.slice(0, 0), *(table.slice(int(row), 1) for row in rows)])


def same(found, expected):
    assert found.schema.equals(expected.schema, check_metadata=True)
    # NaN is itself here, and dictionaries may differ where values do not.
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows", "a.feather"])
@settings(deadline=None)
@given(table=tables(), data=st.data())
def test_kept_and_removed_rows_are_equal_with_equal_schemas(name, table, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_table(table, path)
        removed = data.draw(st.lists(st.integers(0, table.num_rows - 1), unique=True))
        check_tables(path, np.array(sorted(removed), np.int64), Path(folder))


ORC_KINDS = {"int8", "int16", "int32", "int64", "bool", "float", "double", "string", "binary", "date32[day]"}


@settings(deadline=None)
@given(table=tables(st.sampled_from([each for each in FLAT if str(each[0]) in ORC_KINDS])), data=st.data())
def test_kept_and_removed_stripes_are_equal(table, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.orc"
        write_table(table.set_column(0, "id", table["id"].cast(pa.int64())).replace_schema_metadata(None), path)
        removed = data.draw(st.lists(st.integers(0, table.num_rows - 1), unique=True))
        check_tables(path, np.array(sorted(removed), np.int64), Path(folder))


def by_pandas(table, path):
    table.drop(["map"]).to_pandas().to_parquet(path)


def by_polars(table, path):
    pl.from_arrow(table.drop(["map"])).write_parquet(path)


def by_polars_ipc(table, path):
    pl.from_arrow(table.drop(["map"])).write_ipc(path.with_suffix(".arrow"), compression="zstd")


def by_duckdb(table, path):
    with duckdb.connect() as connection:
        connection.register("rows", table)
        columns = "*, uuid() AS uuid, 1.5::DECIMAL(9, 2) AS money, [1, 2] AS list, INTERVAL 1 DAY AS span"
        connection.execute(f"COPY (SELECT {columns} FROM rows) TO '{path}' (FORMAT parquet)")  # noqa: S608 - our own


def by_pyarrow(table, path):
    codecs = {"id": "gzip", "text": "zstd", "ns": "none", "zone": "snappy"}
    options = {"use_dictionary": ["text"], "write_statistics": ["id"], "write_page_index": True}
    pq.write_table(table, path, row_group_size=2, compression=codecs, sorting_columns=[pq.SortingColumn(0)], **options)


def by_spark(table, path):
    # Without Arrow's schema, with its own names within lists, decimals as integers.
    pq.write_table(table, path, store_schema=False, use_compliant_nested_type=False, store_decimal_as_integer=True)


@pytest.mark.parametrize("writer", [by_pandas, by_polars, by_polars_ipc, by_duckdb, by_pyarrow, by_spark])
@pytest.mark.parametrize("removed", [[], [0], [1, 3], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("piece_bytes", [parquet.PIECE_BYTES, 1])
def test_files_of_other_writers_come_through_unchanged(tmp_path, monkeypatch, writer, removed, piece_bytes):
    monkeypatch.setattr(parquet, "PIECE_BYTES", piece_bytes)
    (tmp_path / "in").mkdir()
    writer(changed_by_spark(), tmp_path / "in" / "a.parquet")
    [path] = (tmp_path / "in").iterdir()

    kept = check_tables(path, np.array(removed, np.int64), tmp_path)

    if path.suffix == ".parquet":
        before, after = pq.ParquetFile(path), pq.ParquetFile(kept)
        if len(removed) < 5:
            assert traits(after) == traits(before)


def traits(file):
    """Return what tells how a parquet file was written."""
    group = file.metadata.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    names = ("path_in_schema", "compression", "is_stats_set", "has_offset_index", "has_dictionary_page")
    has_arrow_schema = b"ARROW:schema" in (file.metadata.metadata or {})
    return has_arrow_schema, group.sorting_columns, [[getattr(chunk, name) for name in names] for chunk in chunks]


@pytest.mark.parametrize("codec", ["lz4", "zstd", None])
@pytest.mark.parametrize("name", ["a.arrow", "a.arrows"])
def test_buffers_of_ipc_files_stay_compressed(tmp_path, name, codec):
    write_table(changed_by_spark(), tmp_path / name, compression=codec)
    [file] = list_files([str(tmp_path)]).files

    assert find_compression(file.path) == codec
    kept = check_tables(tmp_path / name, np.array([1], np.int64), tmp_path / "out")
    assert find_compression(str(kept)) == codec


def test_row_groups_keep_their_rows(tmp_path):
    path = tmp_path / "a.parquet"
    write_table(pa.table({"id": range(10), "text": ["x"] * 10}), path)

    kept = check_tables(path, np.array([1, 8, 9]), tmp_path)

    metadata = pq.ParquetFile(kept).metadata
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [3, 4]


def test_a_large_row_group_is_cut_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "UNIT_BYTES", 100)
    monkeypatch.setattr(parquet, "PIECE_BYTES", 30)
    table = pa.table({"id": range(1000), "text": [f"text {row}" for row in range(1000)]})
    pq.write_table(table, tmp_path / "a.parquet")

    kept = check_tables(tmp_path / "a.parquet", np.array([1, 8, 999]), tmp_path)

    assert pq.ParquetFile(kept).metadata.num_row_groups > 1


FAR = dt.datetime(2999, 1, 1)  # noqa: DTZ001 - INT96 has no zone


@pytest.mark.parametrize(
    ("kind", "values", "name"),
    [
        (pa.timestamp("us"), [FAR, None], "when"),
        (pa.list_(pa.timestamp("us")), [[FAR], []], "when.list.element"),
        (pa.struct({"a": pa.int64(), "b": pa.timestamp("us")}), [{"a": 1, "b": FAR}, None], "when.b"),
        (pa.map_(pa.string(), pa.timestamp("us")), [[("a", FAR)], None], "when.key_value.value"),
    ],
)
def test_old_timestamps_that_nanoseconds_cannot_hold_are_refused_by_name(tmp_path, kind, values, name):
    """Read as nanoseconds the year 2999 is 1829, and nothing says so."""
    for folder, column in (("far", values), ("near", values[1:] * 2)):
        (tmp_path / folder).mkdir()
        rows = pa.table({"id": [1, 2], "text": ["a", "b"], "when": pa.array(column, kind)})
        pq.write_table(rows, tmp_path / folder / "a.parquet", use_deprecated_int96_timestamps=True)
    far, near = (
        open_source(list_files([f"{tmp_path}/{each}"]), id_column="id", text_column="text") for each in ("far", "near")
    )
    folders = {"kept_folder": f"{tmp_path}/kept", "removed_folder": f"{tmp_path}/removed"}

    with pytest.raises(DataError, match=rf"far/a.parquet: INT96 .* \(column '{name}' has others\)"):
        write(far, 0, np.array([1]), **folders)
    nameless = replace(far, columns=replace(far.columns, id=""), id_type=pa.string())
    with pytest.raises(DataError, match="INT96"):
        list(nameless.read(split_files(far.listing, 1)[0]))
    with pytest.raises(DataError, match="INT96"):
        repack(
            far,
            split_files(far.listing, 1),
            {},
            path=f"{tmp_path}/all.jsonl",
            format=JSONL,
            schema=common_schema(far),
        )
    assert write(near, 0, np.array([1]), **folders).removed == 1
    assert write(far, 0, np.array([], np.int64), **folders).kept is None
    assert (tmp_path / "kept" / "a.parquet").read_bytes() == (tmp_path / "far" / "a.parquet").read_bytes()
