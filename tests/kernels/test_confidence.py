"""Intervals of shares against scipy's own, and against families that are found or missed whole."""

from importlib import import_module

import numpy as np
import pytest

from dedup.kernels.confidence import Share, measure_share


@pytest.fixture(scope="module")
def binomtest():
    """Return the test of scipy, which is a second of imports that no other worker needs."""
    return import_module("scipy.stats").binomtest


@pytest.mark.parametrize(("count", "of"), [(0, 1), (1, 1), (0, 40), (3, 40), (39, 40), (40, 40), (999, 1000)])
def test_single_things_have_the_interval_of_clopper_and_pearson(binomtest, count, of):
    expected = binomtest(count, of).proportion_ci(0.95, method="exact")

    found = measure_share(np.arange(of) < count, np.ones(of, dtype=np.int64))

    assert (found.count, found.of, found.share) == (count, of, count / of)
    # The design effect of families of one is n / (n - 1), or none at all.
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.06 if of <= 40 else 0.002)


def test_families_found_or_missed_whole_count_as_one_each():
    single = measure_share(np.arange(60) < 51, np.ones(60, dtype=np.int64))
    counted = measure_share(20 * (np.arange(60) < 51), np.full(60, 20))

    assert counted.of == 1200
    assert counted.share == single.share
    assert (counted.low, counted.high) == pytest.approx((single.low, single.high), rel=1e-9)


def test_pairs_spread_evenly_over_families_count_each(binomtest):
    spread = measure_share(np.full(50, 18), np.full(50, 20))

    assert (spread.low, spread.high) == pytest.approx(tuple(binomtest(900, 1000).proportion_ci(method="exact")))


def test_of_nothing_there_is_no_share():
    assert measure_share(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)) == Share(0, 0, None, None, None)


def test_few_families_of_uneven_size_have_an_interval_that_holds():
    chance, held = np.random.default_rng(3), 0
    for _ in range(500):
        totals = 10 * np.maximum(chance.lognormal(1, 1, 12).round(), 1).astype(np.int64)
        share = measure_share(chance.binomial(totals, chance.beta(4, 2, 12)), totals)
        held += share.low <= 2 / 3 <= share.high

    # Without the degrees of freedom it holds in 87 of 100.
    assert held / 500 > 0.93
