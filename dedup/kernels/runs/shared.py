"""Numbers that occur more than once, found without sorting all."""

import numpy as np

from dedup.kernels import Hashes, Integers, loops

SPARSITY = 3
"""Bits by which the places of a table outnumber the numbers: one number in ten finds its place taken by another."""


def find_shared(numbers: Hashes) -> Integers:
    """Return the positions of all numbers that occur more than once, and of few others, ascending.

    Parameters
    ----------
    numbers : uint64 [n]
        Hashes: their leading bits are random.

    Returns
    -------
    int64 [positions]
        All shared numbers and, of hashes, at most a tenth of the others.
    """
    bits = max(int(numbers.size).bit_length() + SPARSITY, 6)
    shift = np.uint64(64 - bits)
    seen, again = (np.zeros(1 << bits - 6, dtype=np.uint64) for _ in range(2))
    positions = np.empty(loops.pairs.mark(numbers, shift, seen, again), dtype=np.int64)
    loops.pairs.select(numbers, shift, again, positions)
    return positions
