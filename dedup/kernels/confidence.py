"""Confidence intervals of a share."""

from dataclasses import dataclass

import numpy as np

from dedup.kernels import Integers

CONFIDENCE = 0.95
SIMILARITY_BINS = 20
"""Bins of similarity for recall, below that of identical sets."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share with its 95 % confidence interval; all None where nothing was counted."""

    count: int
    of: int
    share: float | None
    low: float | None
    high: float | None


def measure_share(counts: Integers, totals: Integers) -> Share:
    """Return a share with an interval that allows for families of dependent cases.

    The exact interval of Clopper and Pearson [1]_ takes single pairs for independent. Pairs of one family are found or
    missed together, so their number is first divided by the design effect of sampling whole families [2]_, where it
    can be told, that is, between 0 and 1. Few families tell their own variance badly: so it is corrected by the
    quantiles of Student's t, with as many degrees of freedom as families of equal size would have.

    Parameters
    ----------
    counts, totals : int64 [families]
        Cases counted in each family, and all its cases; families of one each give the plain interval.

    References
    ----------
    .. [1] C. J. Clopper, E. S. Pearson: The use of confidence or fiducial limits. Biometrika 26 (1934).
    .. [2] E. L. Korn, B. I. Graubard: Confidence intervals for proportions with small expected number of positive
       counts estimated from survey data. Survey Methodology 24 (1998).
    """
    from scipy.special import betaincinv, stdtrit

    count, total, families = int(counts.sum()), int(totals.sum()), int(np.count_nonzero(totals))
    if not total:
        return Share(0, 0, None, None, None)
    share, effective = count / total, float(total)
    if 0 < count < total and families > 1:
        residuals = counts - share * totals
        variance = families / (families - 1) * float(residuals @ residuals) / total**2
        if variance and share * (1 - share) / variance < effective:
            effective = share * (1 - share) / variance
            alike = total**2 / float(totals @ totals)
            wide, narrow = (stdtrit(max(freedom - 1, 1), (1 + CONFIDENCE) / 2) for freedom in (alike, effective))
            effective *= min(float(narrow / wide), 1.0) ** 2
    found, missed, tail = share * effective, (1 - share) * effective, (1 - CONFIDENCE) / 2
    low = float(betaincinv(found, missed + 1, tail)) if count else 0.0
    high = float(betaincinv(found + 1, missed, 1 - tail)) if count < total else 1.0
    return Share(count, total, share, low, high)


def bound_share(count: int, total: int) -> float:
    """Return an upper bound of a share that holds in 95 of 100 samples, of independent cases [1]_; 0 without any.

    References
    ----------
    .. [1] C. J. Clopper, E. S. Pearson: The use of confidence or fiducial limits. Biometrika 26 (1934).
    """
    if count == total:
        return float(total > 0)
    from scipy.special import betaincinv

    return float(betaincinv(count + 1, total - count, CONFIDENCE))
