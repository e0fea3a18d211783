"""Cuts: characters to take out of a text so that all other tokens stay as they are.

Capital sigmas are an exception: their lower case depends on the letters behind them.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.kernels import Flags, Integers
from dedup.kernels.text.tokenizer import Tokenizer

STOP = re.compile(r"""[.!?\u2026\u061f\u06d4\u0964\u0965]['"\u2019\u201d\xbb)\]]*\s+|[\u3002\uff01\uff1f\uff61]""")
"""End of a sentence between two words: a full stop before white space, or one that needs none."""


class Fitted(NamedTuple):
    """Spans, in tokens and in characters; int64 [spans] each."""

    begins: Integers
    ends: Integers
    """Token after the last; the begin if nothing is left."""
    firsts: Integers
    """First character."""
    lasts: Integers
    """Character after the last."""


def fit(
    text: str, begins: Integers, ends: Integers, spans: tuple[Integers, Integers], *, near: int, tokenizer: Tokenizer
) -> Fitted:
    """Fit spans of tokens to the characters that can be cut with each, so that all other tokens stay as they are.

    A span gives up tokens at either side where a character, with the marks on it, is of a token outside as well, and
    at its end where the tokens on both sides would grow together.

    Parameters
    ----------
    begins, ends
        The characters of all tokens of the text.
    spans : int64 [spans] each
        The first token and the one after the last.
    near
        Most tokens to give up at either side for a span to begin and end with a sentence or line; then white space
        and stops go with the sentence before them. 0 leaves it as it is.
    """
    found = Fitted(*np.zeros((4, spans[0].size), dtype=np.int64))
    apart = _find_apart(begins, ends)
    rows, (lows, highs) = np.arange(spans[0].size), spans
    while rows.size:
        lows = np.minimum(apart[np.searchsorted(apart, lows)], highs)
        highs = np.maximum(apart[np.searchsorted(apart, highs, side="right") - 1], lows)
        for column, values in zip(found, (lows, highs, none := np.zeros_like(lows), none), strict=True):
            column[rows] = values
        left = lows < highs
        rows, lows, highs = rows[left], lows[left], highs[left]
        found.firsts[rows], found.lasts[rows] = begins[lows], ends[highs - 1]
        for row, low, high in zip(*(each.tolist() for each in (rows, lows, highs)), strict=True) if near else ():
            found.begins[row], found.firsts[row] = _meet_break(
                text, begins, ends, range(low, min(low + near + 1, high)), (low, found.firsts[row])
            )
            least = max(high - near - 1, int(found.begins[row]))
            found.ends[row], found.lasts[row] = _meet_break(
                text, begins, ends, range(high, least, -1), (high, found.lasts[row])
            )
        rows = rows[_mark_growing(text, begins, ends, Fitted(*(column[rows] for column in found)), tokenizer)]
        near, lows, highs = 0, found.begins[rows], found.ends[rows] - 1
    return found


def widen(
    text: str, begins: Integers, ends: Integers, spans: tuple[Integers, Integers], tokenizer: Tokenizer
) -> tuple[Integers, Integers]:
    """Widen spans of tokens to characters that can be cut with each, so that no part of a span is left.

    A span takes tokens at either side that share a character with one of its own, and those behind it as long as the
    tokens on both sides would grow together.

    Parameters
    ----------
    begins, ends
        The characters of all tokens of the text.
    spans : int64 [spans] each
        The first token and the one after the last, ascending and of one token or more.

    Returns
    -------
    lows, highs : int64 [spans]
        As `spans`; some may touch or overlap now.
    """
    apart = _find_apart(begins, ends)
    lows = apart[np.searchsorted(apart, spans[0], side="right") - 1]
    highs = apart[np.searchsorted(apart, spans[1])]
    while True:
        # Of spans that touch the outer tokens would meet.
        parted = lows[1:] > highs[:-1]
        first, last = np.flatnonzero(np.append(True, parted)), np.flatnonzero(np.append(parted, True))
        runs = Fitted(lows[first], highs[last], begins[lows[first]], ends[highs[last] - 1])
        growing = last[_mark_growing(text, begins, ends, runs, tokenizer)]
        if not growing.size:
            return lows, highs
        highs[growing] = apart[np.searchsorted(apart, highs[growing] + 1)]


def _find_apart(begins: Integers, ends: Integers) -> Integers:
    """Return the tokens that share no character with the one before, and the end of all."""
    return np.append(np.flatnonzero(np.append(True, begins[1:] >= ends[:-1])), begins.size)


def _mark_growing(text: str, begins: Integers, ends: Integers, spans: Fitted, tokenizer: Tokenizer) -> Flags:
    """Flag the spans without which the tokens on both sides would grow together."""
    growing: Flags = (spans.begins > 0) & (spans.ends < begins.size)
    growing[growing] = (spans.firsts[growing] == ends[spans.begins[growing] - 1]) & (
        spans.lasts[growing] == begins[spans.ends[growing]]
    )
    if not growing.any():
        # Of nearly all texts.
        return growing
    one, other = (
        [text[begin:end] for begin, end in zip(begins[tokens].tolist(), ends[tokens].tolist(), strict=True)]
        for tokens in (spans.begins[growing] - 1, spans.ends[growing])
    )
    joined = [left + right for left, right in zip(one, other, strict=True)]
    words = pa.array([*one, *other, *joined], pa.string())
    left, right, both = np.diff(tokenizer.hash(words)[1]).reshape(3, -1)
    growing[growing] = both < left + right
    return growing


def _meet_break(
    text: str, begins: Integers, ends: Integers, tokens: Iterable[int], otherwise: tuple[int, int]
) -> tuple[int, int]:
    """Return the first of some tokens before which a sentence or line begins, and where that is in the text."""
    for token in tokens:
        place: int | None = 0
        if token:
            place = _find_break(text, int(ends[token - 1]), int(begins[token])) if token < begins.size else len(text)
        if place is not None:
            return token, place
    return otherwise


def _find_break(text: str, begin: int, end: int) -> int | None:
    """Return the begin of a sentence or line between two tokens; None without one."""
    gap = text[begin:end]
    line = gap.rfind("\n")
    if line >= 0:
        return begin + line + 1
    stop = STOP.search(gap)
    return begin + stop.end() if stop else None
