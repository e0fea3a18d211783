"""Numbers that occur more than once, found without holding all."""

from dataclasses import dataclass

import numpy as np

from dedup.kernels import Hashes, Integers, loops

SPARSITY = 3
"""Bits by which the places of a table outnumber the numbers: one number in ten finds its place taken by another."""


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Places of numbers, by their leading bits, which those of hashes make random."""

    shift: np.uint64
    seen: Hashes
    """A bit for each place, set where a number was added."""
    again: Hashes
    """A bit for each place, set where several were."""

    def add(self, numbers: Hashes) -> None:
        """Mark the places of numbers; uint64 [n]."""
        loops.pairs.mark(numbers, self.shift, self.seen, self.again)

    def select(self, numbers: Hashes) -> Integers:
        """Return the positions of those that were added more than once, and of few others, ascending.

        Parameters
        ----------
        numbers : uint64 [n]
            Some of those that were added.

        Returns
        -------
        int64 [positions]
            All shared numbers and, of hashes, at most a tenth of the others.
        """
        positions = np.empty(numbers.size, dtype=np.int64)
        return positions[: loops.pairs.select(numbers, self.shift, self.again, positions)]


def make_marks(count: int) -> Marks:
    """Return places for about so many numbers."""
    bits = max(count.bit_length() + SPARSITY, 6)
    seen, again = (np.zeros(1 << bits - 6, dtype=np.uint64) for _ in range(2))
    return Marks(np.uint64(64 - bits), seen, again)
