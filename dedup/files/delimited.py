"""Records of CSV -> ids, texts, sources and places. Commas, double quotes, a header; a cell without content is null."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from dedup.errors import DataError
from dedup.files.cells import read_cells
from dedup.files.columns import Columns, find, gather, to_text
from dedup.files.digest import digest_rows
from dedup.files.listing import File
from dedup.files.orders import to_key
from dedup.files.records import BOM, Block, Rejected, damaged, open_bytes, reject

REASON = "more or fewer cells than the header"


def peek(file: File) -> pa.Schema | None:
    """Return the header as a schema of strings; None of an empty file."""
    with damaged(file), open_bytes(file) as stream:
        block = next(read_cells(stream, count_commas=True), None)
    return None if block is None or not len(block.begins) else _schema(block)


def _schema(block: Block) -> pa.Schema:
    assert block.commas is not None
    header = block.data[block.begins[0] : block.ends[0]].removeprefix(BOM)
    names = _parse(header, int(block.commas[0]) + 1, None)
    cells = [(column[0].as_py() or b"").decode("utf-8", "replace") for column in names.columns]
    return pa.schema([pa.field(cell, pa.string()) for cell in cells])


def read(
    file: File,
    columns: Columns,
    *,
    rows: NDArray[np.int64] | None,
    on_bad: str,
) -> Iterator[tuple[pa.RecordBatch, tuple[Rejected, ...]]]:
    """Read the records of a file: batches as `columns.gather` makes them, and the records set aside.

    Raises
    ------
    DataError
        When a record has not as many cells as the header, and `on_bad` is "fail".
    """
    schema = None
    with damaged(file), open_bytes(file) as stream:
        for block in read_cells(stream, count_commas=True):
            if schema is None:
                schema = _schema(block)
            if rows is not None and len(rows) and rows[-1] < block.rows[0]:
                return
            yield _read_block(file, columns, schema, block, rows, on_bad=on_bad)


def _read_block(
    file: File, columns: Columns, schema: pa.Schema, block: Block, rows: NDArray[np.int64] | None, *, on_bad: str
) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
    assert block.commas is not None
    chosen = np.array([place for place in block.choose(rows) if block.rows[place] >= 0], np.int64)
    is_whole = block.commas[chosen] == len(schema) - 1
    rejected = tuple(reject(file, block, place, 0, REASON, on_bad=on_bad) for place in chosen[~is_whole].tolist())
    whole = chosen[is_whole]
    places = {
        role: schema.get_field_index(find(schema, name, setting, file)[0])
        for role, (name, setting) in columns.list_named().items()
    }
    content = b"".join(block.data[block.begins[place] : block.ends[place]] for place in whole.tolist())
    cells = _parse(content, len(schema), sorted(set(places.values())) if "id" in places else None)
    if cells.num_rows != len(whole):
        raise DataError(f"--input: {file.path} cannot be read as csv ({cells.num_rows} records where {len(whole)} are)")
    found = {role: to_text(cells.column(str(place))) for role, place in places.items()}
    if "id" not in found:
        named = [to_text(cells.column(str(place))) for place in range(len(schema))]
        found["id"] = digest_rows(pa.RecordBatch.from_arrays(named, schema.names))
    keys = [to_key(found[f"order{number}"], *rule) for number, rule in enumerate(columns.order)]
    merged = [found[f"merge{number}"] for number, _ in enumerate(columns.noted)]
    return gather(
        found["id"].cast(pa.string()), found["text"], found.get("source"), block.rows[whole], keys, merged
    ), rejected


def read_records(file: File) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
    """Read the whole records of a file with every cell, as strings, and their numbers; others are left out."""
    schema = None
    with damaged(file), open_bytes(file) as stream:
        for block in read_cells(stream, count_commas=True):
            if schema is None:
                schema = _schema(block)
            assert block.commas is not None
            whole = np.flatnonzero((block.commas == len(schema) - 1) & (block.rows >= 0))
            content = b"".join(block.data[block.begins[place] : block.ends[place]] for place in whole.tolist())
            cells = [to_text(column).cast(pa.string()) for column in _parse(content, len(schema), None).columns]
            yield block.rows[whole], pa.RecordBatch.from_arrays(cells, schema=schema)


def _parse(content: bytes, count: int, chosen: list[int] | None) -> pa.RecordBatch:
    """Parse whole records to columns of bytes that are named by their places."""
    names = [str(place) for place in range(count)]
    kept = names if chosen is None else [str(place) for place in chosen]
    if not content:
        return pa.RecordBatch.from_pydict({name: pa.array([], pa.binary()) for name in kept})
    table = pc.read_csv(
        pa.BufferReader(content),
        read_options=pc.ReadOptions(use_threads=False, block_size=len(content) + 1, column_names=names),
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=pc.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            include_columns=kept,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            check_utf8=False,
        ),
    )
    return table.combine_chunks().to_batches()[0] if table.num_rows else _parse(b"", count, chosen)
