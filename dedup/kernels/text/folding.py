"""Tables by which a compiled loop normalises text beyond ASCII without the Unicode database.

NFKC of a text is NFKC of its characters one by one, end to end, wherever these meet without effect: marks stand in
canonical order and nothing composes with what precedes it (the quick check of Unicode Standard Annex 15, section 9).
One starter and one mark that compose, the common case of the others, the loop joins by a table of pairs. What is left,
like a capital sigma, whose lower case depends on its neighbours, goes through the database word by word.
"""

import unicodedata
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.kernels import Bytes, Flags, Integers
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.text.marks import BLOCK, BLOCKS, POINT_COUNT, mark_orders

PLAIN, MAPPED, INERT, JOINING, UNSAFE = range(5)
"""Kinds of characters. PLAIN ones fold to themselves, MAPPED ones to something else, whatever precedes them; INERT ones
are marks that compose with nothing; JOINING ones may compose with their predecessor; UNSAFE ones need the database."""
KIND = 7
"""Mask of the bits of a kind."""
COMPOSED = 8
"""Flag beside a kind: the character has a canonical decomposition."""
GROWTH = 3
"""Bytes that the fold of nearly every character takes at most for each of its own."""
MOST_GROWTH = 11
"""Bytes that U+FDFA takes, which is four words; characters of more are unsafe."""
NO_CODE = 0xFFFF
"""Mark in the table of bytes for all but plain ASCII."""
LINE_FEED, SPACE, SIGMA = 0x0A, 0x20, 0x3A3
SECOND = 0x1FFFFF
"""Mask of the bits of a pair that hold its second character."""
HANGUL = (0x1161, 0x1176), (0x11A8, 0x11C3)
"""Vowels and final consonants, which compose by arithmetic instead of by pairs."""


class Folding(NamedTuple):
    """The fold of every character."""

    codes: npt.NDArray[np.uint16]
    """Fold of every byte of plain ASCII; NO_CODE for all others."""
    ranges: Bytes
    """The same as ranges of bytes, uint8 [n, 3]: the first, how many, and what is added to each, modulo 256. Others
    of ASCII fold to 0. Empty where some are not plain."""
    kinds: Bytes
    """Kind and flag of every code point."""
    slots: npt.NDArray[np.int32]
    """Number of the fold of every code point; 0, the empty fold, for PLAIN ones."""
    ends: Integers
    """End of each fold in `pool`, where the next begins."""
    pool: Bytes
    """UTF-8 of all folds, ASCII by the table of bytes."""
    normals: Integers
    """NFKC form by slot, where it is one character, else -1."""
    orders: Integers
    """Canonical combining class of the last character of the NFKC form, by slot."""
    pairs: Integers
    """Two characters that compose, `first << 21 | second`, ascending."""
    composites: Integers
    """Composite of each pair."""


class _Lines(NamedTuple):
    """Folded characters, a line feed behind each."""

    points: Integers
    starts: Integers
    """Beginning of each, and the end of the last."""

    @property
    def single(self) -> Flags:
        """Flags of the lines of one character."""
        found: Flags = np.diff(self.starts) == 2
        return found

    @property
    def first(self) -> Integers:
        """The first character of each."""
        return self.points[self.starts[:-1]]

    @property
    def last(self) -> Integers:
        """The last character of each, if it has one."""
        return self.points[self.starts[1:] - 2]


def _list_ranges(codes: npt.NDArray[np.uint16]) -> Bytes:
    """Return the codes of ASCII as `Folding.ranges`."""
    shifts = np.where(codes > 0, codes - np.arange(codes.size), NO_CODE)
    bounds = find_bounds(shifts)
    ranges = np.stack([bounds[:-1], np.diff(bounds), shifts[bounds[:-1]] % 256], axis=1)
    kept = shifts[bounds[:-1]] != NO_CODE
    found: Bytes = ranges[kept & (codes != NO_CODE).all()].astype(np.uint8)
    return found


def tabulate(normalise: Callable[[str], str], table: bytes, *, lower: bool) -> Folding:
    """Make the tables of a normalisation, in a tenth of a second.

    Parameters
    ----------
    normalise
        NFKC, then any change of single characters that `UnicodeWords` can ask for.
    table
        Replacement of each byte of ASCII in a token, 0 for separators; the normalisation may leave these as they are.
    lower
        Whether the normalisation includes lower case, which for a sigma depends on its neighbours.
    """
    # Characters in no block of Unicode's are unsafe.
    every = np.full(POINT_COUNT, UNSAFE, dtype=np.uint8)
    for block in BLOCKS:
        every[block : block + BLOCK] = PLAIN
    orders = mark_orders()
    blocks = [block for block in BLOCKS if orders[block : block + BLOCK].any() or not _is_plain(block, normalise)]
    # Control characters of ASCII, line feed among them, are plain.
    points = (np.array(blocks)[:, None] + np.arange(BLOCK)).reshape(-1)[SPACE:]
    lines = np.full((points.size, 2), LINE_FEED)
    lines[:, 0] = points
    separate = _to_text(lines)
    compatible = unicodedata.normalize("NFKC", separate)
    # What is in NFKC already takes the database a tenth of the time.
    folded = normalise(compatible)
    forms, folds = _read_lines(compatible), _read_lines(folded)
    decomposed = _read_lines(unicodedata.normalize("NFD", separate))
    composed = ~decomposed.single | (decomposed.first != points)
    pairs, composites = _find_pairs(points[composed])
    kinds = _sort_kinds(points, forms, folds, orders, pairs)
    if lower:
        kinds[np.searchsorted(forms.starts, np.flatnonzero(forms.points == SIGMA), side="right") - 1] = UNSAFE
    slotted = np.flatnonzero((kinds != PLAIN) | np.isin(points, composites))
    split = folded.split("\n")
    encoded = [split[number].encode() for number in slotted.tolist()]
    widths = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    kinds[slotted[np.array([*map(len, encoded)]) > MOST_GROWTH * widths[slotted]]] = UNSAFE
    every[pairs & SECOND] = UNSAFE
    every[points] = kinds | np.where(composed, COMPOSED, 0)
    slots = np.zeros(POINT_COUNT, dtype=np.int32)
    slots[points[slotted]] = np.arange(1, slotted.size + 1)
    codes = np.frombuffer(table, dtype=np.uint8).astype(np.uint16)
    codes[every[: codes.size] != PLAIN] = NO_CODE
    codes[0x80:] = NO_CODE
    return Folding(
        codes=codes,
        ranges=_list_ranges(codes[:0x80]),
        kinds=every,
        slots=slots,
        ends=np.cumsum([0, *map(len, encoded)]),
        pool=np.frombuffer(b"".join(encoded).translate(table), dtype=np.uint8),
        normals=np.append(0, np.where(forms.single, forms.first, -1)[slotted]),
        orders=np.append(0, orders[forms.last[slotted]]).astype(np.int64),
        pairs=pairs,
        composites=composites,
    )


def _is_plain(block: int, normalise: Callable[[str], str]) -> bool:
    """Return whether normalising leaves a block without marks as it is, as nearly all of Unicode."""
    text = "".join(map(chr, range(block, block + BLOCK)))
    return normalise(text) == text == unicodedata.normalize("NFD", text)


def _sort_kinds(points: Integers, forms: _Lines, folds: _Lines, orders: Bytes, pairs: Integers) -> Integers:
    """Return the kind of each of these points, sigmas aside."""
    joining = np.zeros(POINT_COUNT, dtype=bool)
    joining[pairs & SECOND] = True
    for first, last in HANGUL:
        joining[first:last] = True
    same = folds.single & (folds.first == points) & forms.single & (forms.first == points)
    # The table of bytes lowers ASCII letters and zeroes digits; only what grows is folded here.
    same |= folds.single & (points < 0x80)
    kinds = np.where(same, PLAIN, MAPPED)
    kinds[forms.single & (orders[forms.first] > 0)] = INERT
    kinds[forms.single & joining[forms.first]] = JOINING
    kinds[~forms.single & (joining[forms.first] | (orders[forms.first] > 0))] = UNSAFE
    return kinds


def _to_text(points: Integers) -> str:
    return points.astype("<u4").tobytes().decode("utf-32-le")


def _read_lines(text: str) -> _Lines:
    points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.int64)
    return _Lines(points, np.append(0, np.flatnonzero(points == LINE_FEED) + 1))


def _find_pairs(composed: Integers) -> tuple[Integers, Integers]:
    """Return the pairs that compose to one of these characters, and the character; Hangul's syllables are left out."""
    pairs = {}
    for char in map(chr, composed.tolist()):
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and unicodedata.is_normalized("NFC", char):
            first, second = (int(part, 16) for part in parts)
            pairs[first << 21 | second] = ord(char)
    keys = np.array(sorted(pairs), dtype=np.int64)
    return keys, np.array([pairs[key] for key in keys.tolist()], dtype=np.int64)
