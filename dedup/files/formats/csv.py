"""CSV: commas, double quotes, a header; a cell without content is null."""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from dedup.errors import DataError, SchemaError
from dedup.files.columns import Columns, check, select_documents, to_text
from dedup.files.delete_spans import delete_spans
from dedup.files.formats import records
from dedup.files.formats.format import File, Part, Query, Rejected, Rows, Stream, Writer, damaged, open_bytes
from dedup.files.formats.records import (
    BOM,
    COMMA,
    NEWLINE,
    QUOTE,
    RETURN,
    Block,
    RecordFormat,
    drop_blank,
    is_past,
    reject,
)
from dedup.files.storage import Output
from dedup.files.systems import redact

if TYPE_CHECKING:
    import pyarrow.dataset as ds

REASON = "more or fewer cells than the header"
_CELL = re.compile(rb'("(?:[^"]|"")*")?[^,\r\n]*')


class CsvFormat(RecordFormat):
    """Files of CSV; all columns are strings."""

    extensions = ("csv",)
    can_create: ClassVar = True
    has_lists: ClassVar = False
    dataset = "csv"

    def check(self, files: Sequence[File], columns: Columns) -> pa.DataType:
        """See `Format.check`: of the headers."""
        for file in files:
            for schema in self.schemas(file):
                check(schema, columns, file.path)
        return pa.string()

    def schemas(self, file: File) -> Iterator[pa.Schema]:
        """See `Format.schemas`: the header, but of an empty file."""
        with damaged(file), open_bytes(file) as stream:
            block = next(read_cells(stream, count_commas=True), None)
        if block is not None and len(block.begins):
            yield _schema(block)

    def read(
        self, file: File, part: Part, query: Query, rows: Rows | None
    ) -> Iterator[tuple[pa.RecordBatch, Sequence[Rejected]]]:
        """See `Format.read`."""
        del part
        columns, paths = query.columns, None
        for schema, block in _read_blocks(file, rows):
            if paths is None:
                paths = check(schema, columns, file.path)[1]
            names = [path[0] for path in paths.values()] if "id" in paths else schema.names
            whole, rejected = _divide(file, schema, block, rows, on_bad=query.on_bad_record)
            cells = _read_cells(file, schema, block, whole, names)
            found = select_documents(cells, paths, columns, pa.string(), rows=block.rows[whole], path=file.path)
            yield found, rejected

    def read_rows(self, file: File, part: Part) -> Iterator[tuple[Rows, pa.Table]]:
        """See `Format.read_rows`; cells are strings."""
        del part
        for schema, block in _read_blocks(file, None):
            whole, _ = _divide(file, schema, block, None, on_bad="quarantine")
            cells = _read_cells(file, schema, block, whole, schema.names)
            yield block.rows[whole], pa.Table.from_batches([cells]).cast(schema)

    def read_values(self, file: File, names: Sequence[str]) -> Iterator[Mapping[str, Sequence[Any]]]:
        """See `Format.read_values`."""
        for schema, block in _read_blocks(file, None):
            whole, _ = _divide(file, schema, block, None, on_bad="fail")
            there = [name for name in names if name in schema.names]
            yield _read_cells(file, schema, block, whole, there).to_pydict()

    def read_blocks(self, stream: Stream) -> Iterator[Block]:
        """See `RecordFormat.read_blocks`."""
        return read_cells(stream)

    def open_eraser(self, file: File, column: str) -> Callable[[bytes, Sequence[int], Sequence[int]], bytes]:
        """See `RecordFormat.open_eraser`."""
        place = self.list_columns(file).index(column)
        return lambda record, begins, ends: delete_from_record(record, place, begins, ends)

    def write_notes(self, notes: pa.Table, block: Block) -> list[bytes]:
        """See `RecordFormat.write_notes`: cells; the header's are the names."""
        sink = io.BytesIO()
        pc.write_csv(notes, sink, pc.WriteOptions(include_header=False, quoting_style="needed"))
        written = (each.rstrip(b"\n") for block in read_cells(io.BytesIO(sink.getvalue())) for each in block.lines())
        header = ",".join(notes.column_names).encode()
        return [header if row < 0 else cells for row, cells in zip(block.rows, written, strict=True)]

    def add_note(self, file: File, record: bytes, note: bytes, names: Sequence[str]) -> bytes:
        """See `RecordFormat.add_note`."""
        del file, names
        content = record.rstrip(b"\r\n")
        return content + b"," + note + record[len(content) :]

    @contextmanager
    def create(self, stream: Output, schema: pa.Schema) -> Iterator[Writer]:
        """See `Format.create`."""
        try:
            writer = pc.CSVWriter(stream, schema)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"output.format: csv must have no lists, structs or maps ({error})") from error
        with writer:
            yield writer

    def _open_kind(self, types: Mapping[str, pa.DataType]) -> "ds.FileFormat":
        import pyarrow.dataset as ds  # noqa: PLC0415 - as `open_dataset`

        return ds.CsvFileFormat(convert_options=pc.ConvertOptions(column_types=types))


def _read_blocks(file: File, rows: Rows | None) -> Iterator[tuple[pa.Schema, Block]]:
    """Read a file with its header, up to the last row that is wanted; all for None."""
    schema = None
    with damaged(file), open_bytes(file) as stream:
        for block in read_cells(stream, count_commas=True):
            if schema is None:
                schema = _schema(block)
            if is_past(block, rows):
                return
            yield schema, block


def _schema(block: Block) -> pa.Schema:
    assert block.commas is not None
    header = block.data[block.begins[0] : block.ends[0]].removeprefix(BOM)
    names = _parse(header, int(block.commas[0]) + 1, None)
    cells = [(column[0].as_py() or b"").decode("utf-8", "replace") for column in names.columns]
    return pa.schema([pa.field(cell, pa.string()) for cell in cells])


def _divide(
    file: File, schema: pa.Schema, block: Block, rows: Rows | None, *, on_bad: str
) -> tuple[NDArray[np.int64], tuple[Rejected, ...]]:
    """Return the places of records that are whole, among the rows that are wanted, and other records."""
    assert block.commas is not None
    chosen = np.array([place for place in block.choose(rows) if block.rows[place] >= 0], np.int64)
    is_whole = block.commas[chosen] == len(schema) - 1
    rejected = tuple(reject(file, block, place, 0, REASON, on_bad=on_bad) for place in chosen[~is_whole].tolist())
    return chosen[is_whole], rejected


def _read_cells(
    file: File, schema: pa.Schema, block: Block, places: NDArray[np.int64], names: Sequence[str]
) -> pa.RecordBatch:
    """Return the cells of records, as strings, in the columns of these names."""
    chosen = [place for place, name in enumerate(schema.names) if name in names]
    cells = _parse(block.join(places.tolist()), len(schema), chosen)
    if cells.num_rows != len(places):
        raise DataError(
            f"--input: {redact(file.path)} cannot be read as csv ({cells.num_rows} records where {len(places)} are)"
        )
    return pa.RecordBatch.from_arrays([to_text(column) for column in cells.columns], [schema.names[n] for n in chosen])


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


def read_cells(stream: Stream, *, count_commas: bool = False) -> Iterator[Block]:
    """Read the records of a CSV file; a record's number is its place among them, and the header's is -1.

    A quote opens only where a cell begins, and closes unless it is doubled; any other is a character of its cell. A
    record ends at a line feed, a carriage return, or both, outside of quotes.

    Parameters
    ----------
    count_commas
        Whether blocks say how many commas part the cells of each record; -1 for one whose quotes do not close.
    """
    rest, row, line, is_first, is_last = b"", -1, 0, True, False
    while not is_last:
        chunk = stream.read(max(records.BLOCK_BYTES, len(rest)))
        is_last = not chunk
        block, rest = _cut_cells(rest + chunk, count_commas=count_commas, is_first=is_first, is_last=is_last)
        if block.data:
            block = drop_blank(replace(block, line=line))
            yield replace(block, rows=np.arange(row, row + len(block.begins)))
            line, row, is_first = line + block.data.count(b"\n"), row + len(block.begins), False


def _cut_cells(data: bytes, *, count_commas: bool, is_first: bool, is_last: bool) -> tuple[Block, bytes]:
    """Cut what begins with a record into whole records and the rest."""
    if not data:
        none = np.empty(0, np.int64)
        return Block(data=b"", begins=none, ends=none, rows=none, line=0), b""
    values = np.frombuffer(data, np.uint8)
    quotes = _find_quotes(data, values, begin=len(BOM) if is_first and data.startswith(BOM) else 0)
    stops = np.flatnonzero((values == NEWLINE) | (values == RETURN))
    stops = stops[np.searchsorted(quotes, stops) & 1 == 0]
    following = values[np.minimum(stops + 1, len(data) - 1)]
    is_end = (values[stops] == NEWLINE) | (following != NEWLINE)
    if not is_last:
        # Whether a line feed follows is in the next chunk.
        is_end &= (values[stops] == NEWLINE) | (stops < len(data) - 1)
    stops = stops[is_end] + 1
    if is_last and (not len(stops) or stops[-1] < len(data)):
        stops = np.append(stops, len(data))
    size = int(stops[-1]) if len(stops) else 0
    begins = np.concatenate([[0], stops[:-1]])[: len(stops)]
    commas = None
    if count_commas:
        places = np.flatnonzero(values == COMMA)
        places = places[np.searchsorted(quotes, places) & 1 == 0]
        commas = np.searchsorted(places, stops) - np.searchsorted(places, begins)
        commas[np.searchsorted(quotes, stops) & 1 == 1] = -1
    return Block(data=data[:size], begins=begins, ends=stops, rows=begins, line=0, commas=commas), data[size:]


def _find_quotes(data: bytes, values: NDArray[np.uint8], *, begin: int) -> NDArray[np.int64]:
    """Find the quotes that open, close or are doubled; a place with an odd number of them before it is quoted."""
    quotes = np.flatnonzero(values == QUOTE)
    if not len(quotes):
        return quotes
    ends_cell = np.zeros(256, bool)
    ends_cell[[COMMA, NEWLINE, RETURN, QUOTE]] = True
    opening, closing = quotes[::2], quotes[1::2]
    may_open = ends_cell[values[opening - 1]] | (opening == begin)
    may_close = ends_cell[values[np.minimum(closing + 1, len(data) - 1)]]
    if may_open.all() and may_close.all():
        return quotes
    found: list[int] = []
    is_open = False
    for place in quotes.tolist():
        if is_open or place == begin or data[place - 1] in b",\r\n":
            found.append(place)
            is_open = not is_open
        elif found and found[-1] == place - 1 and len(found) % 2 == 0:
            # The second of a doubled quote opens again what the first has closed.
            found.append(place)
            is_open = True
    return np.array(found, np.int64)


def delete_from_record(record: bytes, place: int, begins: Sequence[int], ends: Sequence[int]) -> bytes:
    """Return a record of CSV whose cell at a place, its text, has lost spans; all other bytes stay as they are."""
    position = len(BOM) if record.startswith(BOM) else 0
    for _ in range(place):
        position = _CELL.match(record, position).end() + 1  # type: ignore[union-attr] # it matches nothing too
    found = _CELL.match(record, position)
    assert found is not None
    content, quoted = found[0], found[1]
    if quoted is not None:
        content = quoted[1:-1].replace(b'""', b'"') + content[len(quoted) :]
    shorter = delete_spans(content.decode("utf-8", "replace"), begins, ends).encode()
    if quoted is not None or re.search(rb'[",\r\n]', shorter):
        shorter = b'"' + shorter.replace(b'"', b'""') + b'"'
    return record[: found.start()] + shorter + record[found.end() :]
