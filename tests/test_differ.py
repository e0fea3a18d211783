"""Differences of texts: they make up both, and what is shared is what the kernels take for the same."""

import random
import time
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.explain import differ
from dedup.explain.differ import align, split_words
from tests import oracles, strategies


def assert_true(pieces, left, right):
    assert "".join(word for piece in pieces for word in piece.left) == left
    assert "".join(word for piece in pieces for word in piece.right) == right
    for piece in pieces:
        one, other = (["".join(oracles.tokens(word)) for word in side] for side in (piece.left, piece.right))
        assert not piece.shared or one == other
    assert all(one.shared != other.shared for one, other in pairwise(pieces))


@given(st.lists(strategies.near_copies(), min_size=1), st.sampled_from([0, 5, 2000]))
def test_pieces_make_up_both_texts(copies, long):
    texts = [text for each in copies for text in each if text]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differ, "LONG", long)
        for left, right in pairwise(texts):
            pieces = align(left, right)
            assert_true(pieces, left, right)
            words = [[key for key, _ in split_words(text)] for text in (left, right)]
            assert all(piece.shared for piece in pieces) == (words[0] == words[1])


@given(strategies.texts())
def test_words_are_the_tokens_of_the_text_wherever_it_is_composed(text):
    composed = oracles.unicodedata.normalize("NFKC", text).lower()
    if not oracles.tokens(composed):
        return

    words = split_words(composed)

    assert [key for key, _ in words] == oracles.tokens(composed)
    assert "".join(word for _, word in words) == composed


def test_case_and_punctuation_are_no_difference():
    pieces = align("Free of charge, to ANY person.", "free of charge (to any body)")

    assert [(piece.shared, piece.left, piece.right) for piece in pieces] == [
        (True, ("Free ", "of ", "charge, ", "to ", "ANY "), ("free ", "of ", "charge (", "to ", "any ")),
        (False, ("person.",), ("body)",)),
    ]


def test_what_a_long_copy_changes_is_found_among_what_it_keeps():
    chance = random.Random(1)
    words = [f"{chance.choice('abc')}{chance.randrange(300)}" for _ in range(30_000)]
    edited = [*words[:5000], "new", *words[5001:20_000], *words[20_003:]]

    pieces = align(" ".join(words), " ".join(edited))

    changed = [(len(piece.left), len(piece.right)) for piece in pieces if not piece.shared]
    assert changed == [(1, 1), (3, 0)]


@pytest.mark.parametrize("vocabulary", [1, 110])
def test_texts_of_few_words_take_no_square(vocabulary):
    # Of words that no text is cut behind, each at hundreds of places: looked at pair by pair they take minutes.
    words = [word for word in map("w{}".format, range(200)) if crc32(word.encode()) % 16][:vocabulary]
    chance = random.Random(vocabulary)
    sides = [chance.choices(words, k=50_000 + number) for number in range(2)]
    texts = [" ".join(["same", *side, "end"]) for side in sides]
    begin = time.process_time()

    pieces = align(*texts)

    assert time.process_time() - begin < 2.5
    assert_true(pieces, *texts)
    assert pieces[0].shared
    assert pieces[-1].shared
