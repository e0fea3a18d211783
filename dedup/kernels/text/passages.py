"""Passages, spans of at least `length` tokens that occur twice, found exactly without comparing all places.

A gram is `gram_size` consecutive tokens, a window `length` of them. A window holds `width` = length - gram_size + 1
grams. Winnowing [1]_ selects of every `width` consecutive grams of a document the one of the least hash, the rightmost
of equals.

Why no repeated window is missed: the grams of a window are `width` consecutive ones, so one of them is selected, and
which one depends on the tokens of the window alone. Two equal windows therefore hold a selected gram of one hash at one
place, and this hash occurs at least twice among the selected. So a window that holds no selected gram whose hash occurs
twice occurs once. All other windows, `find_asked`, are compared by their own hashes; a gram that two different windows
share only adds windows to be compared.

References
----------
.. [1] S. Schleimer, D. S. Wilkerson, A. Aiken: Winnowing: local algorithms for document fingerprinting. SIGMOD 2003.
.. [2] R. M. Karp, M. O. Rabin: Efficient randomized pattern-matching algorithms. IBM Journal of Research and
   Development 31 (1987).
.. [3] K. Lee et al.: Deduplicating training data makes language models better. ACL 2022.
"""

from typing import NamedTuple

import numpy as np

from dedup.kernels import Flags, Hashes, Integers, loops
from dedup.kernels.hashing import weigh
from dedup.kernels.runs.bounds import find_bounds, mark_firsts
from dedup.kernels.text.tokenizer import Tokenizer

LOWEST = np.uint64(7)
FIVE = np.uint64(5)
"""A base of 5 modulo 8 has an order as large as any: its powers repeat after 2^62 tokens."""


class Pieces(NamedTuple):
    """Repeated spans of documents, cut into pieces that each occur at another place too."""

    doc_ids: Integers
    begins: Integers
    """First token of each; the pieces of a document are in order and do not overlap."""
    ends: Integers
    """The token after the last."""
    other_ids: Integers
    other_begins: Integers
    """First token of the other occurrence."""


def gram_size(length: int) -> int:
    """Return the tokens of a gram: half of a window, so that about one gram in `length` / 4 is selected."""
    return (length + 1) // 2


def select_grams(
    tokens: Hashes, offsets: Integers, length: int, tokenizer: Tokenizer
) -> tuple[Hashes, Integers, Integers]:
    """Select grams of every document such that every window of `length` tokens holds one.

    Parameters
    ----------
    tokens : uint64 [tokens]
    offsets : int64 [n + 1]
        Document i owns `tokens[offsets[i]:offsets[i + 1]]`.
    length
        Tokens of a window, at least 2.

    Returns
    -------
    hashes : uint64 [selected]
    places : int64 [selected]
        The first token of each gram, counted in its document.
    bounds : int64 [n + 1]
        Document i owns `hashes[bounds[i]:bounds[i + 1]]`; one with fewer than `length` tokens owns none.
    """
    size = gram_size(length)
    width = length - size + 1
    grams = roll(tokens, offsets, size, tokenizer)
    places, bounds = np.empty(tokens.size, dtype=np.int64), np.zeros_like(offsets)
    loops.passages.winnow(grams, offsets, size, width, places, bounds)
    places = places[: bounds[-1]].copy()
    return grams[places + np.repeat(offsets[:-1], np.diff(bounds))], places, bounds


def roll(tokens: Hashes, offsets: Integers, size: int, tokenizer: Tokenizer) -> Hashes:
    """Hash every `size` consecutive tokens of a document.

    The polynomial of the tokens modulo 2^64, the last token's power 0, mixed; the tokenizer's seed or key chooses its
    base [2]_. It takes one step a token, however long the windows.

    Returns
    -------
    uint64 [tokens]
        Hash of the window that begins at each token; 0 where none does.
    """
    base = (weigh(1, tokenizer.seed, tokenizer.key)[0] & ~LOWEST) | FIVE
    hashes = np.zeros(tokens.size, dtype=np.uint64)
    loops.passages.roll(tokens, offsets, size, base, hashes)
    return hashes


def find_asked(places: Integers, documents: Integers, counts: Integers, length: int) -> tuple[Integers, Integers]:
    """Return the windows in question, those that hold one of these grams.

    Parameters
    ----------
    places, documents : int64 [grams]
        The first token of each, and the number of its document, in whose order the grams are.
    counts : int64 [n]
        Tokens of each document.

    Returns
    -------
    begins, documents : int64 [windows]
        The first token of each, and the number of its document, ascending.
    """
    width = length - gram_size(length) + 1
    stride = np.int64(counts.max(initial=0) + length)
    lows = documents * stride + np.maximum(places - width + 1, 0)
    highs = documents * stride + np.minimum(places, counts[documents] - length) + 1
    order = np.argsort(lows, kind="stable")
    lows, highs = unite(lows[order], highs[order])
    sizes = highs - lows
    found = np.arange(sizes.sum()) + np.repeat(lows - np.cumsum(sizes) + sizes, sizes)
    return found % stride, found // stride


def unite(begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Unite ascending intervals that overlap or touch."""
    if not begins.size:
        return begins, ends
    reach = np.maximum.accumulate(ends)
    apart = np.append(True, begins[1:] > reach[:-1])
    return begins[apart], reach[np.append(np.flatnonzero(apart)[1:] - 1, begins.size - 1)]


def find_pieces(
    doc_ids: Integers,
    begins: Integers,
    other_ids: Integers,
    other_begins: Integers,
    is_first: Flags,
    *,
    length: int,
    keep_first: bool,
) -> Pieces:
    """Unite repeated windows to spans, and cut these into pieces by their other occurrences.

    Parameters
    ----------
    doc_ids, begins : int64 [windows]
        Document and first token of each, ascending and distinct; documents are whole.
    other_ids, other_begins : int64 [windows]
        Another occurrence of the window: the first of all, or for the first any other.
    is_first : bool [windows]
        Flags of the first occurrences of windows.
    keep_first
        Whether the first place stays. No token of it is then repeated, though a later place of another window might
        hold it: only so every window that is taken out somewhere is left whole somewhere. What is left of a span is
        repeated if it still has `length` tokens. Otherwise every token of a window that occurs twice is [3]_.

    Returns
    -------
    Pieces
        The fewest possible for each span, without gaps.
    """
    documents = np.cumsum(mark_firsts(doc_ids)) - 1
    stride = np.int64(begins.max(initial=0) + length + 1)
    places = documents * stride + begins
    chosen = ~is_first if keep_first else np.ones(places.size, dtype=bool)
    spans = unite(places[chosen], places[chosen] + length)
    if keep_first:
        lows, highs = subtract(*spans, *unite(places[is_first], places[is_first] + length))
        whole = highs - lows >= length
        spans = lows[whole], highs[whole]
    rows = np.flatnonzero(chosen)
    shifts = other_begins[rows] - begins[rows]
    bounds = find_bounds(documents[rows], begins[rows] - np.arange(rows.size), other_ids[rows], shifts)
    firsts, lasts = bounds[:-1], bounds[1:] - 1
    reaches, cover = places[rows[lasts]] + length, places[rows[firsts]]
    found: list[tuple[Integers, Integers, Integers]] = []
    lows, highs = spans
    while lows.size:
        # Runs end in the order in which they begin, so the last that has begun reaches furthest.
        run = np.searchsorted(cover, lows, side="right") - 1
        ends = np.minimum(reaches[run], highs)
        found.append((lows, ends, run))
        more = ends < highs
        lows, highs = ends[more], highs[more]
    lows, ends, run = (np.concatenate(columns) for columns in zip(*found, strict=True)) if found else (lows,) * 3
    order = np.argsort(lows)
    lows, ends, run = lows[order], ends[order], run[order]
    taken = rows[firsts[run]]
    own = lows - documents[taken] * stride
    return Pieces(doc_ids[taken], own, own + ends - lows, other_ids[taken], own + shifts[firsts[run]])


def subtract(begins: Integers, ends: Integers, less_begins: Integers, less_ends: Integers) -> tuple[Integers, Integers]:
    """Return the first intervals without the second; within each collection none touch."""
    points = np.concatenate((begins, ends, less_begins, less_ends))
    steps = np.repeat([1, -1, -2, 2], [begins.size, ends.size, less_begins.size, less_ends.size])
    order = np.argsort(points, kind="stable")
    points, levels = points[order], np.cumsum(steps[order])
    left = np.flatnonzero((levels[:-1] == 1) & (points[1:] > points[:-1]))
    return points[left], points[left + 1]
