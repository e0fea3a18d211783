"""Which characters may be taken out of a text."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.kernels.text.cuts import fit
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import strategies


def tokens_of(text, tokenizer):
    return tokenizer.hash(pa.array([text]))[0].tolist()


def fitted(text, span, near=0, tokenizer=None):
    tokenizer = tokenizer or UnicodeWords()
    places = tokenizer.locate(pa.array([text]))
    found = fit(text, places.begins, places.ends, span, near=near, tokenizer=tokenizer)
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
    assert fitted("a.b;c", (1, 4), tokenizer=UnicodeWords(tokens="punctuation")) == "a[.b];c"


@settings(max_examples=4 * settings().max_examples)
@given(strategies.texts(), st.integers(0, 20), st.integers(0, 20), st.integers(0, 5), strategies.words)
def test_what_is_left_has_the_tokens_that_it_had(text, low, size, near, tokenizer):
    places = tokenizer.locate(pa.array([text]))
    count = places.begins.size
    low = min(low, count)
    high = min(low + size, count)

    found = fit(text, places.begins, places.ends, (low, high), near=near, tokenizer=tokenizer)

    assert low <= found.begin <= found.end <= high
    left = tokens_of(text[: found.first] + text[found.last :], tokenizer)
    every = tokens_of(text, tokenizer)
    if "Σ" not in text:
        assert left == every[: found.begin] + every[found.end :]
    assert len(left) == count - (found.end - found.begin)
