"""Matches: spans of documents whose grams stand in texts that are searched for."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dedup.kernels import Flags, Integers
from dedup.kernels.runs.bounds import find_bounds


class KnownGrams(NamedTuple):
    """Grams that occur in some document."""

    numbers: Integers
    """Numbers in the index, ascending."""
    sizes: Integers
    """Tokens of each."""
    is_common: Flags
    """Flags of grams in more documents than count as matches."""
    offsets: Integers
    """Gram i stands in `texts[offsets[i]:offsets[i + 1]]`; int64 [grams + 1]."""
    texts: Integers


class MatchedSpan(NamedTuple):
    """Matched tokens of a document."""

    begin: int
    end: int
    texts: tuple[int, ...]
    """Matched texts, ascending; none for common grams."""


def match(
    numbers: Integers, places: Integers, known: KnownGrams, margin: int, *, with_common: bool
) -> list[MatchedSpan]:
    """Return the matched spans of one document; none overlap or touch.

    Parameters
    ----------
    numbers, places : int64 [hits]
        Grams of the index and their first tokens, in any order.
    margin
        Tokens on both sides of a match that belong to it; they may lie outside the document.
    with_common
        Whether common grams make spans of their own, where they reach into no other.
    """
    rows = np.searchsorted(known.numbers, numbers)
    ends = places + known.sizes[rows]
    common = known.is_common[rows]
    spans = [
        MatchedSpan(begin, end, tuple(sorted({text for row in owned for text in _list_texts(known, row)})))
        for begin, end, owned in _unite(places[~common] - margin, ends[~common] + margin, rows[~common])
    ]
    if with_common:
        lows, highs = ([span[side] for span in spans] for side in (0, 1))
        spans += [
            MatchedSpan(begin, end, ())
            for begin, end, _ in _unite(places[common], ends[common], rows[common])
            # As many spans begin before it ends as end before it begins.
            if bisect_right(lows, end) == bisect_left(highs, begin)
        ]
    return sorted(spans)


def _list_texts(known: KnownGrams, row: int) -> Sequence[int]:
    texts: list[int] = known.texts[known.offsets[row] : known.offsets[row + 1]].tolist()
    return texts


def _unite(begins: Integers, ends: Integers, rows: Integers) -> list[tuple[int, int, list[int]]]:
    """Unite intervals that overlap or touch, with their distinct rows."""
    order = np.argsort(begins, kind="stable")
    begins, reach, rows = begins[order], np.maximum.accumulate(ends[order]), rows[order]
    apart = np.concatenate(([True], begins[1:] > reach[:-1]))[: begins.size]
    bounds = find_bounds(np.cumsum(apart))
    return [
        (int(begins[low]), int(reach[high - 1]), np.unique(rows[low:high]).tolist())
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
