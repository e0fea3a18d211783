"""Oracles of the compiled loops in NumPy: the same bits by another way, fast enough for large arrays.

tests/oracles.py says the same more slowly and shares nothing with the kernels; these share the tables of Unicode.
"""

from itertools import pairwise

import numpy as np

from dedup.kernels.hashing import GOLDEN, expand, mix
from dedup.kernels.text.characters import MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD
from dedup.kernels.text.tokenizer import read_buffers
from dedup.kernels.text.unicode_words import _ascii_table, classes_of, normaliser


def hash_tokens(texts, words):
    """Return what `UnicodeWords.hash` returns without a key."""
    folded, offsets, starts, ends = find_tokens(texts, words)
    return hash_spans(folded, starts, ends, words.seed), np.searchsorted(starts, offsets)


def find_tokens(texts, words):
    """Return folded bytes, zeros between tokens, offsets of documents, and the bytes at which tokens begin and end."""
    raw, offsets = read_buffers(texts)
    raw, offsets = _fold(raw, offsets, words)
    folded = np.frombuffer(raw.tobytes().translate(_ascii_table(words)) + bytes(8), dtype=np.uint8)
    return folded, offsets, *find_spans(folded[: raw.size] != SEPARATOR, offsets)


def _fold(raw, offsets, words):
    """Normalise each document by the Unicode database, and put separators between its tokens."""
    content = raw.tobytes()
    documents = [content[start:end] for start, end in pairwise(offsets.tolist())]
    normalise = normaliser(words)
    documents = separate([normalise(each.decode("utf-8", "replace")) for each in documents], classes_of(words))
    joined = np.frombuffer(b"".join(documents), dtype=np.uint8)
    return joined, np.cumsum([0, *map(len, documents)], dtype=np.int64)


def separate(texts, table):
    """Return the tokens of normalised texts as UTF-8 with at least one separator between two tokens."""
    points = np.frombuffer("\0".join(texts).encode("utf-32-le"), dtype=np.uint32)
    classes = table[points]
    separated = np.where(classes == SEPARATOR, np.uint32(SEPARATOR), points)
    breaks = np.flatnonzero(mark_breaks(classes))
    separated = np.insert(separated, breaks, SEPARATOR)
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    ends = np.cumsum(lengths) - 1
    ends += np.searchsorted(breaks, ends, side="right")
    widths = 1 + (separated >= 0x80).astype(np.int64) + (separated >= 0x800) + (separated >= 0x10000)
    cuts = np.concatenate(([0], np.cumsum(widths)))[np.concatenate(([0], ends))].tolist()
    encoded = separated.tobytes().decode("utf-32-le").encode()
    return [encoded[start:end] for start, end in pairwise(cuts)]


def mark_breaks(classes):
    """Tell at which code points of these classes a token begins whatever stands before: bool [n].

    Inside a run of token characters that is at an unspaced letter, at an unspaced mark that follows no unspaced letter,
    and at a letter of a spacing script that follows an unspaced token.
    """
    # A mark continues what it follows, so what decides is the last code point that is not a spacing script's mark.
    anchors = np.maximum.accumulate(np.where(classes == MARK, -1, np.arange(classes.size)))
    unspaced = (np.where(anchors < 0, SEPARATOR, classes[anchors]) >= UNSPACED) & (classes != SEPARATOR)
    follows = np.zeros(classes.size, dtype=bool)
    follows[1:] = unspaced[:-1]
    return (classes == UNSPACED) | ((classes == UNSPACED_MARK) & ~follows) | ((classes == WORD) & follows)


def find_spans(inside, offsets):
    """Return the first and the past-the-end position of every run of `inside` that crosses no document boundary."""
    outside_before = np.ones(inside.size + 1, dtype=bool)
    np.logical_not(inside, out=outside_before[1:])
    outside_before[offsets] = True
    starts = np.flatnonzero(inside & outside_before[:-1])
    outside_after = np.ones(inside.size + 1, dtype=bool)
    np.logical_not(inside, out=outside_after[:-1])
    outside_after[offsets] = True
    ends = np.flatnonzero(inside & outside_after[1:]) + 1
    return starts, ends


def hash_spans(padded, starts, ends, seed):
    """Hash the bytes of every span; `padded` has 8 bytes more than the last span needs."""
    key = expand(seed, 1)[0]
    lengths = ends - starts
    hashes = mix(_blocks(padded, starts, np.minimum(lengths, 8)) ^ key)
    long = np.flatnonzero(lengths > 8)
    if long.size:
        counts = (lengths[long] - 1) // 8
        firsts = np.cumsum(counts) - counts
        numbers = np.arange(counts.sum()) - np.repeat(firsts, counts) + 1
        begins = np.repeat(starts[long], counts) + numbers * 8
        widths = np.minimum(np.repeat(ends[long], counts) - begins, 8)
        keys = key + numbers.astype(np.uint64) * GOLDEN
        hashes[long] += np.add.reduceat(mix(_blocks(padded, begins, widths) ^ keys), firsts)
    return hashes


def _blocks(padded, begins, widths):
    """Load `widths` (1 to 8) bytes from each position as a little-endian integer."""
    blocks = np.lib.stride_tricks.sliding_window_view(padded, 8)[begins].view("<u8")[:, 0]
    return blocks & (np.uint64(0xFFFFFFFFFFFFFFFF) >> ((8 - widths) << 3).astype(np.uint64))
