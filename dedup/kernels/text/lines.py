"""Lines of texts, or paragraphs: where each stands and what it says, as a digest."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Bytes, Flags, Integers
from dedup.kernels.hashing import digest_each
from dedup.kernels.text.tokenizer import Tokenizer, read_buffers

LINE_FEED = 0x0A


class TextLines(NamedTuple):
    """The lines of n texts that count, end to end."""

    offsets: Integers
    """int64 [n + 1]: text i owns `begins[offsets[i]:offsets[i + 1]]`."""
    begins: Integers
    """Characters of the text, int64 [lines], ascending within a text."""
    ends: Integers
    """Behind the line end; of a paragraph, behind the blank lines that follow it."""
    high: Integers
    """First half of a digest of 128 bits, int64 [lines]."""
    low: Integers


def read_lines(
    texts: pa.Array, tokenizer: Tokenizer, *, by_paragraph: bool, by_tokens: bool, min_characters: int
) -> TextLines:
    r"""Return the lines of texts that have enough characters, white space at both ends not counted.

    A line ends with "\n", or "\r\n", which belongs to it; a paragraph with the blank lines behind it. Without their
    own ends, the lines left of a text are as they would be had a line never been there.

    Parameters
    ----------
    texts
        string or large_string array, n values; null counts as empty.
    by_paragraph
        Paragraphs, which blank lines separate, instead of lines.
    by_tokens
        The digest is of the token hashes, and a line without tokens does not count. Otherwise it is of the line without
        white space at both ends.
    min_characters
        At least 1.

    Returns
    -------
    Lines
        The digest is BLAKE2b (RFC 7693) with the tokenizer's key: nobody writes two lines of one digest.
    """
    raw, offsets = read_buffers(texts)
    bounds, owned = _cut_lines(raw, offsets)
    trimmed = pc.utf8_trim_whitespace(_slice(raw, bounds))
    if by_paragraph:
        bounds, owned = _join_paragraphs(bounds, owned, pc.binary_length(trimmed).to_numpy() == 0)
        trimmed = pc.utf8_trim_whitespace(_slice(raw, bounds))
    counts = pc.utf8_length(trimmed).to_numpy() >= max(min_characters, 1)
    if by_tokens:
        tokens, token_bounds = tokenizer.hash(trimmed)
        counts &= np.diff(token_bounds) > 0
        content, limits = tokens.astype("<u8", copy=False).data.cast("B"), token_bounds * 8
    else:
        said, limits = read_buffers(trimmed)
        content = said.data
    chosen = np.flatnonzero(counts)
    spans = zip(limits[chosen].tolist(), limits[chosen + 1].tolist(), strict=True)
    digests = digest_each((content[begin:end] for begin, end in spans), tokenizer.key)
    places = _count_characters(raw, np.concatenate((offsets, bounds)))
    firsts, places = places[: offsets.size], places[offsets.size :]
    numbers = np.searchsorted(owned, chosen, side="right") - 1
    return TextLines(
        offsets=np.searchsorted(chosen, owned),
        begins=places[chosen] - firsts[numbers],
        ends=places[chosen + 1] - firsts[numbers],
        high=digests[:, 0],
        low=digests[:, 1],
    )


def _cut_lines(raw: Bytes, offsets: Integers) -> tuple[Integers, Integers]:
    """Return where lines begin in the bytes, and their end, and the first line of every text and their number."""
    begins = np.unique(np.concatenate((offsets, np.flatnonzero(raw == LINE_FEED) + 1)))
    return begins, np.searchsorted(begins, offsets)


def _join_paragraphs(bounds: Integers, owned: Integers, blank: Flags) -> tuple[Integers, Integers]:
    """Begin a paragraph at every line that is not blank and follows a blank one, and at every text."""
    begins = ~blank
    begins[1:] &= blank[:-1]
    begins[owned[:-1][owned[:-1] < blank.size]] = True
    kept = np.append(np.flatnonzero(begins), blank.size)
    return bounds[kept], np.searchsorted(kept, owned)


def _slice(raw: Bytes, bounds: Integers) -> pa.Array:
    """Return runs of bytes that lie end to end as strings, without copying them."""
    return pa.LargeStringArray.from_buffers(bounds.size - 1, pa.py_buffer(bounds), pa.py_buffer(raw))


def _count_characters(raw: Bytes, places: Integers) -> Integers:
    """Return how many characters begin before each of these bytes."""
    counted = np.concatenate(([0], np.cumsum((raw & 0xC0) != 0x80)))
    found: Integers = counted[places]
    return found
