"""Bounds of runs of equal values in sorted columns, and positions of rows in their run."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.kernels import Flags, Integers

Column = npt.NDArray[Any]


def mark_firsts(*columns: Column) -> Flags:
    """Flag the rows that differ from the row before; bool [n].

    Parameters
    ----------
    columns : [n] each, at least one
        Equal rows lie side by side.
    """
    firsts = np.ones(columns[0].size, dtype=bool)
    np.not_equal(columns[0][1:], columns[0][:-1], out=firsts[1:])
    for column in columns[1:]:
        firsts[1:] |= column[1:] != column[:-1]
    return firsts


def mark_repeated(*columns: Column) -> Flags:
    """Flag the rows in a run of two or more; bool [n]."""
    firsts = mark_firsts(*columns)
    return ~(firsts & np.append(firsts[1:], True)) if firsts.size else firsts


def find_bounds(*columns: Column) -> Integers:
    """Return the first row of every run, and at the end the number of rows; int64 [runs + 1].

    Examples
    --------
    >>> find_bounds(np.array([3, 3, 5])).tolist()
    [0, 2, 3]
    """
    return np.append(np.flatnonzero(mark_firsts(*columns)), columns[0].size)


def rank(*columns: Column) -> Integers:
    """Count the rows before each row in its run; int64 [n]."""
    bounds = find_bounds(*columns)
    return np.arange(columns[0].size) - np.repeat(bounds[:-1], np.diff(bounds))
