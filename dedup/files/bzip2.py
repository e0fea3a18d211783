"""Bytes of bzip2: streams one after another, of which any may be empty."""

from bz2 import BZ2Decompressor

import pyarrow as pa

READ_BYTES = 1 << 18
"""Compressed bytes read at a time."""


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
