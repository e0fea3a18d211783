"""Text beyond ASCII by tables: the same bytes as from the Unicode database, character by character and together."""
# ruff: noqa: RUF001 - letters that look alike are what must be told apart

import random
import unicodedata
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.text import unicode_words
from dedup.kernels.text.folding import UNSAFE
from dedup.kernels.text.tokenizer import read_buffers
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.conftest import PROFILE
from tests.strategies import several

WORDS = [
    UnicodeWords(),
    UnicodeWords(accents="drop"),
    UnicodeWords(case="keep", digits="zero"),
    UnicodeWords(tokens="punctuation"),
    UnicodeWords(tokens="whitespace", accents="drop", digits="zero", case="keep"),
]
EXTREMES = [
    pytest.param(words, id=str(number), marks=() if number in {0, len(WORDS) - 1} else pytest.mark.full)
    for number, words in enumerate(WORDS)
]
"""The default, and all else at once."""
SCRIPTS = [
    "aZ é\u0301\u0327ﬁ½İẞ",
    "ΟΔΣσςά.'Σ\u0301 ϹͅΑ",
    "سلام\u064e\u0651\u0654\u0653ﻻأ ",
    "हिनदी\u093c\u094d\u0928\u0933क़ ",
    "\u1100\u1161\u11a8가각\u1112\u1175\u11c2 ",
    "かがｶﾞ\u3099ﾟパー漢　",
    "ＡｂＣ１２３！ｱ",
    "😀👨\u200d👩\ufe0f🏽🇫🇷",
    "\u0c46\u0c56\u0cc6\u0cc2\u0cd5ো\u09c7\u09be\u09bc",
    "a\n\t\x00 !._-",
]


class Characters(NamedTuple):
    """Characters by what folding may do with them, but for `every`, which has all."""

    every: list[str]
    assigned: list[str]
    marks: list[str]
    decomposed: list[str]
    """Into a first and a second character, which all such first and second ones are in the next two."""
    firsts: list[str]
    seconds: list[str]


@pytest.fixture(scope="module")
def characters():
    """Return what the worker of these tests alone looks for."""
    every = [char for char in map(chr, range(0x110000)) if not "\ud800" <= char < "\ue000"]
    assigned = [char for char in every if unicodedata.category(char) not in {"Cn", "Co"}]
    decomposed = {
        char: [chr(int(part, 16)) for part in parts]
        for char in assigned
        if (parts := unicodedata.decomposition(char).split()) and not parts[0].startswith("<") and len(parts) == 2
    }
    firsts, seconds = map(set, zip(*decomposed.values(), strict=True))
    return Characters(
        every=every,
        assigned=assigned,
        marks=[char for char in assigned if unicodedata.combining(char)],
        decomposed=[*decomposed],
        firsts=sorted(firsts | set("\u1100\u1112가각힣")),
        seconds=sorted(seconds | set("\u1161\u1175\u11a8\u11c2")),
    )


def check(documents, words):
    """Fold documents, str or bytes, and compare with the database."""
    cells = [each.encode() if isinstance(each, str) else each for each in documents]
    folded, bounds = unicode_words.fold(*read_buffers(pa.array(cells, pa.binary())), words)
    content, offsets, table = folded.tobytes(), bounds.tolist(), unicode_words._ascii_table(words)
    normalise = unicode_words.normaliser(words)
    differing = [
        (cell, found)
        for cell, start, end in zip(cells, offsets, offsets[1:], strict=False)
        if (found := content[start:end]) != normalise(cell.decode("utf-8", "replace")).encode().translate(table) + b"\0"
    ]
    assert differing == []


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=str(number), marks=pytest.mark.full if number else ())
        for number, words in enumerate(WORDS)
    ],
)
def test_every_character_folds_alone_and_between_letters(characters, words):
    # Tables are of blocks, which those between are of too.
    check([*characters.assigned, *characters.every[:: 1 if PROFILE == "full" else 61]], words)
    check([f"A{char}B" for char in characters.assigned], words)


@pytest.mark.parametrize("words", EXTREMES)
def test_every_mark_folds_behind_letters_and_whatever_composes_behind_all_that_it_may(characters, words):
    bases = ["a", "E", "é", "ậ", "=", "漢", "ﬁ", "´", "ा", "ا", "か", "ｶ", "가", "a\u0301", "x\u05b0", "न\u093c", ""]
    check([base + mark for base in bases for mark in characters.marks + characters.seconds], words)
    check([f"{first}{second}a" for first in characters.firsts for second in characters.seconds], words)
    check([f"{char}{second}" for char in characters.decomposed for second in characters.seconds], words)


@pytest.mark.parametrize("words", EXTREMES)
def test_random_strings_of_what_meets_fold_as_one(characters, words):
    chance = random.Random(repr(words))
    pool = [
        *characters.marks,
        *characters.seconds * 4,
        *characters.firsts * 2,
        *"aAEé \nΣσ.'!" * 30,
        *"".join(SCRIPTS) * 5,
    ]
    check(["".join(chance.choices(pool, k=chance.randint(2, 9))) for _ in range(40_000)], words)


@pytest.mark.parametrize("words", EXTREMES)
def test_random_bytes_fold_as_what_replaces_them(words):
    chance = random.Random(2)
    pool = [*"aé漢😀 \nΣ\u0301".encode(), 0x80, 0xBF, 0xC0, 0xE0, 0xED, 0xA0, 0xF0, 0x90, 0xF4, 0xF5, 0xFF]
    check([bytes(chance.choices(pool, k=chance.randint(1, 9))) for _ in range(40_000)], words)


mixed = st.lists(st.sampled_from(SCRIPTS).flatmap(lambda script: st.text(script, max_size=8)), max_size=6).map("".join)


@several(3)
@given(st.lists(st.text(max_size=20) | mixed, max_size=5), st.sampled_from(WORDS))
def test_documents_fold_as_by_the_database(documents, words):
    check(documents, words)


@given(st.lists(st.binary(max_size=12) | mixed.map(str.encode), max_size=5), st.sampled_from(WORDS))
def test_bytes_of_any_kind_fold_as_by_the_database(cells, words):
    check(cells, words)


@pytest.mark.parametrize(
    "plain",
    [
        *("École naïve cafe\u0301", "Съёмка Ёлка", "ὁδός", "مدرسة", "हिन्दी बड़े क़", "漢字かなガｶﾞ", "ไทย", "đã Việt"),
        *("한국어\u1112\u1161\u11ab", "👨\u200d👩🏽❤\ufe0f", "ﬁ½Ⅷ", "বাংলা ড়া", "தமிழ் கொ"),
    ],
)
def test_texts_of_living_languages_do_not_need_the_database(plain):
    check([plain], UnicodeWords())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unicode_words, "normaliser", None)
        unicode_words.fold(*read_buffers(pa.array([plain])), UnicodeWords())
        with pytest.raises(TypeError):
            unicode_words.fold(*read_buffers(pa.array(["Σ"])), UnicodeWords())


def test_a_word_that_needs_the_database_takes_no_other_along():
    tables = unicode_words.folding_of(UnicodeWords())

    assert tables.kinds[ord("Σ")] == UNSAFE
    check(["é ΟΔΟΣ é", "ΟΔΟΣ", "", "Σ", "ΣΑ ΣΑΣ", "a\u0301\u0316 b"], UnicodeWords())


@pytest.mark.parametrize("words", WORDS, ids=range(len(WORDS)))
def test_documents_of_nothing_but_what_grows_most_find_room(words):
    check(["\ufdfa" * 50, "㌖" * 20 + "\u2057", "a" * 99 + "\ufdfa", "\ufdfb", ""] * 3, words)
