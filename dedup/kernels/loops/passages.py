"""Rolling hashes of windows of tokens, and selection of grams by winnowing."""

from typing import Any

import numpy as np

from dedup.kernels import Hashes, Integers
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix


@compiled
def roll(tokens: Hashes, offsets: Integers, size: int, base: np.uint64, hashes: Hashes) -> None:
    """Write the hash of every window where it begins; see `passages.roll`."""
    power = np.uint64(1)
    for _ in range(size - 1):
        power *= base
    for document in range(offsets.size - 1):
        begin, end = offsets[document], offsets[document + 1]
        summed = np.uint64(0)
        for position in range(begin, end):
            if position >= begin + size:
                summed -= tokens[position - size] * power
            summed = summed * base + tokens[position]
            if position >= begin + size - 1:
                hashes[position - size + 1] = mix(summed)


@compiled
def winnow(grams: Hashes, offsets: Integers, size: int, width: int, places: Integers, bounds: Integers) -> None:
    """Write the places of the grams selected, and where those of each document end; see `passages.select_grams`."""
    count = 0
    for document in range(offsets.size - 1):
        begin, end = offsets[document], offsets[document + 1] - size + 1
        least: Any = begin - 1
        for last in range(begin + width - 1, end):
            first = last - width + 1
            if least < first:
                least = first
                for place in range(first + 1, last + 1):
                    if grams[place] <= grams[least]:
                        least = place
            elif grams[last] <= grams[least]:
                least = last
            else:
                continue
            places[count] = least - begin
            count += 1
        bounds[document + 1] = count
