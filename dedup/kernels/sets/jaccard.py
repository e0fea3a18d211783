"""Exact Jaccard similarity of shingle sets."""

import numpy as np
import numpy.typing as npt

from dedup.kernels import Flags, Hashes, Integers, loops
from dedup.kernels.curve import NEAR_MISS
from dedup.kernels.runs.bounds import rank

CLOSEST = 3
"""Near misses kept for one document."""
BINS = 20
"""Bins of equal width in the histogram of similarities, from 0 to 1; the last includes its upper bound."""


def jaccard(shingles: Hashes, offsets: Integers, left: Integers, right: Integers) -> npt.NDArray[np.float64]:
    """Return |A and B| / |A or B| of pairs of sets.

    Parameters
    ----------
    shingles : uint64 [shingles]
        Ascending and distinct within a set.
    offsets : int64 [sets + 1]
        Set i is `shingles[offsets[i]:offsets[i + 1]]`.
    left, right : int64 [pairs]
        Numbers of sets; both empty counts as 0.

    Returns
    -------
    float64 [pairs]
    """
    sizes = np.diff(offsets)
    shared = count_shared(shingles, offsets, left, right)
    union = sizes[left] + sizes[right] - shared
    return shared / np.maximum(union, 1)


def count_shared(shingles: Hashes, offsets: Integers, left: Integers, right: Integers) -> Integers:
    """Return |A and B| of pairs of sets, given as to `jaccard`; int64 [pairs]."""
    shared = np.empty(left.size, dtype=np.int64)
    loops.sets.count_shared(shingles, offsets, left, right, shared)
    return shared


def bin_similarities(similarities: npt.NDArray[np.float64]) -> Integers:
    """Return the bin of each similarity, one of BINS; int64 [pairs]."""
    # A bound is the double nearest to it, and so is a similarity that equals it.
    return np.searchsorted(np.arange(1, BINS) / BINS, similarities, side="right")


def find_near_misses(left: Integers, right: Integers, similarities: npt.NDArray[np.float64], threshold: float) -> Flags:
    """Flag near misses: pairs at most NEAR_MISS below the threshold, among the CLOSEST of either document.

    At most CLOSEST times as many as there are documents. Of equally similar pairs the first are closest.

    Parameters
    ----------
    left, right : int64 [pairs]
        Distinct pairs.
    similarities : float64 [pairs]

    Returns
    -------
    bool [pairs]
    """
    below = np.flatnonzero((similarities < threshold) & (similarities >= threshold - NEAR_MISS))
    ends, pairs = np.concatenate((left[below], right[below])), np.tile(below, 2)
    order = np.lexsort((pairs, -similarities[pairs], ends))
    near_misses = np.zeros(left.size, dtype=bool)
    near_misses[pairs[order[rank(ends[order]) < CLOSEST]]] = True
    return near_misses
