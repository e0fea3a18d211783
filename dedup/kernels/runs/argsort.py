"""Order of many keys, found by sorting numbers instead of places."""

from collections.abc import Iterable, Iterator

import numpy as np

from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.bounds import mark_firsts

BITS = 64
FEW = 1 << 12
"""Rows up to which NumPy's own sorts are as fast."""
PART_ROWS = 1 << 16
"""Rows that are worked on at a time: in the caches, without fresh memory for each step."""


def argsort(keys: Iterable[Integers]) -> Integers:
    """Return the places of rows in their ascending order, int64 [rows]; equal rows stay as they are.

    Numbers of 64 bits are sorted with vector instructions, an order of them is not. So numbers are sorted that hold the
    leading bits of keys and, below, the places; only keys that differ in no leading bit are put in order once more.

    Parameters
    ----------
    keys : int64 [rows] each, at least one
        The first counts most. Each is asked for when those before are no longer needed.
    """
    keys = iter(keys)
    first = next(keys)
    if first.size < FEW:
        return np.lexsort([first, *keys][::-1])
    numbers, width = _begin_at_zero(first)
    del first
    for key in keys:
        lesser, below = _begin_at_zero(key)
        del key
        if width + below > BITS:
            numbers, width = _rank(numbers, width)
        if width + below > BITS:
            lesser, below = _rank(lesser, below)
        numbers <<= np.uint64(below)
        numbers |= lesser
        width += below
    return _argsort(numbers, width)


def _begin_at_zero(key: Integers) -> tuple[Hashes, int]:
    """Return keys less the least of them, and the bits that these take."""
    least, most = int(key.min()), int(key.max())
    # Differences may exceed what int64 holds.
    return key.view(np.uint64) - np.array(least).view(np.uint64), (most - least).bit_length()


def _rank(numbers: Hashes, width: int) -> tuple[Hashes, int]:
    """Return how many distinct lesser ones each number has, and the bits that this takes."""
    order = _argsort(numbers, width)
    ranks = np.cumsum(mark_firsts(numbers[order])) - 1
    width = int(ranks[-1]).bit_length()
    numbers[order] = ranks
    return numbers, width


def _argsort(numbers: Hashes, width: int) -> Integers:
    """Return the order of numbers of so many bits."""
    below = np.uint64((numbers.size - 1).bit_length())
    hidden = np.uint64(max(width + int(below) - BITS, 0))
    packed = np.empty_like(numbers)
    for part in _list_parts(numbers.size):
        packed[part] = numbers[part] >> hidden << below | np.arange(part.start, part.stop, dtype=np.uint64)
    packed.sort()
    alike = _find_alike(packed, below) if hidden else None
    packed &= (np.uint64(1) << below) - np.uint64(1)
    order: Integers = packed.view(np.int64)
    if alike is not None:
        _order_hidden(order, alike, numbers, hidden)
    return order


def _find_alike(packed: Hashes, below: np.uint64) -> Integers:
    """Return where numbers stand that share their leading bits with another."""
    is_alike = np.zeros(packed.size, dtype=bool)
    for part in _list_parts(packed.size):
        leads = packed[part.start : part.stop + 1] >> below
        same = leads[1:] == leads[:-1]
        is_alike[part.start : part.start + same.size] |= same
        is_alike[part.start + 1 : part.start + 1 + same.size] |= same
    return np.flatnonzero(is_alike)


def _order_hidden(order: Integers, among: Integers, numbers: Hashes, hidden: np.uint64) -> None:
    """Put those numbers in order that may differ in the last bits alone."""
    ordered = numbers[order[among]]
    late = np.flatnonzero(ordered[1:] < ordered[:-1])
    if late.size:
        groups = np.cumsum(mark_firsts(ordered >> hidden))
        is_late = np.zeros(groups[-1] + 1, dtype=bool)
        is_late[groups[late]] = True
        among = among[is_late[groups]]
        own = order[among]
        order[among] = own[np.argsort(numbers[own], kind="stable")]


def _list_parts(rows: int) -> Iterator[slice]:
    for begin in range(0, rows, PART_ROWS):
        yield slice(begin, min(begin + PART_ROWS, rows))
