"""Pairs of positions as single numbers, and the distinct ones of very many."""

from collections.abc import Callable, Iterable

import numpy as np

from dedup.kernels import Flags, Hashes, Integers, loops
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.sets import lsh

WAITING = 1 << 23
"""Least pairs that wait before they are sorted in: 64 MB."""


def encode(left: Integers, right: Integers) -> Integers:
    """Return each pair of positions below 2^31 as one number; numbers ascend as (left, right) do."""
    return left << 32 | right


def decode(pairs: Integers) -> tuple[Integers, Integers]:
    """Undo `encode`."""
    return pairs >> 32, pairs & 0xFFFFFFFF


def join(
    keys: Hashes,
    members: Integers,
    offsets: Integers,
    max_bucket: int | None,
    *,
    doc_ids: Integers,
    check: Callable[[int], None] | None = None,
) -> Integers:
    """Return the distinct pairs of `lsh.pairs`, encoded by `encode`; ascending.

    The loop takes one document after the other and marks those that share a bucket with it, so that a pair of
    many buckets is seen as often as it has buckets, but sorted and stored once.

    Parameters
    ----------
    keys, members, offsets, max_bucket, doc_ids
        As for `lsh.pairs`.
    check
        Called with the number of pairs before they are stored.
    """
    members, steps = lsh.arrange(keys, members, offsets, max_bucket, doc_ids=doc_ids)
    owned = np.argsort(members, kind="stable")
    marks = np.full(doc_ids.size, -1)
    buckets = np.repeat(np.arange(steps.size), np.diff(offsets))
    found = np.empty(0, dtype=np.int64)
    count = loops.pairs.join(members, offsets, steps, buckets, owned, marks, 0, found)
    if check is not None:
        check(count)
    found = np.empty(count, dtype=np.int64)
    loops.pairs.join(members, offsets, steps, buckets, owned, marks, doc_ids.size, found)
    found.sort()
    return found


def select_distinct(
    batches: Iterable[tuple[Integers, Integers]], check: Callable[[int], None] | None = None
) -> Integers:
    """Return the distinct pairs of all batches, encoded by `encode`; ascending.

    Pairs wait until they are as many as those found before, so each is sorted a few times however many batches there
    are. Takes up to 40 bytes of memory for a distinct pair, or for one of WAITING.

    Parameters
    ----------
    check
        Called with the number of pairs held whenever it has grown.
    """
    found: Integers = np.empty(0, dtype=np.int64)
    waiting: list[Integers] = []
    size = 0
    for left, right in batches:
        waiting.append(sort_distinct(encode(left, right)))
        size += waiting[-1].size
        if check is not None:
            check(found.size + size)
        if size >= max(WAITING, found.size):
            found = sort_distinct(np.concatenate((found, *waiting)))
            waiting, size = [], 0
    return sort_distinct(np.concatenate((found, *waiting))) if waiting else found


def sort_distinct(numbers: Integers) -> Integers:
    """Return the distinct numbers, ascending; sorts in place. `np.unique` hashes them first, which takes longer."""
    numbers.sort()
    return numbers[mark_firsts(numbers)]


def find_known(numbers: Integers, known: Integers) -> Flags:
    """Flag the numbers that are among the known ones. `np.isin` sorts both together, which takes longer."""
    if not known.size:
        return np.zeros(numbers.size, dtype=bool)
    known = np.sort(known)
    found: Flags = known[np.minimum(np.searchsorted(known, numbers), known.size - 1)] == numbers
    return found
