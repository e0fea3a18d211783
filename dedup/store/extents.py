"""Values of a column of a parquet file, read one by one from their places instead of with all of their group.

In a page without compression and dictionary, values of bytes lie one after another up to its end, each behind its
length in four bytes (encoding PLAIN of the parquet format). So where each group is one page, the sizes of all values
tell where each lies.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.kernels import Integers
from dedup.kernels.runs.bounds import find_bounds
from dedup.store.arrays import list_ranges

PAGE_BYTES = 1 << 30
"""Bytes of a column from which on a writer may begin another page in a group."""
SIZES = b"dedup.sizes"
"""Metadata of a file: the sizes of the values that are read apart, as `pack_sizes` has them."""
SIZE_TYPE = np.dtype("<u4")
LENGTH_BYTES = 4
GAP_BYTES = 1 << 14
"""Bytes between two values that are read with them at most, instead of by one more read."""
PART_BYTES = 1 << 26
"""Bytes of values that become one array, about."""
ReadRanges: TypeAlias = Callable[[Sequence[tuple[int, int]]], Sequence[bytes]]
"""Returns the bytes of a file from a place to another, of each range."""


@dataclass(frozen=True, slots=True, eq=False)
class Extents:
    """Bytes of a file that the values of a column lie in."""

    metadata: pq.FileMetaData
    column: int
    sizes: Integers
    """Sizes of the values, in bytes."""
    ends: Integers
    """Ends of the values, and 0 before, if all lay one after another."""
    bounds: Integers
    """First row of each group, and the number of all."""

    @classmethod
    def of(cls, metadata: pq.FileMetaData, column: str) -> Self | None:
        """Return the extents of a column, each group of which is one page; None of a file that does not tell."""
        if (packed := metadata.metadata.get(SIZES)) is None:
            return None
        unpacked = pa.decompress(base64.b64decode(packed), SIZE_TYPE.itemsize * metadata.num_rows, codec="zstd")
        sizes = np.frombuffer(unpacked, SIZE_TYPE).astype(np.int64)
        rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        ends, bounds = (np.concatenate([[0], np.cumsum(each)]) for each in (sizes + LENGTH_BYTES, rows))
        return cls(metadata, metadata.schema.names.index(column), sizes, ends, bounds)

    def locate(self, groups: Integers, taken: Integers) -> tuple[Integers, Integers]:
        """Return the first byte and the size of some values of groups, by their places in these."""
        counts = self.bounds[groups + 1] - self.bounds[groups]
        chunks = (self.metadata.row_group(number).column(self.column) for number in groups.tolist())
        ends = np.array([chunk.data_page_offset + chunk.total_compressed_size for chunk in chunks])
        rows = list_ranges(self.bounds[groups], counts)[taken]
        shifts = np.repeat(ends - self.ends[self.bounds[groups + 1]], counts)[taken]
        return shifts + self.ends[rows] + LENGTH_BYTES, self.sizes[rows]


def pack_sizes(sizes: Sequence[Integers]) -> str:
    """Return the sizes of values, in bytes, as text."""
    packed = pa.compress(np.concatenate(sizes).astype(SIZE_TYPE).tobytes(), codec="zstd", asbytes=True)
    return base64.b64encode(packed).decode()


def read_values(read: ReadRanges, begins: Integers, sizes: Integers) -> Iterator[pa.BinaryArray]:
    """Yield the values that begin at some bytes of a file, which ascend, and are of these sizes, in parts.

    Raises
    ------
    ValueError
        When a value does not lie where it should.
    """
    part = np.cumsum(sizes) // PART_BYTES
    for begin, end in pairwise(find_bounds(part).tolist()):
        yield _read_part(read, begins[begin:end] - LENGTH_BYTES, sizes[begin:end])


def _read_part(read: ReadRanges, begins: Integers, sizes: Integers) -> pa.BinaryArray:
    """Return values by where their lengths begin."""
    ends = begins + LENGTH_BYTES + sizes
    runs = [*pairwise([0, *(np.flatnonzero(begins[1:] - ends[:-1] > GAP_BYTES) + 1).tolist(), begins.size])]
    found = read([(int(begins[first]), int(ends[end - 1])) for first, end in runs])
    values = [
        value
        for (first, end), content in zip(runs, found, strict=True)
        for value in _cut(content, begins[first:end] - begins[first], sizes[first:end])
    ]
    offsets = pa.py_buffer(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), [None, offsets, pa.py_buffer(b"".join(values))])


def _cut(content: bytes, begins: Integers, sizes: Integers) -> Iterator[memoryview]:
    view = memoryview(content)
    for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True):
        first = begin + LENGTH_BYTES
        if int.from_bytes(view[begin:first], "little") != size:
            raise ValueError("a value does not lie where its size puts it: the file was changed, or is damaged")
        yield view[first : first + size]
