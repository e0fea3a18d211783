"""Pairs of sets that share a template, against comparing all."""

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.sets.templates import Items, link
from tests import oracles
from tests.kernels import ragged

most = st.integers(2, 4)
thresholds = st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9])


def make_sets(seed):
    """Return distinct sets, most of them of up to three templates, as numbers of shingles."""
    chance = Random(seed)
    vocabulary = chance.choice([12, 20, 40])
    templates = [chance.sample(range(vocabulary), chance.randint(4, vocabulary // 2 + 2)) for _ in range(3)]
    sets = set()
    for _ in range(chance.randint(1, 60)):
        made = set(chance.choice(templates)) | (set(chance.choice(templates)) if chance.random() < 0.2 else set())
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            made ^= {chance.randrange(vocabulary if chance.random() < 0.3 else 10**9)}
        sets.add(frozenset(made))
    return chance.sample(ordered := sorted(map(sorted, sets)), len(ordered))


def link_sets(sets, threshold, most, *, exhaust):
    shingles, offsets = ragged(sorted(oracles.mix(shingle) for shingle in each) for each in sets)
    return link(Items(shingles, offsets, np.diff(offsets)), threshold, most, exhaust=exhaust)


def find_similar(sets, pairs, threshold):
    """Return the pairs that reach the threshold."""
    found = {tuple(sorted(pair)) for pair in pairs if pair[0] != pair[1]}
    frozen = [frozenset(each) for each in sets]
    return [(left, right) for left, right in found if oracles.jaccard(frozen[left], frozen[right]) >= threshold]


def are_connected(edges, pairs):
    places = oracles.components(edges)
    return all(left in places and places[left] == places.get(right) for left, right in pairs)


@given(st.integers(0, 2**32), thresholds, most, st.booleans())
def test_pairs_of_sets_connect_all_that_are_similar_but_undecided_ones(seed, threshold, most, exhaust):
    sets = make_sets(seed)

    found = link_sets(sets, threshold, most, exhaust=exhaust)

    undecided = found.undecided.tolist()
    assert not (exhaust and undecided)
    known = [*zip(found.left.tolist(), found.right.tolist(), strict=True), *combinations(undecided, 2)]
    every = find_similar(sets, combinations(range(len(sets)), 2), threshold)
    assert are_connected(find_similar(sets, known, threshold), every)


def test_what_is_similar_only_to_a_purer_page_of_another_template_meets_it():
    # Each has a fifth besides its template, so none resembles another; all resemble a page of the bare template that
    # lacks a shingle, and of which there are several, so that shingle counts as hot.
    template = list(range(100))
    pages = [template + list(range(start, start + 20)) for start in range(1000, 5000, 100)]
    bare = [template[1:], *([*template[1:], start] for start in range(9000, 9010))]
    sets = pages + bare

    found = link_sets(sets, 0.8, 4, exhaust=False)

    assert not found.undecided.size
    edges = find_similar(sets, zip(found.left.tolist(), found.right.tolist(), strict=True), 0.8)
    assert are_connected(edges, [(0, other) for other in range(1, len(sets))])
    assert found.left.size < 3 * len(sets)


@pytest.mark.parametrize("count", [500, 2000])
def test_work_grows_with_the_sets_and_not_with_their_square(count):
    # Of a template and words of their own, half as much as would make them similar; and of one that makes them so.
    for own in (20, 5):
        sets = [list(range(100)) + list(range(start, start + own)) for start in range(1000, 1000 + 50 * count, 50)]

        found = link_sets(sets, 0.8, 10, exhaust=True)

        assert found.left.size <= (3 * count if own == 5 else 0)


def test_no_sets_give_no_pairs():
    found = link_sets([], 0.8, 2, exhaust=False)

    assert (found.left.size, found.right.size, found.undecided.size) == (0, 0, 0)
