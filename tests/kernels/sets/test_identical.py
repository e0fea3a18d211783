"""Documents of one digest and repeated ids, against dictionaries."""

from collections import Counter

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.kernels.sets.identical import find_identical, find_repeated
from tests import strategies

halves = st.one_of(st.integers(-1, 1), st.sampled_from([-(2**63), 2**63 - 1]))
numbers = st.one_of(st.integers(-3, 3), strategies.int64s)


@given(st.lists(st.tuples(halves, halves, numbers), max_size=40), st.integers(1, 3))
@example([], 1)
@example([(7, 7, 7)], 3)
# Sets that share a high half, their rows by turns.
@example([(5, 1, 1), (5, 2, 2), (5, 1, 3), (5, 2, 4), (6, 1, 0)], 1)
def test_every_copy_comes_once_with_the_least_id_of_its_digest(documents, times):
    sets = {}
    for high, low, doc_id in documents:
        sets.setdefault((high, low), set()).add(doc_id)
    expected = [(doc_id, min(ids)) for ids in sets.values() for doc_id in ids if doc_id != min(ids)]

    high, low, doc_ids = np.array(documents * times, dtype=np.int64).reshape(-1, 3).T
    found, set_ids = find_identical(high, low, doc_ids)

    assert found.dtype == set_ids.dtype == np.int64
    assert sorted(zip(found.tolist(), set_ids.tolist(), strict=True)) == sorted(expected)


@given(st.lists(numbers, max_size=40))
@example([])
@example([-(2**63), 2**63 - 1, -(2**63), 2**63 - 1, 0])
def test_repeated_ids_come_once_and_in_order(doc_ids):
    found = find_repeated(np.array(doc_ids, dtype=np.int64))

    assert found.dtype == np.int64
    assert found.tolist() == sorted(doc_id for doc_id, count in Counter(doc_ids).items() if count > 1)
