"""Passages, spans of at least `length` tokens that occur twice, found exactly without comparing all places.

A gram is `gram_size` consecutive tokens, a window `length` of them. A window holds `width` = length - gram_size + 1
grams. Winnowing [1]_ selects of every `width` consecutive grams of a document one of the least hash: the rightmost, but
where the last two selected have that hash already, the last of these as long as it is among them. So of one word over
and over few grams are selected.

Why no repeated window is missed: the grams of a window are `width` consecutive ones, so one of them is selected, and
its hash is the least, which depends on the tokens of the window alone. Two equal windows therefore hold selected grams
of one hash. If both hold the same gram, it stands in them at two places, so the hash occurs again between, and was
selected then or twice before. Either way it occurs at least twice among the selected, and a window that holds no
selected gram whose hash occurs twice occurs once. All other windows, `find_asked`, are compared by their own hashes; a
gram that two different windows share only adds windows to be compared.

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
from dedup.kernels.runs.span_offsets import unite_spans
from dedup.kernels.text.tokenizer import Tokenizer

LOWEST = np.uint64(7)
FIVE = np.uint64(5)
"""Lowest three bits of the base: 5 modulo 8 has an order as large as any, so powers repeat after 2^62 tokens."""


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


class Asked(NamedTuple):
    """Windows in question, those that begin with the tokens from each begin to each end; ascending."""

    documents: Integers
    """Number of each document; int64, as all."""
    begins: Integers
    ends: Integers

    def list(self) -> tuple[Integers, Integers]:
        """Return the first token of each window and the number of its document, ascending; int64 [windows]."""
        sizes = self.ends - self.begins
        begins = np.arange(sizes.sum()) + np.repeat(self.begins - np.cumsum(sizes) + sizes, sizes)
        return begins, np.repeat(self.documents, sizes)


def find_asked(places: Integers, documents: Integers, counts: Integers, length: int) -> Asked:
    """Return the windows in question, those that hold one of these grams.

    Parameters
    ----------
    places, documents : int64 [grams]
        The first token of each, and the number of its document, in whose order the grams are.
    counts : int64 [n]
        Tokens of each document.
    """
    width = length - gram_size(length) + 1
    stride = np.int64(counts.max(initial=0) + length)
    lows = documents * stride + np.maximum(places - width + 1, 0)
    highs = documents * stride + np.minimum(places, counts[documents] - length) + 1
    lows, highs = unite_spans(lows, highs)
    # Windows of two documents never touch.
    documents = lows // stride
    return Asked(documents, lows - documents * stride, highs - documents * stride)


class Recurring(NamedTuple):
    """Windows, of which the first two occurrences in a document stand for all."""

    windows: Integers
    """Document, first token, and occurrences that each stands for: the first for itself, the second for all others;
    int64 [windows, 3]."""
    runs: Integers
    """Runs of the others, a token apart: document, first token, their number, and how many tokens before each its last
    occurrence is; int64 [runs, 4]."""


def find_recurring(hashes: Hashes, offsets: Integers, asked: Asked) -> Recurring:
    """Find which windows in question a document has had before.

    Parameters
    ----------
    hashes : uint64 [tokens]
        Hashes of the windows, by their first token.
    offsets : int64 [n + 1]
        Document i owns the tokens from `offsets[i]` to `offsets[i + 1]`.
    """
    bits = int(np.diff(offsets).max(initial=0)).bit_length() + 1
    table, size = np.zeros((1 << bits, 2), dtype=np.int64), int((asked.ends - asked.begins).sum())
    windows, runs = np.empty((size, 3), dtype=np.int64), np.empty((size, 4), dtype=np.int64)
    count, run = loops.passages.recur(hashes, offsets, *asked, np.uint64(64 - bits), table, windows, runs)
    return Recurring(windows[:count].copy(), runs[:run].copy())


def repeat_windows(
    doc_ids: Integers, begins: Integers, other_ids: Integers, other_begins: Integers, times: Integers
) -> tuple[Integers, ...]:
    """Return windows one by one.

    Parameters
    ----------
    doc_ids, begins : int64 [rows]
        Document and first token of each window, ascending and distinct; documents are whole.
    other_ids, other_begins : int64 [rows]
        Another occurrence of it.
    times : int64 [rows]
        Number of its occurrences, or 0. A negative one is of a run of so many windows, a token apart, which stand in
        the document before, the first of them at `other_begins`, and have the other occurrences that these have.

    Returns
    -------
    doc_ids, begins, other_ids, other_begins, times : int64 [windows]
    """
    columns = doc_ids, begins, other_ids, other_begins, times
    if not (times < 0).any():
        return columns
    found = np.empty((5, np.abs(np.minimum(times, 0)).sum() + np.count_nonzero(times >= 0)), dtype=np.int64)
    loops.passages.repeat(*columns, found)
    return tuple(found)


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
    stays = is_first if keep_first else np.zeros_like(is_first)
    spans = np.empty((doc_ids.size, 3), dtype=np.int64)
    spans = spans[: loops.passages.span(doc_ids, begins, stays, length, spans)]
    spans = spans[spans[:, 2] - spans[:, 1] >= length]
    # A run or the end of a span ends each.
    pieces = np.empty((doc_ids.size + len(spans), 5), dtype=np.int64)
    count = loops.passages.cut(doc_ids, begins, other_ids, other_begins, stays, length, spans, pieces)
    # Copied, since there is room for many more.
    return Pieces(*pieces[:count].T.copy())
