"""Shingles counted by their leading bits, and sets cut into what is rare and what is hot."""

import numpy as np

from dedup.kernels import Hashes, Integers
from dedup.kernels.loops import compiled
from dedup.kernels.loops.hashing import mix


@compiled
def count_slots(shingles: Hashes, shift: np.uint64, most: int, counts: Hashes) -> None:
    """Count in every slot, up to `most + 1`."""
    for shingle in shingles:
        slot = shingle >> shift
        if counts[slot] <= most:
            counts[slot] += 1


@compiled
def cut(
    shingles: Hashes,
    offsets: Integers,
    counts: Hashes,
    shift: np.uint64,
    most: int,
    seeds: Hashes,
    lengths: Integers,
    hot: Integers,
    marks: Hashes,
) -> int:
    """Take from the lengths of prefixes what is alone in its slot, fill in what is told of hot shingles.

    Returns how many rare shingles `collect` finds.
    """
    count = 0
    for item in range(offsets.size - 1):
        rare = 0
        first, second = np.uint64(0), np.uint64(0)
        for position in range(offsets[item], offsets[item + 1]):
            shingle = shingles[position]
            frequency = counts[shingle >> shift]
            if frequency > most:
                hot[item] += 1
                first += mix(shingle ^ seeds[0])
                second += mix(shingle ^ seeds[1])
            elif frequency == 1:
                lengths[item] -= 1
            else:
                rare += 1
        marks[item, 0], marks[item, 1] = first, second
        count += rare if lengths[item] > 0 else 0
    return count


@compiled
def collect(
    shingles: Hashes,
    offsets: Integers,
    counts: Hashes,
    shift: np.uint64,
    most: int,
    lengths: Integers,
    positions: Integers,
) -> None:
    """Fill in the positions of rare shingles that are not alone in their slot, where the prefix has room for them."""
    count = 0
    for item in range(offsets.size - 1):
        if lengths[item] > 0:
            for position in range(offsets[item], offsets[item + 1]):
                frequency = counts[shingles[position] >> shift]
                if 1 < frequency <= most:
                    positions[count] = position
                    count += 1
