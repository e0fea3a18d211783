"""Vectors learned from texts."""

import numpy as np
import pyarrow as pa
import pytest

from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.kernels.vectors import latent
from dedup.kernels.vectors.products import find_cosines
from tests.paraphrases import draw

WORDS = UnicodeWords()
TEXTS = [text for triple in draw(3, 60) for text in (triple.text, triple.paraphrase)] + ["", "?", "\u4e2d\u6587"]


def learn(texts):
    found = latent.count_features(pa.array(texts), WORDS)
    return latent.fit(found.data, found.indices.astype(np.int64), found.indptr.astype(np.int64))


def test_a_text_has_the_features_of_its_words_pairs_and_pieces_alone():
    whole = latent.count_features(pa.array(TEXTS), WORDS)

    for row, text in enumerate(TEXTS):
        alone = latent.count_features(pa.array([text]), WORDS)
        own = slice(whole.indptr[row], whole.indptr[row + 1])
        assert np.array_equal(whole.indices[own], alone.indices)
        assert np.array_equal(whole.data[own], alone.data)
    # Two words, their pair, and three and four pieces; pieces of both weigh a half of a word each.
    [values] = [latent.count_features(pa.array(["abc abcd"]), WORDS).toarray()]
    assert values[values > 0].size == 2 + 1 + 2 + 3 - 1
    assert latent.count_features(pa.array(["a a a"]), WORDS).max() == pytest.approx(1 + np.log(3))


def test_vectors_do_not_depend_on_the_batch_and_forms_of_a_text_are_near():
    directions = learn(TEXTS).astype(np.float32)

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

    shares = np.bincount(counts.indices, minlength=latent.FEATURES)
    weights = np.log((1 + len(TEXTS)) / (1 + shares)) + 1
    held = np.flatnonzero(shares)
    rows = counts.toarray()[:, held] * weights[held]
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    _, values, turned = np.linalg.svd(rows, full_matrices=False)
    strong = values > 0.3
    alike = np.abs((found / weights[:, None])[held].T @ turned.T)[strong][:, strong]
    assert np.linalg.norm(alike, axis=1).min() > 0.99


def test_nothing_is_learned_from_no_word():
    assert not learn(["", "?"]).any()
