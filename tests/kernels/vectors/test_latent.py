"""Vectors learned from texts."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from dedup.kernels.hashing import GOLDEN, mix
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.kernels.vectors import latent
from dedup.kernels.vectors.products import find_cosines
from tests.paraphrases import draw

WORDS = UnicodeWords()
TEXTS = [text for triple in draw(3, 60) for text in (triple.text, triple.paraphrase)] + ["", "?", "\u4e2d\u6587"]


def learn(texts):
    return latent.fit(latent.count_features(pa.array(texts), WORDS))


def hash_one(value):
    return int(mix(np.array([value % 2**64], np.uint64))[0])


def count_slowly(text):
    """Return the weights of the features of a text."""
    [hashes], tokens = [WORDS.hash(pa.array([text]))[0].tolist()], WORDS.locate(pa.array([text]))
    words = [tokens.digested[begin:end].tobytes() for begin, end in pairwise(tokens.widths.tolist())]
    found = Counter()
    for (hashed, word), count in Counter(zip(hashes, words, strict=True)).items():
        weight, marked = 1 + math.log(count), b"\0" + word + b"\0"
        found[hash_one(hashed)] += weight
        pieces = [marked[begin : begin + 4] for begin in range(len(marked) - 3)]
        for piece in pieces:
            feature = hash_one(int.from_bytes(piece, "little") * int(GOLDEN))
            found[feature] += 0.5 * weight / math.sqrt(len(pieces))
    told = Counter()
    for feature, weight in found.items():
        told[feature % latent.FEATURES] += weight
    pairs = Counter(hash_one(one * int(GOLDEN) + other) % latent.FEATURES for one, other in pairwise(hashes))
    for feature, count in pairs.items():
        told[feature] += 0.5 * (1 + math.log(count))
    return told


def test_a_text_has_the_features_of_its_words_pairs_and_pieces_alone():
    texts = [*TEXTS, "a a a", "abc abcd", " ".join(["to be or not"] * 40)]
    found = latent.count_features(pa.array(texts), WORDS)

    for row, text in enumerate(texts):
        own = slice(found.bounds[row], found.bounds[row + 1])
        told = dict(zip(found.columns[own].tolist(), found.weights[own].tolist(), strict=True))
        assert told == pytest.approx(count_slowly(text))
    # Two words, their pair, and three and four pieces, of which the words share one.
    assert len(count_slowly("abc abcd")) == 2 + 1 + 2 + 3 - 1


def test_vectors_do_not_depend_on_the_batch_and_forms_of_a_text_are_near():
    directions = learn(TEXTS)

    found = latent.encode(pa.array(TEXTS), WORDS, directions)

    assert found.shape == (len(TEXTS), min(latent.DIMENSIONS, len(TEXTS)))
    assert np.array_equal(found, np.concatenate([latent.encode(pa.array([each]), WORDS, directions) for each in TEXTS]))
    assert [bool(row.any()) for row in found[-3:]] == [False, False, True]
    firsts = np.arange(0, 120, 2)
    assert (
        np.median(find_cosines(found, firsts, firsts + 1)) > np.median(find_cosines(found, firsts, firsts[::-1])) + 0.2
    )


def test_directions_are_those_of_a_singular_value_decomposition():
    counts = latent.count_features(pa.array(TEXTS), WORDS)
    found = learn(TEXTS).astype(float)

    weights = np.log((1 + len(TEXTS)) / (1 + np.bincount(counts.columns, minlength=latent.FEATURES))) + 1
    rows = np.zeros((len(TEXTS), latent.FEATURES))
    rows[np.repeat(np.arange(len(TEXTS)), np.diff(counts.bounds)), counts.columns] = counts.weights
    held = np.flatnonzero(rows.any(axis=0))
    rows = rows[:, held] * weights[held]
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    _, values, turned = np.linalg.svd(rows, full_matrices=False)
    strong = values > 0.3
    found = (found / weights[:, None])[held]
    found /= np.maximum(np.linalg.norm(found, axis=0), 1e-12)
    alike = np.abs(found.T @ turned.T)[strong][:, strong]
    assert np.linalg.norm(alike, axis=1).min() > 0.99


def test_long_texts_that_share_nothing_but_frequent_words_are_not_near():
    chance = np.random.default_rng(1)
    words = [f"{chance.integers(1 << 40):x}" for _ in range(2_000)]
    frequent = 1 / np.arange(1, 2_001)
    sizes = np.exp(chance.normal(4, 1, 400)).astype(int) + 1
    texts = [" ".join(chance.choice(words, size, p=frequent / frequent.sum())) for size in sizes]
    long = np.argsort(sizes)[-40:]

    found = latent.encode(pa.array(texts), WORDS, learn(texts))

    assert np.abs(find_cosines(found, np.repeat(long, 40), np.tile(long, 40)).reshape(40, 40) - np.eye(40)).max() < 0.5


def test_texts_that_are_all_alike_have_vectors_still():
    assert latent.encode(pa.array(["to be"]), WORDS, learn(["to be"] * 300)).any()


def test_nothing_is_learned_from_no_word():
    assert not learn(["", "?"]).any()


def test_vectors_are_the_same_however_many_words_are_held(monkeypatch):
    directions = learn(TEXTS)
    whole = latent.encode(pa.array(TEXTS), WORDS, directions)
    monkeypatch.setattr(latent, "AT_ONCE", 7)

    assert np.array_equal(latent.encode(pa.array(TEXTS), WORDS, directions), whole)
