"""Lines of texts, or paragraphs, with their places and digests."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.kernels import Integers, loops
from dedup.kernels.digests import digest_runs
from dedup.kernels.text.tokenizer import Tokenizer, read_buffers, to_cells


class TextLines(NamedTuple):
    """The lines of n texts that count, end to end."""

    offsets: Integers
    """Text i owns `begins[offsets[i]:offsets[i + 1]]`; int64 [n + 1]."""
    begins: Integers
    """First character of each, ascending within a text; int64 [lines]."""
    ends: Integers
    """The character behind the line end; for a paragraph, behind the blank lines that follow it."""
    high: Integers
    """First half of a digest of 128 bits; int64 [lines]."""
    low: Integers
    numbers: Integers
    """Number of the digest among those of all texts, from 0."""


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
    TextLines
        The digest is BLAKE2b (RFC 7693) with the tokenizer's key: nobody writes two lines of one digest.
    """
    raw, offsets = read_buffers(texts)
    room = np.count_nonzero(raw == loops.line_breaks.LINE_FEED) + offsets.size
    begins, ends, limits = (np.empty(room, dtype=np.int64) for _ in range(3))
    said, bounds = np.empty_like(raw), np.zeros_like(offsets)
    limits[0] = 0
    count = loops.line_breaks.cut(
        raw, offsets, max(min_characters, 1), by_paragraph, begins, ends, said, limits, bounds
    )
    chosen = np.arange(count)
    if by_tokens:
        tokens, limits = tokenizer.hash(to_cells(said, limits[: count + 1], pa.large_string()))
        chosen = np.flatnonzero(np.diff(limits))
        limits, said = limits[np.append(chosen, count)] * 8, tokens.astype("<u8", copy=False).view(np.uint8)
    # Many a line stands there often.
    distinct = to_cells(said, limits[: chosen.size + 1]).dictionary_encode()
    numbers = distinct.indices.to_numpy().astype(np.int64)
    digests = digest_runs(*read_buffers(distinct.dictionary), tokenizer.key)[numbers]
    return TextLines(
        offsets=np.searchsorted(chosen, bounds),
        begins=begins[chosen],
        ends=ends[chosen],
        high=digests[:, 0],
        low=digests[:, 1],
        numbers=numbers,
    )
