"""Tokens of folded text: hashed, or cut out."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.hashing import GOLDEN
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.folding import TOPS, load_word, read_point
from dedup.kernels.loops.hashing import mix
from dedup.kernels.text.characters import MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD

BLOCK = np.uint64(64)
ONES = np.uint64(0x0101010101010101)
CONTINUED, SIX = np.uint64(0x3F), np.uint64(6)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
SPACE = np.uint8(0x20)


def _trailing_zeros(_context: Any, value: Any) -> Any:  # noqa: ANN401 - Numba's types
    """Count the zero bits below the lowest one; 64 without any."""

    def generate(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.uint64(value), generate


_count_zeros: Any = intrinsic(_trailing_zeros)


@compiled
def hash_tokens(folded: Bytes, start: int, end: int, classes: Bytes, key: np.uint64, hashes: Hashes, count: int) -> int:
    """Hash the tokens of one folded document; return the number of the first hash after it.

    Parameters
    ----------
    folded
        As from `unicode_words.fold`.
    classes
        Class of every code point.
    hashes
        Takes the hashes from `count` on; as many as there are bytes are enough.
    """
    position: Any = start
    while position < end:
        # A token of ASCII alone, all that most texts have, eight bytes at a time.
        block = load_word(folded, position)
        zeros = (block - ONES) & ~block & TOPS
        stops = zeros | (block & TOPS)
        width = _count_zeros(stops) & ~np.uint64(7)
        hashed, number = np.uint64(0), key
        while not stops:
            hashed += mix(block ^ number)
            number += GOLDEN
            position += 8
            block = load_word(folded, position)
            zeros = (block - ONES) & ~block & TOPS
            stops = zeros | (block & TOPS)
            width = _count_zeros(stops) & ~np.uint64(7)
        position += np.int64(width >> np.uint64(3))
        block &= ~(ALL << width)
        if stops & (~stops + np.uint64(1)) & zeros:
            # Eight bytes that a separator follows at once are whole in the sum.
            if width:
                hashed += mix(block ^ number)
            if width or number != key:
                hashes[count] = hashed
                count += 1
            position += 1
            continue
        inside = width > 0 or number != key
        shift = width
        # The class of the last code point that is not a spacing script's mark: a mark continues what it follows.
        anchor: Any = WORD if inside else SEPARATOR
        # Anything else, character by character up to an ASCII separator.
        while position < end and folded[position]:
            first = np.uint64(folded[position])
            size: Any
            if first < 0x80:
                size, value, kind = 1, first, np.int64(WORD)
            else:
                value = load_word(folded, position)
                size = 2
                point = np.int64((value & np.uint64(0x1F)) << SIX | (value >> np.uint64(8) & CONTINUED))
                if first >= 0xE0:
                    size = 3
                    point = (point & 0x3FF) << 6 | np.int64(value >> np.uint64(16) & CONTINUED)
                    if first >= 0xF0:
                        size = 4
                        point = (point & 0x7FFF) << 6 | np.int64(value >> np.uint64(24) & CONTINUED)
                value &= ~(ALL << np.uint64(8 * size))
                kind = np.int64(classes[point])
            position += size
            follows = anchor >= UNSPACED
            if inside and (kind in (SEPARATOR, UNSPACED) or kind == (WORD if follows else UNSPACED_MARK)):
                hashes[count] = hashed + mix(block ^ number) if shift else hashed
                count += 1
                block = shift = hashed = np.uint64(0)
                number = key
                inside = False
            if kind != MARK:
                anchor = kind
            if kind == SEPARATOR:
                continue
            inside = True
            if shift == BLOCK:
                hashed += mix(block ^ number)
                number += GOLDEN
                block = shift = np.uint64(0)
            block |= value << shift
            shift += np.uint64(8 * size)
            if shift > BLOCK:
                hashed += mix(block ^ number)
                number += GOLDEN
                shift -= BLOCK
                block = value >> (np.uint64(8 * size) - shift)
        if inside:
            hashes[count] = hashed + mix(block ^ number) if shift else hashed
            count += 1
    return count


@compiled
def hash_documents(
    folded: Bytes, offsets: Integers, classes: Bytes, key: np.uint64, hashes: Hashes, bounds: Integers
) -> int:
    """Hash the tokens of folded documents, a zero byte behind each; return how many there are.

    Parameters
    ----------
    bounds
        Takes for every document the number of the first hash after it, behind a zero.
    """
    count = 0
    for document in range(offsets.size - 1):
        count = hash_tokens(folded, offsets[document], offsets[document + 1] - 1, classes, key, hashes, count)
        bounds[document + 1] = count
    return count


@compiled
def cut_documents(
    folded: Bytes, offsets: Integers, classes: Bytes, starts: Integers, ends: Integers, bounds: Integers
) -> int:
    """Find the tokens of folded documents, a zero byte behind each; return how many there are.

    Parameters
    ----------
    starts, ends
        Take the first and the past-the-end byte of each; as many as there are bytes are enough.
    bounds
        Takes for every document the number of the first token after it, behind a zero.
    """
    count = 0
    for document in range(offsets.size - 1):
        position, end = offsets[document], offsets[document + 1] - 1
        inside = False
        anchor: Any = SEPARATOR
        while position < end:
            point: Any = np.int64(folded[position])
            width = 1
            if point >= 0x80:
                point, width = read_point(folded, position, end)
            kind = np.int64(classes[point]) if point >= 0x80 else np.int64(WORD if point else SEPARATOR)
            follows = anchor >= UNSPACED
            if inside and (kind in (SEPARATOR, UNSPACED) or kind == (WORD if follows else UNSPACED_MARK)):
                ends[count] = position
                count += 1
                inside = False
            if kind != MARK:
                anchor = kind
            if kind != SEPARATOR and not inside:
                starts[count] = position
                inside = True
            position += width
        if inside:
            ends[count] = end
            count += 1
        bounds[document + 1] = count
    return count


@compiled
def cut_characters(
    folded: Bytes, offsets: Integers, classes: Bytes, starts: Integers, ends: Integers, bounds: Integers
) -> int:
    """Find the characters of folded documents, as `cut_documents` finds tokens.

    Separators between two others count as one space, which is written in place of the first byte of the first of them.
    """
    count = 0
    for document in range(offsets.size - 1):
        position, end = offsets[document], offsets[document + 1] - 1
        first, gap = count, position
        while position < end:
            point: Any = np.int64(folded[position])
            width = 1
            if point >= 0x80:
                point, width = read_point(folded, position, end)
            if classes[point] != SEPARATOR if point >= 0x80 else point:
                if gap < position and count > first:
                    folded[gap] = SPACE
                    starts[count], ends[count] = gap, gap + 1
                    count += 1
                starts[count], ends[count] = position, position + width
                count += 1
                gap = position + width
            position += width
        bounds[document + 1] = count
    return count


@compiled
def hash_spans(folded: Bytes, starts: Integers, ends: Integers, key: np.uint64, hashes: Hashes) -> None:
    """Hash tokens of known places; behind the last come eight bytes more."""
    for token in range(starts.size):
        hashed, number, place = np.uint64(0), key, starts[token]
        while ends[token] - place >= 8:
            hashed += mix(load_word(folded, place) ^ number)
            number += GOLDEN
            place += 8
        width = np.uint64(8 * (ends[token] - place))
        hashes[token] = hashed + mix(load_word(folded, place) & ~(ALL << width) ^ number) if width else hashed


@compiled
def compare(tokens: Bytes, widths: Integers, begins: Integers, ends: Integers, differs: Flags) -> None:
    """Take the flag of every run of tokens that is equal, token by token, to the run before."""
    for run in range(1, begins.size):
        begin, before = begins[run], begins[run - 1]
        differ = ends[run] - begin != ends[run - 1] - before
        shift = widths[before] - widths[begin]
        for token in range(begin + 1, ends[run] + 1):
            if differ:
                break
            differ = widths[token + before - begin] - widths[token] != shift
        if not differ:
            for byte in range(widths[begin], widths[ends[run]]):
                if tokens[byte] != tokens[byte + shift]:
                    differ = True
                    break
        differs[run] = differ
