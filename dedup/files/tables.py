"""Formats of columns as Arrow: parquet, Arrow IPC (files and streams) and ORC, by their units of storage."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import orc

from dedup.errors import DataError
from dedup.files.listing import File
from dedup.files.storage import Storage
from dedup.files.systems import redact

MOST_SECONDS = (1 << 63) // 10**9 - 1
"""Before and after 1970 that nanoseconds of 64 bits hold."""


class Table(Protocol):
    """An open file of a columnar format; a unit is a row group, a record batch or a stripe."""

    schema: pa.Schema
    unit_count: int

    def count_rows(self) -> list[int] | None:
        """Return the rows of each unit; None where only reading them tells."""

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read units in turn: these top-level columns (None: all), at most so many rows at a time where that helps."""


def open_table(file: File) -> Table:
    """Open a file of a columnar format."""
    stream = Storage().open(file.path)
    if file.format == "parquet":
        return Parquet(stream, file.path)
    return Orc(stream) if file.format == "orc" else open_ipc(stream)


class Parquet:
    """Row groups of a parquet file."""

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path
        self.file = pq.ParquetFile(stream, pre_buffer=True, arrow_extensions_enabled=True)
        self.schema: pa.Schema = self.file.schema_arrow
        self.unit_count: int = self.file.metadata.num_row_groups

    def count_rows(self) -> list[int]:
        """See `Table.count_rows`."""
        metadata = self.file.metadata
        return [metadata.row_group(unit).num_rows for unit in range(self.unit_count)]

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Table.read`."""
        rows = batch_rows or 1 << 16
        yield from self.file.iter_batches(rows, row_groups=list(units), columns=columns, use_threads=False)

    def check_times(self, units: Sequence[int]) -> None:
        """Make sure that row groups have no INT96 timestamp that nanoseconds of 64 bits cannot hold.

        pyarrow would give another time in its place, and no error.

        Raises
        ------
        DataError
            With the first column that has one.
        """
        leaves = [self.file.schema.column(place) for place in range(len(self.file.schema))]
        names = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
        if not names:
            return
        seconds = pq.ParquetFile(self._stream, coerce_int96_timestamp_unit="s")
        for name in names:
            for batch in seconds.iter_batches(row_groups=list(units), columns=[name], use_threads=False):
                bounds = pc.min_max(pc.cast(_leaf(batch.column(0)), pa.int64()))
                if any(each is not None and abs(each) > MOST_SECONDS for each in bounds.as_py().values()):
                    raise DataError(
                        f"--input: {redact(self._path)}: INT96 timestamps must lie in the years 1678 to 2261 (column "
                        f"{name!r} has others); write them as INT64 timestamps of microseconds"
                    )

    def stored_bytes(self, unit: int) -> int:
        """Return the bytes of a row group in the file."""
        group = self.file.metadata.row_group(unit)
        return sum(group.column(place).total_compressed_size for place in range(group.num_columns))

    def value_bytes(self, path: Sequence[str]) -> float:
        """Return about how many bytes a value of a column takes when it is decoded."""
        metadata = self.file.metadata
        names = ".".join(path)
        size = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                if chunk.path_in_schema == names:
                    size += int(chunk.total_uncompressed_size)
        return size / max(int(metadata.num_rows), 1)


def _leaf(values: pa.Array) -> pa.Array:
    """Return the one column of plain values within a nested one."""
    while pa.types.is_nested(values.type):
        if pa.types.is_struct(values.type):
            [values] = values.flatten()
        else:
            values = values.flatten()
    return values


def open_ipc(stream: pa.NativeFile) -> "IpcFile | IpcStream":
    """Open an IPC file, or a stream, which any ending may hide."""
    is_file = stream.read(6) == b"ARROW1"
    stream.seek(0)
    return IpcFile(stream) if is_file else IpcStream(stream)


class IpcFile:
    """Record batches of an IPC file."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._reader = pa.ipc.open_file(stream, options=pa.ipc.IpcReadOptions(use_threads=False))
        self.schema: pa.Schema = self._reader.schema
        self.metadata: pa.KeyValueMetadata | None = self._reader.metadata
        self.unit_count: int = self._reader.num_record_batches

    def count_rows(self) -> list[int]:
        """See `Table.count_rows`."""
        # Only the first column is decompressed.
        reader = self._open([self.schema.names[0]] if self.schema.names else None)
        return [reader.get_batch(unit).num_rows for unit in range(self.unit_count)]

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Table.read`."""
        del batch_rows
        reader = self._open(columns)
        for unit in units:
            yield reader.get_batch(unit)

    def _open(self, columns: Sequence[str] | None) -> Any:  # noqa: ANN401 - pyarrow publishes no types
        if columns is None:
            return self._reader
        wanted = [place for place, name in enumerate(self.schema.names) if name in columns]
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=wanted)
        return pa.ipc.open_file(self._stream, options=options)


class IpcStream:
    """Record batches of an IPC stream, one after another: it is one unit."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._reader = pa.ipc.open_stream(stream, options=pa.ipc.IpcReadOptions(use_threads=False))
        self.schema: pa.Schema = self._reader.schema
        self.unit_count = 1

    def count_rows(self) -> None:
        """Return None: as `Table.count_rows`."""

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Table.read`."""
        del batch_rows
        if units:
            for batch in self._reader:
                yield batch if columns is None else batch.select(list(columns))


class Orc:
    """Stripes of an ORC file."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self.file = orc.ORCFile(stream)
        self.schema: pa.Schema = self.file.schema
        self.unit_count: int = self.file.nstripes

    def count_rows(self) -> list[int]:
        """See `Table.count_rows`."""
        # Asked for no column, pyarrow answers with no row.
        first = self.schema.names[:1]
        return [self.file.read_stripe(unit, columns=first).num_rows for unit in range(self.unit_count)]

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Table.read`."""
        del batch_rows
        for unit in units:
            yield self.file.read_stripe(unit, columns=None if columns is None else list(columns))


def choose(begin: int, count: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places, in a batch of rows that begins with this number, of those that are among `rows`, ascending."""
    first, last = np.searchsorted(rows, [begin, begin + count])
    return rows[first:last] - begin


def take_rows(rows: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    """Return the rows at these places, which ascend."""
    if len(places) == rows.num_rows:
        return rows
    try:
        return rows.take(pa.array(places))
    except pa.ArrowNotImplementedError:
        # pyarrow takes no string views (which polars writes) and a few more: runs of rows as they lie.
        begins = np.flatnonzero(np.diff(places, prepend=-2) != 1)
        runs = zip(places[begins].tolist(), np.diff(begins, append=len(places)).tolist(), strict=True)
        return pa.concat_tables([rows.slice(begin, count) for begin, count in runs] or [rows.slice(0, 0)])
