"""Text to token hashes: the text contract, version 2.

A document is normalised to NFKC and lower case. A token is a run of letters, marks, digits and underscores; in scripts
written without spaces every character (letter, digit or sign) with the marks that follow it is a token.
`unicode_classes.txt` says which code points those are; NFKC and lower case are those of Python's own Unicode database.
A `Contract` can ask for something else.

Work is done on whole batches of UTF-8 bytes. In the compiled loops text is folded by tables (`folding`); in NumPy ASCII
documents, for which NFKC changes nothing, take one pass through a byte table, and the others go through Python's
Unicode database one by one and come back as UTF-8. With a key, which no compiled loop knows, NumPy is used always.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Flags, Hashes, Integers, compiled
from dedup.kernels.characters import MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD, unicode_classes
from dedup.kernels.folding import GROWTH, LINE_FEED, Folding, tabulate
from dedup.kernels.hashing import GOLDEN, expand, mix

VERSION = 2
"""Of everything that leads from a text to a band key (docs/hash-spec.md); hashes of two versions are never compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """How texts become token hashes; hashes made under different contracts are never compared.

    Parameters
    ----------
    seed
        0 to 2^63 - 1.
    key
        At most 64 bytes, a secret: without it nobody can tell which shingles collide, nor which a signature holds.
    case
        "lower", or "keep": letters in upper and lower case differ.
    accents
        "keep", or "drop": combining diacritical marks (U+0300 to U+036F) do not count.
    digits
        "keep", or "zero": every decimal digit counts as 0.
    tokens
        "words", or "punctuation": every other character that is not white space is a token as well, or "whitespace":
        a token is what stands between white space.
    """

    seed: int = 1
    key: bytes = field(default=b"", repr=False)
    case: str = "lower"
    accents: str = "keep"
    digits: str = "keep"
    tokens: str = "words"


def key_fingerprint(key: bytes) -> str:
    """Return 8 bytes in hexadecimal that tell keys apart and say nothing else about them; of no key the empty text."""
    return blake2b(b"fingerprint", digest_size=8, key=key, person=b"dedup").hexdigest() if key else ""


@cache
def _ascii_table(contract: Contract) -> bytes:
    """Map a byte to what stands for it in a token, or to the separator; those beyond ASCII to themselves."""

    def fold(char: str) -> str:
        if contract.case == "lower":
            char = char.lower()
        if contract.digits == "zero" and char.isdigit():
            return "0"
        if char.isalnum() or char == "_":
            return char
        return "\0" if contract.tokens == "words" or not "!" <= char <= "~" else char

    return bytes(ord(fold(chr(byte))) if byte < 0x80 else byte for byte in range(256))


@cache
def classes_of(contract: Contract) -> Bytes:
    """Return the class of every code point under the contract."""
    classes = unicode_classes()
    if contract.tokens == "words":
        return classes
    visible = np.fromiter(map(_is_visible, map(chr, range(0x110000))), dtype=bool)
    if contract.tokens == "whitespace":
        return np.where(visible | (classes != SEPARATOR), np.uint8(WORD), np.uint8(SEPARATOR))
    return np.where(visible & (classes == SEPARATOR), np.uint8(WORD), classes)


def _is_visible(char: str) -> bool:
    return char.isprintable() and char != " "


class _Translation(dict[int, str]):
    """What `str.translate` asks for single characters, found when first asked."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def __missing__(self, point: int) -> str:
        char = chr(point)
        if self._contract.digits == "zero" and unicodedata.category(char) == "Nd":
            char = "0"
        elif self._contract.tokens == "punctuation" and _is_visible(char) and unicode_classes()[point] == SEPARATOR:
            char = f" {char} "
        self[point] = char
        return char


@cache
def _normaliser(contract: Contract) -> Callable[[str], str]:
    """Return what makes of a text that is not ASCII one whose tokens need only be told apart."""
    translation = _Translation(contract)

    def normalise(text: str) -> str:
        text = unicodedata.normalize("NFKC", text)
        if contract.case == "lower":
            text = text.lower()
        if contract.accents == "drop":
            text = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", text)))
        if contract.digits == "zero" or contract.tokens == "punctuation":
            text = text.translate(translation)
        return text

    return normalise


def tokenise(texts: pa.Array, contract: Contract) -> tuple[Hashes, Integers]:
    """Hash the tokens of every text.

    Parameters
    ----------
    texts
        string or binary array, n values; null counts as empty, bytes that are not UTF-8 as U+FFFD.

    Returns
    -------
    hashes : uint64 [tokens]
        Without a key the sum over the token's 8-byte little-endian blocks, the last padded with zeros, of
        `mix(block ^ (start + number * GOLDEN))`, where `start` is the first value that the seed expands to.
        A token has no zero byte, so the padding is unambiguous. With a key BLAKE2b of the token (RFC 7693), 8 bytes
        little-endian, the seed for its salt.
    offsets : int64 [n + 1]
        Document i owns `hashes[offsets[i]:offsets[i + 1]]`, in the order of the text.
    """
    raw, offsets = read_buffers(texts)
    if compiled.AVAILABLE and not contract.key:
        return _tokenise_compiled(raw, offsets, contract)
    if contract.tokens == "punctuation" or (raw.size and raw.max() >= 0x80):
        raw, offsets = _fold(raw, offsets, contract)
    folded = np.frombuffer(raw.tobytes().translate(_ascii_table(contract)) + bytes(16), dtype=np.uint8)
    inside = folded[: raw.size] != SEPARATOR
    starts, ends = _spans(inside, offsets)
    if contract.key:
        hashes = _hash_keyed(folded[: raw.size][inside], ends - starts, contract)
    else:
        hashes = _hash_spans(folded, starts, ends, contract.seed)
    return hashes, np.searchsorted(starts, offsets)


def read_buffers(texts: pa.Array) -> tuple[Bytes, Integers]:
    """Return the bytes of all texts and the offsets of each, without copying the bytes."""
    texts = texts.cast(pa.large_binary())
    if texts.null_count:
        texts = texts.fill_null(b"")
    _, positions, data = texts.buffers()
    offsets = np.frombuffer(positions, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    return raw[offsets[0] : offsets[-1]], offsets - offsets[0]


def _tokenise_compiled(raw: Bytes, offsets: Integers, contract: Contract) -> tuple[Hashes, Integers]:
    from dedup.kernels.loops import tokens

    folded, offsets = fold(raw, offsets, contract)
    hashes, bounds = np.empty(folded.size, dtype=np.uint64), np.zeros_like(offsets)
    start = expand(contract.seed, 1)[0]
    count = tokens.hash_documents(folded, offsets, classes_of(contract), start, hashes, bounds)
    return hashes[:count], bounds


@cache
def _folding(contract: Contract) -> Folding:
    return tabulate(_normaliser(contract), _ascii_table(contract), lower=contract.case == "lower")


def fold(raw: Bytes, offsets: Integers, contract: Contract) -> tuple[Bytes, Integers]:
    """Normalise documents in a compiled loop.

    Returns
    -------
    folded : uint8
        What the loops of `dedup.kernels.loops.tokens` take: UTF-8, a zero byte where ASCII separates tokens and behind
        every document.
    offsets : int64 [n + 1]
    """
    from dedup.kernels.loops import folding, tokens

    count = offsets.size - 1
    folded = np.empty(GROWTH * raw.size + count + tokens.PADDING, dtype=np.uint8)
    words = np.empty(2 * raw.size, dtype=np.uint8)
    holes = np.empty(raw.size, dtype=np.int64)
    bounds, hole_bounds = np.zeros_like(offsets), np.zeros_like(offsets)
    size = folding.fold(raw, offsets, _folding(contract), folded, bounds, words, holes, hole_bounds)
    if size:
        normal = _normaliser(contract)(words[:size].tobytes().decode("utf-8", "replace")).encode()
        normal = normal.translate(_ascii_table(contract)[:LINE_FEED] + b"\n" + _ascii_table(contract)[LINE_FEED + 1 :])
        filled = np.empty(bounds[-1] + len(normal) + tokens.PADDING, dtype=np.uint8)
        folding.fill_holes(folded, bounds, holes, hole_bounds, np.frombuffer(normal, dtype=np.uint8), filled)
        folded = filled
    folded[bounds[-1] : bounds[-1] + tokens.PADDING] = 0
    return folded[: bounds[-1] + tokens.PADDING], bounds


def _fold(raw: Bytes, offsets: Integers, contract: Contract) -> tuple[Bytes, Integers]:
    """Normalise each document that the table of bytes is not enough for, and put separators between its tokens."""
    content = raw.tobytes()
    documents = [content[start:end] for start, end in pairwise(offsets.tolist())]
    every = contract.tokens == "punctuation"
    foreign = [number for number, document in enumerate(documents) if every or not document.isascii()]
    normalise = _normaliser(contract)
    texts = [normalise(documents[number].decode("utf-8", "replace")) for number in foreign]
    for number, folded in zip(foreign, _separate(texts, classes_of(contract)), strict=True):
        documents[number] = folded
    joined = np.frombuffer(b"".join(documents), dtype=np.uint8)
    return joined, np.cumsum([0, *map(len, documents)], dtype=np.int64)


def _separate(texts: list[str], table: Bytes) -> list[bytes]:
    """Return the tokens of normalised texts as UTF-8 with at least one separator between two tokens."""
    points = np.frombuffer("\0".join(texts).encode("utf-32-le"), dtype=np.uint32)
    classes = table[points]
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


def _hash_keyed(tokens: Bytes, lengths: Integers, contract: Contract) -> Hashes:
    """Hash tokens that lie end to end, equal ones once."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(tokens)]
    encoded = pa.LargeBinaryArray.from_buffers(pa.large_binary(), lengths.size, buffers).dictionary_encode()
    salt = contract.seed.to_bytes(16, "little")
    digests = [
        blake2b(token, digest_size=8, key=contract.key, salt=salt).digest() for token in encoded.dictionary.to_pylist()
    ]
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
