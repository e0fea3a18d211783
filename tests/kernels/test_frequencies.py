"""The sample of documents, and slopes of curves whose slope is known."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels import frequencies
from tests import strategies


@given(st.lists(strategies.int64s, max_size=30), st.randoms())
def test_a_document_is_drawn_whatever_stands_beside_it(doc_ids, chance):
    drawn = dict(zip(doc_ids, frequencies.draw(np.array(doc_ids, dtype=np.int64), 0.5).tolist(), strict=True))
    chance.shuffle(doc_ids)

    again = frequencies.draw(np.array(doc_ids, dtype=np.int64), 0.5)

    assert again.tolist() == [drawn[doc_id] for doc_id in doc_ids]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_the_sample_has_its_share_and_larger_ones_hold_smaller_ones(share):
    doc_ids = np.arange(100_000)
    drawn = frequencies.draw(doc_ids, share)

    # Five standard errors.
    assert abs(drawn.mean() - share) <= 5 * np.sqrt(share * (1 - share) / doc_ids.size)
    assert not (drawn & ~frequencies.draw(doc_ids, min(1.0, share * 1.5))).any()


@given(st.lists(st.lists(st.sampled_from([1, 2, 3, 2**32 + 1, 2**64 - 1]), max_size=9), max_size=5))
def test_tokens_are_counted_over_all_texts_by_their_low_bits(texts):
    shortened = [frequencies.shorten(np.array(text, dtype=np.uint64)) for text in texts]
    expected = Counter(token % 2**32 for text in texts for token in text)

    assert frequencies.count(shortened).tolist() == sorted(expected.values(), reverse=True)


def test_a_long_document_counts_by_its_beginning():
    tokens = np.arange(frequencies.MOST_TOKENS + 5, dtype=np.uint64)

    assert frequencies.shorten(tokens) == tokens[:-5].astype("<u4").tobytes()


@pytest.mark.parametrize("slope", [-0.6, -1.0, -1.4])
def test_the_slope_of_a_power_law_is_its_exponent(slope):
    counts = np.round(1e7 * np.arange(1.0, 5_001) ** slope).astype(np.int64)
    ranks = frequencies.choose_ranks(counts)

    assert frequencies.fit_slope(counts, ranks) == pytest.approx(slope, abs=2e-3)


def test_each_decade_weighs_the_same():
    ranks = frequencies.choose_ranks(np.full(50_000, 1_000))

    assert (ranks[0], ranks[-1]) == (1, frequencies.MOST_RANKS)
    steps = np.diff(np.log10(ranks[ranks >= 30]))
    assert steps.max() < 1.1 * steps.min()


def test_rare_tokens_have_no_say():
    counts = np.array([500, 300, 100, 10, 9, 9, 1, 1])

    assert frequencies.choose_ranks(counts).tolist() == [1, 2, 3, 4]
    assert frequencies.choose_ranks(counts, counts[1:]).tolist() == [1, 2, 3]
    assert frequencies.choose_ranks(counts, counts[5:]).tolist() == []
    assert frequencies.fit_slope(counts, frequencies.choose_ranks(counts)) is None
