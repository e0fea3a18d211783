"""Unicode words, the tokens of the text contract, version 2.

A document is normalised to NFKC and lower case. A token is a run of letters, marks, digits and underscores; in scripts
written without spaces every character (letter, digit or sign) with the marks that follow it is a token.
`unicode_classes.txt` says which code points those are; NFKC and lower case are those of Python's own Unicode database.
The settings of `UnicodeWords` can ask for something else.

Work is done on whole batches of UTF-8 bytes, which compiled loops fold by tables (`folding`) and cut into tokens.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Flags, Hashes, Integers, loops
from dedup.kernels.hashing import expand
from dedup.kernels.text.characters import MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD, unicode_classes
from dedup.kernels.text.folding import (
    GROWTH,
    KIND,
    LINE_FEED,
    MAPPED,
    MOST_GROWTH,
    PLAIN,
    SIGMA,
    UNSAFE,
    Folding,
    tabulate,
)
from dedup.kernels.text.marks import to_nfkc
from dedup.kernels.text.tokenizer import TokenPlaces, hash_keyed, read_buffers, to_cells

ARABIC_MARKS = {"\u0640", *map(chr, range(0x64B, 0x653)), "\u0670"}
"""Tatweel, harakat from fathatan to sukun, and the dagger alif."""
PADDING = 8
"""Zero bytes behind the folded text, so that eight can be read from anywhere in it."""
JOINER = 0x200D


@dataclass(frozen=True, slots=True, kw_only=True)
class UnicodeWords:
    """Tokenizer of the text contract.

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
        a token is a run between white space.
    arabic
        "keep", or "drop": harakat, the dagger alif and tatweel do not count.
    han
        "keep", or "simplified": each traditional character counts as the one that OpenCC makes of it by itself.
    stemming
        A language, for whose words their stems count, as Snowball has them; empty for none.
    """

    seed: int = 1
    key: bytes = field(default=b"", repr=False)
    case: str = "lower"
    accents: str = "keep"
    digits: str = "keep"
    tokens: str = "words"
    arabic: str = "keep"
    han: str = "keep"
    stemming: str = ""

    @property
    def basis(self) -> str:
        """See `Tokenizer.basis`."""
        asked = {"opencc": self.han == "simplified", "PyStemmer": self.stemming != ""}
        return ", ".join(f"{name} {version(name)}" for name, is_asked in asked.items() if is_asked)

    def hash(self, texts: pa.Array) -> tuple[Hashes, Integers]:
        """Hash the tokens of every text.

        Parameters
        ----------
        texts
            As for every `Tokenizer`.

        Returns
        -------
        hashes : uint64 [tokens]
            Without a key the sum over the token's 8-byte little-endian blocks, the last padded with zeros, of
            `mix(block ^ (start + number * GOLDEN))`, where `start` is the first value that the seed expands to.
            A token has no zero byte, so the padding is unambiguous. With a key BLAKE2b of the token (RFC 7693), 8 bytes
            little-endian, the seed for its salt.
        offsets : int64 [n + 1]
        """
        folded, offsets = fold(*read_buffers(texts), self)
        if not self.key and not self.stemming:
            return self._hash(folded, offsets)
        starts, ends, bounds = self._cut(folded, offsets)
        tokens, widths = self._take(folded, starts, ends)
        if self.key:
            return hash_keyed(tokens, np.diff(widths), self), bounds
        hashes = np.empty(starts.size, dtype=np.uint64)
        padded = np.append(tokens, np.zeros(PADDING, np.uint8))
        loops.tokens.hash_spans(padded, widths[:-1], widths[1:], expand(self.seed, 1)[0], hashes)
        return hashes, bounds

    def _hash(self, folded: Bytes, offsets: Integers) -> tuple[Hashes, Integers]:
        hashes, bounds = np.empty(folded.size, dtype=np.uint64), np.zeros_like(offsets)
        start = expand(self.seed, 1)[0]
        count = loops.tokens.hash_documents(folded, offsets, classes_of(self), start, hashes, bounds)
        return hashes[:count], bounds

    def _cut(self, folded: Bytes, offsets: Integers) -> tuple[Integers, Integers, Integers]:
        return cut(loops.tokens.cut_documents, folded, offsets, self)

    def _take(self, folded: Bytes, starts: Integers, ends: Integers) -> tuple[Bytes, Integers]:
        """Return the bytes of tokens, or of their stems, end to end, and where each begins and the last ends."""
        tokens, widths = _take(folded, starts, ends), np.concatenate(([0], np.cumsum(ends - starts)))
        return stem(tokens, widths, self.stemming) if self.stemming else (tokens, widths)

    def locate(self, texts: pa.Array) -> TokenPlaces:
        """Find the tokens in the texts, which normalising may lengthen, shorten and reorder.

        A byte of a text of ASCII takes 6 ns, one of another text 15 to 120.
        """
        raw, positions = read_buffers(texts)
        folded, bounds = fold(raw, positions, self)
        starts, stops, offsets = self._cut(folded, bounds)
        begins, ends = (each - np.repeat(bounds[:-1], np.diff(offsets)) for each in (starts, stops))
        beyond = np.concatenate(([0], np.cumsum(raw >= 0x80)))[positions]
        # Punctuation is set apart by spaces, so that not even ASCII stays where it was.
        moved = (np.diff(beyond) > 0) | (self.tokens == "punctuation")
        for number in np.flatnonzero(moved).tolist():
            own = slice(offsets[number], offsets[number + 1])
            text = raw[positions[number] : positions[number + 1]].tobytes().decode("utf-8", "replace")
            size = int(bounds[number + 1] - bounds[number]) - 1
            begins[own], ends[own] = _locate(text, size, begins[own], ends[own], self)
        return TokenPlaces(begins, ends, offsets, *self._take(folded, starts, stops))


@cache
def _ascii_table(words: UnicodeWords) -> bytes:
    """Map each byte to its replacement in a token, or to the separator; bytes beyond ASCII to themselves."""

    def fold(char: str) -> str:
        if words.case == "lower":
            char = char.lower()
        if words.digits == "zero" and char.isdigit():
            return "0"
        if char.isalnum() or char == "_":
            return char
        return "\0" if words.tokens == "words" or not "!" <= char <= "~" else char

    return bytes(ord(fold(chr(byte))) if byte < 0x80 else byte for byte in range(256))


@cache
def classes_of(words: UnicodeWords) -> Bytes:
    """Return the class of every code point."""
    classes = unicode_classes()
    if words.tokens == "words":
        return classes
    visible = np.fromiter(map(_is_visible, map(chr, range(0x110000))), dtype=bool)
    if words.tokens == "whitespace":
        return np.where(visible | (classes != SEPARATOR), np.uint8(WORD), np.uint8(SEPARATOR))
    return np.where(visible & (classes == SEPARATOR), np.uint8(WORD), classes)


def _is_visible(char: str) -> bool:
    return char.isprintable() and char != " "


class _Translation(dict[int, str]):
    """Table for `str.translate`, filled character by character as it is asked."""

    def __init__(self, words: UnicodeWords) -> None:
        self._words = words

    def __missing__(self, point: int) -> str:
        char = chr(point)
        if self._words.arabic == "drop" and char in ARABIC_MARKS:
            char = ""
        elif self._words.han == "simplified" and point in simplified():
            char = simplified()[point]
        elif self._words.digits == "zero" and unicodedata.category(char) == "Nd":
            char = "0"
        elif self._words.tokens == "punctuation" and _is_visible(char) and unicode_classes()[point] == SEPARATOR:
            char = f" {char} "
        self[point] = char
        return char


@cache
def simplified() -> Mapping[int, str]:
    """Return the traditional characters that have a simplified one, each by itself, as OpenCC has them."""
    from opencc import OpenCC

    classes = unicode_classes()
    chars = [chr(point) for point in np.flatnonzero(classes == UNSPACED).tolist()]
    turned = OpenCC("t2s").convert("\n".join(chars)).split("\n")
    return {ord(char): other for char, other in zip(chars, turned, strict=True) if char != other}


def list_languages() -> list[str]:
    """Return the languages whose words have stems."""
    from Stemmer import algorithms

    found: list[str] = algorithms()
    return found


def stem(tokens: Bytes, widths: Integers, language: str) -> tuple[Bytes, Integers]:
    """Return the stems of tokens that lie end to end, as they do; a token without a stem stays as it is."""
    from Stemmer import Stemmer

    encoded = to_cells(tokens, widths).dictionary_encode()
    words = encoded.dictionary.to_pylist()
    # Equal words are one here, so that its own cache has nothing to remember.
    stems = Stemmer(language, 0).stemWords(words)
    kept = pa.array([each or word for each, word in zip(stems, words, strict=True)], pa.large_binary())
    return read_buffers(kept.take(encoded.indices))


@cache
def normaliser(words: UnicodeWords) -> Callable[[str], str]:
    """Return a function that normalises a text, so that its tokens need only be told apart."""
    translation = _Translation(words)

    def normalise(text: str) -> str:
        text = to_nfkc(text)
        if words.case == "lower":
            text = text.lower()
        if words.accents == "drop":
            text = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", text)))
        if {words.digits, words.arabic, words.han} != {"keep"} or words.tokens == "punctuation":
            text = text.translate(translation)
        return text

    return normalise


def folding_of(words: UnicodeWords) -> Folding:
    """Return the tables by which texts are normalised, which neither seed nor key nor stems change."""
    return _tabulate(replace(words, seed=0, key=b"", stemming=""))


@cache
def _tabulate(words: UnicodeWords) -> Folding:
    return tabulate(normaliser(words), _ascii_table(words), lower=words.case == "lower")


def fold(raw: Bytes, offsets: Integers, words: UnicodeWords) -> tuple[Bytes, Integers]:
    """Normalise documents.

    Returns
    -------
    folded : uint8
        UTF-8, a zero byte where ASCII separates tokens and behind every document, PADDING behind all.
    offsets : int64 [n + 1]
        Document i owns the bytes from `offsets[i]` to `offsets[i + 1]`, the zero among them; one of ASCII has as many
        others as its text, unless `tokens` is "punctuation".
    """
    unsafe = np.empty(2 * raw.size, dtype=np.uint8)
    # Between two holes of a document lies a byte that is in none.
    holes = np.empty((raw.size + offsets.size) // 2, dtype=np.int64)
    bounds, hole_bounds = np.zeros_like(offsets), np.zeros_like(offsets)
    for growth in (GROWTH, MOST_GROWTH):
        room = growth * raw.size + offsets.size - 1
        folded = np.empty(room + PADDING, dtype=np.uint8)
        size = loops.folding.fold(raw, offsets, folding_of(words), folded[:room], bounds, unsafe, holes, hole_bounds)
        if size >= 0:
            break
    if size:
        table = _ascii_table(words)
        normal = normaliser(words)(unsafe[:size].tobytes().decode("utf-8", "replace")).encode()
        normal = normal.translate(table[:LINE_FEED] + b"\n" + table[LINE_FEED + 1 :])
        filled = np.empty(bounds[-1] + len(normal) + PADDING, dtype=np.uint8)
        loops.folding.fill_holes(folded, bounds, holes, hole_bounds, np.frombuffer(normal, dtype=np.uint8), filled)
        folded = filled
    folded[bounds[-1] : bounds[-1] + PADDING] = 0
    return folded[: bounds[-1] + PADDING], bounds


def cut(
    loop: Callable[..., int], folded: Bytes, offsets: Integers, words: UnicodeWords
) -> tuple[Integers, Integers, Integers]:
    """Cut documents into tokens, folded as by `fold`.

    Parameters
    ----------
    loop
        `loops.tokens.cut_documents`, or another of its parameters.

    Returns
    -------
    starts, ends : int64 [tokens]
        First and past-the-end byte of each.
    bounds : int64 [n + 1]
        Document i owns the tokens from `bounds[i]` to `bounds[i + 1]`.
    """
    starts, ends = (np.empty(folded.size, dtype=np.int64) for _ in range(2))
    bounds = np.zeros_like(offsets)
    count = loop(folded, offsets, classes_of(words), starts, ends, bounds)
    return starts[:count].copy(), ends[:count].copy(), bounds


def _take(folded: Bytes, starts: Integers, ends: Integers) -> Bytes:
    """Return the bytes of tokens end to end."""
    steps = np.zeros(folded.size, dtype=np.int8)
    steps[starts] += 1
    steps[ends] -= 1
    taken: Bytes = folded[np.cumsum(steps, dtype=np.int8).view(bool)]
    return taken


def _locate(text: str, size: int, starts: Integers, stops: Integers, words: UnicodeWords) -> tuple[Integers, Integers]:
    """Return the first and the past-the-end character of the tokens of one text.

    The text is divided where normalising is sure to leave the parts alone: before characters that neither are marks nor
    join what precedes them. So the bytes of the folded text are those of the parts end to end, and each is known by how
    many each part takes.

    Parameters
    ----------
    size
        Bytes of the folded text.
    starts, stops : int64 [tokens]
        First and past-the-end byte of each in it.
    """
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    begins = _begins_anew(words)[points]
    begins[1:] &= points[:-1] != JOINER
    begins[:1] = True
    bounds = np.append(np.flatnonzero(begins), points.size)
    widths = _fold_widths(words)[points[bounds[:-1]]].astype(np.int64)
    normalise = normaliser(words)
    for part in np.flatnonzero((np.diff(bounds) > 1) | (widths == 0)).tolist():
        widths[part] = len(normalise(text[bounds[part] : bounds[part + 1]]).encode())
    # Of half the bytes of others, since there is one for each byte of the folded text.
    of = np.repeat(np.arange(widths.size, dtype=np.int32), widths)
    if of.size != size:
        # No text is known of which this is so. Nothing in it could then be taken out.
        return np.zeros_like(starts), np.full_like(stops, points.size)
    return bounds[of[starts]], bounds[of[stops - 1] + 1]


@cache
def _fold_widths(words: UnicodeWords) -> Bytes:
    """Return the bytes that every code point takes by itself once it is folded; 0 where that needs the database."""
    folding = folding_of(words)
    points = np.arange(folding.kinds.size)
    widths = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    widths = np.where(folding.slots > 0, np.append(0, np.diff(folding.ends))[folding.slots], widths)
    widths[folding.kinds & KIND == UNSAFE] = 0
    widths[SIGMA] = 2  # Either small one takes as many as the capital.
    return widths.astype(np.uint8)


@cache
def _begins_anew(words: UnicodeWords) -> Flags:
    """Flag the code points that belong to nothing before them; bool [0x110000]."""
    kinds = folding_of(words).kinds & KIND
    classes = unicode_classes()
    begins: Flags = ((kinds == PLAIN) | (kinds == MAPPED)) & (classes != MARK) & (classes != UNSPACED_MARK)
    begins &= _fold_widths(words) > 0
    begins[SIGMA] = True  # Its lower case depends on its neighbours; that it is a letter does not.
    begins[JOINER] = False
    return begins
