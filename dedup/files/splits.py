"""Files -> splits, the parts that are read one by one."""

from dataclasses import dataclass

from dedup.files.formats.format import FilePart
from dedup.files.listing import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Work of one task: a part of a file, or several small files whole, in the order of the listing."""

    parts: tuple[FilePart, ...]

    @property
    def size(self) -> int:
        """Bytes as stored, nearly."""
        return sum(part.size for part in self.parts)


def split_files(listing: Listing, split_bytes: int) -> list[Split]:
    """Cut the files into splits of about so many bytes, each row in exactly one.

    Splits of the input come first, as files do. Only files larger than that are opened. Row groups, record batches and
    stripes, lines of compressed files, and CSV (whose quotes may hide line ends) stay whole.

    Raises
    ------
    DataError
        When a large file of a columnar format is damaged.
    """
    splits: list[Split] = []
    small: list[FilePart] = []
    gathered = 0
    for number, file in enumerate(listing.every):
        parts = list(file.format.split(number, file, split_bytes)) if file.size > split_bytes else []
        if len(parts) > 1:
            splits.extend(Split(parts=(part,)) for part in parts)
            continue
        if small and (gathered + file.size > split_bytes or number == len(listing.files)):
            splits.append(Split(parts=tuple(small)))
            small, gathered = [], 0
        small.append(FilePart(file=number, size=file.size))
        gathered += file.size
    if small:
        splits.append(Split(parts=tuple(small)))
    return sorted(splits, key=lambda split: (split.parts[0].file, split.parts[0].begin))
