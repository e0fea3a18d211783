"""The forecast of duplicates, held against corpora that are drawn in halves."""

from collections import Counter

import numpy as np
import pytest

from dedup.kernels.vectors.forecast import SHARES, forecast


def count_sizes(components):
    """Return the number of components of each size above 1."""
    return {size: held for size, held in Counter(Counter(components.tolist()).values()).items() if size > 1}


def count_gone(components):
    return components.size - np.unique(components).size


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_a_half_forecasts_the_whole_and_what_its_own_parts_have(exponent):
    chance = np.random.default_rng(1)
    weights = np.arange(1, 40_001) ** -exponent
    whole = chance.choice(40_000, 20_000, p=weights / weights.sum())
    half = whole[:10_000]

    told = dict(zip(SHARES, forecast(count_sizes(half), half.size), strict=True))

    assert told[2.0] == pytest.approx(count_gone(whole), rel=0.2)
    assert told[1.0] == pytest.approx(count_gone(half))
    for share in (0.5, 0.25, 0.125):
        parts = [count_gone(chance.permutation(half)[: round(share * half.size)]) for _ in range(20)]
        assert told[share] == pytest.approx(np.mean(parts), rel=0.05)


def test_nothing_is_forecast_of_nothing():
    assert forecast({}, 0) == [0.0] * len(SHARES)
    assert forecast({}, 100) == pytest.approx([0, 0, 0, 0, 0], abs=0.3)
