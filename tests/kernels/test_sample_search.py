"""The search in memory: what it finds of near copies, and other settings on a larger signature."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from dedup.kernels import sample_search
from dedup.kernels.curve import probability
from dedup.kernels.sets import filters, minhash
from dedup.kernels.sets.shingles import shingle
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import oracles
from tests.kernels import draw_pairs, sign_sets
from tests.test_pipeline import make_texts

SETTING = sample_search.Setting(threshold=0.8, bands=21, rows=6, max_bucket=150, estimate_sigmas=4.0)


def search(texts, setting, size):
    sets = shingle(*UnicodeWords().hash(pa.array(texts)), 5, UnicodeWords())
    doc_ids = np.arange(len(texts)) * 3 - 50
    heads = sample_search.find_heads(doc_ids, *sets)
    return sample_search.search(
        sample_search.SampleDocuments(doc_ids, *sets, heads, minhash.sign(*sets, size, 1)), setting
    )


@pytest.mark.parametrize("size", [126, 200])
def test_edges_and_components_are_those_of_the_texts(size):
    texts = make_texts(4, originals=50)
    sets = {number: found for number, text in enumerate(texts) if (found := oracles.shingle_set(text, 5))}
    similar = oracles.similar_pairs(sets, 0.8)
    found = search(texts, SETTING, size)

    left, right = np.array(sorted(similar)).T
    assert len(similar) > 30
    assert found.holds(found.edges, left, right).all()
    every = {(int(pair) // len(texts), int(pair) % len(texts)) for pair in found.edges}
    heads = found.heads.tolist()
    assert every == {pair for pair in similar if all(heads[each] == each for each in pair)}
    places = oracles.components(similar)
    assert found.components.tolist() == [places.get(number, number) for number in range(len(texts))]
    assert found.heads.tolist() == [
        min((other for other in sets if sets[other] == sets.get(number)), default=number)
        for number in range(len(texts))
    ]


def test_a_pair_found_is_told_from_others():
    found = search(["a b c d e f g h", "a b c d e f g h", "a b c d e f g h i", "", "", "z"], SETTING, 126)

    left, right = np.array([(0, 1), (0, 2), (1, 2), (3, 4), (0, 3), (2, 5)]).T
    assert found.holds(found.edges, left, right).tolist() == [True, True, True, False, False, False]
    assert found.holds(found.edges[:0], left, right).tolist() == [True, False, False, False, False, False]
    assert found.components.tolist() == [0, 0, 0, 3, 4, 5]
    assert found.shares_bucket(left, right).tolist() == [True, True, True, True, False, False]


def test_the_rows_of_a_larger_signature_follow_the_curve_of_the_setting():
    one, other = (sign_sets(sets, 126) for sets in draw_pairs(300, 180, 4000))
    setting = SETTING._replace(bands=14, rows=8)
    shares = (sample_search.band_keys(one, setting) == sample_search.band_keys(other, setting)).any(axis=1).mean()

    # Two standard errors are .013; 21 x 6 would give .63.
    assert shares == pytest.approx(probability(0.6, 14, 8), abs=0.02)
    assert sample_search.band_keys(one, setting).shape == (4000, 14)


def test_the_estimate_takes_only_the_rows_of_the_setting():
    one, other = (sign_sets(sets, 126) for sets in draw_pairs(300, 180, 500))
    low = minhash.low_bytes(np.concatenate((one, other)))
    low[:500, 20:] = 1
    low[500:, 20:] = 2
    setting = SETTING._replace(bands=4, rows=5, threshold=0.5)
    left = np.arange(500)

    likely = sample_search.select_likely(np.full(1000, 240), low[:, : setting.size], left, left + 500, setting)

    assert likely.size > 490


def test_a_cap_on_buckets_leaves_pairs_out():
    family = [" ".join([*map(str, range(60)), *"abcde", f"z{number}"]) for number in range(60)]
    whole = search(family, SETTING, 126)
    capped = search(family, SETTING._replace(max_bucket=4), 126)

    assert whole.paired.size == 60 * 59 // 2
    assert 59 <= capped.paired.size < whole.paired.size
    assert Counter(capped.components.tolist()) == Counter(whole.components.tolist()) == {0: 60}
    assert capped.pairs_in_buckets < whole.pairs_in_buckets


def test_a_length_that_rules_the_threshold_out_is_no_candidate():
    sizes = np.array([100, 79, 80])

    assert filters.select_possible(sizes[[0, 0]], sizes[[1, 2]], 0.8).tolist() == [1]
