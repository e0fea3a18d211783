"""Documents made from templates: what little tells them apart is what joins them."""

from dataclasses import replace

import numpy as np
import pytest

from dedup.kernels.sets.jaccard import jaccard
from tests.conftest import PROFILE
from tests.engine import SEARCH, Corpus, Row
from tests.templates import Planted, make_family, make_templates

COUNT = 1200 if PROFILE == "full" else 600
SMALL = replace(SEARCH, max_bucket=60)


def find(texts, search):
    """Return what the memory engine finds, and where each document's component is, -1 for none."""
    found = Corpus([Row(number, text) for number, text in enumerate(texts)]).find(search)
    places = np.full(len(texts), -1)
    places[found.components["doc_id"]] = found.components["component_id"]
    return found, places


def are_joined(places, left, right):
    return (places[left] == places[right]) & (places[left] >= 0)


def measure_planted(planted: Planted):
    corpus = Corpus([])
    return jaccard(*corpus.sets(planted.texts), planted.originals, planted.copies)


@pytest.mark.parametrize("mode", ["lsh", "exact"])
@pytest.mark.parametrize("own", [200, *(pytest.param(own, marks=pytest.mark.full) for own in (82, 60)), 53])
@pytest.mark.parametrize("changes", [{}, {"templates": 4}, {"templates": 3, "mixed": True}])
def test_a_template_hides_no_copy(mode, own, changes):
    # Of mutual similarity .5, .7, .767 and .79.
    planted = make_templates(COUNT, own=own, copies=60, **changes)
    similar = measure_planted(planted) >= 0.8
    assert np.count_nonzero(similar) == similar.size

    # A bucket of exact mode may hold more.
    found, places = find(planted.texts, replace(SMALL, mode=mode, max_bucket=60 if mode == "lsh" else 8))

    assert np.count_nonzero(are_joined(places, planted.originals, planted.copies)) == 60
    assert found.paired.pairs_uncompared == 0
    if mode == "lsh" and not changes:
        assert found.paired.pairs_settled > 100 * COUNT
        assert found.paired.pairs_distinct < 10 * COUNT


@pytest.mark.parametrize("mode", ["lsh", "exact"])
def test_pages_of_little_more_than_their_template_are_one_component(mode):
    planted = make_templates(COUNT, own=20, copies=5)

    found, places = find(planted.texts, replace(SMALL, mode=mode, max_bucket=60 if mode == "lsh" else 8))

    assert np.unique(places).size == 1
    assert found.paired.pairs_distinct < 20 * COUNT


def test_a_family_whose_members_differ_each_in_its_way_is_one_component():
    found, places = find(make_family(COUNT), SMALL)

    assert np.unique(places).size == 1
    assert found.lost.lost == 0
