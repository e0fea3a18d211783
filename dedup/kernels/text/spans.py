"""Tokens in NumPy, the oracle of the compiled loops: separated, found as spans of bytes, and hashed."""

from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.hashing import GOLDEN, expand, mix
from dedup.kernels.text.characters import MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD


def separate(texts: list[str], table: Bytes) -> list[bytes]:
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


def mark_breaks(classes: Bytes) -> Flags:
    """Tell at which code points of these classes a token begins whatever stands before: bool [n].

    Inside a run of token characters that is at an unspaced letter, at an unspaced mark that follows no unspaced letter,
    and at a letter of a spacing script that follows an unspaced token.
    """
    # A mark continues what it follows, so what decides is the last code point that is not a spacing script's mark.
    anchors = np.maximum.accumulate(np.where(classes == MARK, -1, np.arange(classes.size)))
    unspaced = (np.where(anchors < 0, SEPARATOR, classes[anchors]) >= UNSPACED) & (classes != SEPARATOR)
    follows = np.zeros(classes.size, dtype=bool)
    follows[1:] = unspaced[:-1]
    breaks: Flags = (classes == UNSPACED) | ((classes == UNSPACED_MARK) & ~follows) | ((classes == WORD) & follows)
    return breaks


def find_spans(inside: Flags, offsets: Integers) -> tuple[Integers, Integers]:
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


def hash_spans(padded: Bytes, starts: Integers, ends: Integers, seed: int) -> Hashes:
    """Hash the bytes of every span; `padded` has 16 bytes more than the last span needs."""
    aligned = padded[: padded.size // 8 * 8].view(np.uint64)
    key = expand(seed, 1)[0]
    lengths = ends - starts
    hashes = mix(_blocks(aligned, starts, np.minimum(lengths, 8)) ^ key)
    long = np.flatnonzero(lengths > 8)
    if long.size:
        counts = (lengths[long] - 1) // 8
        firsts = np.cumsum(counts) - counts
        numbers = np.arange(counts.sum()) - np.repeat(firsts, counts) + 1
        begins = np.repeat(starts[long], counts) + numbers * 8
        widths = np.minimum(np.repeat(ends[long], counts) - begins, 8)
        keys = key + numbers.astype(np.uint64) * GOLDEN
        hashes[long] += np.add.reduceat(mix(_blocks(aligned, begins, widths) ^ keys), firsts)
    return hashes


def hash_keyed(tokens: Bytes, lengths: Integers, key: bytes, seed: int) -> Hashes:
    """Hash tokens that lie end to end with a key, equal ones once."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(tokens)]
    encoded = pa.LargeBinaryArray.from_buffers(pa.large_binary(), lengths.size, buffers).dictionary_encode()
    salt = seed.to_bytes(16, "little")
    digests = [blake2b(token, digest_size=8, key=key, salt=salt).digest() for token in encoded.dictionary.to_pylist()]
    hashes: Hashes = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[encoded.indices.to_numpy()]
    return hashes


def _blocks(aligned: Hashes, begins: Integers, widths: Integers) -> Hashes:
    """Load `widths` (1 to 8) bytes from each position as a little-endian integer."""
    index = begins >> 3
    shift = ((begins & 7) << 3).astype(np.uint64)
    low = aligned[index] >> shift
    # Two shifts, since a shift by 64 is undefined where the position is aligned.
    high = (aligned[index + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    blocks: Hashes = (low | high) & (np.uint64(0xFFFFFFFFFFFFFFFF) >> ((8 - widths) << 3).astype(np.uint64))
    return blocks
