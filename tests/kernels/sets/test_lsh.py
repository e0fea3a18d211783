"""Band keys, buckets, and the pairs of ordinary and of hot buckets."""

import math
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dedup.kernels.curve import probability
from dedup.kernels.sets.lsh import FOLLOWERS, band_keys, group, pair_counts, pairs, sample_uncompared, thin
from tests import oracles, strategies
from tests.kernels import draw_pairs, ragged, sign_sets, unragged

PUBLISHED = [18123197831487457562, 10768031981637322990]
"""Of a signature of the values 1, 2, 3, 4 in two bands of two rows, in version 1 of the hash specification."""

buckets = st.lists(st.lists(strategies.int64s, min_size=2, max_size=14, unique=True), max_size=5)
caps = st.one_of(st.none(), st.integers(2, 16))


def as_arrays(members):
    """Return buckets of these members, under the keys 1, 3, 5, ..., as `group` gives them."""
    keys = np.arange(1, 2 * len(members), 2, dtype=np.uint64)
    values, offsets = ragged([[number % 2**64 for number in sorted(each)] for each in members])
    return keys, values.view(np.int64), offsets


def pairs_of(arrays_of_buckets, max_bucket, most=1000):
    """Return every pair, as often as it comes."""
    found = []
    for left, right in pairs(*arrays_of_buckets, max_bucket, most):
        assert left.dtype == right.dtype == np.int64
        found += zip(left.tolist(), right.tolist(), strict=True)
    return found


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
        lambda shape: st.tuples(
            st.just(shape),
            arrays.arrays(np.uint64, (3, shape[0] * shape[1]), elements=strategies.uint64s),
        )
    )
)
def test_keys_are_those_of_the_definition(drawn):
    (bands, rows), signatures = drawn
    keys = band_keys(signatures, bands, rows)

    assert (keys.shape, keys.dtype) == ((3, bands), np.uint64)
    assert keys.tolist() == [
        oracles.band_keys([value & 0xFFFFFFFF for value in values], bands, rows) for values in signatures.tolist()
    ]


def test_no_documents_have_no_keys():
    assert band_keys(np.empty((0, 6), dtype=np.uint64), 2, 3).shape == (0, 2)


def test_keys_keep_their_published_values():
    assert band_keys(np.array([[1, 2, 3, 4]], dtype=np.uint64), 2, 2).tolist() == [PUBLISHED]


def test_a_key_depends_on_every_row_of_its_band_on_their_order_and_on_the_band():
    values = [[5, 6, 5, 6], [6, 5, 5, 6], [5, 7, 5, 6], [4, 6, 5, 6]]
    keys = band_keys(np.array(values, dtype=np.uint64), 2, 2)

    assert len({*keys[:, 0].tolist()}) == 4
    assert len({*keys[:, 1].tolist()}) == 1
    assert keys[0, 0] != keys[0, 1]


@pytest.mark.parametrize(("bands", "rows"), [(21, 6), (10, 2)])
@pytest.mark.parametrize("shared", [100, 300, 480])
def test_pairs_share_a_bucket_as_often_as_theory_says(bands, rows, shared):
    # Sets of many more members than rows: below that, rows of a signature depend on each other, and rates differ.
    union, drawn = 600, 3000
    left, right = (band_keys(sign_sets(sets, bands * rows), bands, rows) for sets in draw_pairs(union, shared, drawn))
    expected = probability(shared / union, bands, rows)

    rate = np.mean((left == right).any(axis=1))

    assert rate == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / drawn), rel=0)


@pytest.mark.parametrize(("jaccard", "expected"), [(0.8, 0.9983), (0.5, 0.2816), (0.2, 0.0013), (0, 0), (1, 1)])
def test_the_default_operating_point_finds_the_pairs_it_promises(jaccard, expected):
    assert probability(jaccard, 21, 6) == pytest.approx(expected, abs=5e-5)


@given(st.lists(st.tuples(st.integers(0, 5), strategies.int64s), max_size=40), st.integers(0, 2**64 - 6))
@example([], 0)
@example([(0, 5)], 0)
@example([(0, 5), (0, 5)], 0)
@example([(0, 5), (0, 6), (0, 5), (1, 6), (1, 6)], 0)
@example([(0, 1), (1, 1), (1, 0), (2, 0)], 2**64 - 6)
def test_buckets_are_the_keys_of_more_than_one_document(keyed, base):
    expected: dict[int, set[int]] = {}
    for key, doc_id in keyed:
        expected.setdefault(base + key, set()).add(doc_id)

    keys, members, offsets = group(
        np.array([base + key for key, _ in keyed], dtype=np.uint64),
        np.array([doc_id for _, doc_id in keyed], dtype=np.int64),
    )

    assert (keys.dtype, members.dtype, offsets.dtype) == (np.uint64, np.int64, np.int64)
    assert list(zip(keys.tolist(), unragged(members, offsets), strict=True)) == [
        (key, sorted(doc_ids)) for key, doc_ids in sorted(expected.items()) if len(doc_ids) > 1
    ]


@given(buckets, st.one_of(st.none(), st.integers(14, 20)), st.integers(1, 60))
@example([], None, 1)
@example([[1, 2], [1, 2]], None, 1)
def test_an_ordinary_bucket_gives_all_its_pairs(members, max_bucket, most):
    found = pairs_of(as_arrays(members), max_bucket, most)

    assert Counter(found) == Counter(pair for each in members for pair in combinations(sorted(each), 2))


@given(st.lists(strategies.int64s, min_size=3, max_size=30, unique=True), st.data())
def test_a_hot_bucket_gives_every_member_the_same_number_of_partners_and_stays_connected(members, data):
    max_bucket = data.draw(st.integers(2, len(members) - 1))
    found = pairs_of(as_arrays([members]), max_bucket)

    assert all(left < right for left, right in found)
    assert len(set(found)) == len(found)
    assert Counter(end for pair in found for end in pair) == dict.fromkeys(members, 2 * (max_bucket // 2))
    assert set(oracles.components(found).values()) == {min(members)}


@given(buckets, caps, st.integers(1, 60))
def test_pairs_depend_neither_on_the_other_buckets_nor_on_how_many_come_at_a_time(members, max_bucket, most):
    keys, ids, offsets = as_arrays(members)
    alone = [
        pairs_of((keys[number : number + 1], ids[start:end], np.array([0, end - start])), max_bucket)
        for number, (start, end) in enumerate(pairwise(offsets.tolist()))
    ]

    assert Counter(pairs_of((keys, ids, offsets), max_bucket, most)) == Counter(pair for each in alone for pair in each)


@given(buckets, caps, st.integers(1, 60))
def test_a_batch_of_pairs_is_bounded(members, max_bucket, most):
    batches = [left.size for left, _ in pairs(*as_arrays(members), max_bucket, most)]

    # One member's pairs are never parted.
    assert max(batches, default=0) <= max(most, *map(len, members), 0)
    assert min(batches, default=1) > 0
    assert len(batches) <= 1 + sum(batches) // max(1, most - max(map(len, members), default=0))


@pytest.mark.parametrize("stride", [1, 1 << 20])
def test_the_order_of_a_hot_bucket_comes_from_its_key(stride):
    members, offsets = np.arange(50) * stride, np.array([0, 50])
    first, second = (set(pairs_of((np.array([key], np.uint64), members, offsets), 10)) for key in (1, 2))

    # Another band's bucket of the same members compares other pairs, and neither order is that of the ids.
    assert len(first & second) < 0.5 * len(first)
    assert len(first & set(pairwise(members.tolist()))) < 25


@given(buckets, caps)
def test_pair_counts_are_those_of_the_pairs(members, max_bucket):
    keys, ids, offsets = as_arrays(members)
    sizes = np.diff(offsets)

    compared, uncompared = pair_counts(sizes, max_bucket)

    assert compared.sum() == len(pairs_of((keys, ids, offsets), max_bucket))
    assert (compared + uncompared).tolist() == [math.comb(size, 2) for size in sizes.tolist()]
    assert compared.tolist() == [pair_counts(sizes[[number]], max_bucket)[0][0] for number in range(sizes.size)]
    assert max_bucket is not None or not uncompared.any()


def test_pair_counts_hold_for_buckets_of_a_billion():
    assert [counts.tolist() for counts in pair_counts(np.array([10**9, 1000]), 1000)] == [
        [FOLLOWERS * 10**9, 499_500],
        [math.comb(10**9, 2) - FOLLOWERS * 10**9, 0],
    ]


@pytest.mark.parametrize("cap", [2**31, 10**10, 2**63 - 1])
def test_the_largest_caps_that_settings_allow_cap_nothing(cap):
    assert [counts.tolist() for counts in pair_counts(np.array([2, 1000]), cap)] == [[1, 499_500], [0, 0]]


def test_a_bucket_over_the_cap_gives_as_many_pairs_as_one_at_the_cap_until_its_members_choose_the_least():
    sizes = np.array([200, 201, 400, 1000, 1250, 2000])
    assert pair_counts(sizes, 200)[0].tolist() == [19_900, 201 * 99, 400 * 50, 1000 * 20, 1250 * 16, 2000 * 16]


@given(st.sets(strategies.int64s, min_size=12, max_size=30), st.integers(2, 10))
def test_a_sample_is_drawn_from_all_pairs_left_uncompared_and_no_others(members, max_bucket):
    hot = as_arrays([sorted(members), [1, 2]])
    compared = {frozenset(pair) for pair in pairs_of(as_arrays([sorted(members)]), max_bucket)}
    uncompared = {frozenset(pair) for pair in combinations(members, 2)} - compared

    left, right = sample_uncompared(*hot, max_bucket, 20.0)
    again = sample_uncompared(*hot, max_bucket, 20.0)

    assert (left < right).all()
    assert {frozenset(pair) for pair in zip(left.tolist(), right.tolist(), strict=True)} == uncompared
    assert abs(left.size - 20 * len(uncompared)) <= 1
    assert [each.tolist() for each in again] == [left.tolist(), right.tolist()]


def test_a_share_of_pairs_is_chosen_by_both_ids():
    left = np.repeat(np.arange(200), 200)
    right = np.tile(np.arange(200), 200) + 1000
    chosen = thin(left, right, 0.25)

    assert abs(chosen.sum() - 10_000) < 5 * math.sqrt(40_000 * 0.25 * 0.75)
    for side in (chosen.reshape(200, 200).sum(axis=0), chosen.reshape(200, 200).sum(axis=1)):
        assert 15 < side.min() < side.max() < 90
    assert thin(left, right, 1.0).all()
    assert not thin(left, right, 0.0).any()


def test_a_small_share_of_many_buckets_is_drawn_without_bias():
    buckets = [list(range(start, start + 12)) for start in range(0, 120_000, 12)]
    drawn = sample_uncompared(*as_arrays(buckets), 10, 0.1)[0].size
    # 6 pairs of each of 10,000 buckets are left; a bucket's draw is rounded up with probability .6.
    assert abs(drawn - 6000) < 5 * math.sqrt(10_000 * 0.6 * 0.4)
