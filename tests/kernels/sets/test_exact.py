"""Exact search against the comparison of all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.sets import exact
from tests import oracles, strategies
from tests.kernels import ragged


def find(indexed, others, floor):
    """Return {(number in indexed, number in others): Jaccard}, and make sure that no pair comes twice."""
    index = exact.index(*ragged(map(sorted, indexed)), floor)
    found = [
        (left, right, jaccard)
        for part in exact.search(index, *ragged(map(sorted, others)))
        for left, right, jaccard in zip(*(side.tolist() for side in part), strict=True)
    ]
    pairs = {(left, right): jaccard for left, right, jaccard in found}
    assert len(pairs) == len(found)
    return pairs


@given(
    strategies.hash_sets(),
    strategies.hash_sets(),
    st.sampled_from([0.01, 0.3, 0.5, 0.8, 1.0]),
    st.sampled_from([1, 7, exact.HITS]),
)
def test_the_pairs_found_are_those_that_reach_the_floor(indexed, others, floor, hits):
    expected = {
        (left, right): float(jaccard)
        for left, one in enumerate(indexed)
        for right, other in enumerate(others)
        if (jaccard := oracles.jaccard(frozenset(one), frozenset(other))) >= oracles.Fraction(str(floor))
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "HITS", hits)
        assert find(indexed, others, floor) == expected


def test_four_of_five_reach_four_fifths():
    # 0.8 x 5 is 4.000000000000001 in floating point.
    assert find([range(5)], [range(4)], 0.8) == {(0, 0): 0.8}


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9))),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5))),
    st.sampled_from([1, 3, 1000]),
)
def test_who_meets_whom(keyed, held, hits):
    keyed, held = sorted(keyed), sorted(held)
    keys, owners = np.array(keyed, dtype=np.int64).reshape(-1, 2).T
    holders, others = np.array(held, dtype=np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "HITS", hits)
        met = [
            pair
            for left, right in exact.pair_owners(keys.astype(np.uint64), owners, others.astype(np.uint64), holders)
            for pair in zip(left.tolist(), right.tolist(), strict=True)
        ]

    assert len(met) == len(set(met))
    assert set(met) == {(owner, holder) for key, owner in keyed for holder, other in held if key == other}
