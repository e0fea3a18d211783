"""Prefixes of sets, the keys of exact mode in place of band keys."""

import numpy as np

from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.shared import find_shared

ROUNDING = 1e-9
"""Tolerance that keeps a product such as 0.8 x 5 = 4.000000000000001 from asking for one element too many."""


def select_prefixes(
    shingles: Hashes, offsets: Integers, copies: Integers, threshold: float
) -> tuple[Hashes, Integers, int]:
    """Return the shared shingles in the prefix of every set, and the set of each.

    Two sets with Jaccard at least t share one of the first `n - ceil(t n) + 1` shingles of each, in any one order of
    all shingles: rarest first makes the fewest pairs [1]_. A shingle of one row only shares nothing, so it takes its
    place in the prefix and is not returned.

    Parameters
    ----------
    shingles : uint64 [shingles]
        Ascending and distinct within a set.
    offsets : int64 [sets + 1]
    copies : int64 [sets]
        Number of equal rows with the set. Each counts: a shingle of these rows alone is shared, and stands in their
        prefix once for each row.

    Returns
    -------
    prefixes : uint64 [entries]
    owners : int64 [entries]
        Ascending.
    rows
        Entries, those of equal rows counted one by one.

    References
    ----------
    .. [1] S. Chaudhuri, V. Ganti, R. Kaushik: A primitive operator for similarity joins in data cleaning. ICDE 2006;
       R. J. Bayardo, Y. Ma, R. Srikant: Scaling up all pairs similarity search. WWW 2007.
    """
    sizes = np.diff(offsets)
    positions = find_shared(shingles)
    if (copies > 1).any():
        of_copies = np.flatnonzero(np.repeat(copies > 1, sizes))
        positions = np.union1d(positions, of_copies)
    values, owners = shingles[positions], np.searchsorted(offsets, positions, side="right") - 1
    frequencies = _count(values, copies[owners])
    shared = frequencies > 1
    values, owners, frequencies = values[shared], owners[shared], frequencies[shared]
    order = np.lexsort((values.view(np.int64), frequencies, owners))
    found = np.bincount(owners, minlength=sizes.size)
    lengths = sizes - np.ceil(threshold * sizes - ROUNDING).astype(np.int64) + 1
    taken = np.clip(lengths - (sizes - found * copies), 0, found * copies)
    rank = np.arange(order.size) - np.repeat(np.cumsum(found) - found, found)
    order = order[rank * copies[owners] < taken[owners]]
    return values[order], owners[order], int(taken.sum())


def _count(values: Hashes, weights: Integers) -> Integers:
    """Sum for every value the weights of all equal values."""
    order = np.argsort(values)
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: ordered.size])
    counts = np.empty_like(order)
    if starts.size:
        counts[order] = np.repeat(np.add.reduceat(weights[order], starts), np.diff(np.append(starts, order.size)))
    return counts
