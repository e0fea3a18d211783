"""Where tokens stand in the text as it was written."""

import unicodedata
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup.kernels.text.places import fit, locate
from dedup.kernels.text.tokenizer import Contract, tokenise
from tests import strategies
from tests.kernels import unragged

contracts = st.fixed_dictionaries(
    {},
    optional={
        "case": st.just("keep"),
        "accents": st.just("drop"),
        "digits": st.just("zero"),
        "tokens": st.sampled_from(["punctuation", "whitespace"]),
    },
).map(lambda options: Contract(**options))


def tokens_of(text, contract):
    return tokenise(pa.array([text]), contract)[0].tolist()


@settings(max_examples=4 * settings().max_examples)
@given(strategies.documents(), contracts)
@example(["ΟΔΟΣ ΣΑΣ", "a\u0301b e\u0301", "\u1100\u1161\u11a8각"], Contract())
def test_the_characters_of_tokens_are_those_tokens(texts, contract):
    places = locate(pa.array(texts, pa.string()), contract)

    hashes, offsets = tokenise(pa.array(texts, pa.string()), contract)
    assert places.offsets.tolist() == offsets.tolist()
    rows = zip(texts, *(unragged(each, offsets) for each in (hashes, places.begins, places.ends)), strict=True)
    for text, expected, begins, ends in rows:
        assert all(0 <= begin < end <= len(text) for begin, end in zip(begins, ends, strict=True))
        # Between two tokens that share no character, the text may be cut, and each side keeps its tokens.
        for number, (end, begin) in enumerate(zip(ends, begins[1:], strict=False), 1):
            assert end <= begin or set(range(begin, end)) <= set(range(begins[number - 1], ends[number]))
            if end <= begin:
                alone = tokens_of(text[:end], contract)
                # The lower case of a sigma is another where a word ends.
                assert len(alone) == number
                assert "Σ" in text or alone == expected[:number]
                assert len(tokens_of(text[begin:], contract)) == len(expected) - number


@given(strategies.documents())
@example(["x\u0301 a\u200d\u0301b", "a\u200db", ".\u0301", "e\ufe0f!"])
def test_no_mark_is_parted_from_what_it_stands_on(texts):
    places = locate(pa.array(texts, pa.string()), Contract())

    for text, begins, ends in zip(
        texts, unragged(places.begins, places.offsets), unragged(places.ends, places.offsets), strict=True
    ):
        for place in {*begins, *ends} - {0, len(text)}:
            assert not unicodedata.combining(text[place])
            assert text[place] != "\u200d" != text[place - 1]


@given(st.lists(strategies.texts(), min_size=2, max_size=2))
def test_equal_tokens_have_equal_digests_wherever_they_stand(texts):
    joined = [f"{texts[0]} {texts[1]}", texts[1].upper().lower(), texts[1]]
    places = locate(pa.array(joined), Contract())
    hashes, offsets = tokenise(pa.array(joined), Contract())

    whole = [places.digest(*bounds, b"") for bounds in pairwise(offsets.tolist())]
    count = int(offsets[3] - offsets[2])
    last = places.digest(int(offsets[1]) - count, int(offsets[1]), b"")
    tokens = unragged(hashes, offsets)
    assert (whole[1] == whole[2]) == (tokens[1] == tokens[2])
    assert (last == whole[2]) == (tokens[0][len(tokens[0]) - count :] == tokens[2])


def test_a_digest_minds_where_tokens_end_and_the_key():
    places = locate(pa.array(["ab c", "a bc"]), Contract())

    assert places.digest(0, 2, b"") != places.digest(2, 4, b"") != places.digest(2, 4, b"key")


def fitted(text, span, near=0, contract=None):
    contract = contract or Contract()
    places = locate(pa.array([text]), contract)
    found = fit(text, places.begins, places.ends, span, near=near, contract=contract)
    return text[: found.first] + "[" + text[found.first : found.last] + "]" + text[found.last :]


@pytest.mark.parametrize(
    ("text", "span", "near", "expected"),
    [
        ("One two, three. Four", (1, 3), 0, "One [two, three]. Four"),
        ("One two.", (0, 2), 0, "[One two]."),
        ("a. B c. D e. F", (0, 5), 3, "[a. B c. D e. ]F"),
        ("a. b c. d e f. g", (1, 5), 2, "a. [b c. ]d e f. g"),
        ("a. b c. d e f. g", (2, 6), 3, "a. b c. [d e f. ]g"),
        ("a b c d e f g", (2, 6), 3, "a b [c d e f] g"),
        ("- a\n  - b c\n  - d", (1, 3), 1, "- a\n[  - b c\n]  - d"),
        ("3.14 a.b c", (1, 3), 5, "3.[14 a].b c"),
        ("他说。我们。你", (2, 4), 2, "他说。[我们。]你"),
        ('"A b." C d.', (0, 2), 2, '["A b." ]C d.'),
        ("foo漢字bar", (1, 3), 0, "foo[漢]字bar"),
        ("漢foo漢字", (1, 3), 0, "漢[foo漢]字"),
        ("a\u0301b x\u0301y", (0, 1), 0, "[a\u0301b] x\u0301y"),
        ("x ﷺ y", (0, 3), 0, "[x] ﷺ y"),
    ],
)
def test_a_span_is_fitted_to_the_text(text, span, near, expected):
    assert fitted(text, span, near) == expected


def test_punctuation_that_parts_two_words_stays():
    assert fitted("a.b;c", (1, 4), contract=Contract(tokens="punctuation")) == "a[.b];c"


@settings(max_examples=4 * settings().max_examples)
@given(strategies.texts(), st.integers(0, 20), st.integers(0, 20), st.integers(0, 5), contracts)
def test_what_is_left_has_the_tokens_that_it_had(text, low, size, near, contract):
    places = locate(pa.array([text]), contract)
    count = places.begins.size
    low = min(low, count)
    high = min(low + size, count)

    found = fit(text, places.begins, places.ends, (low, high), near=near, contract=contract)

    assert low <= found.begin <= found.end <= high
    left = tokens_of(text[: found.first] + text[found.last :], contract)
    every = tokens_of(text, contract)
    if "Σ" not in text:
        assert left == every[: found.begin] + every[found.end :]
    assert len(left) == count - (found.end - found.begin)
