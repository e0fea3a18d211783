"""Repeated numbers, distinct pairs of buckets, and agreement of signatures."""

import numpy as np

from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.hashing import GOLDEN
from dedup.kernels.loops.compiler import compiled


@compiled
def mark(numbers: Hashes, shift: np.uint64, seen: Hashes, again: Hashes) -> None:
    """Mark the place of every number, and the places marked before."""
    for number in numbers:
        place = number >> shift
        bit = np.uint64(1) << (place & np.uint64(63))
        word = place >> np.uint64(6)
        if seen[word] & bit:
            again[word] |= bit
        else:
            seen[word] |= bit


@compiled
def select(numbers: Hashes, shift: np.uint64, again: Hashes, positions: Integers) -> int:
    """Fill in the positions of the numbers whose place is marked again; return their count."""
    count = 0
    for position in range(numbers.size):
        place = numbers[position] >> shift
        if again[place >> np.uint64(6)] >> (place & np.uint64(63)) & np.uint64(1):
            positions[count] = position
            count += 1
    return count


@compiled
def mark_places(numbers: Hashes, shift: np.uint64, table: Hashes) -> None:
    """Mark the place of every number in a table of bits."""
    for number in numbers:
        place = number * GOLDEN >> shift
        table[place >> np.uint64(6)] |= np.uint64(1) << (place & np.uint64(63))


@compiled
def test_places(numbers: Hashes, shift: np.uint64, table: Hashes, marked: Flags) -> None:
    """Flag the numbers whose place is marked."""
    for position in range(numbers.size):
        place = numbers[position] * GOLDEN >> shift
        marked[position] = table[place >> np.uint64(6)] >> (place & np.uint64(63)) & np.uint64(1)


@compiled
def count_agreed(low: Bytes, left: Integers, right: Integers, agreed: Integers) -> None:
    """Count the rows in which pairs of signatures agree."""
    for pair in range(left.size):
        one, other = left[pair], right[pair]
        count = np.uint32(0)
        for row in range(low.shape[1]):
            count += np.uint32(low[one, row] == low[other, row])
        agreed[pair] = count


@compiled
def join(
    members: Integers,
    offsets: Integers,
    steps: Integers,
    buckets: Integers,
    owned: Integers,
    marks: Integers,
    base: int,
    found: Integers,
) -> int:
    """Fill in the distinct pairs, those of one document together; return their count, even if `found` is empty.

    Parameters
    ----------
    members, steps
        As from `lsh.arrange`.
    buckets
        The bucket of every member.
    owned
        Positions in members, those of one document together.
    marks
        Takes `base` and the last document that was paired with each.
    """
    count = 0
    for entry in owned:
        own, bucket = members[entry], buckets[entry]
        begin, end = offsets[bucket], offsets[bucket + 1]
        mark = base + own
        # Every pair of a bucket without a cap has its lesser document first; round a circle it can come from either.
        first, last = entry + 1, end
        if steps[bucket]:
            first, last = entry - steps[bucket], entry + steps[bucket] + 1
        for place in range(first, last):
            other = members[begin + (place - begin) % (end - begin)] if steps[bucket] else members[place]
            if other > own and marks[other] != mark:
                marks[other] = mark
                if found.size:
                    found[count] = own << 32 | other
                count += 1
    return count
