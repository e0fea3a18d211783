"""Large arrays handed from processes to the one that made them, through memory that all of them share.

Through a pipe, as other values go, an array is copied several times, each time into memory that is new to a process.
"""

import mmap
import os
import pickle
import weakref
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SIZE = 1 << 40
"""Bytes of addresses, of which those written to take memory, until they are given back."""
LEAST = 1 << 16
"""Bytes from which on a buffer goes through the arena."""


class Packed(NamedTuple):
    """A value as it travels."""

    pickled: bytes
    regions: list[tuple[int, int]]
    """Beginnings of its large buffers in the arena, and their bytes."""


class Arena:
    """Memory that a process shares with those it forks. Nothing is written to one place twice."""

    def __init__(self, context: BaseContext) -> None:
        """Reserve addresses.

        Raises
        ------
        OSError
            When the system or a limit of the process refuses so many.
        """
        self._file = os.memfd_create("arena")
        weakref.finalize(self, os.close, self._file)
        os.ftruncate(self._file, SIZE)
        self._memory = mmap.mmap(self._file, SIZE)
        self._end = context.Value("q", 0)

    def pack(self, value: object) -> Packed:
        """Return a value for the other process, which alone may unpack it, and once."""
        regions: list[tuple[int, int]] = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=lambda buffer: not self._put(buffer, regions))
        return Packed(pickled, regions)

    def unpack(self, packed: Packed) -> Any:  # noqa: ANN401 - as pickle itself
        """Return the value. Memory is given back as soon as nobody holds the array in it any longer."""
        buffers = [self._open(*region) for region in packed.regions]
        return pickle.loads(packed.pickled, buffers=buffers)  # noqa: S301 - of a process forked from this one

    def _put(self, buffer: pickle.PickleBuffer, regions: list[tuple[int, int]]) -> bool:
        """Tell whether a buffer went into the arena; otherwise it is pickled."""
        raw = buffer.raw()
        if raw.nbytes < LEAST:
            return False
        with self._end.get_lock():
            begin = self._end.value
            end = begin + -(-raw.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
            if end > SIZE:
                return False
            self._end.value = end
        written = 0
        # The system takes 2 GB at a time, and without a page fault for each of 4 kB.
        while written < raw.nbytes:
            written += os.pwrite(self._file, raw[written:], begin + written)
        regions.append((begin, raw.nbytes))
        return True

    def _open(self, begin: int, size: int) -> npt.NDArray[np.uint8]:
        found = np.frombuffer(self._memory, dtype=np.uint8, count=size, offset=begin)
        weakref.finalize(found, self._memory.madvise, mmap.MADV_REMOVE, begin, size).atexit = False
        return found


def open_arena(context: BaseContext) -> Arena | None:
    """Return an arena, or none where processes are not forked, or addresses are scarce."""
    if context.get_start_method() != "fork" or not hasattr(os, "memfd_create"):
        return None
    try:
        return Arena(context)
    except OSError:
        return None
