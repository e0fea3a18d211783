"""Hypothesis strategies: text from everywhere in Unicode, near copies, hashes, edges between arbitrary ids."""
# ruff: noqa: RUF001 - letters that look alike are wanted

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from dedup.kernels.text.unicode_words import UnicodeWords

MARKS = "\u0301\u0308\u0345\u20dd\ufe0f\u093f\u0e31\u0e34\u0e48\u0eb1\u0ec8\u17b6\u17d2\u102c\u1039\u3099\u302a\u0307"
UNSPACED = "漢字々〆\u3007\u2e80かなカナーｶﾞﾊﾟ\u30fbไทยฯ๑ລາວ໑ខ្មែរ។៣မြန်မာ၊၃\U00020000\U0001b000"
SEPARATORS = " \t\n\r\0\x7f.,-'’·\u00a0\u00ad\u200b\u200d\u2028\u3000\ufeff\ufffd\ufffe€😀\U0010ffff"
CASING = "AÉΣσςİIıẞßǅǄKÅΩᾼÀ\u0130\u1e9eᏣ\uab70\U00010400"
# What NFKC takes apart or puts together: one code point becomes up to 18, with spaces and separators among them.
EXPANDING = "ﬁﬃﬅ\ufdfa\u3300㍿㌔①⑳½²Ⅷ＿Ａ１\u1100\u1161\u11a8각\u0340\u0344\u2126\U0001d400\U0001f100\uff9e\u0e33\u0eb3"
WORDS = "aZ_09éж\u0661क한"

_characters = st.one_of(
    st.sampled_from(WORDS + " "),
    st.characters(max_codepoint=0x7F),
    *map(st.sampled_from, (MARKS, UNSPACED, SEPARATORS, CASING, EXPANDING)),
    # UTF-8 has no surrogates.
    st.characters(exclude_categories=["Cs"]),
)
_vocabulary = st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "ΟΔΟΣ", "İz", "文", "ไทย", "x" * 9, "déjà", "_1"])

int64s = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
uint64s = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
seeds = st.one_of(st.integers(0, 3), st.integers(0, 2**63 - 1))


def texts(max_size: int = 60) -> st.SearchStrategy[str]:
    """Any characters, with those that tokenising could get wrong far more often than chance would draw them."""
    return st.one_of(st.text(_characters, max_size=max_size), st.lists(_vocabulary, max_size=20).map(" ".join))


def documents(max_size: int = 8) -> st.SearchStrategy[list[str]]:
    return st.lists(texts(), max_size=max_size)


def cells(max_size: int = 8) -> st.SearchStrategy[list[bytes | None]]:
    """Contents of a binary column: text, text cut in the middle of a character, any bytes, null."""
    cut = st.tuples(texts(), st.integers(0, 3), st.integers(0, 3)).map(lambda t: t[0].encode()[t[1] : -t[2] or None])
    return st.lists(st.one_of(texts().map(str.encode), cut, st.binary(max_size=20), st.none()), max_size=max_size)


@st.composite
def near_copies(draw: st.DrawFn, max_size: int = 12) -> list[str]:
    """Copies of a few originals, each with up to three words taken out, put in or exchanged; empty ones too."""
    originals = draw(st.lists(st.lists(_vocabulary, max_size=40), min_size=1, max_size=3))
    copies = []
    for original in draw(st.lists(st.sampled_from(originals), max_size=max_size)):
        words = list(original)
        for _ in range(draw(st.integers(0, 3))):
            place = draw(st.integers(0, len(words)))
            words[place : place + draw(st.integers(0, 1))] = draw(st.lists(_vocabulary, max_size=1))
        copies.append(" ".join(words))
    return copies


def hash_sets(max_size: int = 10, members: int = 40) -> st.SearchStrategy[list[list[int]]]:
    """Sets of 64-bit hashes, in no order; small numbers are frequent, so sets overlap."""
    one = st.lists(st.one_of(st.integers(0, 30), uint64s), unique=True, max_size=members)
    return st.lists(one, max_size=max_size)


@st.composite
def edges(draw: st.DrawFn, max_size: int = 40) -> list[tuple[int, int]]:
    """Edges between a few arbitrary ids: repeated, reversed and from an id to itself among them."""
    ends = st.sampled_from(draw(st.lists(int64s, min_size=1, max_size=20)))
    return draw(st.lists(st.tuples(ends, ends), max_size=max_size))


def runs(count: int, nightly: int = 0) -> settings:
    """Return the settings of examples that are runs of the job: so many, in the full profile four times as many, or as
    many as is said. With 0 only the full profile makes any but those that are written out.

    None is shrunk; they share nothing but the Spark session.
    """
    is_full = settings().max_examples > 30
    return settings(
        max_examples=max(nightly or 4 * count, 1) if is_full else max(count, 1),
        phases=[Phase.explicit, Phase.reuse, Phase.generate][: None if is_full or count else 1],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def several(times: int) -> settings:
    """Return the settings of so many times as many examples, in the full profile."""
    most = settings().max_examples
    return settings(max_examples=times * most if most > 30 else most)


word_settings = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "case": st.just("keep"),
            "accents": st.just("drop"),
            "digits": st.just("zero"),
            "tokens": st.sampled_from(["punctuation", "whitespace"]),
        },
    ),
    # Few, as the tables of each take a second.
    st.sampled_from([{"arabic": "drop"}, {"arabic": "drop", "han": "simplified", "accents": "drop"}]),
)
"""Settings of `UnicodeWords`."""
words = word_settings.map(lambda chosen: UnicodeWords(**chosen))
