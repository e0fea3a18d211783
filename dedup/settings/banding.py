"""Bands and rows chosen from a threshold, where the settings leave them to the job."""

import math
from functools import lru_cache
from typing import NamedTuple

MAX_SIGNATURE_SIZE = 16384
"""Most MinHash values in a signature: 128 KiB a document as 64-bit values, far above any published setting."""
MOST_BANDS, MOST_ROWS = 4096, 128
RELATED = ((0.25, 49.4), (0.35, 25.2), (0.45, 9.0), (0.55, 6.2), (0.65, 3.4), (0.75, 2.8))
"""Partners of a document (similarity, number) in the corpus that the choice is made for: twenty times those measured in
3,088 pages of PowerShell-Docs, as if it had sixty thousand pages. The same for every corpus, so that the signature does
not depend on its size; fewer rows would cost a little less in smaller ones, and more rows in larger ones."""
SIGMAS = 4.0
"""Standard errors that the estimate of a candidate may lie below the threshold, counted so that no greater share of
true pairs is dropped than of a normal distribution: fewer than 1 in 10,000 at any threshold or above it."""
ROW_SECONDS, BAND_SECONDS, PAIR_SECONDS = 25e-9, 0.52e-6, 2.0e-6
"""Seconds of one core for a MinHash value of a document, for a band key of a document, and for a pair of a bucket: see
`dedup.plan.rates`."""


class Banding(NamedTuple):
    """Bands of a signature, and the MinHash values in each."""

    bands: int
    rows: int


@lru_cache
def choose(
    threshold: float, recall: float, sigmas: float, bands: int | None = None, rows: int | None = None
) -> Banding:
    """Return the cheapest bands and rows that compare pairs at the threshold with at least the given probability.

    Without such, return those that come nearest; if only the estimate filter misses it, those that reach it without.

    Parameters
    ----------
    recall
        Least probability; 1 takes the most bands allowed.
    sigmas
        Standard errors of the estimate filter: SIGMAS in a run.
    bands, rows
        Fixed numbers; None for any.
    """
    passed = 1 - bound_dropped(sigmas)
    recall = recall / passed if recall < passed else recall
    possible = []
    for count in range(1, MOST_ROWS + 1) if rows is None else [rows]:
        most = min(MOST_BANDS, MAX_SIGNATURE_SIZE // count) if bands is None else bands
        if most * count > MAX_SIGNATURE_SIZE:
            continue
        least = count_bands(threshold, recall, count)
        chosen = Banding(most if bands is not None or least is None else min(least, most), count)
        missed = max(recall - find_shared(threshold, chosen), 0.0)
        # What is equal but for rounding is met.
        possible.append((missed if missed > 1e-12 else 0.0, _cost(chosen), chosen))
    return min(possible)[2]


def count_bands(threshold: float, recall: float, rows: int) -> int | None:
    """Return the least bands of so many rows that meet a recall; None beyond any number."""
    share = threshold**rows
    if share >= 1:
        return 1
    if recall >= 1 or share < 1e-300:
        return None
    return max(math.ceil(math.log1p(-recall) / math.log1p(-share) - 1e-9), 1)


def find_recall(threshold: float, banding: Banding, sigmas: float) -> float:
    """Return the least probability with which a pair at the threshold shares a band and passes the estimate filter."""
    return find_shared(threshold, banding) * (1 - bound_dropped(sigmas))


def bound_dropped(sigmas: float) -> float:
    """Return the largest share of the pairs at any similarity from the threshold on that the estimate filter drops.

    The filter's floor makes it the tail of a normal distribution; see `dedup.kernels.curve.least_estimate`.
    """
    return math.erfc(sigmas / math.sqrt(2)) / 2


def find_shared(threshold: float, banding: Banding) -> float:
    """Return the probability that a pair at the threshold shares a band."""
    share = threshold**banding.rows
    return 1.0 if share >= 1 else -math.expm1(banding.bands * math.log1p(-share))


def _cost(banding: Banding) -> float:
    """Return the part of a document's cost that depends on bands and rows; in seconds of a core."""
    bands, rows = banding
    pairs = sum(partners * similarity**rows for similarity, partners in RELATED) / 2
    return bands * (ROW_SECONDS * rows + BAND_SECONDS + PAIR_SECONDS * pairs)
