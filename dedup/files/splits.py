"""Files -> splits, the parts that are read one by one."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from dedup.files.listing import COMPRESSIBLE, File, Listing
from dedup.files.records import damaged
from dedup.files.tables import Parquet, open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A range of one file."""

    file: int
    """Its number in the listing."""
    begin: int = 0
    """First row group, record batch or stripe; of lines, the first byte."""
    end: int | None = None
    """End, exclusive; None for the whole file."""
    first_row: int = 0
    """Number of the first row of a row group, record batch or stripe."""
    size: int
    """Bytes as stored, nearly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Work of one task: a part of a file, or several small files whole, in the order of the listing."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes as stored, nearly."""
        return sum(part.size for part in self.parts)


def cut(listing: Listing, split_bytes: int) -> list[Split]:
    """Cut the files into splits of about so many bytes, each row in exactly one.

    Only files larger than that are opened. Row groups, record batches and stripes, lines of compressed files, and CSV
    (whose quotes may hide line ends) stay whole.

    Raises
    ------
    DataError
        When a large file of a columnar format is damaged.
    """
    splits: list[Split] = []
    small: list[Part] = []
    gathered = 0
    for number, file in enumerate(listing.files):
        parts = list(_cut_file(number, file, split_bytes)) if file.size > split_bytes else []
        if len(parts) > 1:
            splits.extend(Split(parts=(part,)) for part in parts)
            continue
        if small and gathered + file.size > split_bytes:
            splits.append(Split(parts=tuple(small)))
            small, gathered = [], 0
        small.append(Part(file=number, size=file.size))
        gathered += file.size
    if small:
        splits.append(Split(parts=tuple(small)))
    return sorted(splits, key=lambda split: (split.parts[0].file, split.parts[0].begin))


def _cut_file(number: int, file: File, split_bytes: int) -> Iterator[Part]:
    if file.format == "jsonl" and file.compression is None:
        for begin in range(0, file.size, split_bytes):
            end = min(begin + split_bytes, file.size)
            yield Part(file=number, begin=begin, end=end, size=end - begin)
    elif file.format not in COMPRESSIBLE:
        yield from _cut_table(number, file, split_bytes)


def _cut_table(number: int, file: File, split_bytes: int) -> Iterator[Part]:
    with damaged(file):
        table = open_table(file)
        counts = table.count_rows()
        if counts is None:
            return
        sizes = [file.size / max(len(counts), 1)] * len(counts)
        if isinstance(table, Parquet):
            sizes = [table.stored_bytes(unit) for unit in range(len(counts))]
    first_rows = [0, *itertools.accumulate(counts)]
    begin = 0
    for unit in range(len(counts)):
        size = sum(sizes[begin : unit + 1])
        if unit + 1 == len(counts) or size + sizes[unit + 1] > split_bytes:
            yield Part(file=number, begin=begin, end=unit + 1, first_row=first_rows[begin], size=int(size))
            begin = unit + 1
