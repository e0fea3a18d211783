"""Text to token hashes: the text contract, version 1.

A document is normalised to NFKC and lower case. A token is a run of letters, marks, digits and underscores; in scripts
written without spaces every character (letter, digit or sign) with the marks that follow it is a token.
`unicode_classes.txt` says which code points those are; NFKC and lower case are those of Python's own Unicode database.

Work is done on whole batches of UTF-8 bytes. ASCII documents, for which NFKC changes nothing, take one pass through a
byte table; the others go through Python's Unicode database once and come back as UTF-8.
"""

import unicodedata
from functools import cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Flags, Hashes, Integers, compiled
from dedup.kernels.compiled import GOLDEN, MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD


def _ascii_table() -> bytes:
    """Map a byte to itself in lower case where it belongs to a token, else to the separator."""
    return bytes(
        byte if byte >= 0x80 or chr(byte).isalnum() or byte == ord("_") else SEPARATOR
        for byte in (ord(chr(b).lower()) if b < 0x80 else b for b in range(256))
    )


ASCII_TABLE = _ascii_table()


@cache
def _ascii_bytes() -> Bytes:
    table = np.frombuffer(ASCII_TABLE, dtype=np.uint8).copy()
    table[0x80:] = SEPARATOR
    return table


@cache
def unicode_classes() -> Bytes:
    """Return the class of every code point, shape (0x110000,), from `unicode_classes.txt`."""
    numbers = {"word": WORD, "mark": MARK, "unspaced": UNSPACED, "unspaced_mark": UNSPACED_MARK}
    classes = np.zeros(0x110000, dtype=np.uint8)
    for line in files(__package__).joinpath("unicode_classes.txt").read_text("ascii").splitlines():
        if not line.startswith("#"):
            span, name = line.split()
            first, last = span.split("..")
            classes[int(first, 16) : int(last, 16) + 1] = numbers[name]
    return classes


def mix(values: Hashes) -> Hashes:
    """Return a bijection of 64-bit values in which every input bit changes every output bit with probability 1/2.

    The finaliser of MurmurHash3 (Appleby 2011) with the multipliers of Stafford's variant 13, as in SplitMix64.
    """
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def expand(seed: int, count: int) -> Hashes:
    """Return `count` 64-bit values that depend on `seed` alone: the SplitMix64 sequence."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
    return mix(steps + np.uint64(seed & 0xFFFFFFFFFFFFFFFF))


def tokenise(texts: pa.Array, seed: int) -> tuple[Hashes, Integers]:
    """Hash the tokens of every text.

    Parameters
    ----------
    texts
        string or binary array, n values; null counts as empty, bytes that are not UTF-8 as U+FFFD, a separator.
    seed
        0 to 2^63 - 1.

    Returns
    -------
    hashes : uint64 [tokens]
        The sum over the token's 8-byte little-endian blocks, the last padded with zeros, of
        `mix(block ^ (key + number * GOLDEN))`, where `key` is the first value that `seed` expands to.
        A token has no zero byte, so the padding is unambiguous.
    offsets : int64 [n + 1]
        Document i owns `hashes[offsets[i]:offsets[i + 1]]`, in the order of the text.
    """
    raw, offsets = _buffers(texts)
    if raw.size and raw.max() >= 0x80:
        raw, offsets = _fold(raw, offsets)
    if compiled.AVAILABLE:
        hashes, bounds = np.empty(raw.size, dtype=np.uint64), np.zeros_like(offsets)
        key = expand(seed, 1)[0]
        count = compiled.hash_tokens(raw, offsets, _ascii_bytes(), unicode_classes(), key, hashes, bounds)
        return hashes[:count], bounds
    folded = np.frombuffer(raw.tobytes().translate(ASCII_TABLE) + bytes(16), dtype=np.uint8)
    starts, ends = _spans(folded[: raw.size] != SEPARATOR, offsets)
    return _hash_spans(folded, starts, ends, seed), np.searchsorted(starts, offsets)


def _buffers(texts: pa.Array) -> tuple[Bytes, Integers]:
    """Return the bytes of all texts and the offsets of each, without copying the bytes."""
    texts = texts.cast(pa.large_binary())
    if texts.null_count:
        texts = texts.fill_null(b"")
    _, positions, data = texts.buffers()
    offsets = np.frombuffer(positions, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    return raw[offsets[0] : offsets[-1]], offsets - offsets[0]


def _fold(raw: Bytes, offsets: Integers) -> tuple[Bytes, Integers]:
    """Normalise each document that is not ASCII; without the compiled kernel also put separators between its tokens."""
    content = raw.tobytes()
    documents = [content[start:end] for start, end in pairwise(offsets.tolist())]
    foreign = [number for number, document in enumerate(documents) if not document.isascii()]
    texts = [unicodedata.normalize("NFKC", documents[number].decode("utf-8", "replace")).lower() for number in foreign]
    encoded = [text.encode() for text in texts] if compiled.AVAILABLE else _separate(texts)
    for number, folded in zip(foreign, encoded, strict=True):
        documents[number] = folded
    joined = np.frombuffer(b"".join(documents), dtype=np.uint8)
    return joined, np.cumsum([0, *map(len, documents)], dtype=np.int64)


def _separate(texts: list[str]) -> list[bytes]:
    """Return the tokens of normalised texts as UTF-8 with at least one separator between two tokens."""
    points = np.frombuffer("\0".join(texts).encode("utf-32-le"), dtype=np.uint32)
    classes = unicode_classes()[points]
    # A mark continues what it follows, so what decides is the last code point that is not a spacing script's mark.
    anchors = np.maximum.accumulate(np.where(classes == MARK, -1, np.arange(points.size)))
    unspaced = (np.where(anchors < 0, SEPARATOR, classes[anchors]) >= UNSPACED) & (classes != SEPARATOR)
    follows = np.zeros(points.size, dtype=bool)
    follows[1:] = unspaced[:-1]
    # Inside a run of token characters a new token begins at an unspaced letter, at an unspaced mark that follows
    # no unspaced letter, and at a letter of a spacing script that follows an unspaced token.
    begins = (classes == UNSPACED) | ((classes == UNSPACED_MARK) & ~follows) | ((classes == WORD) & follows)
    separated = np.where(classes == SEPARATOR, np.uint32(SEPARATOR), points)
    breaks = np.flatnonzero(begins)
    separated = np.insert(separated, breaks, SEPARATOR)
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    ends = np.cumsum(lengths) - 1
    ends += np.searchsorted(breaks, ends, side="right")
    widths = 1 + (separated >= 0x80).astype(np.int64) + (separated >= 0x800) + (separated >= 0x10000)
    cuts = np.concatenate(([0], np.cumsum(widths)))[np.concatenate(([0], ends))].tolist()
    encoded = separated.tobytes().decode("utf-32-le").encode()
    return [encoded[start:end] for start, end in pairwise(cuts)]


def _spans(inside: Flags, offsets: Integers) -> tuple[Integers, Integers]:
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


def _hash_spans(padded: Bytes, starts: Integers, ends: Integers, seed: int) -> Hashes:
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


def _blocks(aligned: Hashes, begins: Integers, widths: Integers) -> Hashes:
    """Load `widths` (1 to 8) bytes from each position as a little-endian integer."""
    index = begins >> 3
    shift = ((begins & 7) << 3).astype(np.uint64)
    low = aligned[index] >> shift
    # Two shifts, since a shift by 64 is undefined where the position is aligned.
    high = (aligned[index + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    blocks: Hashes = (low | high) & (np.uint64(0xFFFFFFFFFFFFFFFF) >> ((8 - widths) << 3).astype(np.uint64))
    return blocks
