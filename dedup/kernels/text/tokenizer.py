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

from dedup.kernels import Bytes, Hashes, Integers, compiled
from dedup.kernels.hashing import expand
from dedup.kernels.text.characters import SEPARATOR, WORD, unicode_classes
from dedup.kernels.text.folding import GROWTH, LINE_FEED, Folding, tabulate
from dedup.kernels.text.marks import to_nfkc
from dedup.kernels.text.spans import find_spans, hash_keyed, hash_spans, separate

VERSION = 2
"""Version of the steps from a text to a band key (docs/hash-spec.md); hashes of two versions are never compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The rules by which texts become token hashes; hashes under different contracts are never compared.

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
    """Table for `str.translate`, filled character by character as it is asked."""

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
def normaliser(contract: Contract) -> Callable[[str], str]:
    """Return what makes of a text that is not ASCII one whose tokens need only be told apart."""
    translation = _Translation(contract)

    def normalise(text: str) -> str:
        text = to_nfkc(text)
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
    if compiled.AVAILABLE and not contract.key:
        return _tokenise_compiled(*read_buffers(texts), contract)
    folded, offsets, starts, ends = find_tokens(texts, contract)
    if contract.key:
        hashes = hash_keyed(folded[folded != SEPARATOR], ends - starts, contract.key, contract.seed)
    else:
        hashes = hash_spans(folded, starts, ends, contract.seed)
    return hashes, np.searchsorted(starts, offsets)


def find_tokens(texts: pa.Array, contract: Contract) -> tuple[Bytes, Integers, Integers, Integers]:
    """Return the tokens of every text as spans of folded text.

    Returns
    -------
    folded : uint8
        UTF-8, zero bytes for all that belongs to no token, and 16 of them behind the last document.
    offsets : int64 [n + 1]
        Document i owns the bytes from `offsets[i]` to `offsets[i + 1]`; of ASCII and without `punctuation` as many
        as its text has.
    starts, ends : int64 [tokens]
        The first and the past-the-end byte of each token.
    """
    raw, offsets = read_buffers(texts)
    if contract.tokens == "punctuation" or (raw.size and raw.max() >= 0x80):
        raw, offsets = _fold(raw, offsets, contract)
    folded = np.frombuffer(raw.tobytes().translate(_ascii_table(contract)) + bytes(16), dtype=np.uint8)
    return folded, offsets, *find_spans(folded[: raw.size] != SEPARATOR, offsets)


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
def folding_of(contract: Contract) -> Folding:
    """Return the tables by which texts are normalised under the contract."""
    return tabulate(normaliser(contract), _ascii_table(contract), lower=contract.case == "lower")


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
    size = folding.fold(raw, offsets, folding_of(contract), folded, bounds, words, holes, hole_bounds)
    if size:
        normal = normaliser(contract)(words[:size].tobytes().decode("utf-8", "replace")).encode()
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
    normalise = normaliser(contract)
    texts = [normalise(documents[number].decode("utf-8", "replace")) for number in foreign]
    for number, folded in zip(foreign, separate(texts, classes_of(contract)), strict=True):
        documents[number] = folded
    joined = np.frombuffer(b"".join(documents), dtype=np.uint8)
    return joined, np.cumsum([0, *map(len, documents)], dtype=np.int64)
