"""Columnar formats, read and written as Arrow in units of storage: row groups, record batches or stripes."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dedup.files.columns import PIECE_BYTES, Path, check, require_type, select_documents
from dedup.files.delete_spans import delete_from_rows
from dedup.files.formats.format import (
    Documents,
    Edits,
    FileCounts,
    FilePart,
    InputFile,
    Mark,
    NumberedRows,
    Query,
    RowFormat,
    Rows,
    Write,
    damaged,
)
from dedup.files.storage import OutputFile, Storage

BATCH_ROWS = 1 << 14
"""Rows of every column read at a time."""
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""Key of the columns in a parquet file that Spark has written, as JSON."""


class ColumnarFile(ABC):
    """Open file; a unit is a row group, a record batch or a stripe."""

    schema: pa.Schema
    unit_count: int
    has_one_dictionary: ClassVar = False
    """Whether all units must have the dictionaries of the first."""

    @abstractmethod
    def count_rows(self) -> list[int] | None:
        """Return the rows of each unit; None if only reading them tells."""

    @abstractmethod
    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read units in turn: these top-level columns (None: all), in batches of limited rows where that helps."""

    @abstractmethod
    def write_like(self, stream: OutputFile, schema: pa.Schema) -> AbstractContextManager[Write]:
        """Open a writer of the same compression and schema metadata, for rows of a schema."""

    def unit_bytes(self) -> list[int] | None:
        """Return the bytes of each unit in the file; None if unknown."""
        return None

    def value_bytes(self, path: Path) -> float | None:
        """Return the approximate bytes of a decoded value of a column; None if unknown."""
        return None

    def read_whole(self) -> Iterator[pa.Table]:
        """Read the file in pieces that are each written as a unit."""
        for batch in self.read(range(self.unit_count), None):
            yield pa.Table.from_batches([batch], self.schema)


class ColumnarFormat(RowFormat):
    """A format whose files are read as `ColumnarFile`."""

    has_types: ClassVar = True

    @abstractmethod
    def open(self, stream: pa.NativeFile, file: InputFile) -> ColumnarFile:
        """Open a file."""

    def _open(self, file: InputFile) -> ColumnarFile:
        opened = self.open(Storage().open(file.path), file)
        for column in opened.schema:
            _list_names(column)
        return opened

    def schemas(self, file: InputFile) -> Iterator[pa.Schema]:
        """See `Format.schemas`."""
        with damaged(file):
            schema = self._open(file).schema
        yield schema

    def split(self, number: int, file: InputFile, split_bytes: int) -> Iterator[FilePart]:
        """See `Format.split`."""
        with damaged(file):
            opened = self._open(file)
            counts = opened.count_rows()
            if counts is None:
                return
            sizes: Sequence[float] = opened.unit_bytes() or [file.size / max(len(counts), 1)] * len(counts)
        first_rows = [0, *itertools.accumulate(counts)]
        begin = 0
        for unit in range(len(counts)):
            size = sum(sizes[begin : unit + 1])
            if unit + 1 == len(counts) or size + sizes[unit + 1] > split_bytes:
                yield FilePart(file=number, begin=begin, end=unit + 1, first_row=first_rows[begin], size=int(size))
                begin = unit + 1

    def read(self, file: InputFile, part: FilePart, query: Query, rows: Rows | None) -> Documents:
        """Read documents, see `Format.read`; units without a wanted row are not decoded."""
        with damaged(file):
            opened = self._open(file)
            id_type, paths = check(opened.schema, query.columns, file.path)
            require_type(id_type or pa.string(), query.id_type, file.path)
            names = list(dict.fromkeys(path[0] for path in paths.values())) if "id" in paths else None
            sizes = [opened.value_bytes(paths[role]) for role in query.columns.text_roles]
            known = [size for size in sizes if size is not None]
            batch_rows = int(min(max(PIECE_BYTES / max(sum(known), 1), 1), 1 << 16)) if known else None
            for numbers, batch in _read_chosen(opened, part, names, rows, batch_rows):
                if batch.num_rows:
                    yield select_documents(batch, paths, query.columns, query.id_type, rows=numbers, path=file.path), ()

    def read_rows(
        self, file: InputFile, part: FilePart | None = None, on_bad_record: str = "quarantine"
    ) -> NumberedRows:
        """See `Format.read_rows`."""
        with damaged(file):
            whole = FilePart(file=0, size=file.size)
            for numbers, batch in _read_chosen(self._open(file), part or whole, None, None, BATCH_ROWS):
                yield numbers, pa.Table.from_batches([batch])

    def find_rows(self, file: InputFile, part: FilePart, column: str, values: pa.Array) -> Rows:
        """See `Format.find_rows`."""
        first, found = part.first_row, []
        with damaged(file):
            opened = self._open(file)
            for batch in opened.read(_list_units(opened, part), [column]):
                held = pc.is_in(batch[column].cast(values.type), values)
                found.append(first + np.flatnonzero(held.to_numpy(zero_copy_only=False)))
                first += batch.num_rows
        return np.concatenate([np.empty(0, np.int64), *found])

    def rewrite(self, file: InputFile, edits: Edits, kept: OutputFile, removed: OutputFile | None) -> FileCounts:
        """See `Format.rewrite`."""
        stay_count = gone_count = first = 0
        with ExitStack() as streams:
            opened = self._open(file)
            schema = opened.schema
            for column in edits.added:
                schema = schema.append(column)
            if edits.added:
                # Of its own files Spark believes this list of columns, whatever others there are.
                known = schema.metadata or {}
                schema = schema.with_metadata({key: told for key, told in known.items() if key != SPARK_SCHEMA})
            stays = streams.enter_context(opened.write_like(kept, schema))
            goes = None if removed is None else streams.enter_context(opened.write_like(removed, opened.schema))
            # Cut texts have dictionaries of their own, which are made one once all are there.
            is_encoded = any(pa.types.is_dictionary(field.type) for field in schema)
            parts = list[pa.Table]()
            write = parts.append if edits.spans and opened.has_one_dictionary and is_encoded else stays
            left_out = np.union1d(edits.removed, edits.rejected)
            for rows in read_ahead(opened.read_whole()):
                leaving = choose(first, rows.num_rows, edits.removed)
                if goes is not None and len(leaving):
                    goes(take_rows(rows, leaving))
                staying = np.delete(np.arange(rows.num_rows), choose(first, rows.num_rows, left_out))
                if len(staying):
                    write(_edit(take_rows(rows, staying), first + staying, edits, schema, file))
                stay_count, gone_count = stay_count + len(staying), gone_count + len(leaving)
                first += rows.num_rows
            if parts:
                stays(pa.concat_tables(parts).unify_dictionaries())
        return FileCounts(kept=stay_count, removed=gone_count)

    def clear(
        self, file: InputFile, cleared: Mapping[str, Sequence[str]], mark: Mark, output: OutputFile | None
    ) -> int:
        """See `Format.clear`."""
        opened, count = self._open(file), 0
        with ExitStack() as streams:
            write = None if output is None else streams.enter_context(opened.write_like(output, opened.schema))
            for rows in opened.read_whole():
                columns = rows.columns
                for name, others in cleared.items():
                    marked = mark(rows[name])
                    count += pc.sum(marked).as_py() or 0
                    # A null taken has nothing below it, where a value set to null would stay in its buffer.
                    kept = pc.if_else(marked, None, pa.array(range(rows.num_rows), pa.int64()))
                    for place in map(rows.schema.get_field_index, (name, *others)):
                        columns[place] = columns[place].take(kept)
                if write is not None:
                    write(pa.Table.from_arrays(columns, schema=rows.schema))
        return count


def read_ahead(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield parts of a file, of which a thread reads the next while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = reader.submit(next, parts, None)
            yield part


def _list_names(column: pa.Field) -> list[str]:
    """Return the names of a column and of all within it; raises UnicodeDecodeError for one that is not UTF-8."""
    kind = column.type
    return [column.name, *(name for place in range(kind.num_fields) for name in _list_names(kind.field(place)))]


def _edit(rows: pa.Table, numbers: Rows, edits: Edits, schema: pa.Schema, file: InputFile) -> pa.Table:
    """Return rows of these numbers with added columns and without the spans to delete."""
    if edits.notes is not None:
        rows = pa.Table.from_arrays([*rows.columns, *edits.take_notes(numbers).columns], schema=schema)
    return delete_from_rows(rows, numbers, edits.spans, column=edits.text_column, path=file.path)


def _list_units(opened: ColumnarFile, part: FilePart) -> range:
    """Return the units of a part."""
    return range(part.begin, opened.unit_count if part.end is None else part.end)


def _limit(opened: ColumnarFile, part: FilePart, rows: Rows | None) -> Rows | None:
    """Return the rows wanted, None for all, that are of the part's share."""
    number, count = part.share
    if count == 1:
        return rows
    every = sum((opened.count_rows() or [])[part.begin : part.end])
    begin, end = (part.first_row + every * each // count for each in (number, number + 1))
    return np.arange(begin, end) if rows is None else rows[slice(*np.searchsorted(rows, [begin, end]))]


def _read_chosen(
    opened: ColumnarFile, part: FilePart, names: list[str] | None, rows: Rows | None, batch_rows: int | None
) -> Iterator[tuple[Rows, pa.RecordBatch]]:
    """Read the rows wanted of a part, None for all, with their numbers; batches may hold none."""
    rows = _limit(opened, part, rows)
    for first, batch in _read_batches(opened, part, names, rows, batch_rows):
        if rows is None:
            yield first + np.arange(batch.num_rows), batch
        else:
            places = choose(first, batch.num_rows, rows)
            yield first + places, _take(batch, places)


def _read_batches(
    opened: ColumnarFile, part: FilePart, names: list[str] | None, rows: Rows | None, batch_rows: int | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read the batches of a part that can hold wanted rows, each with the number of its first row."""
    units, first = _list_units(opened, part), part.first_row
    counts = None if rows is None else opened.count_rows()
    if rows is None or counts is None:
        for batch in opened.read(units, names, batch_rows):
            yield first, batch
            first += batch.num_rows
        return
    for unit in units:
        wanted, begin = choose(first, counts[unit], rows), first
        for batch in opened.read([unit], names, batch_rows) if len(wanted) else ():
            yield begin, batch
            begin += batch.num_rows
            if begin > first + wanted[-1]:
                break
        first += counts[unit]


def choose(begin: int, count: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ascending places in a batch, given the number of its first row, of the rows that are among `rows`."""
    first, last = np.searchsorted(rows, [begin, begin + count])
    return rows[first:last] - begin


def take_rows(rows: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    """Return the rows at ascending places, in chunks as they lie: pyarrow would join all chunks first."""
    if len(places) == rows.num_rows:
        return rows
    taken, first = list[pa.RecordBatch](), 0
    for batch in rows.to_batches():
        chosen = choose(first, batch.num_rows, places)
        if len(chosen):
            taken.append(_take(batch, chosen))
        first += batch.num_rows
    return pa.Table.from_batches(taken, rows.schema)


def _take(batch: pa.RecordBatch, places: NDArray[np.int64]) -> pa.RecordBatch:
    if len(places) == batch.num_rows:
        return batch
    try:
        return batch.take(pa.array(places))
    except pa.ArrowNotImplementedError:
        # pyarrow takes no string views (which polars writes) and a few more: runs of rows as they lie.
        begins = np.flatnonzero(np.diff(places, prepend=-2) != 1)
        runs = zip(places[begins].tolist(), np.diff(begins, append=len(places)).tolist(), strict=True)
        return pa.concat_batches([batch.slice(0, 0), *(batch.slice(begin, count) for begin, count in runs)])
