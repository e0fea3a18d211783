"""Choice of bands and rows that meet the targets, and the cost of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dedup.errors import ConfigError
from dedup.kernels import Floats
from dedup.kernels.curve import probability, standard_error
from dedup.kernels.sets.minhash import WIDTHS
from dedup.plan.curve import compared
from dedup.plan.profile import CorpusProfile, Similarities
from dedup.plan.rates import Rates
from dedup.plan.wishes import KEY_BYTES, Wishes, constrain, list_grid, meets_all, name_conflict
from dedup.settings.banding import SIGMAS, Banding

SIMILARITIES = (0.3, 0.5, 0.7, 0.8, 0.9)
"""Similarities whose probability is listed besides those of the targets."""
PAIR_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BandingChoice:
    """Bands and rows, with their costs per document."""

    bands: int
    rows: int
    signature_size: int
    signature_bytes: int
    """Bytes stored: a key of 8 bytes per band, one byte per row."""
    moved_bytes: float
    """Bytes brought together before compression, as far as they depend on bands and rows: 16 per band and per pair of a
    bucket, and the signatures of documents that share a bucket."""
    bucketed: float
    """Share of documents that share a bucket."""
    bucket_pairs: float
    """Pairs of buckets per document, counted once for each bucket that they share."""
    candidates: float
    """Distinct pairs that share a bucket, per document."""
    compared: float
    """Candidates that pass the estimate filter and are compared exactly, per document."""
    core_seconds: float
    """Seconds of a core for the work that depends on bands and rows."""
    lost: float
    """Share of candidates at the threshold that the estimate filter drops."""
    probabilities: dict[str, float]
    """Probability that a pair of this similarity becomes a candidate."""


@lru_cache(maxsize=1 << 10)
def share_compared(similarities: Similarities, banding: Banding, threshold: float, bits: int = 8) -> Floats:
    """Return the probability of each similarity that a pair is compared exactly: see `dedup.plan.curve.compared`."""
    found = compared(similarities.jaccard, *banding, threshold, SIGMAS, bits=bits)
    found.flags.writeable = False
    return found


def cost(
    banding: Banding, threshold: float, corpus: CorpusProfile, rates: Rates, shown: Sequence[float] = SIMILARITIES
) -> BandingChoice:
    """Return the cost of a choice in a corpus without larger families of duplicates than chance makes.

    The cap on buckets is ignored; it would only lower the numbers.
    """
    bands, rows = banding
    jaccard, partners = corpus.similarities.jaccard, corpus.similarities.partners(corpus.documents)
    share = probability(jaccard, bands, rows)
    passed = share_compared(corpus.similarities, banding, threshold)
    size = bands * rows
    # A pair is one candidate of two documents.
    candidates, found = float(share @ partners) / 2, float(passed @ partners) / 2
    bucketed = 1 - corpus.alone(2 * candidates)
    bucket_pairs = bands * float(jaccard**rows @ partners) / 2
    moved_bytes = 2 * KEY_BYTES * bands + PAIR_BYTES * bucket_pairs + size * bucketed
    hit = probability(threshold, bands, rows)
    kept = float(compared(np.array([threshold]), bands, rows, threshold, SIGMAS)[0])
    seconds = (
        rates.row * size
        + rates.band * bands
        + rates.pair * bucket_pairs
        + rates.comparison * found
        + rates.text_byte * corpus.text_bytes * (1 - corpus.alone(2 * found))
    )
    return BandingChoice(
        bands=bands,
        rows=rows,
        signature_size=size,
        signature_bytes=KEY_BYTES * bands + size,
        moved_bytes=moved_bytes,
        bucketed=bucketed,
        bucket_pairs=bucket_pairs,
        candidates=candidates,
        compared=found,
        core_seconds=seconds,
        lost=max(1 - kept / hit, 0.0) if hit else 0.0,
        probabilities={f"{each:g}": probability(each, bands, rows) for each in sorted(set(shown))},
    )


def weigh_widths(banding: Banding, threshold: float, corpus: CorpusProfile) -> list[dict[str, float]]:
    """Return what signatures of so many `bits` a value are worth.

    Returns
    -------
    list
        The `bytes` of each, the `standard_error` of an estimate at the threshold, and the candidates of a document that
        are `compared` exactly.
    """
    partners = corpus.similarities.partners(corpus.documents)
    size = banding.bands * banding.rows
    return [
        {
            "bits": bits,
            "bytes": -(-size * bits // 8),
            "standard_error": standard_error(threshold, size, bits),
            "compared": float(share_compared(corpus.similarities, banding, threshold, bits) @ partners) / 2,
        }
        for bits in WIDTHS
    ]


def solve(wishes: Wishes, threshold: float, corpus: CorpusProfile, rates: Rates) -> list[BandingChoice]:
    """Return the choices that meet all wishes and that no other choice betters, by rows.

    A choice betters another if it costs no more in signature bytes, moved bytes and candidates, and less in one.

    Raises
    ------
    ConfigError
        When no choice meets all; names wishes that exclude each other and the nearest to each that the others allow.
    """
    bands, rows = list_grid()
    constraints = constrain(wishes, threshold, corpus, bands, rows)
    met = meets_all(constraints, bands.size)
    if not met.any():
        raise ConfigError(name_conflict(constraints, bands.size))
    # More bands at the same rows cost more of everything.
    _, firsts = np.unique(rows[met], return_index=True)
    found = [Banding(int(bands[met][first]), int(rows[met][first])) for first in firsts]
    shown = list_shown(wishes, threshold)
    choices = [cost(each, threshold, corpus, rates, shown) for each in found]
    return [each for each in choices if not any(_betters(other, each) for other in choices)]


def _betters(one: BandingChoice, other: BandingChoice) -> bool:
    costs = [(each.signature_bytes, each.moved_bytes, each.candidates) for each in (one, other)]
    return costs[0] != costs[1] and all(mine <= its for mine, its in zip(*costs, strict=True))


def list_shown(wishes: Wishes, threshold: float) -> list[float]:
    """Return the similarities whose probability is listed."""
    return [*SIMILARITIES, *(target.similarity for target in wishes.targets), threshold]


def check(
    banding: Banding, wishes: Wishes, threshold: float, corpus: CorpusProfile
) -> list[dict[str, float | str | bool]]:
    """Return the `value` of a choice for each `target` among the wishes, and whether that is `met`."""
    one = np.array([float(banding.bands)]), np.array([float(banding.rows)])
    return [
        {"target": each.name, "value": float(each.values[0]), "met": bool(each.met[0])}
        for each in constrain(wishes, threshold, corpus, *one)
    ]
