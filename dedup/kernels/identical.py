"""Documents of one shingle set, and ids of several rows."""

import numpy as np

from dedup.kernels import Flags, Integers


def find_identical(high: Integers, low: Integers, doc_ids: Integers) -> tuple[Integers, Integers]:
    """Return every document whose digest is that of another with a lesser id, and the least of those ids.

    Parameters
    ----------
    high, low : int64 [n]
        Halves of the digest.
    doc_ids : int64 [n]
        The same row twice counts once.

    Returns
    -------
    doc_ids, set_ids : int64 [copies]
    """
    order = np.argsort(high)
    order = order[_neighbours(high[order])]
    order = order[np.lexsort((doc_ids[order], low[order], high[order]))]
    high, low, doc_ids = high[order], low[order], doc_ids[order]
    first = np.ones(order.size, dtype=bool)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    set_ids = doc_ids[np.flatnonzero(first)][np.cumsum(first) - 1] if order.size else doc_ids
    copies = doc_ids != set_ids
    copies[1:] &= doc_ids[1:] != doc_ids[:-1]
    return doc_ids[copies], set_ids[copies]


def find_repeated(doc_ids: Integers) -> tuple[Integers, Integers]:
    """Return the ids that occur more than once, ascending, and how often."""
    ordered = np.sort(doc_ids)
    found, counts = np.unique(ordered[_neighbours(ordered)], return_counts=True)
    return found, counts


def _neighbours(ordered: Integers) -> Flags:
    """Tell which of ascending numbers equal a neighbour."""
    same = ordered[1:] == ordered[:-1]
    found = np.zeros(ordered.size, dtype=bool)
    found[1:] |= same
    found[:-1] |= same
    return found
