"""Counts of shingles by their leading bits, and sets cut into rare and hot shingles."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.kernels import Hashes, Integers
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix


@compiled
def count_slots(shingles: Hashes, shift: np.uint64, most: int, counts: npt.NDArray[Any]) -> None:
    """Count the shingles of every slot, up to `most + 1`."""
    for shingle in shingles:
        slot = shingle >> shift
        if counts[slot] <= most:
            counts[slot] += 1


@compiled
def cut(
    shingles: Hashes,
    offsets: Integers,
    counts: npt.NDArray[Any],
    shift: np.uint64,
    most: int,
    lengths: Integers,
    hot: Integers,
    positions: Integers,
) -> int:
    """Shorten prefixes by the shingles that are alone in their slot, and count hot shingles.

    Fills in the positions of rare shingles that are not alone, where the prefix has room for them; returns how many.
    """
    count = 0
    for item in range(offsets.size - 1):
        alone, shared = 0, count
        for position in range(offsets[item], offsets[item + 1]):
            frequency = counts[shingles[position] >> shift]
            if frequency == 1:
                alone += 1
            elif frequency <= most:
                positions[shared] = position
                shared += 1
        lengths[item] -= alone
        hot[item] = offsets[item + 1] - offsets[item] - alone - (shared - count)
        if lengths[item] > 0:
            count = shared
    return count


@compiled
def mark(
    shingles: Hashes,
    offsets: Integers,
    counts: npt.NDArray[Any],
    shift: np.uint64,
    most: int,
    seeds: Hashes,
    chosen: Integers,
    marks: Hashes,
) -> None:
    """Sum up the hot shingles of the chosen items, mixed in two ways."""
    for number in range(chosen.size):
        first, second = np.uint64(0), np.uint64(0)
        for position in range(offsets[chosen[number]], offsets[chosen[number] + 1]):
            shingle = shingles[position]
            if counts[shingle >> shift] > most:
                first += mix(shingle ^ seeds[0])
                second += mix(shingle ^ seeds[1])
        marks[number, 0], marks[number, 1] = first, second
