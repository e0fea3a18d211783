"""Files -> splits, the parts that are read one by one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dedup.files.formats.format import FilePart, InputFile, ask_each
from dedup.files.listing import Listing

MOST_SHARES = 4
"""Shares of a row group at most: each decodes the rows before its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Work of one task: a part of a file, or several small files whole, in the order of the listing."""

    parts: tuple[FilePart, ...]

    @property
    def size(self) -> int:
        """Bytes as stored, nearly."""
        return sum(part.size for part in self.parts)


def split_files(listing: Listing, split_bytes: int, cores: int = 1) -> list[Split]:
    """Cut the files into splits of about so many bytes, each row in exactly one.

    Splits of the input come first, as files do. Only files larger than that are opened. Row groups, record batches and
    stripes, lines of compressed files, and CSV (whose quotes may hide line ends) stay whole, but for row groups of
    parquet of more than a core's part of the input, of which several splits have a share.

    Raises
    ------
    DataError
        When a large file of a columnar format is damaged.
    """

    def cut(number: int, file: InputFile) -> list[FilePart]:
        return [*file.format.split(number, file, split_bytes)] if file.size > split_bytes else []

    splits: list[Split] = []
    small: list[FilePart] = []
    gathered = 0
    for (number, file), parts in zip(enumerate(listing.every), ask_each(listing.every, cut), strict=True):
        # No split has files of the input and others.
        if small and (number == len(listing.files) or (len(parts) < 2 and gathered + file.size > split_bytes)):
            splits.append(Split(parts=tuple(small)))
            small, gathered = [], 0
        if len(parts) > 1:
            splits.extend(Split(parts=(part,)) for part in parts)
            continue
        small.append(FilePart(file=number, size=file.size))
        gathered += file.size
    if small:
        splits.append(Split(parts=tuple(small)))
    shared = [each for split in splits for each in _share(split, listing, split_bytes, cores)]
    return sorted(shared, key=lambda split: (split.parts[0].file, split.parts[0].begin, split.parts[0].share))


def _share(split: Split, listing: Listing, split_bytes: int, cores: int) -> Iterator[Split]:
    """Yield a split, or its shares if one core would read it long after the others have ended."""
    [part, *others] = split.parts
    # A quarter more than others have is not worth it.
    count = min(math.ceil(split.size * cores / max(listing.size, 1) - 0.25), MOST_SHARES)
    if others or split.size <= split_bytes or count <= 1 or not listing.every[part.file].format.has_shares:
        yield split
        return
    for number in range(count):
        yield Split(parts=(replace(part, size=part.size // count, share=(number, count)),))
