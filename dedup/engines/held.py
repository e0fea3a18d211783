"""Shingle sets that the first pass over the text holds, so that their documents need not be read again."""

import threading
from typing import NamedTuple

import numpy as np

from dedup.kernels import Hashes, Integers


class Held(NamedTuple):
    """Shingle sets of all documents of a split, as from `shingles.shingle`."""

    shingles: Hashes
    offsets: Integers

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return self.shingles.nbytes + self.offsets.nbytes


class _Local(threading.local):
    """The array of each thread, empty before its first shingle."""

    values: Hashes = np.empty(0, np.uint64)


_local = _Local()


class Room:
    """Shingle sets of the documents of a split, in an array that all splits of a thread use one after another.

    Memory that is new to a process costs more than all that is done with it here.
    """

    def __init__(self) -> None:
        self._sizes: list[Integers] = []
        self._end = 0

    def put(self, shingles: Hashes, sizes: Integers) -> None:
        """Add documents."""
        begin, self._end = self._end, self._end + shingles.size
        values = _local.values
        if self._end > values.size:
            _local.values = np.empty(max(self._end, 2 * values.size), dtype=np.uint64)
            _local.values[:begin] = values[:begin]
        _local.values[begin : self._end] = shingles
        self._sizes.append(sizes)

    def hold(self) -> Held:
        """Return a copy of all of them."""
        offsets = np.concatenate((np.zeros(1, np.int64), *self._sizes)).cumsum()
        return Held(_local.values[: self._end].copy(), offsets)
