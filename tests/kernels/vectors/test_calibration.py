"""The choice of a threshold by labels or by nearest neighbours."""

import numpy as np
import pytest

from dedup.kernels.vectors.calibration import choose_by_labels, choose_by_neighbours


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_duplicates_are_told_from_usual_neighbours_and_few_of_these_from_others(share):
    chance = np.random.default_rng(1)
    usual = np.tanh(chance.normal(0.8, 0.15, 1_000))
    near = np.tanh(chance.normal(3.0, 0.2, round(share * 1_000)))

    threshold = choose_by_neighbours(np.concatenate((usual, near)))

    assert np.mean(usual >= threshold) < 0.005
    assert not near.size or np.mean(near >= threshold) > 0.98


@pytest.mark.parametrize("seed", range(5))
def test_of_neighbours_that_are_near_by_chance_alone_next_to_none_reach_the_threshold(seed):
    draw = np.random.default_rng(seed).gumbel

    threshold = choose_by_neighbours(np.tanh(draw(0.4, 0.04, 512)))

    assert np.mean(np.tanh(draw(0.4, 0.04, 200_000)) >= threshold) < 1e-4
    assert threshold < 0.9


def test_where_most_have_a_duplicate_too_little_is_removed_and_not_too_much():
    chance = np.random.default_rng(1)
    usual, near = np.tanh(chance.normal(0.8, 0.15, 200)), np.tanh(chance.normal(3.0, 0.2, 800))

    assert choose_by_neighbours(np.concatenate((usual, near))) > usual.max()


@pytest.mark.parametrize("cosines", [np.empty(0), np.full(19, 0.5)])
def test_few_neighbours_tell_nothing(cosines):
    assert choose_by_neighbours(cosines) == 1.0


def label(duplicates, others, parted=()):
    cosines = np.concatenate((duplicates, others))
    flags = np.arange(cosines.size) < len(duplicates)
    return choose_by_labels(cosines, flags, np.isin(cosines, parted))


def test_labels_choose_the_least_cosine_above_which_nearly_all_are_duplicates():
    duplicates = np.linspace(0.5, 0.99, 200)

    assert label(duplicates, np.linspace(0.1, 0.6, 30)) == pytest.approx(0.583, abs=1e-3)
    # One of a hundred may be none; none is sought below the twentieth part of the duplicates.
    assert label(duplicates, np.append(np.linspace(0.1, 0.3, 30), 0.55)) == pytest.approx(0.525, abs=2e-3)
    # Those that a guard parts are no edges.
    assert label(duplicates, np.linspace(0.1, 0.9, 30), np.linspace(0.1, 0.9, 30)) == pytest.approx(0.525, abs=2e-3)


@pytest.mark.parametrize(
    ("duplicates", "others"), [(np.full(19, 0.9), np.full(50, 0.1)), (np.full(50, 0.9), np.full(19, 0.1))]
)
def test_few_labels_choose_nothing(duplicates, others):
    assert label(duplicates, others) is None


def test_no_threshold_serves_where_others_are_nearest():
    assert label(np.linspace(0.5, 0.9, 50), np.full(50, 1.0)) is None
