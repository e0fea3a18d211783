"""Bands and rows that follow from the threshold."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from dedup.kernels.curve import probability
from dedup.run.job import Job
from dedup.settings.banding import MAX_SIGNATURE_SIZE, choose, find_recall
from dedup.settings.files import load_config


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0.5, (22, 2)), (0.6, (45, 4)), (0.7, (34, 5)), (0.8, (21, 6)), (0.9, (13, 9))]
)
def test_bands_follow_the_threshold(threshold, expected):
    assert load_config(settings={"threshold": threshold}).banding == expected


@given(st.floats(0.05, 1.0), st.floats(0.0, 0.9999))
def test_the_recall_is_met_with_no_band_too_many(threshold, recall):
    found = choose(threshold, recall, sigmas=9)
    bands, rows = found

    assert probability(threshold, bands, rows) >= recall - 1e-9
    assert bands == 1 or probability(threshold, bands - 1, rows) < recall
    assert find_recall(threshold, found, sigmas=9) == pytest.approx(probability(threshold, bands, rows), abs=1e-12)


@given(st.floats(0.05, 0.95), st.floats(0.5, 0.99))
def test_what_the_estimate_filter_drops_is_made_up_for_by_bands(threshold, recall):
    dropped = float(ndtr(-2.2))
    found = choose(threshold, recall, sigmas=2.2)

    if recall < 1 - dropped:
        assert find_recall(threshold, found, sigmas=2.2) >= recall - 1e-9
    assert find_recall(threshold, found, 2.2) == pytest.approx(probability(threshold, *found) * (1 - dropped))


@given(st.floats(1e-9, 1.0), st.floats(0.0, 1.0), st.one_of(st.none(), st.integers(1, 4096)), st.integers(1, 128))
def test_what_is_given_stays_and_the_other_comes_as_near_as_it_can(threshold, recall, bands, rows):
    for given_bands, given_rows in ((bands, None), (None, rows)):
        found = choose(threshold, recall, 4, given_bands, given_rows)
        assert given_bands in {None, found.bands}
        assert given_rows in {None, found.rows}
        assert found.bands * found.rows <= MAX_SIGNATURE_SIZE
        assert 1 <= found.bands <= 4096
        assert 1 <= found.rows <= 128


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({}, False),
        ({"lsh.bands": 21, "lsh.rows": 6}, False),
        ({"lsh.bands": 21, "lsh.rows": 6, "threshold": 0.6}, True),
        ({"lsh.bands": 21, "lsh.rows": 6, "threshold": 0.6, "mode": "exact"}, False),
        ({"lsh.recall": 1}, "1024 bands of 16 rows find a pair at the threshold of 0.8 with a probability of 1.0000"),
        ({"threshold": 0.001}, "4096 bands of 1 rows find a pair at the threshold of 0.001 with a probability of 0.98"),
        ({"lsh.rows": 6, "threshold": 0.6}, False),
    ],
)
def test_given_numbers_are_taken_with_a_warning_where_they_find_too_little(caplog, settings, warned):
    config = load_config(settings=settings)

    with caplog.at_level(logging.WARNING, "dedup"):
        settled = Job(inputs=[], output="", config=config).settle().config

    assert (settled.lsh.bands, settled.lsh.rows) == config.banding
    message = (
        "lsh: 21 bands of 6 rows find a pair at the threshold of 0.6 with a probability of 0.6333, below "
        "lsh.recall = 0.998; 45 bands of 4 rows would do"
    )
    if isinstance(warned, str):
        assert warned in caplog.text
        assert '; only mode = "exact" finds so many' in caplog.text
    else:
        assert [said for said in caplog.messages if said.startswith("lsh: ")] == [message] * warned
