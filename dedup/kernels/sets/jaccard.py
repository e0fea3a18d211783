"""Exact Jaccard similarity of shingle sets."""

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dedup.kernels import Flags, Hashes, Integers, compiled
from dedup.kernels.curve import NEAR_MISS
from dedup.kernels.runs.bounds import rank

CHUNK = 1 << 22
"""Elements of the left and right sets compared at a time: bounds memory to about 100 MB."""
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
    """Return |A and B| of pairs of sets, given as to `jaccard`: int64 [pairs]."""
    shared = np.empty(left.size, dtype=np.int64)
    if compiled.AVAILABLE:
        from dedup.kernels.loops import sets

        sets.count_shared(shingles, offsets, left, right, shared)
    else:
        _count_shared(shingles, offsets, left, right, shared)
    return shared


def bin_similarities(similarities: npt.NDArray[np.float64]) -> Integers:
    """Return which of BINS each similarity falls into: int64 [pairs]."""
    # A bound is the double nearest to it, and so is a similarity that equals it.
    return np.searchsorted(np.arange(1, BINS) / BINS, similarities, side="right")


def find_near_misses(left: Integers, right: Integers, similarities: npt.NDArray[np.float64], threshold: float) -> Flags:
    """Tell which pairs are near misses: at most NEAR_MISS below the threshold, and of the CLOSEST of either document.

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


def _count_shared(shingles: Hashes, offsets: Integers, left: Integers, right: Integers, shared: Integers) -> None:
    """Count what pairs of sets have in common.

    Every set becomes a row of a sparse matrix; the counts of all pairs are then one element-wise product, a compiled
    merge that costs a few nanoseconds per element.
    """
    sizes = np.diff(offsets)
    distinct, columns = np.unique(shingles, return_inverse=True)
    matrix = sparse.csr_array(
        (np.ones(shingles.size, dtype=np.int32), columns, offsets), shape=(sizes.size, max(distinct.size, 1))
    )
    work = np.cumsum(sizes[left] + sizes[right])
    start = 0
    while start < left.size:
        spent = work[start - 1] if start else 0
        end = max(int(np.searchsorted(work, spent + CHUNK, side="right")), start + 1)
        shared[start:end] = (matrix[left[start:end]] * matrix[right[start:end]]).sum(axis=1)
        start = end
