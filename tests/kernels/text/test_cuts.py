"""Which characters may be taken out of a text."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.text.cuts import fit
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import strategies


def tokens_of(text, tokenizer):
    return tokenizer.hash(pa.array([text]))[0].tolist()


def fit_spans(text, spans, near, tokenizer):
    """Return begin and end of spans in tokens, and first and last character, as a list of each."""
    places = tokenizer.locate(pa.array([text]))
    columns = tuple(np.array(spans, dtype=np.int64).reshape(-1, 2).T)
    return list(zip(*fit(text, places.begins, places.ends, columns, near=near, tokenizer=tokenizer), strict=True))


def fitted(text, span, near=0, tokenizer=None):
    [(_, _, first, last)] = fit_spans(text, [span], near, tokenizer or UnicodeWords())
    return text[:first] + "[" + text[first:last] + "]" + text[last:]


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


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=3)


@strategies.several(4)
@given(strategies.texts(), spans, st.integers(0, 5), strategies.words)
def test_what_is_left_has_the_tokens_that_it_had(text, drawn, near, tokenizer):
    every = tokens_of(text, tokenizer)
    count = len(every)
    asked = [(min(low, count), min(low + size, count)) for low, size in drawn]

    found = fit_spans(text, asked, near, tokenizer)

    for (low, high), (begin, end, first, last) in zip(asked, found, strict=True):
        assert low <= begin <= end <= high
        left = tokens_of(text[:first] + text[last:], tokenizer)
        if "Σ" not in text:
            assert left == every[:begin] + every[end:]
        assert len(left) == count - (end - begin)
        assert [(begin, end, first, last)] == fit_spans(text, [(low, high)], near, tokenizer)
