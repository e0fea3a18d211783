"""Which bands and rows meet the targets, and what each choice costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from dedup.errors import ConfigError
from dedup.kernels import Floats
from dedup.kernels.curve import probability
from dedup.plan.corpus import Corpus
from dedup.plan.curve import Crossing, compared, cross, integral_optimum
from dedup.plan.rates import Rates
from dedup.settings.banding import MAX_SIGNATURE_SIZE, MOST_BANDS, MOST_ROWS, Banding

SHOWN = (0.3, 0.5, 0.7, 0.8, 0.9)
"""Similarities whose P is listed besides those of the targets."""
PAIR_BYTES = 16
KEY_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A wish: at least this share of the pairs at this similarity become candidates, or at most."""

    option: str
    """`--recall` (at least) or `--candidates` (at most)."""
    share: float
    similarity: float

    def __str__(self) -> str:
        return f"{self.option} {self.share:g}@{self.similarity:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """All that a choice must meet."""

    targets: Sequence[Target] = ()
    signature_bytes: int | None = None
    """Most bytes stored for a document's band keys and signature."""
    candidates: float | None = None
    """Most candidates for a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What the job is told besides bands and rows."""

    threshold: float
    sigmas: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Bands and rows, and what they cost per document."""

    bands: int
    rows: int
    signature_size: int
    signature_bytes: int
    """Stored: a key of 8 bytes for a band, a byte for a row."""
    shuffle_bytes: float
    """Sent by the stages buckets and candidates: 16 bytes for a band and for a pair of a bucket, and the signatures of
    documents that share a bucket."""
    bucketed: float
    """Share of documents that share a bucket."""
    bucket_pairs: float
    """Pairs of buckets, each as often as it shares one, per document."""
    candidates: float
    """Distinct pairs that share a bucket, per document."""
    compared: float
    """Candidates that pass the estimate filter and are compared exactly, per document."""
    core_seconds: float
    """Of all that depends on bands and rows."""
    lost: float
    """Share of candidates at the threshold that the estimate filter drops."""
    probabilities: dict[str, float]
    """P(a pair of this similarity becomes a candidate)."""


def cost(banding: Banding, search: Search, corpus: Corpus, rates: Rates, shown: Sequence[float] = SHOWN) -> Choice:
    """Return what a choice costs, in a corpus whose pairs are no larger families than chance makes them.

    The cap on buckets, which only lowers the numbers, is left out.
    """
    bands, rows = banding
    jaccard, partners = corpus.similarities.jaccard, corpus.similarities.partners(corpus.documents)
    share = probability(jaccard, bands, rows)
    passed = compared(jaccard, bands, rows, search.threshold, search.sigmas)
    size = bands * rows
    # A pair is one candidate of two documents.
    candidates, found = float(share @ partners) / 2, float(passed @ partners) / 2
    bucketed = 1 - corpus.alone(2 * candidates)
    bucket_pairs = bands * float(jaccard**rows @ partners) / 2
    shuffle_bytes = 2 * KEY_BYTES * bands + PAIR_BYTES * bucket_pairs + size * bucketed
    at_threshold = np.array([search.threshold])
    hit = probability(search.threshold, bands, rows)
    kept = float(compared(at_threshold, bands, rows, search.threshold, search.sigmas)[0])
    seconds = (
        rates.row * size
        + rates.band * bands
        + rates.pair * bucket_pairs
        + rates.comparison * found
        + rates.text_byte * corpus.text_bytes * (1 - corpus.alone(2 * found))
    )
    return Choice(
        bands=bands,
        rows=rows,
        signature_size=size,
        signature_bytes=KEY_BYTES * bands + size,
        shuffle_bytes=shuffle_bytes,
        bucketed=bucketed,
        bucket_pairs=bucket_pairs,
        candidates=candidates,
        compared=found,
        core_seconds=seconds,
        lost=max(1 - kept / hit, 0.0) if hit else 0.0,
        probabilities={f"{each:g}": probability(each, bands, rows) for each in sorted(set(shown))},
    )


def _grid() -> tuple[Floats, Floats]:
    """Return all bands and rows that the job accepts."""
    counts = [min(MOST_BANDS, MAX_SIGNATURE_SIZE // rows) for rows in range(1, MOST_ROWS + 1)]
    bands = np.concatenate([np.arange(1, count + 1) for count in counts]).astype(np.float64)
    return bands, np.repeat(np.arange(1.0, MOST_ROWS + 1), counts)


class _Constraint:
    """One wish on the grid: what each choice gives, whether that is enough, and how to say what would be."""

    def __init__(self, name: str, option: str, values: Floats, limit: float, *, least: bool, suffix: str = "") -> None:
        self.name, self.option, self.suffix = name, option, suffix
        self.values, self.limit, self.least = values, limit, least
        # What is equal but for rounding is met.
        slack = 1e-12 * abs(limit)
        self.met: npt.NDArray[np.bool_] = values >= limit - slack if least else values <= limit + slack

    def nearest(self, allowed: npt.NDArray[np.bool_]) -> str | None:
        """Return the wish nearest to this one that a choice among the allowed meets, None if none is allowed."""
        if not allowed.any():
            return None
        values = self.values[allowed]
        best = float(values.max() if self.least else values.min())
        if self.least and best <= 0:
            return None
        return f"{self.option} {_round(best, up=not self.least)}{self.suffix}"


def _round(value: float, *, up: bool) -> str:
    """Write a number with four digits, rounded so that it is still met."""
    if value == 0 or (float(value).is_integer() and value < 1e9):
        return f"{value:.0f}"
    digits = 3 - math.floor(math.log10(abs(value)))
    # Nearer to 1 it is the distance from it that counts.
    if 0.5 < value < 1:
        digits = 3 - math.floor(math.log10(1 - value))
    scale = 10**digits
    return f"{(math.ceil if up else math.floor)(value * scale) / scale:.12g}"


def _constraints(wishes: Wishes, corpus: Corpus, bands: Floats, rows: Floats) -> list[_Constraint]:
    found = []
    for target in wishes.targets:
        values = probability(target.similarity, bands, rows)
        least = target.option == "--recall"
        suffix = f"@{target.similarity:g}"
        found.append(_Constraint(str(target), target.option, values, target.share, least=least, suffix=suffix))
    if wishes.signature_bytes is not None:
        option = "--max-signature-bytes"
        values = KEY_BYTES * bands + bands * rows
        found.append(
            _Constraint(f"{option} {wishes.signature_bytes}", option, values, wishes.signature_bytes, least=False)
        )
    if wishes.candidates is not None:
        option = "--max-candidates-per-doc"
        values = np.zeros_like(bands)
        partners = corpus.similarities.partners(corpus.documents)
        for jaccard, count in zip(corpus.similarities.jaccard, partners, strict=True):
            values += probability(jaccard, bands, rows) * count / 2
        found.append(_Constraint(f"{option} {wishes.candidates:g}", option, values, wishes.candidates, least=False))
    return found


def solve(wishes: Wishes, search: Search, corpus: Corpus, rates: Rates) -> list[Choice]:
    """Return the choices that meet all wishes and that no other one betters, by rows.

    A choice betters another if it costs no more in signature bytes, shuffled bytes and candidates, and less in one.

    Raises
    ------
    ConfigError
        When no choice meets all; names wishes that exclude each other and the nearest to each that the others allow.
    """
    bands, rows = _grid()
    constraints = _constraints(wishes, corpus, bands, rows)
    everything = np.ones(bands.size, dtype=bool)
    met = np.logical_and.reduce([each.met for each in constraints], axis=0, initial=True, where=True)
    met = everything & met
    if not met.any():
        raise ConfigError(_explain(constraints, everything))
    # More bands at the same rows cost more of everything.
    _, firsts = np.unique(rows[met], return_index=True)
    shown = sorted({*SHOWN, *(target.similarity for target in wishes.targets), search.threshold})
    found = [Banding(int(bands[met][first]), int(rows[met][first])) for first in firsts]
    choices = [cost(each, search, corpus, rates, shown) for each in found]
    return [each for each in choices if not any(_betters(other, each) for other in choices)]


def _betters(one: Choice, other: Choice) -> bool:
    costs = [(each.signature_bytes, each.shuffle_bytes, each.candidates) for each in (one, other)]
    return costs[0] != costs[1] and all(mine <= its for mine, its in zip(*costs, strict=True))


def _explain(constraints: Sequence[_Constraint], everything: npt.NDArray[np.bool_]) -> str:
    """Name the fewest wishes that no choice meets together, and what would be met instead of each."""
    for count in range(1, len(constraints) + 1):
        for chosen in combinations(constraints, count):
            if not np.logical_and.reduce([each.met for each in chosen]).any():
                names = " and ".join(each.name for each in chosen)
                near = []
                for each in chosen:
                    rest = [other.met for other in constraints if other is not each]
                    allowed = np.logical_and.reduce([everything, *rest])
                    near.append(each.nearest(allowed))
                offers = " or ".join(offer for offer in near if offer) or "none: other wishes conflict as well"
                fault = "cannot be met" if count == 1 else "cannot be met together"
                # Whatever the bands and rows.
                always = (
                    count == 2
                    and chosen[0].least
                    and not chosen[1].least
                    and (chosen[0].values <= chosen[1].values).all()
                )
                limits = f"with up to {MOST_BANDS} bands, {MOST_ROWS} rows and {MAX_SIGNATURE_SIZE} values"
                reason = ", as every curve rises with the similarity" if always else f" {limits}"
                return f"{names}: {fault}{reason}; nearest: {offers}"
    raise AssertionError("some wishes are met by no choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a given choice makes of each target."""

    choice: Choice
    targets: list[dict[str, float | str | bool]]


def check(banding: Banding, wishes: Wishes, search: Search, corpus: Corpus, rates: Rates) -> Verdict:
    """Hold a choice against the wishes."""
    one = np.array([float(banding.bands)]), np.array([float(banding.rows)])
    judged: list[dict[str, float | str | bool]] = [
        {"target": each.name, "value": float(each.values[0]), "met": bool(each.met[0])}
        for each in _constraints(wishes, corpus, *one)
    ]
    shown = [*SHOWN, *(target.similarity for target in wishes.targets), search.threshold]
    return Verdict(choice=cost(banding, search, corpus, rates, shown), targets=judged)


def crossings(wishes: Wishes) -> list[tuple[Target, Target, Crossing]]:
    """Return for every recall with every share of candidates the bands and rows that meet both exactly."""
    recalls = [target for target in wishes.targets if target.option == "--recall"]
    shares = [target for target in wishes.targets if target.option != "--recall"]
    found = [
        (recall, share, cross(recall.share, recall.similarity, share.share, share.similarity))
        for recall in recalls
        for share in shares
    ]
    return [(recall, share, at) for recall, share, at in found if at is not None]


def datasketch(size: int, search: Search, corpus: Corpus, rates: Rates, shown: Sequence[float]) -> Choice:
    """Return what datasketch chooses for the threshold among signatures of at most so many values."""
    return cost(Banding(*integral_optimum(search.threshold, size)), search, corpus, rates, shown)
