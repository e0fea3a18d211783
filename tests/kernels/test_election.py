"""How members are ranked, and who stays of a component of which not all pairs are known."""

import math
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.files.orders import add_keys, drop_keys
from dedup.kernels.election import ElectionPolicy, Electorate, KnownPairs, choose, count_parted, rank_rows

ORDER_KEYS = pa.list_(pa.float64())


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        (("smallest_id", ""), ["", "B", "a", "é"]),
        (("source", "y"), ["B", "", "a", "é"]),
        (("source", "x, y"), ["a", "B", "", "é"]),
        (("longest", ""), ["é", "", "B", "a"]),
        (("shortest", ""), ["a", "B", "", "é"]),
        (("lowest", "n"), ["B", "a", "", "é"]),
    ],
)
def test_members_come_in_the_order_of_a_rule_and_null_last(rule, order):
    ids = ["a", "é", "B", ""]
    columns = {
        "id": ids,
        "source": ["x", None, "y", "z"],
        "text_bytes": [1, 4, 2, 3],
        "order_keys": pa.array([[0.0], [np.nan], [-1.5], [np.inf]] if rule[1] == "n" else [[]] * 4, ORDER_KEYS),
    }
    rows = pa.record_batch(columns)
    keyed = add_keys(rows, [rule])
    ranks = rank_rows([rule], keyed)

    assert [ids[place] for place in np.lexsort(ranks.T[::-1])] == order
    assert [str(drop_keys(each, [rule])["order_keys"]) for each in (keyed, rows)] == [str(rows["order_keys"])] * 2


def make_copies(count: int) -> Electorate:
    numbers = np.arange(count)
    return Electorate(np.zeros(count, np.int64), numbers, np.full(count, 9), numbers[:, None], np.zeros(count, bool))


def test_near_copies_that_a_full_bucket_compares_in_a_circle_are_asked_for_until_one_stays():
    count = 40
    left = np.arange(count)
    right = (left + 1) % count
    known = KnownPairs(np.minimum(left, right), np.maximum(left, right), np.full(count, 0.9))
    policy = ElectionPolicy(0.8, by_representative=True)
    asked = 0
    while (kept := choose(make_copies(count), known, policy)).left.size:
        pairs = {*zip(known.left.tolist(), known.right.tolist(), strict=True)}
        assert not pairs & {*zip(kept.left.tolist(), kept.right.tolist(), strict=True)}
        asked += kept.left.size
        answers = np.full(kept.left.size, 0.9)
        known = KnownPairs(*map(np.concatenate, zip(known, (kept.left, kept.right, answers), strict=True)))

    assert kept.owners.tolist() == [0] * count
    assert asked < 4 * count


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.randoms(use_true_random=False), st.booleans())
def test_the_first_of_each_cluster_stay_as_many_as_its_size_allows(components, chance, by_representative):
    members = make_copies(len(components))
    ranks = chance.sample(range(len(components)), len(components))
    members = members._replace(component_ids=np.array(components), ranks=np.array(ranks)[:, None])
    within = [pair for pair in combinations(range(len(components)), 2) if len({components[one] for one in pair}) == 1]
    similar = [pair for pair in within if chance.random() < 0.5]
    known = KnownPairs(*np.array(similar, np.int64).reshape(-1, 2).T, np.full(len(similar), 0.9))
    policy = ElectionPolicy(0.8, by_representative=by_representative)
    first = choose(members, known, policy).owners.tolist()
    for copies, count in ((2, lambda size: min(size, 2)), ("log2", int.bit_length), ("sqrt", math.isqrt)):
        expected = list(first)
        for owner in {*first}:
            cluster = sorted((one for one in range(len(first)) if first[one] == owner), key=ranks.__getitem__)
            for one in cluster[: count(len(cluster))]:
                expected[one] = one
        assert choose(members, known, policy._replace(copies=copies)).owners.tolist() == expected


def test_what_was_asked_for_and_is_unlike_stays():
    known = KnownPairs(np.array([0, 1]), np.array([1, 2]), np.array([0.9, 0.9]))
    policy = ElectionPolicy(0.8, by_representative=True)
    first = choose(make_copies(3), known, policy)
    assert (first.left.tolist(), first.right.tolist()) == ([0], [2])

    known = KnownPairs(np.array([0, 1, 0]), np.array([1, 2, 2]), np.array([0.9, 0.9, 0.75]))
    second = choose(make_copies(3), known, policy)
    assert (second.owners.tolist(), second.left.size) == ([0, 0, 2], 0)


def test_components_with_a_member_whose_pair_nobody_told_are_parted_too():
    known = KnownPairs(np.array([0, 1, 0]), np.array([1, 2, 2]), np.array([0.9, 0.9, 0.75]))
    members, policy = make_copies(3), ElectionPolicy(0.8)
    kept = choose(members, known, policy)
    assert kept.stays.tolist() == [True, False, False]

    for similarity, more in ((np.nan, 1), (0.75, 1), (0.8, 0)):
        assert count_parted(members, known, kept, np.array([1, 0.9, similarity]), policy) == more


@pytest.mark.parametrize("by_representative", [False, True])
def test_members_go_for_fixed_ones_that_they_resemble_and_these_stay(by_representative):
    # 0 and 1 are fixed and alike, 2 resembles 1, 3 resembles 2 alone, 4 and 5 each other.
    known = KnownPairs(np.array([0, 1, 2, 0, 4]), np.array([1, 2, 3, 3, 5]), np.array([0.9, 0.9, 0.9, 0.7, 0.9]))
    members = make_copies(6)._replace(
        component_ids=np.array([0, 0, 0, 0, 4, 4]), fixed=np.array([True, True, False, False, False, False])
    )
    last = 3 if by_representative else 1
    for for_fixed, partner in ((False, 4), (True, 5)):
        kept = choose(members, known, ElectionPolicy(0.8, by_representative=by_representative, for_fixed=for_fixed))
        assert kept.owners.tolist() == [0, 1, 1, last, 4, partner]


def test_what_is_asked_for_grows_as_the_edges_do(monkeypatch):
    # All resemble the last, which goes for the first; the others stay.
    left, right = np.arange(9), np.full(9, 9)
    known = KnownPairs(left, right, np.full(9, 0.9))
    policy = ElectionPolicy(0.8, by_representative=True)
    assert choose(make_copies(10), known, policy).left.size == 9 * 8 / 2
    monkeypatch.setattr("dedup.kernels.election.FIRST", 2)
    kept = choose(make_copies(10), known, policy)

    assert {*zip(kept.left.tolist(), kept.right.tolist(), strict=True)} == {
        (one, other) for one in (0, 1) for other in range(one + 1, 9)
    }
