"""The S-curve and the errors of an estimate, of numbers and of arrays."""

import math

import numpy as np
import pytest

from dedup.kernels.curve import least_estimate, probability, standard_error


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (21, 6), (450, 20), (4096, 1)])
def test_a_pair_shares_a_bucket_unless_every_band_differs(bands, rows):
    similarities = np.linspace(0, 1, 21)
    expected = [1 - (1 - jaccard**rows) ** bands for jaccard in similarities.tolist()]

    np.testing.assert_allclose(probability(similarities, bands, rows), expected, rtol=1e-6, atol=1e-12)
    assert [probability(each, bands, rows) for each in similarities.tolist()] == pytest.approx(expected, rel=1e-6)


def test_bands_and_rows_broadcast():
    bands, rows = np.array([1.0, 21.0]), np.array([2.0, 6.0])

    assert probability(0.5, bands, rows).tolist() == [probability(0.5, 1, 2), probability(0.5, 21, 6)]


def test_tiny_probabilities_keep_their_digits():
    assert probability(1e-3, 21, 6) == pytest.approx(21e-18, rel=1e-9)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_the_standard_error_of_narrow_values_is_that_of_the_share_that_agrees_corrected_for_chance(bits):
    agreeing = 0.8 + 0.2 / 2**bits
    expected = math.sqrt(agreeing * (1 - agreeing) / 126) / (1 - 1 / 2**bits)

    assert standard_error(0.8, 126, bits) == pytest.approx(expected, rel=1e-12)


def test_the_standard_error_is_that_of_a_binomial_share():
    assert standard_error(0.8, 126) == pytest.approx(math.sqrt(0.8 * 0.2 / 126), rel=1e-12)
    assert standard_error(np.array([1, 0.8, 0]), 126).tolist() == [0, standard_error(0.8, 126), 0]


@pytest.mark.parametrize("bits", [1, 8])
@pytest.mark.parametrize("sigmas", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0])
def test_no_greater_share_of_similar_pairs_is_dropped_than_so_many_standard_errors_allow(threshold, sigmas, bits):
    floor, allowed = least_estimate(threshold, 126, sigmas, bits), math.erfc(sigmas / math.sqrt(2)) / 2
    estimates = (np.arange(127) / 126 - 1 / 2**bits) / (1 - 1 / 2**bits)
    least = int(np.count_nonzero(estimates < floor))

    for jaccard in {threshold, (1 + threshold) / 2, 1.0}:
        assert drop(jaccard, least, bits) < allowed
    assert drop(threshold, least + 1, bits) >= allowed or least == 126
    if sigmas == 4:
        assert drop(threshold, least, bits) < 1e-4


def drop(jaccard, least, bits):
    """Return the probability that fewer than `least` of 126 rows agree in their lowest bits."""
    share = jaccard + (1 - jaccard) / 2**bits
    return math.fsum(math.comb(126, count) * share**count * (1 - share) ** (126 - count) for count in range(least))


def test_a_great_margin_drops_nothing():
    assert least_estimate(0.8, 16384, 1e6) < -1 / 256


def test_a_number_gives_a_number():
    assert {type(probability(0.8, 21, 6)), type(probability(1, 21, 6)), type(standard_error(0.8, 126))} == {float}
