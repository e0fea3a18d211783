"""Numbers packed into binary cells of shuffled rows, and keys that route rows to partitions.

One row of Spark costs 40 bytes and a microsecond whatever it holds; a block of a thousand 16-byte pairs costs one row.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.kernels import Integers
from dedup.kernels.runs.bounds import find_bounds

MOST_BYTES = (1 << 31) - 1
"""Bytes of the cells of a binary array."""


def pack(*columns: npt.NDArray[np.generic]) -> bytes:
    """Return the bytes of contiguous columns of 8-byte numbers, all of one length, column after column."""
    return b"".join(column.view("<u8").data for column in columns)


def divide(targets: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each target that occurs, and its rows in ascending order."""
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    for start, end in pairwise(find_bounds(ordered).tolist()):
        yield int(ordered[start]), order[start:end]


def split(targets: Integers, *columns: npt.NDArray[np.generic]) -> Iterator[tuple[int, bytes]]:
    """Yield each target that occurs, with its rows packed."""
    for target, rows in divide(targets):
        yield target, pack(*(column[rows] for column in columns))


def lists(values: npt.NDArray[np.generic], offsets: Integers) -> pa.Array:
    """Return a binary array whose cell i holds the bytes of `values[offsets[i]:offsets[i + 1]]`.

    Raises
    ------
    pyarrow.ArrowInvalid
        When the bytes exceed the 2 GiB of a binary array.
    """
    positions = pa.array(offsets * values.itemsize, pa.int64()).cast(pa.int32())
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(), offsets.size - 1, [None, positions.buffers()[1], data])


def unlists(cells: pa.Array, dtype: str) -> tuple[npt.NDArray[Any], Integers]:
    """Undo `lists` of a binary array with offsets of 32 bits; return the values of all cells and their offsets."""
    itemsize = np.dtype(dtype).itemsize
    positions = np.frombuffer(cells.buffers()[1], dtype=np.int32)[cells.offset : cells.offset + len(cells) + 1]
    data = cells.buffers()[2]
    raw = np.frombuffer(data, dtype=np.uint8)[positions[0] : positions[-1]] if data is not None else np.empty(0, "u1")
    # A slice may begin anywhere, so copy to aligned memory.
    return np.frombuffer(raw.tobytes(), dtype=dtype), (positions - positions[0]).astype(np.int64) // itemsize


def rows(matrix: npt.NDArray[np.uint8]) -> pa.Array:
    """Return a binary array whose cell i holds row i of the matrix."""
    return lists(matrix.reshape(-1), np.arange(matrix.shape[0] + 1) * matrix.shape[1])


def unrows(cells: pa.Array) -> npt.NDArray[np.uint8]:
    """Undo `rows`: every cell has one length, which is lost without cells."""
    values, offsets = unlists(cells, "u1")
    return values.reshape(offsets.size - 1, values.size // max(offsets.size - 1, 1))


def routes(partitions: int) -> Integers:
    """Return for every partition the least int that Spark's hash partitioning sends there; int64 [partitions].

    Hashing partition numbers themselves would leave a third of the partitions empty and others with a double share.
    """
    found = np.full(partitions, -1, dtype=np.int64)
    candidate, missing = 0, partitions
    while missing:
        target = _murmur3(candidate) % partitions
        if found[target] < 0:
            found[target] = candidate
            missing -= 1
        candidate += 1
    return found


def _murmur3(number: int) -> int:
    """Return Spark's hash of a non-negative int: Murmur3_x86_32 with seed 42, as a signed number."""
    mask = 0xFFFFFFFF
    mixed = number * 0xCC9E2D51 & mask
    mixed = (mixed << 15 | mixed >> 17) & mask
    value = 42 ^ (mixed * 0x1B873593 & mask)
    value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & mask
    value ^= 4
    value = (value ^ value >> 16) * 0x85EBCA6B & mask
    value = (value ^ value >> 13) * 0xC2B2AE35 & mask
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value
