"""Wishes of a user for bands and rows: whether a choice meets them, and which exclude each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from dedup.kernels import Floats
from dedup.kernels.curve import probability
from dedup.plan.curve import Crossing, cross
from dedup.plan.profile import CorpusProfile
from dedup.settings.banding import MAX_SIGNATURE_SIZE, MOST_BANDS, MOST_ROWS, SIGMAS, bound_dropped

KEY_BYTES = 8
LEAST = 1e-300
"""Least share that counts as more than none: a float has no four digits of much smaller ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Wish that at least a share of the pairs at a similarity is found, or at most a share become candidates.

    Found pairs become candidates and, from the threshold on, pass the estimate filter.
    """

    option: str
    """`--recall` (at least) or `--candidates` (at most)."""
    share: float
    similarity: float

    def __str__(self) -> str:
        return f"{self.option} {self.share:g}@{self.similarity:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Conditions that a choice must meet."""

    targets: Sequence[Target] = ()
    signature_bytes: int | None = None
    """Upper limit of the bytes stored for a document's band keys and signature."""
    candidates: float | None = None
    """Upper limit of the candidates for a document."""


def list_grid() -> tuple[Floats, Floats]:
    """Return all bands and rows that the job accepts."""
    counts = [min(MOST_BANDS, MAX_SIGNATURE_SIZE // rows) for rows in range(1, MOST_ROWS + 1)]
    bands = np.concatenate([np.arange(1, count + 1) for count in counts]).astype(np.float64)
    return bands, np.repeat(np.arange(1.0, MOST_ROWS + 1), counts)


class Constraint:
    """Wish on the grid: the value of each choice, whether it suffices, and the wording of a value that would."""

    def __init__(self, name: str, option: str, values: Floats, limit: float, *, least: bool, suffix: str = "") -> None:
        self.name, self.option, self.suffix = name, option, suffix
        self.values, self.limit, self.least = values, limit, least
        # What is equal but for rounding is met.
        slack = 1e-12 * abs(limit)
        self.met: npt.NDArray[np.bool_] = values >= limit - slack if least else values <= limit + slack

    def nearest(self, allowed: npt.NDArray[np.bool_]) -> str | None:
        """Return the wish nearest to this one that an allowed choice meets; None if none is allowed."""
        if not allowed.any():
            return None
        values = self.values[allowed]
        best = float(values.max() if self.least else values.min())
        if self.least and best < LEAST:
            return None
        return f"{self.option} {_round(best, up=not self.least)}{self.suffix}"


def _round(value: float, *, up: bool) -> str:
    """Write a number with four digits, rounded so that the wish is still met."""
    if value < LEAST or (float(value).is_integer() and value < 1e9):
        return f"{value:.0f}"
    digits = 3 - math.floor(math.log10(abs(value)))
    # Nearer to 1 it is the distance from it that counts.
    if 0.5 < value < 1:
        digits = 3 - math.floor(math.log10(1 - value))
    scale = 10**digits
    return f"{(math.ceil if up else math.floor)(value * scale) / scale:.12g}"


def constrain(wishes: Wishes, threshold: float, corpus: CorpusProfile, bands: Floats, rows: Floats) -> list[Constraint]:
    """Return the wishes as constraints on these choices."""
    found = []
    for target in wishes.targets:
        values = probability(target.similarity, bands, rows)
        least = target.option == "--recall"
        values = values * _passed(target, threshold) if least else values
        suffix = f"@{target.similarity:g}"
        found.append(Constraint(str(target), target.option, values, target.share, least=least, suffix=suffix))
    if wishes.signature_bytes is not None:
        option = "--max-signature-bytes"
        values = KEY_BYTES * bands + bands * rows
        found.append(
            Constraint(f"{option} {wishes.signature_bytes}", option, values, wishes.signature_bytes, least=False)
        )
    if wishes.candidates is not None:
        option = "--max-candidates-per-doc"
        values = np.zeros_like(bands)
        partners = corpus.similarities.partners(corpus.documents)
        for jaccard, count in zip(corpus.similarities.jaccard, partners, strict=True):
            values += probability(jaccard, bands, rows) * count / 2
        found.append(Constraint(f"{option} {wishes.candidates:g}", option, values, wishes.candidates, least=False))
    return found


def _passed(target: Target, threshold: float) -> float:
    """Return the least share of the target's pairs that pass the estimate filter, if they must."""
    return 1 - bound_dropped(SIGMAS) if target.similarity >= threshold else 1.0


def meets_all(constraints: Sequence[Constraint], count: int) -> npt.NDArray[np.bool_]:
    """Tell which choices on the grid meet all wishes; without wishes all do."""
    met: npt.NDArray[np.bool_] = np.logical_and.reduce([np.ones(count, dtype=bool), *(one.met for one in constraints)])
    return met


def name_conflict(constraints: Sequence[Constraint], size: int) -> str:
    """Name the fewest wishes that no choice meets together, and the nearest value to each that others allow."""
    for count in range(1, len(constraints) + 1):
        for chosen in combinations(constraints, count):
            if not meets_all(chosen, size).any():
                names = " and ".join(each.name for each in chosen)
                near = []
                for each in chosen:
                    rest = [other for other in constraints if other is not each]
                    near.append(each.nearest(meets_all(rest, size)))
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


def crossings(wishes: Wishes, threshold: float) -> list[tuple[Target, Target, Crossing]]:
    """Return, for every recall with every share of candidates, the bands and rows that meet both exactly."""
    recalls = [target for target in wishes.targets if target.option == "--recall"]
    shares = [target for target in wishes.targets if target.option != "--recall"]
    found = [
        (
            recall,
            share,
            cross(recall.share / _passed(recall, threshold), recall.similarity, share.share, share.similarity),
        )
        for recall in recalls
        for share in shares
    ]
    return [(recall, share, at) for recall, share, at in found if at is not None]
