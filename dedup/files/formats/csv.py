"""CSV with commas, double quotes and a header; an empty cell is null."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pc
from numpy.typing import NDArray

from dedup.errors import DataError, SchemaError
from dedup.files.columns import Columns, check, is_text, select_documents
from dedup.files.compression import Stream, open_bytes
from dedup.files.conversion import cast_views, decode, to_text
from dedup.files.delete_spans import delete_spans
from dedup.files.formats import records
from dedup.files.formats.format import (
    Documents,
    FilePart,
    InputFile,
    NumberedRows,
    Query,
    Rejected,
    Rows,
    Write,
    damaged,
)
from dedup.files.formats.records import (
    BOM,
    COMMA,
    NEWLINE,
    QUOTE,
    RETURN,
    SPACES,
    Block,
    Clearer,
    Eraser,
    RecordFormat,
)
from dedup.files.storage import OutputFile
from dedup.files.systems import redact

REASON = "more or fewer cells than the header"
LINE_ENDS = b"\r\n"
_CELL = re.compile(rb'("(?:[^"]|"")*")?[^,\r\n]*')


class CsvFormat(RecordFormat):
    """Files of CSV; all columns are strings."""

    extensions = ("csv",)
    can_create: ClassVar = True
    has_lists: ClassVar = False
    dataset = "csv"

    def schemas(self, file: InputFile) -> Iterator[pa.Schema]:
        """See `Format.schemas`: the header, but of an empty file."""
        with damaged(file), open_bytes(file) as stream:
            # The first may be blank lines only.
            block = next((each for each in read_cells(stream, count_commas=True) if len(each.begins)), None)
        if block is not None:
            yield _schema(block)

    def read(self, file: InputFile, part: FilePart, query: Query, rows: Rows | None) -> Documents:
        """See `Format.read`."""
        for numbers, cells, rejected in _read_records(file, rows, query.columns, query.on_bad_record):
            paths = check(cells.schema, query.columns, file.path)[1]
            yield select_documents(cells, paths, query.columns, query.id_type, rows=numbers, path=file.path), rejected

    def read_rows(
        self, file: InputFile, part: FilePart | None = None, on_bad_record: str = "quarantine"
    ) -> NumberedRows:
        """See `Format.read_rows`; cells are strings."""
        for numbers, cells, _ in _read_records(file, None, None, on_bad_record):
            schema = pa.schema([pa.field(name, pa.string()) for name in cells.schema.names])
            yield numbers, pa.Table.from_batches([cells]).cast(schema)

    def read_blocks(self, stream: Stream) -> Iterator[Block]:
        """See `RecordFormat.read_blocks`."""
        return read_cells(stream)

    def open_eraser(self, file: InputFile, column: str) -> Eraser:
        """See `RecordFormat.open_eraser`."""
        place = self.list_columns(file).index(column)
        return lambda record, begins, ends: delete_from_record(record, place, begins, ends)

    def add_notes(self, file: InputFile, records: Iterable[bytes], rows: Rows, notes: pa.Table) -> Iterator[bytes]:
        """See `RecordFormat.add_notes`: cells; the header's are the names."""
        sink = io.BytesIO()
        pc.write_csv(notes, sink, pc.WriteOptions(include_header=False, quoting_style="needed"))
        written = (each.rstrip(b"\n") for block in read_cells(io.BytesIO(sink.getvalue())) for each in block.lines())
        for record, row, cells in zip(records, rows, written, strict=True):
            content = record.rstrip(b"\r\n")
            added = cells if row >= 0 else ",".join(notes.column_names).encode()
            yield content + b"," + added + record[len(content) :]

    def read_notes(self, file: InputFile, records: Sequence[bytes], names: Sequence[str]) -> Iterable[pa.Array]:
        """See `RecordFormat.read_notes`."""
        known = self.list_columns(file)
        return map(to_text, _parse(b"".join(records), len(known), [known.index(name) for name in names]).columns)

    def open_clearer(self, file: InputFile) -> Clearer:
        """See `RecordFormat.open_clearer`."""
        known = self.list_columns(file)

        def clear(record: bytes, names: Sequence[str]) -> bytes:
            for name in names:
                found = _find_cell(record, known.index(name))
                record = record[: found.start()] + record[found.end() :]
            return record

        return clear

    @contextmanager
    def create(self, stream: OutputFile, schema: pa.Schema) -> Iterator[Write]:
        """See `Format.create`."""
        plain = _to_cells(pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema.names)).schema
        is_alone = len(plain) == 1 and is_text(plain.field(0).type)
        # A null that is all of a record would be a blank line, which is none.
        texts = pa.schema([(name, pa.large_string()) for name in plain.names])
        try:
            writer = pc.CSVWriter(stream, texts if is_alone else plain)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"output.format: csv must have no lists, structs or maps, and no unions ({error})"
            ) from error

        def write(rows: pa.Table) -> None:
            for batch in map(_to_cells, rows.to_batches()):
                writer.write(_fill_nulls(batch.cast(texts)) if is_alone else batch)

        with writer:
            yield write


def _to_cells(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in types of which pyarrow writes cells, as far as there is one."""
    return pa.RecordBatch.from_arrays([*map(_to_cell, rows.columns)], rows.schema.names)


def _to_cell(values: pa.Array) -> pa.Array:
    """Return the values of a column as in `_to_cells`.

    Raises
    ------
    ArrowInvalid
        When a date or timestamp is beyond the years that pyarrow spells.
    """
    kind = values.type
    if pa.types.is_run_end_encoded(kind):
        return _to_cell(pyarrow.compute.run_end_decode(values))
    if isinstance(kind, pa.UuidType):
        return pa.array([each and str(each) for each in values.to_pylist()], pa.string())
    if isinstance(kind, pa.BaseExtensionType):
        return _to_cell(values.storage)
    if pa.types.is_dictionary(kind):
        return _to_cell(decode(values))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        # In the place of others pyarrow writes so, or, with a zone, hours of many digits.
        moments = values if pa.types.is_date(kind) else values.cast(pa.timestamp(kind.unit))
        for bound in pyarrow.compute.min_max(moments).values():
            if (text := bound.cast(pa.string()).as_py()) and text.startswith("<value out of range"):
                raise pa.ArrowInvalid(f"years must be from -32767 to 32767, got {text.strip('<>')} of {kind}")
    return cast_views(values)


def _fill_nulls(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of one column of texts without a null in it."""
    return pa.RecordBatch.from_arrays([rows.column(0).fill_null("")], schema=rows.schema)


def _read_records(
    file: InputFile, rows: Rows | None, columns: Columns | None, on_bad: str
) -> Iterator[tuple[Rows, pa.RecordBatch, Sequence[Rejected]]]:
    """Read the wanted rows (None: all): their numbers, their cells as strings, and malformed records.

    Only the cells of some columns; all for None, and where the digest of a row is its id.
    """
    schema = None
    with damaged(file), open_bytes(file) as stream:
        for block in read_cells(stream, count_commas=True):
            if not len(block.begins):
                continue
            schema = _schema(block) if schema is None else schema
            if records.is_past(block, rows):
                return
            chosen = np.array([place for place in block.choose(rows) if block.rows[place] >= 0], np.int64)
            assert block.commas is not None
            is_whole = block.commas[chosen] == len(schema) - 1
            whole, torn = chosen[is_whole].tolist(), chosen[~is_whole].tolist()
            rejected = [records.reject(file, block, place, 0, REASON, on_bad=on_bad) for place in torn]
            wanted = [name for name, _ in columns.list_named().values()] if columns and columns.id else schema.names
            places = [place for place, name in enumerate(schema.names) if name in wanted]
            cells = _parse(block.join(whole), len(schema), places)
            if cells.num_rows != len(whole):
                count = f"{cells.num_rows} records where {len(whole)} are"
                raise DataError(f"--input: {redact(file.path)} cannot be read as csv ({count})")
            texts = [to_text(column) for column in cells.columns]
            found = pa.RecordBatch.from_arrays(texts, [schema.names[place] for place in places])
            yield block.rows[whole], found, rejected


def _schema(block: Block) -> pa.Schema:
    assert block.commas is not None
    header = block.data[block.begins[0] : block.ends[0]].removeprefix(BOM)
    count = int(block.commas[0]) + 1
    names = _parse(header, count, range(count))
    cells = [
        (cell or b"").decode("utf-8", "replace") for column in names.columns for cell in column.to_pylist() or [b""]
    ]
    return pa.schema([pa.field(cell, pa.string()) for cell in cells])


def _parse(content: bytes, count: int, chosen: Sequence[int]) -> pa.RecordBatch:
    """Parse whole records to columns of bytes, named by their places."""
    names = [str(place) for place in range(count)]
    kept = [names[place] for place in chosen]
    if not content:
        return pa.RecordBatch.from_pydict({name: pa.array([], pa.binary()) for name in kept})
    if content.startswith(BOM):
        # pyarrow takes one off, which is of a text unless it begins the file.
        content = BOM + content
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
    """Read the records of a CSV file; a record's number is its place among them, the header's is -1.

    A quote opens only where a cell begins, and closes unless it is doubled; any other is a character of its cell. A
    record ends at a line feed, a carriage return, or both, outside of quotes.

    Parameters
    ----------
    count_commas
        Whether blocks say how many commas part the cells of each record; -1 for one whose quotes do not close.
    """
    rest, row, line, is_first, is_last, spaces = b"", -1, 0, True, False, SPACES
    while not is_last:
        chunk = stream.read(max(records.BLOCK_BYTES, len(rest)))
        is_last = not chunk
        block, rest = _cut_cells(rest + chunk, count_commas=count_commas, is_first=is_first, is_last=is_last)
        if block.data:
            block = replace(block, line=line)
            if row < 0:
                block, spaces = _find_header(block, begins_file=is_first)
            else:
                block = records.drop_blank(block, spaces=spaces)
            yield replace(block, rows=np.arange(row, row + len(block.begins)))
            line, row, is_first = line + block.data.count(b"\n"), row + len(block.begins), False


def _find_header(block: Block, *, begins_file: bool) -> tuple[Block, bytes]:
    """Return a block that begins with the header, and what blank lines consist of: in one column spaces are a value."""
    found = records.drop_blank(block, begins_file=begins_file)
    if not len(found.begins):
        return found, SPACES
    header = found.data[found.begins[0] : found.ends[0]].removeprefix(BOM)
    if header[_find_cell(header, 0).end() :].startswith(b","):
        return found, SPACES
    after = block.begins >= found.begins[0]
    commas = None if block.commas is None else block.commas[after]
    block = replace(block, begins=block.begins[after], ends=block.ends[after], rows=block.rows[after], commas=commas)
    return records.drop_blank(block, spaces=LINE_ENDS), LINE_ENDS


def _cut_cells(data: bytes, *, count_commas: bool, is_first: bool, is_last: bool) -> tuple[Block, bytes]:
    """Cut bytes that begin with a record into whole records and the rest."""
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
    """Find quotes that open, close or are doubled; a place after an odd number of them is quoted."""
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


def _find_cell(record: bytes, place: int) -> re.Match[bytes]:
    position = 0
    for _ in range(place):
        position = _CELL.match(record, position).end() + 1  # type: ignore[union-attr] # it matches nothing too
    found = _CELL.match(record, position)
    assert found is not None
    return found


def delete_from_record(record: bytes, place: int, begins: Sequence[int], ends: Sequence[int]) -> bytes:
    """Delete spans from a record's text, the cell at a place; all other bytes stay as they are."""
    found = _find_cell(record, place)
    content, quoted = found[0], found[1]
    if quoted is not None:
        content = quoted[1:-1].replace(b'""', b'"') + content[len(quoted) :]
    shorter = delete_spans(content.decode("utf-8", "replace"), begins, ends).encode()
    is_alone = not (record[: found.start()] + record[found.end() :]).strip(LINE_ENDS)
    # The only cell of a record, if it were empty, would be a blank line, which is none.
    if quoted is not None or re.search(rb'[",\r\n]', shorter) or (is_alone and not shorter):
        shorter = b'"' + shorter.replace(b'"', b'""') + b'"'
    return record[: found.start()] + shorter + record[found.end() :]
