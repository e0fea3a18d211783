"""Corpora made from templates: documents that share most of their words, and copies of a few planted among them."""

from typing import NamedTuple

import numpy as np

from dedup.kernels import Integers

VOCABULARY = 1 << 40
SHINGLE = 5


class Planted(NamedTuple):
    """Texts, and the positions of copies and of what they were made from."""

    texts: list[str]
    originals: Integers
    copies: Integers


def make_templates(
    count: int,
    *,
    common: int = 400,
    own: int = 60,
    templates: int = 1,
    mixed: bool = False,
    copies: int = 40,
    seed: int = 1,
) -> Planted:
    """Return documents of a template's words and own ones, and copies that share a part of the own ones.

    Parameters
    ----------
    templates
        Sites; with `mixed` each document has half the words of two templates of them.
    """
    chance = np.random.default_rng(seed)
    shared = chance.integers(0, VOCABULARY, (templates, common))
    owned = chance.integers(0, VOCABULARY, (count, own))
    of = chance.integers(0, templates, (count, 2))
    if not mixed:
        of[:, 1] = of[:, 0]
    half = common // 2
    words = np.concatenate((shared[of[:, 0], :half], shared[of[:, 1], half:], owned), axis=1)
    originals = chance.choice(count, copies, replace=False)
    similar = words[originals].copy()
    whole = common + own - SHINGLE + 1
    for copy, similarity in zip(similar, chance.uniform(0.805, 0.95, copies), strict=True):
        # So many words from the end leave this share of the shingles of both.
        lost = int(whole * (1 - similarity) / (1 + similarity))
        copy[copy.size - lost :] = chance.integers(0, VOCABULARY, lost)
    order = chance.permutation(count + copies)
    places = np.argsort(order)
    return Planted(write(np.concatenate((words, similar))[order]), places[originals], places[count:])


def make_family(count: int, *, words: int = 400, edits: int = 4, seed: int = 1) -> list[str]:
    """Return documents that are one text with some words exchanged in each."""
    chance = np.random.default_rng(seed)
    family = np.tile(chance.integers(0, VOCABULARY, words), (count, 1))
    rows = np.repeat(np.arange(count), edits)
    family[rows, chance.integers(0, words, rows.size)] = chance.integers(0, VOCABULARY, rows.size)
    return write(family)


def make_plain(count: int, *, words: int = 460, seed: int = 1) -> list[str]:
    """Return documents that have nothing in common."""
    return write(np.random.default_rng(seed).integers(0, VOCABULARY, (count, words)))


def write(words: Integers) -> list[str]:
    """Return a text for each row of words."""
    return [" ".join([f"{word:x}" for word in row]) for row in words.tolist()]
