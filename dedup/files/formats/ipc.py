"""Arrow IPC, files and streams, in record batches."""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dedup.files.conversion import VIEWS
from dedup.files.formats.columnar import ColumnarFile, ColumnarFormat
from dedup.files.formats.format import InputFile, Write, damaged, refused
from dedup.files.storage import OutputFile, Storage

if TYPE_CHECKING:
    import pyarrow.dataset as ds

CODECS = ("lz4", "zstd")
"""Codecs by their numbers in the format."""
MAGIC = b"ARROW1"


class ArrowFormat(ColumnarFormat):
    """Files of Arrow IPC."""

    extensions = ("arrow", "feather", "ipc", "arrows")
    dataset = "ipc"

    def open(self, stream: pa.NativeFile, file: InputFile) -> "IpcFile | IpcStream":
        """See `ColumnarFormat.open`: a file, or a stream, which any ending may hide."""
        return IpcStream(stream, file.path) if _is_stream(stream) else IpcFile(stream, file.path)

    def open_dataset(self, files: Sequence[InputFile]) -> "ds.Dataset":
        """See `Format.open_dataset`: Arrow's datasets take no streams, with which all files are read at once."""
        import pyarrow.dataset as ds  # noqa: PLC0415 - as `Format.open_dataset`

        if not any(_is_stream(Storage().open(file.path)) for file in files):
            return super().open_dataset(files)
        tables = []
        for file in files:
            with damaged(file):
                opened = self._open(file)
                tables.append(pa.Table.from_batches(opened.read(range(opened.unit_count), None), opened.schema))
        with refused(files[0]):
            return ds.dataset(pa.concat_tables(tables, promote_options="permissive"))


class IpcFile(ColumnarFile):
    """Record batches of an IPC file."""

    has_one_dictionary = True

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path
        self._reader = pa.ipc.open_file(stream, options=pa.ipc.IpcReadOptions(use_threads=False))
        self.schema = self._reader.schema
        self.unit_count = self._reader.num_record_batches

    def count_rows(self) -> list[int]:
        """See `ColumnarFile.count_rows`."""
        # Only the first column is decompressed.
        reader = self._select([self.schema.names[0]] if self.schema.names else None)
        return [reader.get_batch(unit).num_rows for unit in range(self.unit_count)]

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `ColumnarFile.read`."""
        reader = self._select(columns)
        for unit in units:
            yield _require_sound(reader.get_batch(unit))

    def _select(self, columns: Sequence[str] | None) -> Any:  # noqa: ANN401 - pyarrow publishes no types
        if columns is None:
            return self._reader
        wanted = [place for place, name in enumerate(self.schema.names) if name in columns]
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=wanted)
        return pa.ipc.open_file(self._stream, options=options)

    @contextmanager
    def write_like(self, stream: OutputFile, schema: pa.Schema) -> Iterator[Write]:
        """See `ColumnarFile.write_like`."""
        options, metadata = _list_options(self._path), self._reader.metadata
        with pa.ipc.new_file(stream, schema, options=options, metadata=metadata) as batches:
            yield lambda rows: _write(batches, rows)


class IpcStream(ColumnarFile):
    """Record batches of an IPC stream, in order: one unit."""

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._path = path
        self._reader = pa.ipc.open_stream(stream, options=pa.ipc.IpcReadOptions(use_threads=False))
        self.schema = self._reader.schema
        self.unit_count = 1

    def count_rows(self) -> None:
        """See `ColumnarFile.count_rows`."""

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `ColumnarFile.read`."""
        if units:
            for batch in self._reader:
                yield _require_sound(batch if columns is None else batch.select(list(columns)))

    @contextmanager
    def write_like(self, stream: OutputFile, schema: pa.Schema) -> Iterator[Write]:
        """See `ColumnarFile.write_like`."""
        with pa.ipc.new_stream(stream, schema, options=_list_options(self._path)) as batches:
            yield lambda rows: _write(batches, rows)


def _is_stream(file: pa.NativeFile) -> bool:
    """Tell whether a file, which is left at its begin, is a stream."""
    begin: bytes = file.read(len(MAGIC))
    file.seek(0)
    return begin != MAGIC


def _require_sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Refuse a batch with an offset outside its buffers: pyarrow would trust it, and crash the process.

    Raises
    ------
    ArrowInvalid
        When there is one.
    """
    for column in batch.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            # Checked last; what becomes of it is the business of the columns that are used.
            if "Invalid UTF8" not in str(error):
                raise
    return batch


def _write(batches: Any, rows: pa.Table) -> None:  # noqa: ANN401 - pyarrow publishes no types
    """Write rows in buffers of their own, which hold nothing of rows that go.

    pyarrow cuts a buffer at a multiple of 64 bytes, with what lies behind its last value, and a view's not at all.
    """
    for batch in rows.to_batches():
        batches.write_batch(pa.RecordBatch.from_arrays([*map(_copy, batch.columns)], schema=batch.schema))


def _copy(values: pa.Array) -> pa.Array:
    copied, plain = pa.concat_arrays([values]), _to_plain(values.type)
    return copied if plain == values.type else copied.cast(plain).cast(values.type)


def _to_plain(kind: pa.DataType) -> pa.DataType:
    """Return a type with strings and bytes in place of views, also within lists and structs."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_to_plain(each.type)) for each in kind.fields])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_to_plain(kind.value_type)))
    return VIEWS.get(kind, kind)


def _list_options(path: str) -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions(compression=find_compression(path), use_threads=False)


def find_compression(path: str) -> str | None:
    """Return the compression of an IPC file's buffers, which pyarrow does not expose: "lz4", "zstd" or None."""
    with Storage().open(path) as stream:
        if stream.read(len(MAGIC)) == MAGIC:
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
                return None if codec is None else CODECS[codec]
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
    """Return the offset of a field in a flatbuffer's table; 0 if it is missing."""
    (back,) = struct.unpack_from("<i", message, table)
    (size,) = struct.unpack_from("<H", message, table - back)
    if 4 + 2 * field >= size:
        return 0
    (offset,) = struct.unpack_from("<H", message, table - back + 4 + 2 * field)
    return table + offset if offset else 0


def _follow(message: bytes, table: int, field: int | None = None) -> int:
    """Return the table that a field, or the beginning of a buffer, points at; 0 without one."""
    place = table if field is None else _find(message, table, field)
    if field is not None and not place:
        return 0
    return place + int(struct.unpack_from("<I", message, place)[0])
