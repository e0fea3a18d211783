"""Distinct pairs of buckets, and numbers that occur twice, whichever loop finds them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.runs.shared import make_marks
from dedup.kernels.sets import filters, lsh, pairs
from tests.strategies import int64s, uint64s

keyed = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), max_size=120)


def spread(number: int) -> int:
    """Return a hash: keys differ in their leading bits."""
    return number * 0x9E3779B97F4A7C15 % 2**64


@given(keyed, st.lists(int64s, min_size=31, max_size=31, unique=True), st.sampled_from([None, 2, 3, 7, 150]))
def test_pairs_of_positions_are_the_distinct_pairs_of_the_buckets_of_ids(rows, doc_ids, max_bucket):
    doc_ids = np.sort(np.array(doc_ids))
    keys = np.array([spread(key) for key, _ in rows], dtype=np.uint64)
    places = np.array([place for _, place in rows], dtype=np.int64)
    counted = []
    found = pairs.join(*lsh.group(keys, places), max_bucket, doc_ids=doc_ids, check=counted.append)

    expected = set()
    for left, right in lsh.pairs(*lsh.group(keys, doc_ids[places]), max_bucket, 3):
        expected |= set(zip(left.tolist(), right.tolist(), strict=True))
    left, right = pairs.decode(found)
    assert list(zip(doc_ids[left].tolist(), doc_ids[right].tolist(), strict=True)) == sorted(expected)
    assert max(counted, default=0) >= len(expected)


@pytest.mark.parametrize("waiting", [1, 5, 1 << 23])
def test_pairs_of_many_batches_are_told_apart(monkeypatch, waiting):
    monkeypatch.setattr(pairs, "WAITING", waiting)
    chance = np.random.default_rng(waiting)
    batches = [tuple(chance.integers(0, 40, (2, 9))) for _ in range(40)]

    found = pairs.select_distinct(batches)

    every = {pair for left, right in batches for pair in zip(left.tolist(), right.tolist(), strict=True)}
    assert list(zip(*(side.tolist() for side in pairs.decode(found)), strict=True)) == sorted(every)


@given(st.lists(uint64s, max_size=60))
def test_every_number_that_occurs_twice_is_found(numbers):
    every = np.array([spread(number) for number in numbers], dtype=np.uint64)
    marks = make_marks(len(numbers))
    for part in np.split(every, [len(numbers) // 2]):
        marks.add(part)
    found = marks.select(every).tolist()

    assert {place for place, number in enumerate(numbers) if numbers.count(number) > 1} <= set(found)
    assert found == sorted(set(found))


def test_few_numbers_that_occur_once_are_taken_for_others():
    numbers = np.random.default_rng(1).integers(0, 2**64, 10_000, dtype=np.uint64)

    marks = make_marks(numbers.size)
    marks.add(numbers)
    assert marks.select(numbers).size < 1500


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_estimates_of_pairs_are_those_of_their_rows(seed, size):
    chance = np.random.default_rng(seed)
    low = chance.integers(0, 3, (20, size), dtype=np.uint8)
    left, right = chance.integers(0, 20, (2, 30))

    agreed = [np.count_nonzero(low[one] == low[other]) / size for one, other in zip(left, right, strict=True)]
    assert filters.estimate_pairs(low, left, right).tolist() == [(share - 1 / 256) / (1 - 1 / 256) for share in agreed]


@given(numbers=st.lists(st.integers(-5, 5)), known=st.lists(st.integers(-5, 5)))
def test_known_numbers_are_found(numbers, known):
    found = pairs.find_known(np.array(numbers, np.int64), np.array(known, np.int64))

    assert found.tolist() == [number in known for number in numbers]
