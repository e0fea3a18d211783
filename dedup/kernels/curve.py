"""The S-curve of banding and the errors of an estimate from signatures, of one similarity or an array of them."""

import math
from typing import overload

import numpy as np

from dedup.kernels import Floats

NEAR_MISS = 0.2
"""Width of the band below the threshold whose pairs are near misses."""


@overload
def probability(jaccard: float, bands: float, rows: float) -> float: ...
@overload
def probability(jaccard: Floats, bands: float | Floats, rows: float | Floats) -> Floats: ...
@overload
def probability(jaccard: float, bands: Floats, rows: Floats) -> Floats: ...


def probability(jaccard: float | Floats, bands: float | Floats, rows: float | Floats) -> float | Floats:
    """Return the probability that two documents share a bucket: 1 - (1 - J^rows)^bands, exact also where it is tiny.

    The formula takes rows for independent. Those of small sets repel each other a little, which makes the curve
    steeper: by .01 at most for 21 bands of 6 rows (tests/exercise.py).

    Parameters
    ----------
    jaccard
        0 to 1.
    bands, rows
        Above 0; they need not be whole. Arrays broadcast.

    Examples
    --------
    >>> round(probability(0.8, bands=21, rows=6), 4)
    0.9983
    """
    with np.errstate(divide="ignore"):
        found = -np.expm1(bands * np.log1p(-(jaccard**rows)))
    return found if isinstance(found, np.ndarray) else float(found)


@overload
def standard_error(jaccard: float, size: int, bits: float = ...) -> float: ...
@overload
def standard_error(jaccard: Floats, size: int, bits: float = ...) -> Floats: ...


def standard_error(jaccard: float | Floats, size: int, bits: float = math.inf) -> float | Floats:
    """Return the standard error of the estimate from the lowest bits of `size` independent permutations.

    A bound for signatures of `minhash.sign`: the square root of A (1 - A) / size, over 1 - 1 / 2^bits, where
    A = J + (1 - J) / 2^bits is the share of rows that agree. At a similarity of .8 it is half a per cent larger for
    bytes than for whole values, and half as large again for single bits.
    """
    chance = 2.0**-bits
    agreeing = jaccard + (1 - jaccard) * chance
    error = np.sqrt(agreeing * (1 - agreeing) / size) / (1 - chance)
    return error if isinstance(error, np.ndarray) else float(error)


def least_estimate(threshold: float, signature_size: int, sigmas: float, bits: int = 8) -> float:
    """Return the least estimate that a pair needs to be verified.

    It is so low that of pairs at the threshold, and so of any above it, no greater share is dropped than a normal
    distribution has so many standard errors below its mean: 3 in 100,000 at 4. The number of rows that agree in their
    stored bits is binomial; near 1 its tail is several times as heavy as the normal one.
    """
    from scipy.special import bdtr, ndtr

    chance = 2.0**-bits
    agreeing = threshold + (1 - threshold) * chance
    below = bdtr(np.arange(signature_size), signature_size, agreeing)
    # Between two numbers of rows, so that rounding decides nothing.
    share = (np.count_nonzero(below < ndtr(-sigmas)) - 0.5) / signature_size
    return float((share - chance) / (1 - chance))
