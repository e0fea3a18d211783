"""Winnowing, windows and what of a document is repeated, against a search that compares every place with all."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.kernels.runs.span_offsets import unite_spans
from dedup.kernels.text import passages
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import oracles, strategies
from tests.kernels import ragged, unragged

alphabets = st.integers(0, 2)
periodic = st.tuples(st.lists(alphabets, min_size=1, max_size=4), st.integers(1, 30)).map(lambda t: t[0] * t[1])
documents = st.lists(st.one_of(st.lists(alphabets, max_size=40), periodic), max_size=6)
lengths = st.integers(2, 12)
KEYS = st.sampled_from([b"", b"a secret of 16 bytes"])


def spread(texts):
    """Return the documents with hashes in the place of letters, as the kernels have them."""
    return ragged([[oracles.token_hash(f"{letter}", 1) for letter in text] for text in texts])


def windows_of(texts, length):
    """Return the places of every window: {window: [(document, place)]}."""
    found = {}
    for number, text in enumerate(texts):
        for place in range(len(text) - length + 1):
            found.setdefault(tuple(text[place : place + length]), []).append((number, place))
    return found


@given(documents, st.integers(1, 12), strategies.seeds, KEYS)
@example([[1, 1, 1]], 3, 1, b"")
@example([], 3, 1, b"")
def test_windows_have_equal_hashes_as_they_are_equal(texts, size, seed, key):
    tokens, offsets = spread(texts)

    hashes = passages.roll(tokens, offsets, size, UnicodeWords(seed=seed, key=key))

    begins = {offsets[number] + place for number, place in places_of(texts, size)}
    assert set(np.flatnonzero(hashes).tolist()) <= begins
    told = {(number, place): int(hashes[offsets[number] + place]) for number, place in places_of(texts, size)}
    groups = {}
    for place, value in told.items():
        groups.setdefault(value, []).append(place)
    assert sorted(groups.values()) == sorted(windows_of(texts, size).values())
    assert len(told) == len(begins)


def places_of(texts, length):
    return [(number, place) for number, text in enumerate(texts) for place in range(len(text) - length + 1)]


@given(st.lists(strategies.uint64s, min_size=1, max_size=12), strategies.seeds, KEYS)
def test_a_hash_is_the_polynomial_of_its_tokens(tokens, seed, key):
    base = oracles.weights(1, seed, key)[0] & ~7 | 5

    expected = oracles.mix(sum(token * base**power for power, token in enumerate(reversed(tokens))) & oracles.MASK)

    hashes = passages.roll(*ragged([tokens]), len(tokens), UnicodeWords(seed=seed, key=key))
    assert int(hashes[0]) == expected


@given(documents, lengths)
@example([[0] * 60], 10)
@example([[0] * 9, [0] * 10, []], 10)
def test_equal_windows_hold_grams_of_one_hash_that_occurs_twice(texts, length):
    tokens, offsets = spread(texts)
    size = passages.gram_size(length)

    hashes, places, bounds = passages.select_grams(tokens, offsets, length, UnicodeWords())

    chosen = unragged(places, bounds)
    grams = passages.roll(tokens, offsets, size, UnicodeWords())
    assert hashes.tolist() == [int(grams[offsets[n] + place]) for n, of in enumerate(chosen) for place in of]
    counts = Counter(hashes.tolist())
    for same in windows_of(texts, length).values():
        held = [
            {int(grams[offsets[n] + place]) for place in chosen[n] if 0 <= place - first <= length - size}
            for n, first in same
        ]
        assert any(counts[each] > 1 or len(same) == 1 for each in set.intersection(*held))
    assert all(len(text) >= length or not chosen[n] for n, text in enumerate(texts))


def test_a_twelfth_of_the_grams_of_common_text_is_selected():
    tokens = np.random.default_rng(1).integers(0, 2**63, 100_000, dtype=np.uint64)

    hashes, _, _ = passages.select_grams(tokens, np.array([0, tokens.size]), 50, UnicodeWords())

    assert 0.06 < hashes.size / tokens.size < 0.09


def ask(texts, length):
    """Return the windows in question as the layer finds them."""
    tokens, offsets = spread(texts)
    hashes, places, bounds = passages.select_grams(tokens, offsets, length, UnicodeWords())
    numbers = np.repeat(np.arange(offsets.size - 1), np.diff(bounds))
    shared = np.isin(hashes, [value for value in hashes.tolist() if hashes.tolist().count(value) > 1])
    begins, of = passages.find_asked(places[shared], numbers[shared], np.diff(offsets), length).list()
    return list(zip(of.tolist(), begins.tolist(), strict=True))


@given(documents, lengths)
@example([[0, 1, 2, 0, 1, 2, 0]], 3)
@example([[0] * 1000], 10)
@example([[0] * 11], 10)
def test_no_repeated_window_is_left_out_of_those_in_question(texts, length):
    asked = ask(texts, length)

    assert asked == sorted(set(asked))
    assert set(asked) <= set(places_of(texts, length))
    repeated = {place for same in windows_of(texts, length).values() if len(same) > 1 for place in same}
    assert repeated <= set(asked)


def find(texts, length, keep_first):
    """Return the pieces of all documents, the first occurrence in the order of the documents."""
    rows = []
    for same in windows_of(texts, length).values():
        if len(same) > 1:
            rows += [(*place, *(same[1] if place == same[0] else same[0]), place == same[0]) for place in same]
    columns = [np.array(column, dtype=np.int64) for column in zip(*sorted(rows), strict=True)] or [
        np.array([], int)
    ] * 5
    *columns, first = columns
    return passages.find_pieces(*columns, first.astype(bool), length=length, keep_first=keep_first)


def cover(places, length):
    return {(number, token) for number, place in places for token in range(place, place + length)}


def expect(texts, length, keep_first):
    """Return every token that is repeated."""
    groups = [same for same in windows_of(texts, length).values() if len(same) > 1]
    if not keep_first:
        return cover([place for same in groups for place in same], length)
    left = cover([place for same in groups for place in same[1:]], length) - cover([same[0] for same in groups], length)
    return {
        (number, token)
        for number, token in left
        if any(
            all((number, each) in left for each in range(first, first + length))
            for first in range(token - length + 1, token + 1)
        )
    }


@given(documents, lengths, st.booleans())
@example([[0] * 100], 10, True)
@example([[0, 1] * 30, [0] * 10 + [1] * 10], 10, True)
@example([[1, 2] * 5, [1, 2] * 5, [0, 1] * 5], 10, True)
def test_pieces_are_the_repeated_tokens_with_another_place_of_each(texts, length, keep_first):
    found = find(texts, length, keep_first)

    assert {column.dtype for column in found} == {np.dtype(np.int64)}
    rows = list(zip(*(column.tolist() for column in found), strict=True))
    assert rows == sorted(rows)
    tokens = [(number, token) for number, begin, end, *_ in rows for token in range(begin, end)]
    assert len(tokens) == len(set(tokens))
    assert set(tokens) == expect(texts, length, keep_first)
    for number, begin, end, other, other_begin in rows:
        assert texts[number][begin:end] == texts[other][other_begin : other_begin + end - begin]
        assert (number, begin) != (other, other_begin)
        if keep_first:
            kept = {(other, token) for token in range(other_begin, other_begin + end - begin)}
            assert not kept & set(tokens), "what is told to stay is taken out"


@given(documents, lengths)
def test_every_repeated_window_is_somewhere_left_whole(texts, length):
    found = find(texts, length, True)

    left = [list(text) for text in texts]
    for number, begin, end in zip(*(column.tolist() for column in found[:3]), strict=True):
        left[number][begin:end] = [None] * (end - begin)
    repeated = {window for window, places in windows_of(texts, length).items() if len(places) > 1}
    assert repeated <= set(windows_of(left, length))


@pytest.mark.parametrize("length", [10, 50])
def test_one_token_a_thousand_times_takes_few_pieces(length):
    found = find([[0] * 1000], length, True)

    assert found.begins.tolist() == list(range(length, 1000, length))
    assert found.ends[-1] == 1000


intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda t: (t[0], t[0] + t[1])), max_size=8)


@given(intervals)
def test_intervals_are_united_as_sets_are(pairs):
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T

    united = list(zip(*(column.tolist() for column in unite_spans(columns[0], columns[1])), strict=True))

    assert all(end < begin for (_, end), (begin, _) in pairwise(united))
    assert [place for begin, end in united for place in range(begin, end)] == sorted(
        {place for begin, end in pairs for place in range(begin, end)}
    )


@pytest.mark.parametrize("word", [[0], [0, 1, 2]])
def test_few_grams_and_windows_of_words_over_and_over_stand_for_all(word):
    tokens, offsets = spread([word * 1000])
    grams, places, _ = passages.select_grams(tokens, offsets, 10, UnicodeWords())
    asked = passages.find_asked(places, np.zeros_like(places), np.diff(offsets), 10)

    found = passages.find_recurring(passages.roll(tokens, offsets, 10, UnicodeWords()), offsets, asked)

    assert grams.size < tokens.size / 4
    assert len(found.windows) == 2 * len(word)
    assert found.windows[:, 2].sum() == tokens.size - 9
    assert found.runs.tolist() == [[0, 2 * len(word), tokens.size - 9 - 2 * len(word), len(word)]]
