"""Pairs of documents of a sample."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dedup.kernels import Flags, Hashes, Integers
from dedup.kernels.components import connect
from dedup.kernels.sets import exact

Sets: TypeAlias = tuple[Hashes, Integers]
"""Shingle sets, end to end, and their offsets."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Pairs of positions, left < right, with their exact Jaccard."""

    left: Integers
    right: Integers
    jaccard: npt.NDArray[np.float64]

    def at(self, threshold: float, count: int) -> Integers:
        """Return the pairs at or above the threshold as `left * count + right`; ascending."""
        similar = self.jaccard >= threshold
        return np.sort(self.left[similar] * count + self.right[similar])

    def connect(self, threshold: float, count: int) -> Integers:
        """Return the least position in the component of each of `count` documents, joined by pairs at the threshold."""
        similar = self.jaccard >= threshold
        ends, least = connect(self.left[similar], self.right[similar])
        components = np.arange(count)
        components[ends] = least
        return components


def find_alike(sets: Sets, drawn: Flags, *, floor: float, threshold: float) -> Pairs:
    """Return all pairs of shingle sets at or above the threshold, and those of a drawn document from the floor on.

    Both by exact search. Pairs above the floor between documents that only came along are far more numerous,
    and nobody asks for them.
    """
    chosen = np.flatnonzero(drawn)
    left, right, jaccard = _search(exact.take(*sets, chosen), sets, floor)
    ends = chosen[left]
    above = _search(sets, sets, threshold)
    low = np.concatenate((np.minimum(ends, right), np.minimum(*above[:2])))
    high = np.concatenate((np.maximum(ends, right), np.maximum(*above[:2])))
    _, firsts = np.unique(low * drawn.size + high, return_index=True)
    firsts = firsts[low[firsts] < high[firsts]]
    return Pairs(left=low[firsts], right=high[firsts], jaccard=np.concatenate((jaccard, above[2]))[firsts])


def _search(indexed: Sets, sets: Sets, floor: float) -> tuple[Integers, Integers, npt.NDArray[np.float64]]:
    """Return every pair of an indexed set and another at or above the floor, and their exact Jaccard."""
    found = list(exact.search(exact.index(*indexed, floor), *sets))
    left, right = (np.concatenate([part[side] for part in found] or [np.empty(0, np.int64)]) for side in (0, 1))
    return left, right, np.concatenate([part[2] for part in found] or [np.empty(0)])
