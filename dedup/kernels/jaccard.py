"""Exact Jaccard similarity of shingle sets."""

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dedup.kernels import Hashes, Integers, compiled

CHUNK = 1 << 22
"""Elements of the left and right sets compared at a time: bounds memory to about 100 MB."""


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
    shared = np.empty(left.size, dtype=np.int64)
    if compiled.AVAILABLE:
        compiled.count_shared(shingles, offsets, left, right, shared)
    else:
        _count_shared(shingles, offsets, left, right, shared)
    union = sizes[left] + sizes[right] - shared
    return shared / np.maximum(union, 1)


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
