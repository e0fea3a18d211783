"""Cuts: characters to take out of a text so that all other tokens stay as they are."""

import re
from typing import NamedTuple

import pyarrow as pa

from dedup.kernels import Integers
from dedup.kernels.text.tokenizer import Tokenizer

STOP = re.compile(r"""[.!?\u2026\u061f\u06d4\u0964\u0965]['"\u2019\u201d\xbb)\]]*\s+|[\u3002\uff01\uff1f\uff61]""")
"""End of a sentence between two words: a full stop before white space, or one that needs none."""


class Fitted(NamedTuple):
    """A span, in tokens and in characters."""

    begin: int
    end: int
    """Token after the last; `begin` if nothing is left."""
    first: int
    """First character."""
    last: int
    """Character after the last."""


def fit(
    text: str, begins: Integers, ends: Integers, span: tuple[int, int], *, near: int, tokenizer: Tokenizer
) -> Fitted:
    """Fit a span of tokens to the characters that can be cut with it, so that all other tokens stay as they are.

    A span gives up tokens at either side where a character, with the marks on it, is of a token outside as well, and
    at its end where the tokens on both sides would grow together.

    Parameters
    ----------
    begins, ends
        The characters of all tokens of the text.
    span
        The first token and the one after the last.
    near
        Most tokens to give up at either side for the span to begin and end with a sentence or line; then white space
        and stops go with the sentence before them. 0 leaves it as it is.
    """
    low, high = span
    count = begins.size
    while 0 < low < high and begins[low] < ends[low - 1]:
        low += 1
    while low < high < count and ends[high - 1] > begins[high]:
        high -= 1
    if low >= high:
        return Fitted(low, low, 0, 0)
    first, last = int(begins[low]), int(ends[high - 1])
    for token in range(low, min(low + near + 1, high) if near else low):
        place = _find_break(text, int(ends[token - 1]), int(begins[token])) if token else 0
        if place is not None:
            low, first = token, place
            break
    for token in range(high, max(high - near - 1, low) if near else high, -1):
        place = _find_break(text, int(ends[token - 1]), int(begins[token])) if token < count else len(text)
        if place is not None:
            high, last = token, place
            break
    if low > 0 and high < count and first == ends[low - 1] and last == begins[high]:
        one, other = (text[begins[token] : ends[token]] for token in (low - 1, high))
        apart, joined = (tokenizer.hash(pa.array(each))[0].size for each in ([one, other], [one + other]))
        if joined < apart:
            return fit(text, begins, ends, (low, high - 1), near=0, tokenizer=tokenizer)
    return Fitted(low, high, first, last)


def _find_break(text: str, begin: int, end: int) -> int | None:
    """Return the begin of a sentence or line between two tokens; None without one."""
    gap = text[begin:end]
    line = gap.rfind("\n")
    if line >= 0:
        return begin + line + 1
    stop = STOP.search(gap)
    return begin + stop.end() if stop else None
