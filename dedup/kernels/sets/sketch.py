"""Sketches of corpora: samples of their shingles that merge exactly, and tell sizes and overlaps without texts.

A sketch holds the distinct pairs of a shingle's hash and a source whose hash is less than a bound, KEPT at
most: a theta sketch (Dasgupta, Lang, Rhodes, Thaler, ICDT 2016) of the whole and of every source. Two sketches, cut at
the lesser of their bounds, are samples of the same hashes, so that what they share is counted.
"""

import math
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.bounds import mark_firsts

KEPT = 1 << 14
"""Pairs of a sketch: 128 kB, and a standard error of a size of 1 / sqrt(KEPT) = 0.8 %."""
ALL = (1 << 64) - 1
"""Bound of a sketch that holds all pairs."""
SPARE, SHINGLE_BYTES, BELIEVED = 8, 6, 1 << 50
"""Times that a corpus may repeat each shingle before its sketch holds less than KEPT, bytes of text for a shingle, and
bytes of an input beyond which Spark has only guessed them."""


def choose_bound(size: float) -> int:
    """Return a bound under which an input of so many bytes has more than KEPT pairs, and each task few."""
    share = SPARE * KEPT * SHINGLE_BYTES / max(size, 1)
    return ALL if share >= 1 or size > BELIEVED else int(share * ALL)


class ShingleSample(NamedTuple):
    """Shingles of a corpus, or of one of its sources."""

    hashes: Hashes
    """Distinct and ascending, all that are less than the bound."""
    bound: int

    @property
    def share(self) -> float:
        """Share of all shingles that are in it, above 0 and at most 1."""
        return self.bound / ALL

    def cut(self, bound: int) -> Self:
        """Return the sample of a lesser bound."""
        return self._replace(hashes=self.hashes[: np.searchsorted(self.hashes, np.uint64(bound))], bound=bound)

    def estimate_size(self) -> tuple[float, float]:
        """Return the number of distinct shingles, and its standard error; 0 where all are in the sample."""
        return self.hashes.size / self.share, math.sqrt(self.hashes.size * (1 - self.share)) / self.share


class Overlap(NamedTuple):
    """Estimates about two corpora, each with its standard error; NaN where the samples are empty."""

    union: float
    union_error: float
    jaccard: float
    jaccard_error: float
    share: float
    """Share of the shingles of the first that the second has."""
    share_error: float


def compare(one: ShingleSample, other: ShingleSample) -> Overlap:
    """Return estimates about two corpora."""
    bound = min(one.bound, other.bound)
    mine, theirs = one.cut(bound), other.cut(bound)
    shared = np.intersect1d(mine.hashes, theirs.hashes, assume_unique=True).size
    union = ShingleSample(np.union1d(mine.hashes, theirs.hashes), bound)
    left = 1 - union.share
    return Overlap(
        *union.estimate_size(), *_divide(shared, union.hashes.size, left), *_divide(shared, mine.hashes.size, left)
    )


def _divide(part: int, whole: int, left: float) -> tuple[float, float]:
    """Return a share, and its standard error in a sample that leaves out a share of all."""
    share = part / whole if whole else math.nan
    return share, math.sqrt(share * (1 - share) / max(whole, 1) * left)


class Sketch(NamedTuple):
    """Pairs of hash and source, ascending by hash, then source."""

    hashes: Hashes
    sources: pa.Array
    bound: int

    def sample(self, *sources: str | None) -> ShingleSample:
        """Return the shingles of some sources, or of all where none is named."""
        chosen = pc.is_in(self.sources, pa.array(sources, pa.string())).to_numpy(zero_copy_only=False)
        return ShingleSample(np.unique(self.hashes[chosen] if sources else self.hashes), self.bound)


class Sketcher:
    """A sketch of all that is added, the same in any order and parts."""

    def __init__(self, bound: int = ALL) -> None:
        self.bound = bound
        self._names: dict[str | None, int] = {}
        self._parts: list[tuple[Hashes, Integers]] = []
        self._size = 0

    def add(self, hashes: Hashes, sizes: Integers, sources: pa.Array) -> None:
        """Add the shingle sets of documents.

        Parameters
        ----------
        hashes : uint64 [sum of sizes]
        sizes : int64 [n]
            Hashes of each document.
        sources : string [n]
            Null is a source like others.
        """
        low = np.flatnonzero(hashes < np.uint64(self.bound))
        documents = np.searchsorted(np.cumsum(sizes), low, side="right")
        self._parts.append((hashes[low], self._number(sources)[documents]))
        self._size += low.size
        if self._size > 2 * KEPT:
            self._shrink()

    def merge(self, other: Sketch) -> None:
        """Add what another sketch holds."""
        self.bound = min(self.bound, other.bound)
        self.add(other.hashes, np.ones(other.hashes.size, np.int64), other.sources)

    def finish(self) -> Sketch:
        """Return the sketch."""
        hashes, numbers = self._shrink()
        names = pa.array([*self._names], pa.string())
        ranks = pc.rank(names).to_numpy()
        order = np.lexsort((ranks[numbers], hashes))
        return Sketch(hashes[order], names.take(pa.array(numbers[order])), self.bound)

    def _number(self, sources: pa.Array) -> Integers:
        encoded = sources.dictionary_encode(null_encoding="encode")
        numbers = [self._names.setdefault(name, len(self._names)) for name in encoded.dictionary.to_pylist()]
        found: Integers = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
        return found

    def _shrink(self) -> tuple[Hashes, Integers]:
        """Keep the least distinct pairs alone, of which the first that is left out is the bound."""
        parts = [(np.empty(0, np.uint64), np.empty(0, np.int64)), *self._parts]
        hashes, numbers = map(np.concatenate, zip(*parts, strict=True))
        order = np.lexsort((numbers, hashes))
        order = order[mark_firsts(hashes[order], numbers[order])]
        if order.size > KEPT:
            self.bound = min(self.bound, int(hashes[order[KEPT]]))
        order = order[: np.searchsorted(hashes[order], np.uint64(self.bound))]
        self._parts, self._size = [(hashes[order], numbers[order])], order.size
        return self._parts[0]
