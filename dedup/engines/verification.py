"""Candidates and their shingle sets -> edges and near misses."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from dedup.engines.capacity import SHINGLE_BYTES, check_fits
from dedup.engines.documents import Documents
from dedup.engines.parts import Floats, by_part
from dedup.kernels import Flags, Hashes, Integers
from dedup.kernels.sets.jaccard import BINS, bin_similarities, find_near_misses, jaccard
from dedup.tables.counts import Verified

SetsOf: TypeAlias = Callable[[Integers], tuple[Hashes, Integers]]
"""A pass over the text: doc_ids, distinct, to their shingle sets in that order, as from `shingle`."""


class Sets(NamedTuple):
    """Shingle sets of some documents."""

    positions: Integers
    shingles: Hashes
    offsets: Integers
    numbers: Integers
    """Which of the sets a document has, by its position; anything for a document without."""
    threads: int
    """Number of threads that compare."""

    def compare(self, left: Integers, right: Integers) -> Floats:
        """Return the exact Jaccard of pairs of positions."""
        shingles, offsets, numbers = self.shingles, self.offsets, self.numbers
        return by_part(
            lambda part: jaccard(shingles, offsets, numbers[left[part]], numbers[right[part]]), left.size, self.threads
        )


class Edges(NamedTuple):
    """Pairs left < right of positions, ascending, and their exact Jaccard."""

    left: Integers
    right: Integers
    jaccard: Floats

    def select(self, chosen: Flags) -> "Edges":
        """Return those chosen."""
        return Edges(self.left[chosen], self.right[chosen], self.jaccard[chosen])


def collect_sets(
    documents: Documents, positions: Integers, sets_of: SetsOf, *, mode: str, threads: int, free_bytes: int | None
) -> Sets:
    """Read the sets of the documents at these positions, which are distinct; nothing is read for none.

    Raises
    ------
    DedupError
        When they exceed `free_bytes` of memory.
    """
    check_fits(int(documents.sizes[positions].sum()) * SHINGLE_BYTES[mode], free_bytes)
    none = np.empty(0, dtype=np.uint64), np.zeros(1, dtype=np.int64)
    shingles, offsets = sets_of(documents.doc_ids[positions]) if positions.size else none
    numbers = np.zeros(documents.rows.size, dtype=np.int64)
    numbers[positions] = np.arange(positions.size)
    return Sets(positions, shingles, offsets, numbers, threads)


def verify(left: Integers, right: Integers, sets: Sets, threshold: float) -> tuple[Edges, Edges, Verified]:
    """Return the pairs at or above the threshold, the near misses, and the counts of both."""
    compared = Edges(left, right, sets.compare(left, right))
    edges = compared.select(compared.jaccard >= threshold)
    near_misses = compared.select(find_near_misses(*compared, threshold))
    similarities = np.bincount(bin_similarities(compared.jaccard), minlength=BINS).tolist()
    counted = Verified(
        rows=edges.left.size, compared=edges.left.size + near_misses.left.size, similarities=similarities
    )
    return edges, near_misses, counted
