"""Ragged arrays and random sets, as several of these tests need them."""

from itertools import pairwise

import numpy as np

from dedup.kernels.sets.minhash import sign


def ragged(lists):
    """Return the values of all lists, uint64 end to end, and the offsets of each, int64."""
    lists = list(lists)
    values = np.array([value for each in lists for value in each], dtype=np.uint64)
    return values, np.cumsum([0, *map(len, lists)], dtype=np.int64)


def unragged(values, offsets):
    """Undo `ragged`; the offsets cover the values exactly."""
    assert (offsets[0], offsets[-1]) == (0, values.size)
    return [values[start:end].tolist() for start, end in pairwise(offsets.tolist())]


def draw_pairs(union, shared, pairs):
    """Return the two sides, uint64 [pairs, members], of random sets with `shared` members of `union` in common."""
    pool = np.random.default_rng([union, shared]).integers(0, 2**64, (pairs, union), dtype=np.uint64)
    middle = (union + shared) // 2
    return pool[:, :middle], np.concatenate((pool[:, :shared], pool[:, middle:]), axis=1)


def sign_sets(sets, size, seed=1):
    """Return the signatures of the rows of a matrix."""
    return sign(sets.reshape(-1), np.arange(sets.shape[0] + 1) * sets.shape[1], size, seed)
