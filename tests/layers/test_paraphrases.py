"""A thousand paraphrases and a thousand smallest contradictions in three languages: the bars of the layer semantic."""

import pytest

from tests.conftest import PROFILE
from tests.paraphrases import LABELED, draw, hold_out, search

COUNT = 1_000 if PROFILE == "full" else 250


@pytest.mark.full
@pytest.mark.parametrize("order", ["tpc", "cpt"])
def test_at_most_one_contradiction_in_a_hundred_goes_and_most_paraphrases_are_found(tmp_path, order):
    told, _ = search(tmp_path, draw(7, 1_000), order)

    found = told["p", "t", "own"] + told["t", "p", "own"]
    assert sum(told.values()) - found <= 10
    # 772 in the order of the first.
    assert found >= 760


def test_the_bar_holds_of_rules_that_no_label_knows(tmp_path):
    told, details = search(tmp_path, hold_out(COUNT), begin=LABELED)

    found = told["p", "t", "own"] + told["t", "p", "own"]
    # 2 and 624 of 1,000.
    assert sum(told.values()) - found <= COUNT / 100
    assert found >= 0.61 * COUNT
    assert details["threshold_chosen_by"] == "evaluation.labeled_pairs"
    assert len(details["pairs_near_the_threshold"]) == 40
    assert sum(each["labeled_duplicates"] for each in details["curve"]) == LABELED


def test_where_contradictions_are_the_nearest_neighbours_nothing_goes_unasked(tmp_path):
    told, details = search(tmp_path, draw(7, 100), labeled=0)

    assert details["threshold_chosen_by"] == "nearest neighbours"
    assert sum(told.values()) <= 2


@pytest.mark.parametrize("guard", [pytest.param("wording", marks=pytest.mark.full), "numbers"])
def test_without_a_guard_contradictions_go(tmp_path, guard):
    settings = {"semantic.guards": [guard], "semantic.threshold": 0.5}
    told, _ = search(tmp_path, draw(7, 100), labeled=0, **settings)

    assert sum(count for (gone, _, _), count in told.items() if gone == "c") >= (1 if guard == "wording" else 25)
