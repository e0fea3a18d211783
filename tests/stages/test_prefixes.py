"""Prefixes of shingle sets: no pair at the threshold is lost, and little else is looked at."""

import math
import random
from collections import Counter
from fractions import Fraction

import pytest

from dedup.stages.prefixes import select_prefixes
from tests import oracles
from tests.stages import make_sets, signed

CORPORA = 40


def draw_corpora(seed):
    """Return sets of many small corpora by id, the corpora sharing no shingle, near copies frequent."""
    chance = random.Random(seed)
    sets, corpora = {}, []
    for _ in range(CORPORA):
        universe = [chance.randrange(2**64) for _ in range(chance.randint(4, 30))]
        ids = [chance.randrange(-(2**63), 2**63) for _ in range(chance.randint(2, 7))]
        base = chance.sample(universe, chance.randint(1, len(universe)))
        for doc_id in ids:
            kept = [member for member in base if chance.random() < 0.9]
            sets[doc_id] = frozenset([*kept, *chance.sample(universe, chance.choice([0, 1, 1, 3]))] or universe)
        corpora.append(ids)
    sets[0] = frozenset()
    return sets, corpora


def collect(spark, sets, threshold):
    found = {doc_id: set() for doc_id in sets}
    for row in select_prefixes(make_sets(spark, sets), threshold=threshold).collect():
        assert row.shingle not in found[row.doc_id]
        found[row.doc_id].add(row.shingle)
    return found


@pytest.mark.parametrize("threshold", [0.2, 0.55, 0.8, 1.0])
def test_every_pair_at_the_threshold_shares_a_shingle_of_both_prefixes(spark, threshold):
    sets, corpora = draw_corpora(repr(threshold))
    pairs = [
        pair for ids in corpora for pair in oracles.similar_pairs({doc_id: sets[doc_id] for doc_id in ids}, threshold)
    ]
    assert len(pairs) > CORPORA / 2

    prefixes = collect(spark, sets, threshold)

    assert [(left, right) for left, right in pairs if not prefixes[left] & prefixes[right]] == []
    frequencies = Counter(signed(member) for members in sets.values() for member in members)
    for doc_id, prefix in prefixes.items():
        members = {signed(member) for member in sets[doc_id]}
        rest = {member for member in members - prefix if frequencies[member] > 1}
        unshared = len(members) - len(prefix) - len(rest)
        assert prefix <= members
        assert all(frequencies[member] > 1 for member in prefix)
        # The rarest come first, and shingles of one document only take a place without a row.
        assert max(map(frequencies.get, prefix), default=0) <= min(map(frequencies.get, rest), default=math.inf)
        length = len(members) - math.ceil(Fraction(str(threshold)) * len(members)) + 1
        assert len(prefix) == min(max(length - unshared, 0), len(prefix) + len(rest)) or not members


@pytest.mark.parametrize(("threshold", "shared", "whole"), [(0.55, 11, 20), (0.07, 7, 100)])
def test_a_pair_at_the_threshold_survives_a_prefix_full_of_private_shingles(spark, threshold, shared, whole):
    # 0.55 x 20 is 11.000000000000002: taken at its word, it makes the prefix one too short.
    prefixes = collect(spark, {1: range(whole), 2: range(shared)}, threshold)

    assert len(prefixes[1]) == 1
    assert prefixes[1] <= prefixes[2]


def test_shingles_of_one_document_have_no_row(spark):
    assert collect(spark, {1: [1, 2, 3], 2: [3, 4], 3: [5, 6], 4: []}, 0.2) == {1: {3}, 2: {3}, 3: set(), 4: set()}


def test_a_document_of_several_rows_keeps_its_prefix(spark):
    """Wholly equal rows without an id column share their id."""
    twice = make_sets(spark, {1: range(5)})
    sets = twice.unionByName(twice).unionByName(make_sets(spark, {2: range(4), 3: [4, *range(100, 140)]}))

    found = {}
    for row in select_prefixes(sets, threshold=0.8).collect():
        found.setdefault(row.doc_id, set()).add(row.shingle)

    assert found[1] & found[2]
