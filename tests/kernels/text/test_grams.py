"""Runs of tokens that stand in other texts too, against comparing all with all."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.text import grams
from dedup.kernels.text.unicode_words import UnicodeWords

WORDS = st.lists(st.sampled_from("abc"), max_size=9)
TEXTS = st.lists(WORDS, max_size=6)
CONTRACT = UnicodeWords()


def hash_texts(texts):
    return CONTRACT.hash(pa.array([" ".join(words) for words in texts], pa.string()))


def cut(words, size):
    """Return the runs that a text is known by, with their places."""
    if len(words) < size:
        return [(0, tuple(words))] if words else []
    return [(place, tuple(words[place : place + size])) for place in range(len(words) - size + 1)]


@given(prompts=TEXTS, documents=TEXTS, size=st.integers(1, 5))
def test_all_runs_of_the_texts_are_found_and_no_others(prompts, documents, size):
    index, occurrences = grams.index(*hash_texts(prompts), size, CONTRACT)
    known = {run for words in prompts for _, run in cut(words, size)}
    assert index.high.size == len(known)
    places = zip(*(column.tolist() for column in occurrences), strict=True)
    runs = {}
    for gram, text, place in places:
        run = tuple(prompts[text][place : place + index.sizes[gram]])
        assert runs.setdefault(gram, run) == run
    assert set(runs.values()) == known
    assert len(occurrences.grams) == sum(len(cut(words, size)) for words in prompts)
    hits = grams.find(*hash_texts(documents), index.filter, size, CONTRACT)
    numbers = grams.look_up(index, hits.high, hits.low)
    found = [
        (document, place, runs[number])
        for document, place, number in zip(hits.documents.tolist(), hits.places.tolist(), numbers.tolist(), strict=True)
        if number >= 0
    ]
    expected = [
        (number, place, tuple(words[place : place + length]))
        for number, words in enumerate(documents)
        for place in range(len(words))
        for length in range(1, size + 1)
        if place + length <= len(words) and tuple(words[place : place + length]) in known
    ]
    assert found == expected


def test_the_filter_passes_few_others():
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 1 << 64, 300_000, dtype=np.uint64)
    ends = np.array([0, tokens.size])
    index, _ = grams.index(tokens[:10_000], np.array([0, 10_000]), 13, CONTRACT)
    assert grams.find(tokens, ends, index.filter, 13, CONTRACT).places.size < 10_000 + tokens.size / 64
    assert index.filter.bits.size <= 4 * index.high.size


def test_grams_of_one_first_half_are_told_apart():
    high, low = np.array([5, 5, 7], np.uint64), np.array([1, 9, 4], np.uint64)
    known = grams.GramIndex(grams.Filter((1,), np.zeros(1, np.uint8)), high, low, np.ones(3, np.uint8))
    asked = np.array([5, 5, 5, 7, 8], np.uint64), np.array([9, 1, 2, 4, 4], np.uint64)
    assert grams.look_up(known, *asked).tolist() == [1, 0, -1, 2, -1]


def test_both_halves_are_hashes_of_their_own():
    index, _ = grams.index(*hash_texts([list("abcabba")]), 2, CONTRACT)
    assert not set(index.high.tolist()) & set(index.low.tolist())
