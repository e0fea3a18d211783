"""Long arrays worked on in parts, by several threads: compiled loops and NumPy release the interpreter's lock."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

PART = 1 << 14
"""Pairs of a part: enough to pay for the thread, and few enough that all threads end together."""


def by_part(measure: Callable[[slice], Floats], size: int, threads: int) -> Floats:
    """Return what `measure` gives for the slices of `size` pairs, in their order."""
    measured = np.empty(size)

    def fill(start: int) -> None:
        part = slice(start, start + PART)
        measured[part] = measure(part)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, range(0, size, PART)))
    return measured
