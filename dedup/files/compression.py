"""Bytes of files as they are stored, compressed or not: read and written."""

from bz2 import BZ2Decompressor
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from typing import TYPE_CHECKING, Protocol, cast

import pyarrow as pa

from dedup.files.storage import OutputFile, Storage

if TYPE_CHECKING:
    from dedup.files.formats.format import InputFile

READ_BYTES = 1 << 18
"""Compressed bytes read at a time."""
GZIP_LEVEL = 6
"""Level of the program gzip; pyarrow's, the highest, takes twice its time for half a percent of text."""


class Stream(Protocol):
    """Source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Read a limited number of bytes; none at the end."""


class Bzip2Stream:
    """Reader of a stored file of bzip2, whose bytes are all streams; that of pyarrow fails behind an empty one."""

    def __init__(self, stored: pa.NativeFile) -> None:
        self._stored = stored
        self._coming = stored.read(READ_BYTES)
        self._reader: BZ2Decompressor | None = None
        """Reader of the stream begun; None between streams."""

    def read(self, size: int, /) -> bytes:
        """Read so many bytes, or those that are left.

        Raises
        ------
        OSError, EOFError
            When something else than a stream follows, or the last one is cut off.
        """
        parts, missing = list[bytes](), size
        while missing and (self._reader or self._coming):
            self._reader = self._reader or BZ2Decompressor()
            if self._reader.needs_input and not self._coming:
                raise EOFError("its last stream is cut off")
            parts.append(self._reader.decompress(self._coming, missing))
            missing -= len(parts[-1])
            self._coming = b""
            if self._reader.eof:
                self._coming, self._reader = self._reader.unused_data, None
            if not self._coming and (self._reader is None or self._reader.needs_input):
                self._coming = self._stored.read(READ_BYTES)
        return b"".join(parts)


@contextmanager
def open_bytes(file: "InputFile", begin: int = 0) -> Iterator[Stream]:
    """Open a file of lines or text, decompressed; only uncompressed files can be opened from a later byte.

    Raises
    ------
    EOFError
        When a compressed file has no bytes, as a transfer that failed leaves it: one of no rows has some.
    """
    if file.compression and not file.size:
        raise EOFError(f"it has no bytes, which is not {file.compression}")
    with Storage().open(file.path) as stream:
        if file.compression is None:
            stream.seek(begin)
            yield stream
        elif file.compression == "bz2":
            yield Bzip2Stream(stream)
        else:
            with pa.CompressedInputStream(stream, file.compression) as plain:
                yield plain


def compress(stream: OutputFile, compression: str | None) -> OutputFile:
    """Return a stream that compresses what is written to another."""
    if compression == "gzip":
        # Without a time, so that the same rows are the same bytes.
        return cast("OutputFile", GzipFile("", "wb", GZIP_LEVEL, stream, mtime=0))
    return stream if compression is None else pa.CompressedOutputStream(stream, compression)
