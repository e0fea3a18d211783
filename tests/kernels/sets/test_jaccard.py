"""Exact Jaccard against fractions."""

from itertools import combinations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.curve import NEAR_MISS
from dedup.kernels.sets.jaccard import CLOSEST, find_near_misses, jaccard
from dedup.kernels.sets.shingles import shingle
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import oracles, strategies
from tests.kernels import ragged


@st.composite
def sets_and_pairs(draw):
    sets = draw(strategies.hash_sets())
    numbers = st.integers(0, max(len(sets) - 1, 0))
    return sets, draw(st.lists(st.tuples(numbers, numbers), max_size=30 if sets else 0))


def measure(sets, pairs):
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    similarities = jaccard(*ragged(map(sorted, sets)), left, right)
    assert similarities.dtype == np.float64
    return similarities.tolist()


@given(sets_and_pairs())
def test_similarities_are_the_fractions_rounded_once(drawn):
    sets, pairs = drawn
    members = [frozenset(each) for each in sets]

    assert measure(sets, pairs) == [float(oracles.jaccard(members[left], members[right])) for left, right in pairs]


@given(strategies.near_copies(), st.integers(1, 5), st.sampled_from([0.5, 0.8, 0.9, 1]))
def test_similar_pairs_of_near_copies_are_those_of_their_texts(copies, size, threshold):
    numbered = list(combinations(range(len(copies)), 2))
    left, right = np.array(numbered, dtype=np.int64).reshape(-1, 2).T
    expected = oracles.similar_pairs({n: oracles.shingle_set(text, size) for n, text in enumerate(copies)}, threshold)

    similarities = jaccard(
        *shingle(*UnicodeWords().hash(pa.array(copies, pa.string())), size, UnicodeWords()), left, right
    )

    found = {pair: value for pair, value in zip(numbered, similarities.tolist(), strict=True) if value >= threshold}
    assert found == {pair: float(fraction) for pair, fraction in expected.items()}


def test_a_set_without_members_is_like_nothing_not_even_itself():
    assert measure([[], [1], []], [(0, 1), (1, 0), (0, 2), (0, 0), (1, 1)]) == [0, 0, 0, 0, 1]


def test_four_fifths_is_the_threshold_that_users_write():
    # 1,600 of 2,000: the quotient of the counts, not something a rounding below it.
    sets = [range(1800), range(200, 2000), range(4), range(5)]

    assert measure(sets, [(0, 1), (2, 3)]) == [0.8, 0.8]


@given(
    st.dictionaries(
        st.tuples(st.integers(-3, 5), st.integers(6, 12)), st.sampled_from([0.0, 0.5, 0.55, 0.6, 0.7, 0.79, 0.8, 1.0])
    ),
    st.sampled_from([0.1, 0.7, 0.8]),
)
def test_near_misses_are_the_closest_of_either_document_below_the_threshold(similarities, threshold):
    ordered = sorted(similarities)
    below = [pair for pair in ordered if threshold > similarities[pair] >= threshold - NEAR_MISS]
    expected = set()
    for doc_id in {end for pair in below for end in pair}:
        # sorted is stable: of equals the first are closest.
        own = sorted((pair for pair in below if doc_id in pair), key=lambda pair: -similarities[pair])
        expected |= set(own[:CLOSEST])

    left, right = np.array(ordered, dtype=np.int64).reshape(-1, 2).T
    values = np.array([similarities[pair] for pair in ordered])
    found = find_near_misses(left, right, values, threshold)

    assert {pair for pair, chosen in zip(ordered, found.tolist(), strict=True) if chosen} == expected
    assert len(expected) <= CLOSEST * len({end for pair in below for end in pair})
