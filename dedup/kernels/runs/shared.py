"""Numbers that occur more than once, found without sorting the many that do not."""

import numpy as np

from dedup.kernels import Hashes, Integers, compiled

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
    int64 [shared and a tenth of the others at most, for hashes]
    """
    if not compiled.AVAILABLE:
        return _find_shared(numbers)
    from dedup.kernels.loops import pairs as loops

    bits = max(int(numbers.size).bit_length() + SPARSITY, 6)
    shift = np.uint64(64 - bits)
    seen, again = (np.zeros(1 << bits - 6, dtype=np.uint64) for _ in range(2))
    positions = np.empty(loops.mark(numbers, shift, seen, again), dtype=np.int64)
    loops.select(numbers, shift, again, positions)
    return positions


def _find_shared(numbers: Hashes) -> Integers:
    """Sort the leading bits with positions in place of the others: several times faster than to sort positions."""
    below = np.uint64((1 << numbers.size.bit_length()) - 1)
    ordered = np.sort((numbers & ~below) | np.arange(numbers.size, dtype=np.uint64))
    same = (ordered[1:] & ~below) == (ordered[:-1] & ~below)
    shared = np.append(same, np.zeros(min(ordered.size, 1), dtype=bool))
    shared[1:] |= same
    return np.sort((ordered[shared] & below).astype(np.int64))
