"""The innermost loops of tokenising, signing and verifying, compiled where Numba is installed.

Each has its oracle in NumPy in the module that calls it, gives the same bits, and takes a fourth of its time or less.
Numba keeps what it compiled beside this file, or in the user's cache folder where that cannot be written.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from dedup.kernels import Bytes, Hashes, Integers

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba

    AVAILABLE = True
except ImportError:
    AVAILABLE = False


def compiled(function: Function) -> Function:
    """Compile the function when it is first called; without Numba nothing calls it."""
    if not AVAILABLE:
        return function
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # A service account may have no folder to keep compiled code in; then each worker takes seconds to compile.
        return cast("Function", numba.njit(nogil=True)(function))


EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
BYTE = np.uint64(8)
BLOCK = np.uint64(64)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio: the odd constant that spreads consecutive numbers (Steele, Lea, Flood 2014)."""
SEPARATOR, WORD, MARK, UNSPACED, UNSPACED_MARK = range(5)
"""Classes of code points."""


@compiled
def _mix(value: np.uint64) -> np.uint64:
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def hash_tokens(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one loop over plain arrays is what compiles to something fast
    text: Bytes, offsets: Integers, table: Bytes, classes: Bytes, key: np.uint64, hashes: Hashes, bounds: Integers
) -> int:
    """Hash the tokens of normalised UTF-8; return how many there are. See `text.tokenise`.

    Parameters
    ----------
    table
        For an ASCII byte the byte of its token, 0 where it separates tokens, and for all other bytes.
    classes
        Class of every code point.
    hashes
        Takes the hashes; as many as there are bytes are enough.
    bounds
        Takes for every document the number of the first hash after it, behind a zero.
    """
    count = 0
    for document in range(offsets.size - 1):
        block = shift = hashed = np.uint64(0)
        number = key
        inside = False
        # The class of the last code point that is not a spacing script's mark: a mark continues what it follows.
        anchor = 0
        position, end = offsets[document], offsets[document + 1]
        while position < end:
            first = text[position]
            width, kind, folded = 1, SEPARATOR, np.uint8(0)
            if first < 0x80:
                folded = table[first]
                if folded:
                    kind = WORD
            else:
                width = 2 + (first >= 0xE0) + (first >= 0xF0)
                point = np.int64(first) & (0x7F >> width)
                for byte in range(position + 1, position + width):
                    point = point << 6 | (text[byte] & 0x3F)
                kind = classes[point]
            follows = anchor >= UNSPACED
            if inside and (kind in (SEPARATOR, UNSPACED) or kind == (WORD if follows else UNSPACED_MARK)):
                hashes[count] = hashed + _mix(block ^ number)
                count += 1
                block = shift = hashed = np.uint64(0)
                number = key
                inside = False
            if kind != MARK:
                anchor = kind
            if kind == SEPARATOR:
                position += width
                continue
            inside = True
            # What follows inside an ASCII word needs none of the questions above.
            stop = end if width == 1 else position + width
            if width > 1:
                folded = first
            while True:
                if shift == BLOCK:
                    hashed += _mix(block ^ number)
                    number += GOLDEN
                    block = shift = np.uint64(0)
                block |= np.uint64(folded) << shift
                shift += BYTE
                position += 1
                if position == stop:
                    break
                folded = text[position] if width > 1 else table[text[position]]
                if not folded:
                    break
        if inside:
            hashes[count] = hashed + _mix(block ^ number)
            count += 1
        bounds[document + 1] = count
    return count


@compiled
def roll(tokens: Hashes, offsets: Integers, powers: Hashes, shingles: Hashes, bounds: Integers) -> int:
    """Fill in every document's shingles in the order of the text; return how many there are. See `shingles.shingle`.

    Parameters
    ----------
    powers
        The multiplier's, from 0 up to the shingle size less 1.
    shingles
        Takes at most as many as there are tokens.
    bounds
        Takes for every document the number of the first shingle after it, behind a zero.
    """
    count = 0
    for document in range(offsets.size - 1):
        start, end = offsets[document], offsets[document + 1]
        size = min(powers.size, end - start)
        for first in range(start, end - size + 1 if size else start):
            summed = np.uint64(size) * GOLDEN
            for token in range(size):
                summed += tokens[first + token] * powers[size - 1 - token]
            shingles[count] = _mix(summed)
            count += 1
        bounds[document + 1] = count
    return count


@compiled
def drop_repeats(shingles: Hashes, bounds: Integers) -> int:
    """Move the distinct ones of every document's ascending shingles to the front; return how many they are."""
    count = start = 0
    for document in range(bounds.size - 1):
        end = bounds[document + 1]
        for position in range(start, end):
            if position == start or shingles[position] != shingles[position - 1]:
                shingles[count] = shingles[position]
                count += 1
        bounds[document + 1] = count
        start = end
    return count


@compiled
def sign(shingles: Hashes, offsets: Integers, seeds: Hashes, signatures: Hashes) -> None:
    """Fill signatures of empty rows; see `minhash.sign`."""
    size = signatures.shape[1]
    for document in range(offsets.size - 1):
        start, end = offsets[document], offsets[document + 1]
        if start == end:
            continue
        signature = signatures[document]
        vacant = size
        for number in range(2 * size):
            tag = np.uint64(number) << HALF
            if number < size:
                for position in range(start, end):
                    mixed = _mix(shingles[position] ^ seeds[number])
                    row = ((mixed >> HALF) * np.uint64(size)) >> HALF
                    value = (mixed & LOW) | tag
                    if value < signature[row]:
                        vacant -= signature[row] == EMPTY
                        signature[row] = value
            elif signature[number - size] == EMPTY:
                for position in range(start, end):
                    value = (_mix(shingles[position] ^ seeds[number]) & LOW) | tag
                    signature[number - size] = min(signature[number - size], value)
                vacant -= 1
            if not vacant:
                break


@compiled
def band_keys(signatures: Hashes, rows: int, salts: Hashes, keys: Hashes) -> None:
    """Fill the keys of every document's bands; see `lsh.band_keys`."""
    bands = keys.shape[1]
    for document in range(signatures.shape[0]):
        for band in range(bands):
            summed = np.uint64(0)
            for row in range(band * rows, (band + 1) * rows):
                summed += _mix((signatures[document, row] & LOW) + salts[row])
            keys[document, band] = _mix(summed)


@compiled
def count_shared(shingles: Hashes, offsets: Integers, left: Integers, right: Integers, shared: Integers) -> None:
    """Count the elements that pairs of ascending sets have in common."""
    for pair in range(left.size):
        first, first_end = offsets[left[pair]], offsets[left[pair] + 1]
        second, second_end = offsets[right[pair]], offsets[right[pair] + 1]
        count = 0
        while first < first_end and second < second_end:
            one, other = shingles[first], shingles[second]
            count += one == other
            first += one <= other
            second += other <= one
        shared[pair] = count
