"""Shingle sets, their signatures and band keys, and the shingles that pairs of sets share."""

import numpy as np

from dedup.kernels import Hashes, Integers
from dedup.kernels.hashing import EMPTY, GOLDEN, LOW
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix

HALF = np.uint64(32)
CHUNK = 512
"""Shingles hashed before any is put into its row: apart from the random writes, the compiler hashes eight at once."""
MOST_BITS = 14
"""Leading bits by which a set is sorted at once: the counts stay in the first two caches."""
LUMP = 32
"""Most values of equal leading bits that are left to insertion alone."""
GAPS = 1750, 701, 301, 132, 57, 23, 10, 4
"""Increments of Shellsort; M. Ciura: Best increments for the average case of Shellsort. FCT 2001."""
LARGE = 1 << 12
"""Least number of values for which sorting digit by digit is quicker than Shellsort."""
DIGIT_BITS = 11
DIGIT = np.uint64((1 << DIGIT_BITS) - 1)


@compiled
def shingle_document(tokens: Hashes, start: int, end: int, weights: Hashes, shingles: Hashes, count: int) -> int:
    """Write the shingles of a document's tokens, in the order of the text; return the number of the first after them.

    Parameters
    ----------
    weights
        Weights of a shingle's tokens, the last token's first.
    shingles
        Takes them from `count` on, at most as many as there are tokens.
    """
    size = min(weights.size, end - start)
    if not size:
        return count
    windows = end - start - size + 1
    written = shingles[count : count + windows]
    written[:] = np.uint64(size) * GOLDEN
    for place in range(size):
        weight = weights[size - 1 - place]
        taken = tokens[start + place : start + place + windows]
        for window in range(windows):
            written[window] += taken[window] * weight
    for window in range(windows):
        written[window] = mix(written[window])
    return count + windows


@compiled
def sort_set(values: Hashes, start: int, end: int, spare: Hashes, counts: Integers) -> int:
    """Sort values in place and move the distinct ones to the front; return the number of the first after them.

    Hashes are spread evenly, so that by their leading bits nearly all find their place.

    Parameters
    ----------
    spare
        At least as long as the set.
    counts
        int64 [2^MOST_BITS + 1].
    """
    size = end - start
    bits = 1
    while bits < MOST_BITS and (1 << bits) < size:
        bits += 1
    shift = np.uint64(64 - bits)
    counts[: (1 << bits) + 1] = 0
    for number in range(size):
        spare[number] = values[start + number]
        counts[(spare[number] >> shift) + np.uint64(1)] += 1
    most = 0
    for number in range(1, (1 << bits) + 1):
        most = max(most, counts[number])
        counts[number] += counts[number - 1]
    for number in range(size):
        lead = spare[number] >> shift
        values[start + counts[lead]] = spare[number]
        counts[lead] += 1
    if most > LUMP and size >= LARGE:
        # Sets of more than 300,000, values that stand there often, and those that someone has made up.
        _sort_digits(values[start:end], spare[:size], counts)
    else:
        if most > LUMP:
            for gap in GAPS:
                _insert(values, start, end, gap)
        _insert(values, start, end, 1)
    count = start
    for position in range(start, end):
        if position == start or values[position] != values[count - 1]:
            values[count] = values[position]
            count += 1
    return count


@compiled
def _sort_digits(values: Hashes, spare: Hashes, counts: Integers) -> None:
    """Sort values from the lowest digit to the highest: in linear time, whatever they are."""
    source, target = values, spare
    # An even number of digits, so that the last are put back into place.
    for low in range(0, 64, DIGIT_BITS):
        shift = np.uint64(low)
        counts[: (1 << DIGIT_BITS) + 1] = 0
        for number in range(source.size):
            counts[((source[number] >> shift) & DIGIT) + np.uint64(1)] += 1
        for digit in range(1, (1 << DIGIT_BITS) + 1):
            counts[digit] += counts[digit - 1]
        for number in range(source.size):
            value = source[number]
            digit = (value >> shift) & DIGIT
            target[counts[digit]] = value
            counts[digit] += 1
        source, target = target, source


@compiled
def _insert(values: Hashes, start: int, end: int, gap: int) -> None:
    for position in range(start + gap, end):
        value, place = values[position], position
        while place >= start + gap and values[place - gap] > value:
            values[place] = values[place - gap]
            place -= gap
        values[place] = value


@compiled
def shingle(tokens: Hashes, offsets: Integers, weights: Hashes, shingles: Hashes, bounds: Integers) -> None:
    """Write the set of every document, and into `bounds` where each ends, behind a zero; see `shingles.shingle`."""
    counts = np.empty((1 << MOST_BITS) + 1, dtype=np.int64)
    spare = np.empty(np.diff(offsets).max() if offsets.size > 1 else 0, dtype=np.uint64)
    count = 0
    for document in range(offsets.size - 1):
        end = shingle_document(tokens, offsets[document], offsets[document + 1], weights, shingles, count)
        count = sort_set(shingles, count, end, spare, counts)
        bounds[document + 1] = count


@compiled
def sign_set(shingles: Hashes, start: int, end: int, seeds: Hashes, signature: Hashes) -> None:
    """Fill a signature of empty rows; see `minhash.sign`."""
    size = signature.size
    mixed = np.empty(CHUNK, dtype=np.uint64)
    vacant = size if start < end else 0
    number = 0
    while vacant:
        seed, tag = seeds[number], np.uint64(number) << HALF
        row = number - size
        if row < 0:
            for begin in range(start, end, CHUNK):
                taken = shingles[begin : min(begin + CHUNK, end)]
                for place in range(taken.size):
                    mixed[place] = mix(taken[place] ^ seed)
                for place in range(taken.size):
                    least = ((mixed[place] >> HALF) * np.uint64(size)) >> HALF
                    before = signature[least]
                    vacant -= before == EMPTY
                    signature[least] = min(before, (mixed[place] & LOW) | tag)
        elif signature[row] == EMPTY:
            lowest = EMPTY
            for position in range(start, end):
                lowest = min(lowest, mix(shingles[position] ^ seed) & LOW)
            signature[row] = lowest | tag
            vacant -= 1
        number += 1


@compiled
def sign(shingles: Hashes, offsets: Integers, seeds: Hashes, signatures: Hashes) -> None:
    """Fill signatures of empty rows; see `minhash.sign`."""
    for document in range(offsets.size - 1):
        sign_set(shingles, offsets[document], offsets[document + 1], seeds, signatures[document])


@compiled
def key_signature(signature: Hashes, rows: int, salts: Hashes, keys: Hashes) -> None:
    """Fill the keys of a signature's bands; see `lsh.band_keys`."""
    for band in range(keys.size):
        summed = np.uint64(0)
        for row in range(band * rows, (band + 1) * rows):
            summed += mix((signature[row] & LOW) + salts[row])
        keys[band] = mix(summed)


@compiled
def band_keys(signatures: Hashes, rows: int, salts: Hashes, keys: Hashes) -> None:
    """Fill the keys of every document's bands; see `lsh.band_keys`."""
    for document in range(signatures.shape[0]):
        key_signature(signatures[document], rows, salts, keys[document])


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


@compiled
def place(shingles: Hashes, origins: Integers, sizes: Integers, begins: Integers, placed: Hashes) -> None:
    """Copy sets: `sizes[i]` shingles from `origins[i]` on to `begins[i]`."""
    for number in range(origins.size):
        origin, begin = origins[number], begins[number]
        for step in range(sizes[number]):
            placed[begin + step] = shingles[origin + step]
