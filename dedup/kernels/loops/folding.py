"""Normalisation of UTF-8 by tables."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dedup.kernels import Bytes, Integers
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.text.folding import (
    COMPOSED,
    GROWTH,
    INERT,
    JOINING,
    KIND,
    LINE_FEED,
    MAPPED,
    NO_CODE,
    PLAIN,
    SPACE,
    UNSAFE,
    Folding,
)

WORD_BYTES = 8
LEAST_RUN = 32
"""Bytes of ASCII in a row after which a loop over ranges takes the others: it would gain nothing in short runs."""
TOPS = np.uint64(0x8080808080808080)
"""The leading bits of eight bytes: not one of ASCII has it."""


def _load(_context: Any, array: Any, index: Any) -> Any:  # noqa: ANN401 - Numba's types
    """Read 8 bytes from any position as a little-endian number; there is no other way to say so in Numba."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(array, index), generate


load_word: Any = intrinsic(_load)


@compiled
def read_point(text: Bytes, position: int, end: int) -> tuple[Any, Any]:
    """Return the code point at a byte of 0x80 or more, and its width; -1 if it is not UTF-8."""
    first = np.int64(text[position])
    if first < 0xC2 or first > 0xF4 or position + 1 >= end or text[position + 1] & 0xC0 != 0x80:
        return -1, 1
    point = (first & 0x1F) << 6 | (text[position + 1] & 0x3F)
    if first < 0xE0:
        return point, 2
    if position + 2 >= end or text[position + 2] & 0xC0 != 0x80:
        return -1, 1
    point = (point & 0x3FF) << 6 | (text[position + 2] & 0x3F)
    if first < 0xF0:
        return (point, 3) if point >= 0x800 and not 0xD800 <= point < 0xE000 else (-1, 1)
    if position + 3 >= end or text[position + 3] & 0xC0 != 0x80:
        return -1, 1
    point = (point & 0x7FFF) << 6 | (text[position + 3] & 0x3F)
    return (point, 4) if 0x10000 <= point < 0x110000 else (-1, 1)


@compiled
def compose(first: int, second: int, folding: Folding) -> Any:  # noqa: ANN401 - an integer, Python's or NumPy's
    """Return the composite of two characters; -1 without one."""
    if 0x1161 <= second < 0x1176:
        return 0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28 if 0x1100 <= first < 0x1113 else -1
    if 0x11A8 <= second < 0x11C3:
        return first + second - 0x11A7 if 0xAC00 <= first < 0xD7A4 and (first - 0xAC00) % 28 == 0 else -1
    key = np.int64(first) << 21 | second
    place = np.searchsorted(folding.pairs, key)
    if place < folding.pairs.size and folding.pairs[place] == key:
        return folding.composites[place]
    return -1


@compiled
def fold_ranges(text: Bytes, ranges: Bytes, folded: Bytes) -> None:
    """Fold ASCII by `Folding.ranges`, a pass for each, in which the compiler takes 32 bytes at once."""
    folded[:] = 0
    for number in range(ranges.shape[0]):
        first, size, shift = ranges[number, 0], ranges[number, 1], ranges[number, 2]
        for place in range(text.size):
            byte = text[place]
            folded[place] |= np.uint8(byte + shift) if np.uint8(byte - first) < size else np.uint8(0)


@compiled
def fold(
    text: Bytes,
    offsets: Integers,
    folding: Folding,
    folded: Bytes,
    bounds: Integers,
    words: Bytes,
    holes: Integers,
    hole_bounds: Integers,
) -> int:
    """Normalise documents; return the bytes of the words that are left to the Unicode database.

    Returns -1 without room for characters that take more than GROWTH times their bytes, which are rare.

    Parameters
    ----------
    folded
        Takes the folded text, a zero byte behind each document: GROWTH times the bytes of the text, mostly.
    bounds
        Takes for every document the number of the first byte after it, behind a zero.
    words
        Takes the words left out, a line feed behind each; twice the bytes of the text are enough.
    holes
        Takes where each belongs in `folded`; of a document at most one for two bytes, rounded up.
    hole_bounds
        Takes for every document the number of the first hole after it, behind a zero.
    """
    codes, kinds, slots, ends, pool = folding.codes, folding.kinds, folding.slots, folding.ends, folding.pool
    count = side = hole = 0
    has_ranges = folding.ranges.shape[0] > 0
    for document in range(offsets.size - 1):
        position, end = offsets[document], offsets[document + 1]
        # The word in work, which ends at a space or a lesser byte: where it begins in the text and in what is folded.
        word, word_place = position, count
        # The last character that begins anew, -1 where what follows must not rely on it; where its fold begins; and the
        # combining class of what came last.
        starter: Any = 0
        place, order = count, 0
        while position < end:
            if codes[text[position]] != NO_CODE:
                begin = position
                stop = min(end, begin + LEAST_RUN) if has_ranges else end
                while position < stop:
                    code = codes[text[position]]
                    if code == NO_CODE:
                        break
                    folded[count] = code
                    count += 1
                    position += 1
                if position == stop < end:
                    # What is left of less than eight bytes is another run.
                    while position + WORD_BYTES <= end and not load_word(text, position) & TOPS:
                        position += WORD_BYTES
                    fold_ranges(text[stop:position], folding.ranges, folded[count : count + position - stop])
                    count += position - stop
                starter, place, order = np.int64(text[position - 1]), count - 1, 0
                back = position
                while back > begin and text[back - 1] > SPACE:
                    back -= 1
                if back > begin:
                    word, word_place = back, count - (position - back)
                continue
            point: Any = np.int64(text[position])
            width = 1
            if point >= 0x80:
                point, width = read_point(text, position, end)
            kind = kinds[point] & KIND if point >= 0 else UNSAFE
            if kind == PLAIN:
                starter, place, order = point, count, 0
                # Two bytes or more: ASCII that is plain has gone before.
                folded[count] = text[position]
                folded[count + 1] = text[position + 1]
                if width > 2:
                    folded[count + 2] = text[position + 2]
                    if width > 3:
                        folded[count + 3] = text[position + 3]
                count += width
                position += width
                continue
            slot = slots[point]
            normal, last = folding.normals[slot], folding.orders[slot]
            composite = -1
            if kind == INERT and last < order:
                kind = UNSAFE
            elif kind == JOINING:
                if starter < 0 or (0 < last < order):
                    kind = UNSAFE
                elif order == 0 or last > order:
                    composite = compose(starter, normal, folding)
                    if (composite >= 0 and order) or (composite < 0 and kinds[starter] & COMPOSED):
                        kind = UNSAFE
                elif kinds[starter] & COMPOSED:
                    kind = UNSAFE
            if kind == UNSAFE:
                while position < end and text[position] > SPACE:
                    position += 1
                for byte in range(word, position):
                    words[side] = text[byte]
                    side += 1
                words[side] = LINE_FEED
                side += 1
                count = word_place
                holes[hole] = count
                hole += 1
                starter, place, order, word = 0, count, 0, position
                continue
            position += width
            if composite >= 0:
                starter, order, count = composite, 0, place
                slot = slots[composite]
                if not slot:
                    # A syllable of Hangul.
                    folded[count] = 0xE0 | composite >> 12
                    folded[count + 1] = 0x80 | (composite >> 6 & 0x3F)
                    folded[count + 2] = 0x80 | (composite & 0x3F)
                    count += 3
            elif kind == MAPPED or last == 0:
                starter, place, order = normal, count, last
            else:
                order = last
                if ends[slot] == ends[slot - 1]:
                    # Taken out, so that what it kept apart may meet.
                    starter = -1
            if slot:
                grown = ends[slot] - ends[slot - 1]
                left = GROWTH * (offsets[-1] - position) + offsets.size - 1 - document
                if grown > GROWTH * width and count + grown + left > folded.size:
                    return -1
                for byte in range(ends[slot - 1], ends[slot]):
                    folded[count] = pool[byte]
                    count += 1
        folded[count] = 0
        count += 1
        bounds[document + 1] = count
        hole_bounds[document + 1] = hole
    return side


@compiled
def fill_holes(
    folded: Bytes, bounds: Integers, holes: Integers, hole_bounds: Integers, words: Bytes, filled: Bytes
) -> None:
    """Put folded words, a line feed behind each, where they were left out; bounds become those of `filled`."""
    count = position = read = 0
    for document in range(bounds.size - 1):
        for hole in range(hole_bounds[document], hole_bounds[document + 1]):
            for byte in range(position, holes[hole]):
                filled[count] = folded[byte]
                count += 1
            position = holes[hole]
            while words[read] != LINE_FEED:
                filled[count] = words[read]
                read += 1
                count += 1
            read += 1
        for byte in range(position, bounds[document + 1]):
            filled[count] = folded[byte]
            count += 1
        position = bounds[document + 1]
        bounds[document + 1] = count
