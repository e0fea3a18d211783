"""Order of many keys."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np

from dedup.kernels import Integers

SORTED = 1 << 16
"""Keys from which on threads share their sort."""
RANGES = 32
"""Ranges of keys that are sorted by themselves: in the caches, and so many that all threads end together."""


def argsort(keys: Integers, threads: int) -> Integers:
    """Return the places of keys in their order, int64 [keys]; equal keys stay as they are.

    Parameters
    ----------
    threads
        Threads that share out ranges of keys, whose limits are those of a sample: 20 million of 64 bits take two of
        them 1.8 s instead of 3.3.
    """
    if keys.size < SORTED:
        return np.argsort(keys, kind="stable")
    sample = np.sort(keys[:: keys.size // SORTED])
    limits = sample[np.arange(1, RANGES) * sample.size // RANGES]
    with ThreadPoolExecutor(threads) as pool:
        parts = [*pool.map(partial(np.searchsorted, limits, side="right"), np.array_split(keys, threads))]
        numbers = np.concatenate(parts, dtype=np.uint8, casting="unsafe")
        places: Integers = np.argsort(numbers, kind="stable")
        bounds = np.append(0, np.cumsum(np.bincount(numbers, minlength=RANGES))).tolist()
        ranges = (places[begin:end] for begin, end in pairwise(bounds))
        return np.concatenate([*pool.map(lambda own: own[np.argsort(keys[own], kind="stable")], ranges)])
