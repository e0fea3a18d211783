"""Choice of the least cosine of duplicates: by labelled pairs, or by how near vectors have their nearest neighbours."""

import math

import numpy as np

from dedup.kernels import Flags, Floats

FEWEST = 20
"""Neighbours, or labelled pairs of either kind, from which a threshold is chosen."""
FARTHER = 0.1587
"""Quantile that tells, with the median, the spread of usual neighbours."""
FALSE_SHARE = 0.01
"""Most of the pairs at or above a threshold that may be no duplicates, by labels or by chance."""
REACHED = 0.05
"""Quantile of the cosines of labelled duplicates below which none is sought."""
STEPS = 1_000
"""Thresholds tried between 0 and 1."""


def choose_by_neighbours(cosines: Floats) -> float:
    """Return the cosine from which on a nearest neighbour is no usual one; 1 of few neighbours.

    Most documents have no duplicate. The cosines of their nearest neighbours, stretched by Fisher's transformation
    [1]_, are greatest values of many, whose distribution is Gumbel's [2]_. It is fitted to the median and to a quantile
    of the farther half, in which there are no duplicates. From the threshold on there are by chance at most a hundredth
    of the neighbours that are there, or half a one where the sample has none. Where more have a duplicate, or all are
    alike, the spread grows, and so does the threshold: the mistake is to remove too little.

    References
    ----------
    .. [1] R. A. Fisher: On the probable error of a coefficient of correlation. Metron 1 (1921).
    .. [2] E. J. Gumbel: Statistics of extremes. Columbia University Press (1958).
    """
    if cosines.size < FEWEST:
        return 1.0
    stretched = np.sort(np.arctanh(np.clip(cosines, -1 + 1e-9, 1 - 1e-9)))
    middle, farther = np.quantile(stretched, (0.5, FARTHER))
    scale = (middle - farther) / (math.log(-math.log(FARTHER)) - math.log(-math.log(0.5)))
    begin = middle + scale * math.log(-math.log(0.5))
    # The thresholds from which on so many of the sample are there, and none, or half a one.
    there = np.append(np.arange(stretched.size, 0, -1), 0.5)
    needed = begin - scale * np.log(-np.log1p(-FALSE_SHARE * there / stretched.size))
    ends = np.append(stretched, np.inf)
    # Least threshold that is needed and lets no more in than it is computed for.
    found = float(np.min(np.maximum(needed, np.append(-np.inf, stretched))[needed <= ends]))
    # A few digits, so that the threshold that the report tells is the one that was used.
    return min(math.ceil(math.tanh(found) * 10_000) / 10_000, 1.0)


def choose_by_labels(cosines: Floats, duplicates: Flags, parted: Flags) -> float | None:
    """Return the least threshold at which, and above which, nearly all edges among labelled pairs are duplicates.

    It is no lower than nearly all duplicates reach, since there no label tells what else comes in. None of few labels
    of either kind, and where no threshold serves.

    Parameters
    ----------
    cosines : float64 [pairs]
    parted
        Flags of pairs that a guard parts, which are no edges.
    """
    if min(np.count_nonzero(duplicates), np.count_nonzero(~duplicates)) < FEWEST:
        return None
    tried = np.arange(1, STEPS + 1) / STEPS
    true, false = (
        kept.size - np.searchsorted(kept, tried)
        for kept in (np.sort(cosines[kind & ~parted]) for kind in (duplicates, ~duplicates))
    )
    fails = np.flatnonzero(false > FALSE_SHARE * (true + false))
    first = int(fails[-1]) + 1 if fails.size else 0
    first = max(first, int(np.searchsorted(tried, np.quantile(cosines[duplicates], REACHED))))
    return float(tried[first]) if first < STEPS and true[first] else None
