"""Containment: the share of a set's elements that another set of at least its size has too.

All sets that have at least the share c of a set A are found without comparing all with all. Let m = ceil(c |A|), and P
be any |A| - m + 1 elements of A. A set B that has none of P has at most |A| - |P| = m - 1 elements of A, fewer than
c |A|. So whoever compares A with all sets that hold an element of P misses none: a prefix filter [1]_ on the side of A
alone, as it suits a measure that is not symmetric. Which elements P has is free: the rarest make the fewest pairs, and
those that no other set has make none.

References
----------
.. [1] S. Chaudhuri, V. Ganti, R. Kaushik: A primitive operator for similarity joins in data cleaning. ICDE 2006.
"""

from typing import NamedTuple

import numpy as np

from dedup.kernels import Flags, Integers
from dedup.kernels.runs.bounds import find_bounds, rank
from dedup.kernels.sets.exact import least_shared


def mark_prefixes(owners: Integers, sizes: Integers, threshold: float, least: int = 1) -> Flags:
    """Flag the elements of each set's prefix, by which it is paired.

    Parameters
    ----------
    owners : int64 [elements]
        Set of each element, in runs, the rarest element first; only elements that several sets have.
    sizes : int64 [elements]
        Size of that set.
    least
        Size of the smallest set that is paired.

    Returns
    -------
    bool [elements]
        Elements of one set alone, rarer than all of these, have taken places of the prefix before.
    """
    bounds = find_bounds(owners)
    shared = np.repeat(np.diff(bounds), np.diff(bounds))
    taken = sizes - least_shared(sizes, threshold) + 1 - (sizes - shared)
    marked: Flags = (rank(owners) < taken) & (sizes >= least)
    return marked


def pair_holders(keys: Integers, seeks: Flags, is_open: Flags) -> tuple[Integers, Integers]:
    """Pair every seeking holder of an element with the open holders before it.

    Parameters
    ----------
    keys : int64 [n]
        Element of each holder, in runs, the largest set first.
    seeks, is_open : bool [n]

    Returns
    -------
    ones, others : int64 [pairs]
        Positions.
    """
    opens = np.flatnonzero(is_open)
    before: Integers = np.cumsum(is_open) - is_open
    bounds = find_bounds(keys)
    firsts: Integers = np.repeat(before[bounds[:-1]], np.diff(bounds))
    counts = np.where(seeks, before - firsts, 0)
    ones = np.repeat(np.arange(keys.size), counts)
    return ones, opens[firsts[ones] + rank(ones)]


class Containers(NamedTuple):
    """Containers of n sets, as elected."""

    owners: Integers
    """Representative of each set; a kept set is its own."""
    edges: Integers
    """Edge to the representative; -1 for kept sets."""


def elect(left: Integers, right: Integers, sizes: Integers, ranks: Integers, fixed: Flags) -> Containers:
    """Choose the sets that go, each in favour of one that stays and contains it.

    Larger sets decide first, of equal sizes the first in rank: a set that one of those before it that stay contains
    goes, in favour of the first of these in rank. So no circle of sets removes them all, and none goes for the sake of
    one that is gone, which contains less of it than the threshold asks for.

    Parameters
    ----------
    left, right : int64 [edges]
        Positions of sets; the smaller of both is contained in the other, of equal sizes each in the other.
    sizes : int64 [n]
    ranks : int64 [n]
        Less is better; distinct.
    fixed : bool [n]
        Sets that stay whatever contains them.
    """
    order = np.lexsort((ranks, -sizes))
    turns = np.empty_like(order)
    turns[order] = np.arange(order.size)
    later = np.where(turns[left] > turns[right], left, right)
    earlier = left + right - later
    by_turn = np.lexsort((ranks[earlier], turns[later]))
    owners, edges = np.arange(sizes.size), np.full(sizes.size, -1)
    stays, stay = [True] * sizes.size, fixed.tolist()
    columns = (column[by_turn].tolist() for column in (later, earlier))
    for edge, one, other in zip(by_turn.tolist(), *columns, strict=True):
        # The first edge of a set to one that stays decides, and all of those have had their turn.
        if stays[one] and stays[other] and not stay[one]:
            stays[one] = False
            owners[one], edges[one] = other, edge
    return Containers(owners, edges)
