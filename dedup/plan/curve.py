"""S-curve of the search: the probability that pairs are found by similarity, and the crossing of two targets."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaln

from dedup.kernels import Floats
from dedup.kernels.curve import least_estimate

MOST_ROWS = 1e4
"""Most rows for which the crossing of two targets is searched."""


def compared(similarities: Floats, bands: int, rows: int, threshold: float, sigmas: float, *, bits: int = 8) -> Floats:
    """Return the probability that pairs share a bucket and pass the estimate filter, and so are compared exactly.

    Both depend on the same rows. The number of rows that agree in their stored bits has the generating function
    (q x + 1 - q)^size with q = J + (1 - J) / 2^bits; without pairs that agree in all rows of a band it is
    ((q x + 1 - q)^rows - (J x)^rows)^bands. The difference, expanded by a Fourier transform, is summed from the floor.

    Parameters
    ----------
    similarities : float64 [n]
    sigmas
        Standard errors of the estimate filter.
    bits
        Bits stored of a row.

    Returns
    -------
    float64 [n]
        For independent rows, which those of `minhash.sign` are nearly.
    """
    size = bands * rows
    floor, chance = least_estimate(threshold, size, sigmas, bits), 2.0**-bits
    least = max(math.ceil(size * (floor * (1 - chance) + chance) - 1e-9), 0)
    # A real polynomial: half of the roots of unity tell all its coefficients.
    roots = np.exp(-2j * np.pi * np.arange((size + 1) // 2 + 1) / (size + 1))
    similarities = np.asarray(similarities, dtype=np.float64)[:, None]
    agree = similarities + (1 - similarities) * chance
    row = _power(agree * roots + 1 - agree, rows)
    parted = _power(row - _power(similarities * roots, rows), bands)
    counts = np.fft.irfft(_power(row, bands) - parted, n=size + 1, axis=1)
    passed: Floats = np.clip(counts[:, least:].sum(axis=1), 0, None)
    return passed


def _power(base: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """Return base^exponent by squaring, 20 times faster than NumPy's power of complex numbers."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        base, exponent = base * base, exponent >> 1
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Point where the fewest bands for a recall are the most for a share of candidates; not whole numbers."""

    bands: float
    rows: float


def cross(recall: float, high: float, share: float, low: float) -> Crossing | None:
    """Return the bands and rows whose curve is `recall` at `high` and `share` at `low`; None without such.

    With rows r the recall needs log(1 - recall) / log(1 - high^r) bands and the share allows
    log(1 - share) / log(1 - low^r); their quotient grows with r without end if low < high and share < recall, so it is
    1 at one r. Integers meet both targets from there on, up to rounding.
    """
    if not (0 < low < high < 1 and 0 < share < recall < 1):
        return None

    def needed(rows: float) -> float:
        return math.log1p(-recall) / math.log1p(-(high**rows))

    def excess(rows: float) -> float:
        allowed = math.log(-math.log1p(-share)) - math.log(-math.log1p(-(low**rows)))
        return allowed - math.log(needed(rows))

    # Beyond it low^rows is no number any more.
    most = min(MOST_ROWS, -700 / math.log(low))
    if excess(most) < 0:
        return None
    from scipy.optimize import brentq  # noqa: PLC0415 - a fifth of the start of every job, of which few ask for this

    rows = brentq(excess, 1e-6, most)
    return Crossing(bands=needed(rows), rows=rows)


def integral_optimum(threshold: float, size: int, *, below: float = 0.5, above: float = 0.5) -> tuple[int, int]:
    """Return the bands and rows, at most `size` values, that datasketch chooses for a threshold.

    They minimise `below` times the integral of P from 0 to the threshold plus `above` times that of 1 - P from there to
    1 (datasketch, lsh.py, `_optimal_param`), both as incomplete beta functions: with u = s^r the integral of
    (1 - s^r)^b from 0 to t is B(1/r, b + 1) I_{t^r}(1/r, b + 1) / r.

    Parameters
    ----------
    size
        Most MinHash values of a signature.
    """
    rows = np.concatenate([np.full(size // row, row) for row in range(1, size + 1)]).astype(np.float64)
    bands = np.concatenate([np.arange(1, size // row + 1) for row in range(1, size + 1)]).astype(np.float64)
    whole = np.exp(betaln(1 / rows, bands + 1)) / rows
    missed = whole * betainc(1 / rows, bands + 1, threshold**rows)
    errors = below * (threshold - missed) + above * (whole - missed)
    # Of equal errors the fewest bands, as in its loop; rounding must not decide.
    order = np.lexsort((rows, bands))
    best = order[np.argmin(np.round(errors[order], 12))]
    return int(bands[best]), int(rows[best])
