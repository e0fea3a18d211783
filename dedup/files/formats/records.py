"""Formats of lines and records as bytes: their bounds are known, so no parser is asked twice."""

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup.errors import DataError
from dedup.files.compression import Stream, compress, open_bytes
from dedup.files.formats.format import Edits, FileCounts, Guess, InputFile, Mark, Rejected, RowFormat, Rows, damaged
from dedup.files.storage import OutputFile
from dedup.files.systems import redact

BLOCK_BYTES = 1 << 19
"""Bytes read at a time."""
SAMPLED_BYTES = 1 << 20
"""Bytes read from the beginning of a file whose content is guessed."""
BETTER = 1.25
"""Factor by which a better compression than zstd may have shrunk lines."""
BOM = b"\xef\xbb\xbf"
NEWLINE, RETURN, QUOTE, COMMA, SPACES = 10, 13, 34, 44, b" \t\r\n"
SHOWN_LENGTH = 60
"""Characters shown of a malformed record."""


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
    """Lines of the file, or of the split, before the block."""
    commas: NDArray[np.int64] | None = None
    """Commas between the cells of each record of CSV."""

    def choose(self, rows: NDArray[np.int64] | None) -> list[int]:
        """Return the ascending places of the records that are among `rows`; all for None."""
        if rows is None or not len(self.rows):
            return list(range(len(self.rows)))
        first, last = np.searchsorted(rows, [self.rows[0], self.rows[-1] + 1])
        return [int(place) for place in np.searchsorted(self.rows, rows[first:last])]

    def lines(self) -> Iterator[bytes]:
        """Return the bytes of every record."""
        for begin, end in zip(self.begins.tolist(), self.ends.tolist(), strict=True):
            yield self.data[begin:end]

    def join(self, places: Sequence[int]) -> bytes:
        """Return the bytes of the records at these places."""
        return b"".join(self.data[self.begins[place] : self.ends[place]] for place in places)

    def exchange(self, records: Mapping[int, bytes]) -> bytes:
        """Return all bytes, blank lines included, with the records at some places replaced."""
        parts, begin = [], 0
        for place in sorted(records):
            parts += [self.data[begin : self.begins[place]], records[place]]
            begin = self.ends[place]
        return b"".join([*parts, self.data[begin:]]) if records else self.data


Eraser: TypeAlias = Callable[[bytes, Sequence[int], Sequence[int]], bytes]
"""Deletion of spans, given by their ascending begins and ends, from the text of a record; other bytes stay."""
Clearer: TypeAlias = Callable[[bytes, Sequence[str]], bytes]
"""Change of the named cells of a record to null; other bytes stay."""


class RecordFormat(RowFormat):
    """Format whose files are read as `Block`."""

    is_compressible: ClassVar = True
    can_reject: ClassVar = True

    @abstractmethod
    def read_blocks(self, stream: Stream) -> Iterator[Block]:
        """Read the records of a file; a header's number is below 0."""

    @abstractmethod
    def open_eraser(self, file: InputFile, column: str) -> Eraser:
        """Return the function that deletes spans from the texts of a column of a file."""

    @abstractmethod
    def add_notes(self, file: InputFile, records: Iterable[bytes], rows: Rows, notes: pa.Table) -> Iterator[bytes]:
        """Return records of these numbers with columns added at their ends."""

    @abstractmethod
    def read_notes(self, file: InputFile, records: Sequence[bytes], names: Sequence[str]) -> Iterable[pa.Array]:
        """Return columns of records of a file, as strings."""

    @abstractmethod
    def open_clearer(self, file: InputFile) -> Clearer:
        """Return the function that makes cells of added columns null in records of a file."""

    def look(self, file: InputFile, text_column: str) -> Guess:
        """Guess from the first megabyte: it shows the length of records, and the effect of compression."""
        with damaged(file), open_bytes(file) as stream:
            begin = stream.read(SAMPLED_BYTES)
        ratio = BETTER * len(begin) / len(pa.compress(begin, "zstd")) if file.compression else 1
        text_bytes = round(file.size * ratio)
        length = max(len(begin) // max(begin.count(b"\n"), 1), 1)
        return Guess(documents=-(-text_bytes // length), text_bytes=text_bytes)

    def rewrite(self, file: InputFile, edits: Edits, kept: OutputFile, removed: OutputFile | None) -> FileCounts:
        """See `Format.rewrite`."""
        stay_count = gone_count = 0
        erase = self.open_eraser(file, edits.text_column) if edits.spans else None
        with ExitStack() as streams:
            stays = streams.enter_context(compress(kept, file.compression))
            goes = None if removed is None else streams.enter_context(compress(removed, file.compression))
            stream = streams.enter_context(open_bytes(file))
            for block in self.read_blocks(stream):
                leaving, aside = block.choose(edits.removed), block.choose(edits.rejected)
                header = int((block.rows[:1] < 0).sum())
                if goes is not None:
                    goes.write(block.join([*range(header), *leaving]))
                edited = {} if erase is None else _erase(block, edits, erase)
                if edits.notes is None:
                    stays.write(block.exchange(edited | dict.fromkeys([*leaving, *aside], b"")))
                else:
                    staying = np.delete(np.arange(len(block.rows)), [*leaving, *aside])
                    records = (edited.get(place) or block.join([place]) for place in staying.tolist())
                    rows = block.rows[staying]
                    stays.write(b"".join(self.add_notes(file, records, rows, edits.take_notes(rows))))
                stay_count += len(block.rows) - header - len(leaving) - len(aside)
                gone_count += len(leaving)
        return FileCounts(kept=stay_count, removed=gone_count)

    def clear(
        self, file: InputFile, cleared: Mapping[str, Sequence[str]], mark: Mark, output: OutputFile | None
    ) -> int:
        """See `Format.clear`."""
        clear, count = self.open_clearer(file), 0
        with ExitStack() as streams:
            written = None if output is None else streams.enter_context(compress(output, file.compression))
            for block in self.read_blocks(streams.enter_context(open_bytes(file))):
                own = np.flatnonzero(block.rows >= 0).tolist()
                columns = self.read_notes(file, [block.join([place]) for place in own], [*cleared])
                edited: dict[int, bytes] = {}
                for column, (name, others) in zip(columns, cleared.items(), strict=True):
                    for place in itertools.compress(own, mark(pa.chunked_array([column])).to_pylist()):
                        edited[place] = clear(edited.get(place) or block.join([place]), (name, *others))
                        count += 1
                if written is not None:
                    written.write(block.exchange(edited))
        return count


def _erase(block: Block, edits: Edits, erase: Eraser) -> dict[int, bytes]:
    """Return the records of a block that lose spans, by their places in it, as they will be written."""
    places = [place for place, row in enumerate(block.rows.tolist()) if row in edits.spans]
    return {place: erase(block.join([place]), *edits.spans[int(block.rows[place])]) for place in places}


def find_line(file: InputFile, block: Block, record: int, begin: int) -> int:
    """Return the line of its file, from 1, on which a record begins, for a range read from this byte on."""
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


def reject(file: InputFile, block: Block, record: int, begin: int, reason: str, *, on_bad: str) -> Rejected:
    """Return a malformed record with its place and reason.

    Raises
    ------
    DataError
        When `on_bad` is "fail".
    """
    content, path = block.join([record]).rstrip(b"\r\n").decode("utf-8", "replace"), redact(file.path)
    if on_bad == "fail":
        line = find_line(file, block, record, begin)
        raise DataError(
            f"--input: every record must be whole (got {reason}: {content[:SHOWN_LENGTH]!r} in {path}, line {line:,}); "
            "mend them, or pass --set input.on_bad_record=quarantine to set such records aside"
        )
    return Rejected(file=path, row=int(block.rows[record]), reason=reason, record=content)


def is_past(block: Block, rows: Rows | None) -> bool:
    """Tell whether all wanted rows lie before a block; false for None, which wants all."""
    return rows is not None and len(rows) > 0 and len(block.rows) > 0 and bool(rows[-1] < block.rows[0])


def drop_blank(block: Block, *, begins_file: bool = False, spaces: bytes = SPACES) -> Block:
    """Leave out records that are all white space, and a mark that begins the file with nothing behind it."""
    data, begins, ends = block.data, block.begins, block.ends
    suspects = np.flatnonzero(np.frombuffer(data, np.uint8)[begins] <= 32)
    blank = [place for place in suspects.tolist() if not data[begins[place] : ends[place]].strip(spaces)]
    if begins_file and data.startswith(BOM) and not data[len(BOM) : ends[0]].strip(SPACES):
        blank.insert(0, 0)
    if not blank:
        return block
    begins, ends, rows = (np.delete(each, blank) for each in (begins, ends, block.rows))
    commas = None if block.commas is None else np.delete(block.commas, blank)
    return replace(block, begins=begins, ends=ends, rows=rows, commas=commas)
