"""Features of texts, counted and multiplied: see `dedup.kernels.vectors.latent`."""

from typing import Any

import numpy as np

from dedup.kernels import Bytes, Floats, Hashes, Integers
from dedup.kernels.hashing import GOLDEN
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix
from dedup.kernels.loops.sets import MOST_BITS, sort_set

PIECE = 4
"""Bytes of a piece of a word, with a mark at both its ends."""
PAIR_WEIGHT, PIECE_WEIGHT = 0.5, 0.5
"""Weights beside those of single words; of pieces all of a word together."""


@compiled
def _count_runs(
    values: Hashes, start: int, end: int, distinct: Hashes, spare: Hashes, leads: Integers, counts: Integers
) -> int:
    """Write distinct values, ascending, with how often each occurs and where it stands; return their number.

    Parameters
    ----------
    counts : int64 [2, values]
        Takes counts and places.
    """
    for place in range(start, end):
        distinct[place - start] = values[place]
    found = sort_set(distinct, 0, end - start, spare, leads)
    counts[0, :found] = 0
    for place in range(start, end):
        low, high = 0, found - 1
        while low < high:
            middle = (low + high) >> 1
            if distinct[middle] < values[place]:
                low = middle + 1
            else:
                high = middle
        counts[0, low] += 1
        counts[1, low] = place
    return found


@compiled
def _add(column: np.uint64, weight: float, sums: Floats, columns: Integers, end: int) -> int:
    """Add to a feature, noted when it is new; return the number of the first free note."""
    if sums[column] == 0.0:
        columns[end] = column
        end += 1
    sums[column] += weight
    return end


@compiled
def _add_pieces(word: Bytes, weight: float, features: np.uint64, sums: Floats, columns: Integers, end: int) -> int:
    """Add the pieces of a word, of length 1 in all."""
    count = word.size + 3 - PIECE
    if count < 1:
        return end
    weight /= np.sqrt(count)
    value = np.uint64(0)
    for place in range(word.size + 1):
        value >>= np.uint64(8)
        if place < word.size:
            value |= np.uint64(word[place]) << np.uint64(8 * (PIECE - 1))
        # The first has the mark before the word in its lowest byte.
        if place >= PIECE - 2:
            end = _add(mix(value * GOLDEN) % features, weight, sums, columns, end)
    return end


@compiled
def count_features(
    hashes: Hashes,
    offsets: Integers,
    tokens: Bytes,
    widths: Integers,
    features: np.uint64,
    columns: Any,  # noqa: ANN401 - uint16
    weights: Any,  # noqa: ANN401 - float32
    bounds: Integers,
) -> None:
    """Write the features of each document in the order in which they come; see `latent.count_features`."""
    most = np.diff(offsets).max() if offsets.size > 1 else 0
    distinct, spare, paired = np.empty(most, np.uint64), np.empty(most, np.uint64), np.empty(most, np.uint64)
    counts, leads = np.empty((2, most), np.int64), np.empty((1 << MOST_BITS) + 1, np.int64)
    sums, end = np.zeros(features), 0
    for document in range(offsets.size - 1):
        begin, start, stop = end, offsets[document], offsets[document + 1]
        found = _count_runs(hashes, start, stop, distinct, spare, leads, counts)
        for number in range(found):
            weight = 1 + np.log(counts[0, number])
            end = _add(mix(distinct[number]) % features, weight, sums, columns, end)
            place = counts[1, number]
            word = tokens[widths[place] : widths[place + 1]]
            end = _add_pieces(word, PIECE_WEIGHT * weight, features, sums, columns, end)
        for place in range(start, stop - 1):
            paired[place - start] = mix(hashes[place] * GOLDEN + hashes[place + 1])
        found = _count_runs(paired, 0, max(stop - start - 1, 0), distinct, spare, leads, counts)
        for number in range(found):
            weight = PAIR_WEIGHT * (1 + np.log(counts[0, number]))
            end = _add(distinct[number] % features, weight, sums, columns, end)
        for place in range(begin, end):
            weights[place] = sums[columns[place]]
            sums[columns[place]] = 0.0
        bounds[document + 1] = end


@compiled
def multiply(weights: Any, columns: Any, bounds: Integers, matrix: Any, found: Any) -> None:  # noqa: ANN401
    """Add to each row of `found` the rows of a matrix that its columns name, by their weights, in this order."""
    for row in range(bounds.size - 1):
        summed = found[row]
        for place in range(bounds[row], bounds[row + 1]):
            weight, added = weights[place], matrix[columns[place]]
            for column in range(summed.size):
                summed[column] += weight * added[column]
