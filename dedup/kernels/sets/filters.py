"""Filters of pairs before exact comparison, by the sizes of both sets and the estimate from their signatures."""

import numpy as np
import numpy.typing as npt

from dedup.kernels import Integers, loops
from dedup.kernels.sets import minhash

PAIRS_AT_A_TIME = 1 << 20
"""Pairs enumerated at once: bounds memory to about 100 MB, whatever the size of a bucket."""


def select_possible(left_sizes: Integers, right_sizes: Integers, threshold: float) -> Integers:
    """Return the positions of pairs whose sizes allow the threshold: Jaccard is at most the lesser over the greater."""
    least, greatest = np.minimum(left_sizes, right_sizes), np.maximum(left_sizes, right_sizes)
    return np.flatnonzero(least >= threshold * greatest * (1 - 1e-12))


def estimate_pairs(low: npt.NDArray[np.uint8], left: Integers, right: Integers) -> npt.NDArray[np.float64]:
    """Estimate pairs of rows of `low`, the low bytes of signatures: float64 [pairs]."""
    agreed = np.empty(left.size, dtype=np.int64)
    loops.pairs.count_agreed(low, left, right, agreed)
    return minhash.correct(agreed / low.shape[1])
