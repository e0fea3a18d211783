"""Forecast of the documents that have a duplicate in parts of a corpus, and in one of twice its size."""

from collections.abc import Mapping

import numpy as np

SHARES = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Sizes of corpora, as shares of the one that was searched."""
TERMS = 9
"""Terms of the series that count in part."""


def forecast(sizes: Mapping[int, int], count: int) -> list[float]:
    """Return how many documents of a corpus of each of SHARES are to go, one of each component being kept.

    A component is a species, of which a corpus holds some documents. A random part of the corpus misses those of which
    it drew none. Twice the corpus has species not yet seen: as many as Good and Toulmin's series of the components of
    one, two, three documents says [1]_, of which Efron and Thisted's weights tame the long ones [2]_.

    Parameters
    ----------
    sizes
        Number of components of each size above 1.
    count
        Documents.

    References
    ----------
    .. [1] I. J. Good, G. H. Toulmin: The number of new species, and the increase in population coverage, when a sample
       is increased. Biometrika 43 (1956).
    .. [2] B. Efron, R. Thisted: Estimating the number of unseen species. Biometrika 63 (1976).
    """
    from scipy.special import bdtrc

    members = np.array([1, *sizes], dtype=np.float64)
    numbers = np.array([count - sum(size * held for size, held in sizes.items()), *sizes.values()], dtype=np.float64)
    # Odd terms count up, even ones down; a term of k has the weight of k or more heads in TERMS tosses.
    signs = np.where(members % 2 == 1, 1.0, -1.0)
    unseen = float(np.sum(signs * numbers * bdtrc(np.minimum(members, TERMS + 1) - 1, TERMS, 0.5)))
    kept = [float(np.sum(numbers * (1 - (1 - share) ** members))) for share in SHARES if share <= 1]
    kept.append(kept[-1] + max(unseen, 0.0))
    return [max(share * count - stays, 0.0) for share, stays in zip(SHARES, kept, strict=True)]
