"""Where tokens stand in the text as it was written, which normalising may lengthen, shorten and reorder."""

import re
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Flags, Integers
from dedup.kernels.text.characters import MARK, SEPARATOR, UNSPACED_MARK, unicode_classes
from dedup.kernels.text.folding import KIND, MAPPED, PLAIN, SIGMA
from dedup.kernels.text.spans import find_spans, mark_breaks
from dedup.kernels.text.tokenizer import Contract, classes_of, find_tokens, folding_of, normaliser, read_buffers

JOINER = 0x200D
STOP = re.compile(r"""[.!?\u2026\u061f\u06d4\u0964\u0965]['"\u2019\u201d\xbb)\]]*\s+|[\u3002\uff01\uff1f\uff61]""")
"""What ends a sentence between two words: a full stop before white space, or one that needs none."""


class Places(NamedTuple):
    """The tokens of n texts, each of its own length."""

    begins: Integers
    """int64 [tokens], the first character of each in its text."""
    ends: Integers
    """The character after the last. Where a character, with the marks on it, is of two tokens, both have all of it."""
    offsets: Integers
    """int64 [n + 1], document i owns the tokens from `offsets[i]` to `offsets[i + 1]`."""
    digested: Bytes
    """What tokens are in bytes, end to end."""
    widths: Integers
    """int64 [tokens + 1], where each begins in these bytes."""

    def digest(self, begin: int, end: int, key: bytes) -> bytes:
        """Return 16 bytes that tell the tokens from `begin` to `end`: BLAKE2b of them and of their lengths in bytes.

        It shares nothing with the 64-bit hashes of tokens, and takes a nanosecond a byte.
        """
        widths = self.widths[begin : end + 1]
        hashed = blake2b(self.digested[widths[0] : widths[-1]].data, digest_size=16, key=key, person=b"passage")
        hashed.update(np.diff(widths).astype("<i8").data)
        return hashed.digest()


class Fitted(NamedTuple):
    """A span, in tokens and in characters."""

    begin: int
    end: int
    """The token after the last; `begin` where nothing is left."""
    first: int
    """The first character."""
    last: int
    """The character after the last."""


def locate(texts: pa.Array, contract: Contract) -> Places:
    """Find the tokens of `dedup.kernels.text.tokenizer.tokenise` in the texts.

    A byte of a text of ASCII takes 25 ns, one of another text 250.

    Parameters
    ----------
    texts
        As `tokenise` takes them; bytes that are not UTF-8 count as U+FFFD, as many as Python makes of them.
    """
    folded, bounds, starts, stops = find_tokens(texts, contract)
    offsets = np.searchsorted(starts, bounds)
    begins, ends = (each - np.repeat(bounds[:-1], np.diff(offsets)) for each in (starts, stops))
    raw, positions = read_buffers(texts)
    beyond = np.concatenate(([0], np.cumsum(raw >= 0x80)))[positions]
    moved = (np.diff(beyond) > 0) | (contract.tokens == "punctuation")
    for number in np.flatnonzero(moved).tolist():
        own = slice(offsets[number], offsets[number + 1])
        text = raw[positions[number] : positions[number + 1]].tobytes().decode("utf-8", "replace")
        begins[own], ends[own] = _locate(text, own.stop - own.start, contract)
    widths = np.concatenate(([0], np.cumsum(stops - starts)))
    return Places(begins, ends, offsets, folded[folded != SEPARATOR], widths)


def _locate(text: str, count: int, contract: Contract) -> tuple[Integers, Integers]:
    """Return the first and the past-the-end character of the tokens of one text, which has so many.

    The text is divided where normalising is sure to leave the parts alone: before characters that neither are marks nor
    join what precedes them. Each part is normalised by itself, so it is known where each character of a token is from.
    """
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    begins = _begins_anew(contract)[points]
    begins[1:] &= points[:-1] != JOINER
    begins[:1] = True
    bounds = np.append(np.flatnonzero(begins), points.size)
    firsts = points[bounds[:-1]]
    normalise = normaliser(contract)
    distinct, numbers = np.unique(firsts, return_inverse=True)
    parts = np.array([normalise(chr(point)) for point in distinct.tolist()], dtype=object)[numbers]
    for part in np.flatnonzero(np.diff(bounds) > 1).tolist():
        parts[part] = normalise(text[bounds[part] : bounds[part + 1]])
    of = np.repeat(np.arange(parts.size), list(map(len, parts)))
    classes = classes_of(contract)[np.frombuffer("".join(parts).encode("utf-32-le"), dtype=np.uint32)]
    breaks = np.flatnonzero(mark_breaks(classes) | (classes == SEPARATOR))
    starts, stops = find_spans(classes != SEPARATOR, np.append(breaks, classes.size))
    if starts.size != count:
        # No text is known of which this is so. Nothing in it could then be taken out.
        return np.zeros(count, dtype=np.int64), np.full(count, points.size)
    return bounds[of[starts]], bounds[of[stops - 1] + 1]


@cache
def _begins_anew(contract: Contract) -> Flags:
    """Tell of every code point whether it belongs to nothing before it: bool [0x110000]."""
    kinds = folding_of(contract).kinds & KIND
    classes = unicode_classes()
    begins: Flags = ((kinds == PLAIN) | (kinds == MAPPED)) & (classes != MARK) & (classes != UNSPACED_MARK)
    begins[SIGMA] = True  # Its lower case depends on its neighbours; that it is a letter does not.
    begins[JOINER] = False
    return begins


def fit(text: str, begins: Integers, ends: Integers, span: tuple[int, int], *, near: int, contract: Contract) -> Fitted:
    """Return which characters may be taken out for a span of tokens, so that all others stay the tokens they are.

    A span gives up tokens at either side where a character, with the marks on it, is of a token outside as well, and
    at its end where the tokens on both sides would grow together.

    Parameters
    ----------
    begins, ends
        The characters of all tokens of the text.
    span
        The first token and the one after the last.
    near
        Up to so many tokens it gives up at either side to begin and end with a sentence or line; then white space and
        stops go with the sentence before them. 0 leaves it as it is.
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
        apart, joined = (find_tokens(pa.array(each), contract)[2].size for each in ([one, other], [one + other]))
        if joined < apart:
            return fit(text, begins, ends, (low, high - 1), near=0, contract=contract)
    return Fitted(low, high, first, last)


def _find_break(text: str, begin: int, end: int) -> int | None:
    """Return where a sentence or line begins in what stands between two tokens."""
    gap = text[begin:end]
    line = gap.rfind("\n")
    if line >= 0:
        return begin + line + 1
    stop = STOP.search(gap)
    return begin + stop.end() if stop else None
