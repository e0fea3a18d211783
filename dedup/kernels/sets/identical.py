"""Documents of equal shingle sets, and ids that several rows have."""

import numpy as np

from dedup.kernels import Integers
from dedup.kernels.runs.bounds import mark_firsts, mark_repeated


def find_identical(high: Integers, low: Integers, doc_ids: Integers) -> tuple[Integers, Integers]:
    """Return every document that shares its digest with one of lesser id, and the least of these ids.

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
    order = order[mark_repeated(high[order])]
    order = order[np.lexsort((doc_ids[order], low[order], high[order]))]
    high, low, doc_ids = high[order], low[order], doc_ids[order]
    first = mark_firsts(high, low)
    set_ids = doc_ids[np.flatnonzero(first)][np.cumsum(first) - 1] if order.size else doc_ids
    copies = (doc_ids != set_ids) & mark_firsts(doc_ids)
    return doc_ids[copies], set_ids[copies]


def find_repeated(doc_ids: Integers) -> Integers:
    """Return the ids that occur more than once, ascending."""
    ordered = np.sort(doc_ids)
    return np.unique(ordered[mark_repeated(ordered)])
