"""Documents of which no step may take the square: each bound is tens of times what is needed, a square far above it."""

import os
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pytest

from dedup import deduplicate
from dedup.explain.differ import align
from dedup.explain.spans import part
from dedup.kernels import features
from dedup.kernels.text import passages
from dedup.kernels.text.lines import read_lines
from dedup.kernels.text.matches import KnownGrams, match
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers.url import Form
from tests.bench_hostile import LAYERS, make_settings, write
from tests.hostile import DOCUMENTS

WORDS = UnicodeWords()
FORM = Form(tracking=["utm_*"])
KEY = UnicodeWords(key=b"k" * 16, accents="drop", tokens="punctuation")
STEPS = {
    "hashed": lambda text: WORDS.hash(pa.array([text])),
    "keyed": lambda text: KEY.hash(pa.array([text])),
    "located": lambda text: WORDS.locate(pa.array([text])),
    "signed": lambda text: features.compute(pa.array([text]), WORDS, shingle_size=5, bands=21, rows=6, seed=1),
    "cut into lines": lambda text: read_lines(
        pa.array([text]), WORDS, by_paragraph=False, by_tokens=True, min_characters=1
    ),
    "cut into paragraphs": lambda text: read_lines(
        pa.array([text]), WORDS, by_paragraph=True, by_tokens=False, min_characters=20
    ),
    "selected": lambda text: passages.select_grams(*WORDS.hash(pa.array([text])), 50, WORDS),
    "an address": lambda text: FORM.canonicalise(f"http://a.example/{text}?{text}"),
    "parted": lambda text: part(text, [{"begin": 0, "end": len(text) // 2}]),
}


@cache
def make(kind, seed, size):
    return DOCUMENTS[kind](seed, size)


def spend(work):
    """Return the seconds of the processor that work takes here and in processes of its own."""
    begin = sum(os.times()[:4])
    work()
    return sum(os.times()[:4]) - begin


@pytest.mark.parametrize("step", STEPS)
def test_no_step_takes_the_square_of_a_document(step):
    STEPS[step]("a é Σ")
    spent = {kind: spend(partial(STEPS[step], make(kind, 1, 50_000))) for kind in DOCUMENTS}

    assert {kind: seconds for kind, seconds in spent.items() if seconds > 0.75} == {}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_takes_the_square_of_a_document(layer, tmp_path):
    settings = make_settings(layer, tmp_path)
    # Of small ones what is loaded and compiled.
    for size in (100, 25_000):
        write([make(kind, seed, size) for kind in DOCUMENTS for seed in range(2)], tmp_path)
        spent = spend(partial(deduplicate, tmp_path / "corpus.parquet", settings=settings))

    assert spent < 7.5


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_no_two_documents_take_the_square_to_align(kind):
    align("a b", "a c")
    one, other = (make(kind, seed, 25_000) for seed in range(2))

    assert spend(partial(align, one, other)) < 2.5


def test_parameters_of_tracking_do_not_go_one_by_one():
    parameters = "&".join(f"utm_{number}={number}" for number in range(60_000))

    assert spend(partial(FORM.canonicalise, f"http://a.example/?x=1&{parameters}")) < 4


def test_white_space_alone_has_no_word():
    assert spend(partial(part, " " * 60_000, [])) < 4


def test_common_phrases_are_not_held_against_every_match():
    count = 20_000
    known = KnownGrams(
        numbers=np.arange(2),
        sizes=np.array([2, 2]),
        is_common=np.array([False, True]),
        offsets=np.array([0, 1, 1]),
        texts=np.array([7]),
    )
    work = partial(match, np.tile([0, 1], count), np.arange(2 * count) * 5, known, 0, with_common=True)

    assert spend(work) < 6
