"""Sorted arrays of numbers. NumPy's own functions of sets hash first, which takes ten times as long on millions."""

import numpy as np

from dedup.kernels import Flags, Integers
from dedup.kernels.sets.pairs import sort_distinct

NONE: Integers = np.empty(0, np.int64)


def distinct(*values: Integers) -> Integers:
    """Return the distinct numbers of arrays, ascending."""
    return sort_distinct(np.concatenate([each.reshape(-1) for each in values]))


def look_up(ordered: Integers, wanted: Integers) -> Integers:
    """Return where each value stands among ascending distinct ones, -1 where it is missing."""
    if not ordered.size:
        return np.full(wanted.size, -1)
    places = np.minimum(np.searchsorted(ordered, wanted), ordered.size - 1)
    found: Integers = np.where(ordered[places] == wanted, places, -1)
    return found


def is_in(values: Integers, ordered: Integers) -> Flags:
    """Tell which values are among ascending ones."""
    if not ordered.size:
        return np.zeros(values.shape, dtype=bool)
    found: Flags = ordered[np.minimum(np.searchsorted(ordered, values), ordered.size - 1)] == values
    return found


def list_ranges(firsts: Integers, counts: Integers) -> Integers:
    """Return the numbers of ranges, each of so many from its first."""
    ends = np.cumsum(counts)
    found: Integers = np.arange(int(ends[-1]) if ends.size else 0) + np.repeat(firsts - (ends - counts), counts)
    return found
