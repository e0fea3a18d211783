"""Writers of columnar formats that take after the file that was read."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from dedup.files.listing import File
from dedup.files.storage import Output, Storage
from dedup.files.tables import IpcFile, IpcStream, Orc, Parquet, Table

CODECS = {"UNCOMPRESSED": "none", "LZ4_RAW": "lz4", "LZ4_HADOOP": "lz4", "LZO": "snappy", "UNKNOWN": "snappy"}
"""Codecs that stand in for names that pyarrow reads but does not write."""
IPC_CODECS = ("lz4", "zstd")
"""Codecs by their numbers in the format."""


class Writer(Protocol):
    """A file being written."""

    def write(self, rows: pa.Table) -> None:
        """Write rows as a unit of their own where the format has units."""


class ParquetRows:
    """Rows as one row group."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer

    def write(self, rows: pa.Table) -> None:
        """See `Writer.write`."""
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))


class IpcRows:
    """Rows as record batches of the sizes they come in."""

    def __init__(self, writer: Any) -> None:  # noqa: ANN401 - pyarrow publishes no types
        self._writer = writer

    def write(self, rows: pa.Table) -> None:
        """See `Writer.write`."""
        self._writer.write_table(rows)


@contextmanager
def write_like(table: Table, file: File, schema: pa.Schema, stream: Output) -> Iterator[Writer]:
    """Open a writer of the format, compression and schema metadata of a file, for rows of a schema."""
    if isinstance(table, Parquet):
        options = parquet_options(table.file)
        with pq.ParquetWriter(stream, schema, **options) as parquet:
            if schema.metadata and not options["store_schema"]:
                # Otherwise pyarrow writes it along with its own schema.
                parquet.add_key_value_metadata(schema.metadata)
            yield ParquetRows(parquet)
    elif isinstance(table, Orc):
        with orc.ORCWriter(stream, **_orc_options(table.file)) as stripes:
            # A file without a row has no schema unless an empty table is written.
            stripes.write(schema.empty_table())
            yield stripes
    else:
        written = pa.ipc.IpcWriteOptions(compression=find_ipc_compression(file), use_threads=False)
        if isinstance(table, IpcFile):
            with pa.ipc.new_file(stream, schema, options=written, metadata=table.metadata) as batches:
                yield IpcRows(batches)
        else:
            assert isinstance(table, IpcStream)
            with pa.ipc.new_stream(stream, schema, options=written) as batches:
                yield IpcRows(batches)


def parquet_options(file: pq.ParquetFile) -> dict[str, Any]:
    """Return how a parquet file was written, as far as its footer tells and pyarrow's writer can repeat."""
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
        "use_dictionary": _choose(is_dictionary),
        "write_statistics": _choose(has_statistics),
        "write_page_index": any(chunk.has_offset_index for chunk in chunks),
        "sorting_columns": group.sorting_columns or None,
        "use_compliant_nested_type": not any(".item" in name for name in codecs),
        "store_decimal_as_integer": any(
            column.logical_type.type == "DECIMAL" and column.physical_type.startswith("INT") for column in columns
        ),
    }


def _choose(is_set: dict[str, bool]) -> bool | list[str]:
    """Return the columns that have a property; true or false if they all agree."""
    chosen = [name for name, value in is_set.items() if value]
    return chosen if chosen and len(chosen) < len(is_set) else bool(chosen)


def _orc_options(file: orc.ORCFile) -> dict[str, Any]:
    return {
        "compression": file.compression.lower(),
        "compression_block_size": file.compression_size or 1 << 16,
        "file_version": file.file_version,
        "row_index_stride": file.row_index_stride,
    }


def find_ipc_compression(file: File) -> str | None:
    """Return how the buffers of an IPC file are compressed, which pyarrow tells nobody: "lz4", "zstd" or None."""
    with Storage().open(file.path) as stream:
        if stream.read(6) == b"ARROW1":
            stream.seek(stream.size() - 10)
            (size,) = struct.unpack("<i", stream.read(4))
            stream.seek(stream.size() - 10 - size)
            place = _find_batch(stream.read(size))
            if place is None:
                return None
            stream.seek(place)
            messages = [pa.ipc.read_message(stream)]
        else:
            stream.seek(0)
            messages = pa.ipc.MessageReader.open_stream(stream)
        for message in messages:
            if message.type == "record batch":
                codec = _read_codec(message.metadata.to_pybytes())
                return None if codec is None else IPC_CODECS[codec]
    return None


def _find_batch(footer: bytes) -> int | None:
    """Return the offset of Footer.recordBatches[0] of a flatbuffer; see `_read_codec`."""
    blocks = _follow(footer, _follow(footer, 0), 3)
    if not blocks or not struct.unpack_from("<I", footer, blocks)[0]:
        return None
    return int(struct.unpack_from("<q", footer, blocks + 4)[0])


def _read_codec(message: bytes) -> int | None:
    """Return Message.header.compression.codec of a flatbuffer.

    References
    ----------
    .. [1] Apache Arrow, format/Message.fbs, tables Message, RecordBatch and BodyCompression; format/File.fbs, Footer.
    """
    header = _follow(message, _follow(message, 0), 2)
    compression = _follow(message, header, 3)
    codec = compression and _find(message, compression, 0)
    return None if not compression else message[codec] if codec else 0


def _find(message: bytes, table: int, field: int) -> int:
    """Return where a field of a flatbuffer's table lies; 0 if it is not there."""
    (back,) = struct.unpack_from("<i", message, table)
    (size,) = struct.unpack_from("<H", message, table - back)
    if 4 + 2 * field >= size:
        return 0
    (offset,) = struct.unpack_from("<H", message, table - back + 4 + 2 * field)
    return table + offset if offset else 0


def _follow(message: bytes, table: int, field: int | None = None) -> int:
    """Return the table that a field, or the beginning of a buffer, points at; 0 for none."""
    place = table if field is None else _find(message, table, field)
    if field is not None and not place:
        return 0
    return place + int(struct.unpack_from("<I", message, place)[0])
