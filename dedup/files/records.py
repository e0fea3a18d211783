"""Lines and records of CSV as bytes: where each begins and ends, which no parser needs to be asked twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup.errors import DataError
from dedup.files.listing import File
from dedup.files.storage import Storage
from dedup.files.systems import redact, redact_text

BLOCK_BYTES = 1 << 19
"""Bytes read at a time."""
BOM = b"\xef\xbb\xbf"
NEWLINE, RETURN, QUOTE, COMMA, SPACES = 10, 13, 34, 44, b" \t\r\n"


SHOWN_LENGTH = 60
"""Characters shown of a malformed record."""


class Stream(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes; none at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Whole records of a file.

    `begins`, `ends` and `rows` are int64 of one length, the records that are not blank: places in `data` (an end
    includes the line end) and numbers in the file.
    """

    data: bytes
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    rows: NDArray[np.int64]
    line: int
    """Lines of the file, or of the split, before this block."""
    commas: NDArray[np.int64] | None = None
    """Commas between the cells of each record of CSV."""

    def choose(self, rows: NDArray[np.int64] | None) -> list[int]:
        """Return the places of those records that are among `rows`, ascending; of all for None."""
        if rows is None or not len(self.rows):
            return list(range(len(self.rows)))
        first, last = np.searchsorted(rows, [self.rows[0], self.rows[-1] + 1])
        return [int(place) for place in np.searchsorted(self.rows, rows[first:last])]

    def lines(self) -> Iterator[bytes]:
        """Return the bytes of every record."""
        for begin, end in zip(self.begins.tolist(), self.ends.tolist(), strict=True):
            yield self.data[begin:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A malformed record."""

    file: str
    line: int
    """Line on which it begins, from 1."""
    row: int
    """Its number, as documents have it."""
    reason: str
    record: str
    """The record as it stands in its file; bytes that are not UTF-8 become U+FFFD."""


@contextmanager
def damaged(file: File) -> Iterator[None]:
    """Turn what a reader says of a file into a DataError that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = redact_text(" ".join(str(error).split())) or type(error).__name__
        raise DataError(f"--input: {redact(file.path)} cannot be read as {file.format} ({reason})") from error


@contextmanager
def open_bytes(file: File, begin: int = 0) -> Iterator[Stream]:
    """Open a file of lines or text, decompressed, from a place that only uncompressed files may have."""
    with Storage().open(file.path) as stream:
        if file.compression is None:
            stream.seek(begin)
            yield stream
        else:
            with pa.CompressedInputStream(stream, file.compression) as plain:
                yield plain


def find_line(file: File, block: Block, record: int, begin: int) -> int:
    """Return the line of its file, from 1, on which a record begins that was read from a range that begins here."""
    line = block.line + block.data.count(b"\n", 0, int(block.begins[record])) + 1
    if begin:
        with open_bytes(file) as stream:
            # A line belongs to the range in which it begins.
            line += _count_lines(stream, begin - 1) + 1
    return line


def _count_lines(stream: Stream, size: int) -> int:
    count = 0
    while size > 0 and (chunk := stream.read(min(BLOCK_BYTES, size))):
        count += chunk.count(b"\n")
        size -= len(chunk)
    return count


def reject(file: File, block: Block, record: int, begin: int, reason: str, *, on_bad: str) -> Rejected:
    """Return a malformed record with its place and reason.

    Raises
    ------
    DataError
        When `on_bad` is "fail".
    """
    content = block.data[block.begins[record] : block.ends[record]].rstrip(b"\r\n").decode("utf-8", "replace")
    line, path = find_line(file, block, record, begin), redact(file.path)
    if on_bad == "fail":
        raise DataError(
            f"--input: every record must be whole (got {reason}: {content[:SHOWN_LENGTH]!r} in {path}, line {line:,}); "
            "mend them, or pass --set input.on_bad_record=quarantine to set such records aside"
        )
    return Rejected(file=path, line=line, row=int(block.rows[record]), reason=reason, record=content)


def read_lines(stream: Stream, begin: int = 0, end: int | None = None) -> Iterator[Block]:
    """Read the lines of a file that begin in a range of bytes; a line's number is the place where it begins.

    Parameters
    ----------
    stream
        One byte before `begin`, unless that is 0: a line that begins before it belongs to the range before.
    end
        None for the whole file.
    """
    place, rest, line = max(begin - 1, 0), b"", 0
    is_torn = begin > 0
    while end is None or place < end:
        # A line longer than a block is read in ever larger steps, or it would be copied again for each.
        chunk = stream.read(max(BLOCK_BYTES, len(rest)))
        data = rest + chunk if rest else chunk
        cut = (data.find(b"\n") if is_torn else data.rfind(b"\n")) + 1 if chunk else len(data)
        if is_torn and cut:
            place, rest, is_torn = place + cut, data[cut:], False
            continue
        rest, data = data[cut:], data[:cut]
        if data:
            stops = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE) + 1
            if not len(stops) or stops[-1] < len(data):
                stops = np.append(stops, len(data))
            begins = np.concatenate([[0], stops[:-1]])
            if end is not None and place + len(data) > end:
                begins = begins[: np.searchsorted(begins, end - place)]
                stops = stops[: len(begins)]
                data = data[: stops[-1]]
            yield drop_blank(Block(data=data, begins=begins, ends=stops, rows=place + begins, line=line))
            line, place = line + len(begins), place + len(data)
        if not chunk:
            return


def drop_blank(block: Block) -> Block:
    """Leave out records that are all white space."""
    data, begins, ends = block.data, block.begins, block.ends
    suspects = np.flatnonzero(np.frombuffer(data, np.uint8)[begins] <= 32)
    blank = [place for place in suspects.tolist() if not data[begins[place] : ends[place]].strip(SPACES)]
    if not blank:
        return block
    begins, ends, rows = (np.delete(each, blank) for each in (begins, ends, block.rows))
    commas = None if block.commas is None else np.delete(block.commas, blank)
    return replace(block, begins=begins, ends=ends, rows=rows, commas=commas)
