"""The S-curve and where it goes through."""

from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.integrate import quad

from dedup.kernels.curve import least_estimate, probability
from dedup.kernels.sets import minhash
from dedup.plan.curve import compared, cross, integral_optimum


@pytest.mark.parametrize(
    ("bands", "rows", "threshold", "sigmas", "bits"),
    [(2, 2, 0.8, 0.5, 8), (3, 1, 0.9, 0.0, 8), (5, 1, 0.8, 0.0, 8), (1, 4, 0.7, 1.0, 8), (3, 2, 0.8, 0.5, 1)],
)
def test_compared_pairs_are_those_that_share_a_band_and_whose_estimate_passes(bands, rows, threshold, sigmas, bits):
    jaccard, chance = 0.6, 1 / 2**bits
    chances = {"equal": jaccard, "bits": (1 - jaccard) * chance, "unlike": (1 - jaccard) * (1 - chance)}
    floor = least_estimate(threshold, bands * rows, sigmas, bits)
    expected = 0.0
    for states in product(chances, repeat=bands * rows):
        shares = any(set(states[start : start + rows]) == {"equal"} for start in range(0, bands * rows, rows))
        agreement = np.array([np.mean([state != "unlike" for state in states])])
        if shares and minhash.correct(agreement, bits)[0] >= floor:
            expected += prod(chances[state] for state in states)

    found = compared(np.array([jaccard]), bands, rows, threshold, sigmas, bits=bits)
    assert found[0] == pytest.approx(expected, rel=1e-9)


def test_a_loose_estimate_drops_nothing():
    similarities = np.linspace(0.05, 1, 20)

    np.testing.assert_allclose(
        compared(similarities, 20, 5, 0.8, 1e6), probability(similarities, 20, 5), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("recall", "high", "share", "low"), [(0.99, 0.5, 0.001, 0.05), (0.5, 0.9, 0.4, 0.89), (0.999, 0.8, 1e-9, 0.01)]
)
def test_both_targets_are_met_exactly_where_they_cross(recall, high, share, low):
    found = cross(recall, high, share, low)

    values = probability(np.array([high, low]), found.bands, found.rows)
    np.testing.assert_allclose(values, [recall, share], rtol=1e-6)


def test_targets_that_exclude_each_other_do_not_cross():
    assert cross(0.99, 0.3, 0.001, 0.5) is None
    assert cross(0.1, 0.8, 0.2, 0.3) is None


@pytest.mark.parametrize(("threshold", "choice"), [(0.3, (37, 3)), (0.5, (25, 5)), (0.7, (14, 9)), (0.9, (5, 25))])
def test_datasketch_s_choices_are_those_of_its_documentation(threshold, choice):
    assert integral_optimum(threshold, 128) == choice


@pytest.mark.parametrize(("threshold", "below"), [(0.6, 0.5), (0.8, 0.2)])
def test_its_integrals_are_those_of_its_definition(threshold, below):
    def error(bands, rows):
        curve = lambda s: 1 - (1 - s**rows) ** bands  # noqa: E731 - what is integrated
        return below * quad(curve, 0, threshold)[0] + (1 - below) * quad(lambda s: 1 - curve(s), threshold, 1)[0]

    grid = [(bands, rows) for rows in range(1, 41) for bands in range(1, 40 // rows + 1)]

    assert integral_optimum(threshold, 40, below=below, above=1 - below) == min(grid, key=lambda choice: error(*choice))
