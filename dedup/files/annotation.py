"""The sink's other way: every row of a file, with further columns at its end."""

import io
from contextlib import ExitStack

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from numpy.typing import NDArray

from dedup.errors import DataError, SchemaError
from dedup.files import delimited, jsonlines
from dedup.files.cells import read_cells
from dedup.files.columns import Columns
from dedup.files.cutting import Cutting
from dedup.files.left import Cuts
from dedup.files.listing import COMPRESSIBLE, File
from dedup.files.records import BOM, damaged, open_bytes, read_lines
from dedup.files.sink import NO_ROWS, Rows, Written, check_unchanged, compress, read_units
from dedup.files.source import FileSource
from dedup.files.storage import Output, Storage
from dedup.files.systems import redact
from dedup.files.tables import choose, open_table, take_rows
from dedup.files.writers import write_like

KEPT, COUNT = "dedup_kept", "dedup_count"
UNNOTED = {KEPT: True, COUNT: 1}
"""What rows of which nothing is noted have; their other notes are null."""


def check_names(source: FileSource, names: list[str], setting: str = "output.mode: annotate") -> None:
    """Make sure that no file has a column of these names, in whatever case; of lines of JSON, the first are looked at.

    The setting that adds them is named in the error.

    Raises
    ------
    SchemaError
        When one has, or the input is texts, which have no columns.
    """
    for file in source.listing.files:
        if file.format == "text":
            raise SchemaError(f"{setting} needs columns (got texts, which have none)")
        if file.format == "jsonl":
            found = list(jsonlines.peek(file, Columns(id="", text="", source=""))[1])
        elif file.format == "csv":
            schema = delimited.peek(file)
            found = [] if schema is None else schema.names
        else:
            with damaged(file):
                found = open_table(file).schema.names
        _require_free(found, names, file, setting)


def _require_free(found: list[str], names: list[str], file: File, setting: str = "output.mode: annotate") -> None:
    lowered = {name.lower() for name in names}
    taken = [name for name in found if name.lower() in lowered]
    if taken:
        raise SchemaError(
            f"{setting} adds the column {taken[0]!r}, which the input must not have (it has, in {redact(file.path)})"
        )


def annotate(
    source: FileSource,
    number: int,
    notes: pa.Table,
    *,
    folder: str,
    rejected: Rows = NO_ROWS,
    cuts: Cuts | None = None,
) -> Written:
    """Write every row of a file with notes, as further columns, members at the end of objects, or cells.

    Parameters
    ----------
    notes
        `row`, int64, ascending, perhaps `dedup_kept`, bool, and any further columns; rows without a note are kept.
    rejected
        Rows that are left out, ascending.
    cuts
        Spans that texts lose.

    Raises
    ------
    DataError
        When the file is damaged or has changed since it was listed.
    SchemaError
        When a record already has a member of such a name.
    """
    file, storage = source.listing.files[number], Storage()
    check_unchanged(storage, file)
    notes = notes.combine_chunks()
    gone = int(pc.sum(pc.invert(notes[KEPT])).as_py() or 0) if KEPT in notes.column_names else 0
    with damaged(file), storage.create(f"{folder}/{file.relative}") as stream:
        cutting = Cutting(file, source.columns.text, {} if cuts is None else cuts.by_row())
        if file.format in COMPRESSIBLE:
            count = _annotate_records(file, notes, rejected, cutting, stream)
        else:
            count = _annotate_tables(file, notes, rejected, cutting, stream)
    return Written(kept=count - gone, removed=gone)


def _annotate_tables(file: File, notes: pa.Table, rejected: Rows, cutting: Cutting, stream: Output) -> int:
    table, count = open_table(file), 0
    schema = table.schema
    for field in notes.drop(["row"]).schema:
        schema = schema.append(field)
    with write_like(table, file, schema, stream) as writer:
        for first, rows in read_units(table):
            staying = np.delete(np.arange(rows.num_rows), choose(first, rows.num_rows, rejected))
            columns = _spread(notes, first + np.arange(rows.num_rows)).columns
            whole = pa.Table.from_arrays([*rows.columns, *columns], schema=schema)
            if len(staying):
                writer.write(cutting.cut_rows(take_rows(whole, staying), first + staying))
            count += len(staying)
    return count


def _spread(notes: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return the notes of these rows, one a row."""
    known = notes["row"].to_numpy()
    places = np.searchsorted(known, rows)
    is_noted = np.zeros(len(rows), bool)
    is_noted[places < len(known)] = known[places[places < len(known)]] == rows[places < len(known)]
    taken = notes.drop(["row"]).take(pa.array(np.where(is_noted, places, 0), pa.int64(), mask=~is_noted))
    for name in UNNOTED.keys() & {*taken.column_names}:
        taken = taken.set_column(taken.schema.get_field_index(name), name, pc.fill_null(taken[name], UNNOTED[name]))
    return taken


def _annotate_records(file: File, notes: pa.Table, rejected: Rows, cutting: Cutting, output: Output) -> int:
    count, names = 0, notes.drop(["row"]).column_names
    with ExitStack() as streams:
        target = streams.enter_context(compress(file, output))
        stream = streams.enter_context(open_bytes(file))
        is_csv = file.format == "csv"
        for block in read_cells(stream) if is_csv else read_lines(stream):
            ends = _write_cells(notes, block.rows, names) if is_csv else _write_members(notes, block.rows)
            aside = set(block.choose(rejected))
            for place, (record, end) in enumerate(zip(block.lines(), ends, strict=True)):
                if place not in aside:
                    shorter = cutting.cut_record(record, int(block.rows[place]))
                    target.write(_append_cells(shorter, end) if is_csv else _append_members(file, shorter, end, names))
            count += int((block.rows >= 0).sum()) - len(aside)
    return count


def _write_members(notes: pa.Table, rows: NDArray[np.int64]) -> list[bytes]:
    """Return the notes of rows as members of JSON objects, without braces."""
    return [orjson.dumps(note)[1:-1] for note in _spread(notes, rows).to_pylist()]


def _append_members(file: File, record: bytes, members: bytes, names: list[str]) -> bytes:
    content = record.rstrip()
    body = content[:-1].rstrip()
    if b'"dedup' in record.lower() or b"\\u" in record:
        _require_free(list(jsonlines.parse(record.removeprefix(BOM)) or ()), names, file)
    if not content.endswith(b"}"):
        raise DataError(f"{redact(file.path)}: must not change while the job reads it (a line is no JSON object)")
    comma = b"" if body.removeprefix(BOM).strip() == b"{" else b","
    return content[:-1] + comma + members + b"}" + record[len(content) :]


def _write_cells(notes: pa.Table, rows: NDArray[np.int64], names: list[str]) -> list[bytes]:
    """Return the notes of rows as cells of CSV; the header's are the names."""
    sink = io.BytesIO()
    pcsv.write_csv(_spread(notes, rows), sink, pcsv.WriteOptions(include_header=False, quoting_style="needed"))
    written = (each.rstrip(b"\n") for block in read_cells(io.BytesIO(sink.getvalue())) for each in block.lines())
    header = ",".join(names).encode()
    return [header if row < 0 else cells for row, cells in zip(rows, written, strict=True)]


def _append_cells(record: bytes, cells: bytes) -> bytes:
    content = record.rstrip(b"\r\n")
    return content + b"," + cells + record[len(content) :]
