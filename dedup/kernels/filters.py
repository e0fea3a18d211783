"""What drops a pair before its exact comparison: the sizes of both sets, and the estimate from their signatures."""

import numpy as np
import numpy.typing as npt

from dedup.kernels import Integers, minhash

PAIRS_AT_A_TIME = 1 << 20
"""Pairs estimated at once, so that the gathered rows stay small."""


def select_possible(left_sizes: Integers, right_sizes: Integers, threshold: float) -> Integers:
    """Return the positions of pairs whose sizes allow the threshold: Jaccard is at most the lesser over the greater."""
    least, greatest = np.minimum(left_sizes, right_sizes), np.maximum(left_sizes, right_sizes)
    return np.flatnonzero(least >= threshold * greatest * (1 - 1e-12))


def least_estimate(threshold: float, signature_size: int, sigmas: float) -> float:
    """Return the estimate below which a pair is dropped, so many standard errors below the threshold."""
    return threshold - sigmas * minhash.standard_error(threshold, signature_size)


def estimate_pairs(low: npt.NDArray[np.uint8], left: Integers, right: Integers) -> npt.NDArray[np.float64]:
    """Estimate pairs of rows of `low`, the low bytes of signatures: float64 [pairs]."""
    step = PAIRS_AT_A_TIME
    parts = [
        minhash.estimate(low[left[start : start + step]], low[right[start : start + step]])
        for start in range(0, left.size, step)
    ]
    return np.concatenate(parts) if parts else np.empty(0)
