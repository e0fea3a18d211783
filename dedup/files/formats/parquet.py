"""Parquet, in row groups."""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.errors import DataError
from dedup.files.columns import PIECE_BYTES, Path
from dedup.files.formats.columnar import ColumnarFile, ColumnarFormat
from dedup.files.formats.format import Guess, InputFile, Write, damaged
from dedup.files.storage import OutputFile
from dedup.files.systems import is_local, redact

UNIT_BYTES = 1 << 28
"""Most decoded bytes of a row group that is rewritten as one; larger ones are cut, since each is held in memory."""
READ_BYTES = 1 << 18
"""Bytes of a column read at a time."""
GROUP_BYTES = 1 << 26
"""Bytes of rows in a row group of a new file."""
SIGNATURE_BYTES = 28
"""Bytes of the signature after a footer in the clear of a file with encrypted columns."""
MOST_SECONDS = (1 << 63) // 10**9 - 1
"""Most seconds before and after 1970 that 64-bit nanoseconds hold."""
CODECS = {"UNCOMPRESSED": "none", "LZ4_RAW": "lz4", "LZ4_HADOOP": "lz4", "LZO": "snappy", "UNKNOWN": "snappy"}
"""Codecs that replace those that pyarrow reads but does not write."""


class ParquetFormat(ColumnarFormat):
    """Files of parquet."""

    extensions = ("parquet", "parq", "pq")
    can_create: ClassVar = True
    has_shares: ClassVar = True
    dataset = "parquet"

    def open(self, stream: pa.NativeFile, file: InputFile) -> "ParquetFile":
        """See `ColumnarFormat.open`."""
        return ParquetFile(stream, file.path)

    def look(self, file: InputFile, text_column: str) -> Guess:
        """See `Format.look`: rows and the bytes of the text column are in the footer."""
        with damaged(file):
            opened = self._open(file)
            rows = sum(opened.count_rows() or ())
            text_bytes = rows * (opened.value_bytes(tuple(text_column.split("."))) or 0)
        # A column that is stored as a dictionary decodes to more.
        return Guess(documents=rows, text_bytes=max(round(text_bytes), file.size))

    @contextmanager
    def create(self, stream: OutputFile, schema: pa.Schema) -> Iterator[Write]:
        """See `Format.create`."""
        gathered: list[pa.Table] = []

        def flush() -> None:
            if gathered:
                whole = pa.concat_tables(gathered)
                parquet.write_table(whole, row_group_size=whole.num_rows)
                gathered.clear()

        def write(rows: pa.Table) -> None:
            gathered.append(rows)
            if sum(each.nbytes for each in gathered) >= GROUP_BYTES:
                flush()

        with pq.ParquetWriter(stream, schema, compression="zstd") as parquet:
            yield write
            flush()


class ParquetFile(ColumnarFile):
    """Row groups of a parquet file."""

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path
        # On a disk a row group need not be held as it is stored, while requests to a store are few and large.
        ahead = {"buffer_size": READ_BYTES, "pre_buffer": False} if is_local(path) else {"pre_buffer": True}
        self._file = pq.ParquetFile(stream, arrow_extensions_enabled=True, **ahead)
        stream.seek(stream.size() - 8)
        (footer,) = struct.unpack("<I", stream.read(4))
        if footer == self._file.metadata.serialized_size + SIGNATURE_BYTES:
            # pyarrow opens it, and ends the process when asked about a column that is encrypted.
            raise DataError(f"--input: {redact(path)} must not be encrypted (its footer is signed); write it without")
        self.schema = self._file.schema_arrow
        self.unit_count = self._file.metadata.num_row_groups

    def count_rows(self) -> list[int]:
        """See `ColumnarFile.count_rows`."""
        metadata = self._file.metadata
        return [metadata.row_group(unit).num_rows for unit in range(self.unit_count)]

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `ColumnarFile.read`."""
        if columns is None:
            self._check_times(units)
        rows = batch_rows or 1 << 16
        yield from self._file.iter_batches(rows, row_groups=list(units), columns=columns, use_threads=False)

    def read_whole(self) -> Iterator[pa.Table]:
        """See `ColumnarFile.read_whole`: row groups, cut where they are large, in chunks of about PIECE_BYTES.

        Memory for a group in one piece is new each time, and costs more than what is done with it.
        """
        for unit in range(self.unit_count):
            group = self._file.metadata.row_group(unit)
            pieces = max(-(-group.total_byte_size // PIECE_BYTES), 1)
            parts = -(-group.total_byte_size // UNIT_BYTES) or 1
            batches = self.read([unit], None, max(-(-group.num_rows // pieces), 1))
            while part := list(islice(batches, -(-pieces // parts))):
                yield pa.Table.from_batches(part, self.schema)

    def _check_times(self, units: Sequence[int]) -> None:
        """Refuse an INT96 timestamp beyond 64-bit nanoseconds: pyarrow would silently give another.

        Raises
        ------
        DataError
            Names the first column that has one.
        """
        leaves = [self._file.schema.column(place) for place in range(len(self._file.schema))]
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

    def unit_bytes(self) -> list[int]:
        """See `ColumnarFile.unit_bytes`."""
        groups = [self._file.metadata.row_group(unit) for unit in range(self.unit_count)]
        return [
            sum(group.column(place).total_compressed_size for place in range(group.num_columns)) for group in groups
        ]

    def value_bytes(self, path: Path) -> float:
        """See `ColumnarFile.value_bytes`."""
        metadata = self._file.metadata
        names = ".".join(path)
        size = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                if f"{chunk.path_in_schema}.".startswith(f"{names}."):
                    size += int(chunk.total_uncompressed_size)
        return size / max(int(metadata.num_rows), 1)

    @contextmanager
    def write_like(self, stream: OutputFile, schema: pa.Schema) -> Iterator[Write]:
        """See `ColumnarFile.write_like`."""
        options = list_options(self._file)
        with pq.ParquetWriter(stream, schema, **options) as parquet:
            if schema.metadata and not options["store_schema"]:
                # Otherwise pyarrow writes it along with its own schema.
                parquet.add_key_value_metadata(schema.metadata)
            yield lambda rows: parquet.write_table(rows, row_group_size=max(rows.num_rows, 1))


def _leaf(values: pa.Array) -> pa.Array:
    """Return the only leaf column within a nested one."""
    while pa.types.is_nested(values.type):
        if pa.types.is_struct(values.type):
            [values] = values.flatten()
        else:
            values = values.flatten()
    return values


def list_options(file: pq.ParquetFile) -> dict[str, Any]:
    """Return the options of pyarrow's writer that wrote a parquet file, as far as its footer shows."""
    metadata = file.metadata
    # Earlier versions turn ns into us and uint32 into int64.
    options: dict[str, Any] = {"version": "2.6", "store_schema": b"ARROW:schema" in (metadata.metadata or {})}
    if not metadata.num_row_groups:
        return options
    group = metadata.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    codecs = {chunk.path_in_schema: CODECS.get(chunk.compression, chunk.compression.lower()) for chunk in chunks}
    is_dictionary = {chunk.path_in_schema: chunk.has_dictionary_page for chunk in chunks}
    has_statistics = {chunk.path_in_schema: chunk.is_stats_set for chunk in chunks}
    columns = [file.schema.column(place) for place in range(len(chunks))]
    return {
        **options,
        "compression": codecs if len(set(codecs.values())) > 1 else next(iter(codecs.values()), "snappy"),
        "use_dictionary": _list_set(is_dictionary),
        "write_statistics": _list_set(has_statistics),
        "write_page_index": any(chunk.has_offset_index for chunk in chunks),
        "sorting_columns": group.sorting_columns or None,
        "use_compliant_nested_type": not any(".item" in name for name in codecs),
        "store_decimal_as_integer": any(
            column.logical_type.type == "DECIMAL" and column.physical_type.startswith("INT") for column in columns
        ),
    }


def _list_set(is_set: dict[str, bool]) -> bool | list[str]:
    """Return the columns that have a property; true or false if all agree."""
    chosen = [name for name, value in is_set.items() if value]
    return chosen if chosen and len(chosen) < len(is_set) else bool(chosen)
