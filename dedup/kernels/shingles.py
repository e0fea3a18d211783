"""Token hashes to sets of shingle hashes, and the digest that tells equal sets."""

from itertools import pairwise

import numpy as np
import xxhash

from dedup.kernels import Hashes, Integers, compiled
from dedup.kernels.hashing import GOLDEN, MULTIPLIER, mix
from dedup.kernels.runs import mark_firsts


def shingle(tokens: Hashes, offsets: Integers, shingle_size: int) -> tuple[Hashes, Integers]:
    """Return the set of shingles of every document.

    Parameters
    ----------
    tokens : uint64 [tokens]
    offsets : int64 [n + 1]
        Document i owns `tokens[offsets[i]:offsets[i + 1]]`.
    shingle_size
        Consecutive tokens in a shingle, at least 1.

    Returns
    -------
    shingles : uint64 [shingles]
        Ascending and distinct within a document. The shingle of m tokens is
        `mix(m * GOLDEN + sum of token_i * MULTIPLIER^(m - 1 - i))`. A document with fewer than `shingle_size` tokens
        has one shingle of them all, one without tokens has none.
    offsets : int64 [n + 1]
    """
    if compiled.AVAILABLE:
        return _shingle_compiled(tokens, offsets, shingle_size)
    counts = np.diff(offsets)
    owned = np.where(counts > 0, np.maximum(counts - shingle_size + 1, 1), 0)
    bounds = np.concatenate(([0], np.cumsum(owned)))
    # Positions of the windows that cross no boundary: documents lie end to end in both arrays.
    index = np.arange(bounds[-1]) + np.repeat(offsets[:-1] - bounds[:-1], owned)
    sums = _rolling_sums(tokens, shingle_size)
    shingles = sums[index]
    for document in np.flatnonzero((counts > 0) & (counts < shingle_size)):
        short = tokens[offsets[document] : offsets[document + 1]]
        shingles[bounds[document]] = _rolling_sums(short, short.size)[0]
    shingles = mix(shingles)
    for start, end in pairwise(bounds.tolist()):
        shingles[start:end].sort()
    first = mark_firsts(shingles)
    first[bounds[:-1][owned > 0]] = True
    return shingles[first], np.concatenate(([0], np.cumsum(first)))[bounds]


def _shingle_compiled(tokens: Hashes, offsets: Integers, shingle_size: int) -> tuple[Hashes, Integers]:
    from dedup.kernels.loops import sets

    shingles, bounds = np.empty(tokens.size, dtype=np.uint64), np.zeros_like(offsets)
    sets.shingle(tokens, offsets, weigh(shingle_size), shingles, bounds)
    return shingles[: bounds[-1]], bounds


def weigh(shingle_size: int) -> Hashes:
    """Return the powers of MULTIPLIER that weigh the tokens of a shingle, the last token's first: uint64 [size]."""
    return np.array([pow(int(MULTIPLIER), power, 1 << 64) for power in range(shingle_size)], dtype=np.uint64)


def _rolling_sums(tokens: Hashes, size: int) -> Hashes:
    """Return the weighted sum of the `size` tokens from each position on; the last `size - 1` are meaningless."""
    sums = np.full(tokens.size, np.uint64(size * int(GOLDEN) & 0xFFFFFFFFFFFFFFFF))
    weight = 1
    for distance in range(size - 1, -1, -1):
        sums[: max(tokens.size - distance, 0)] += tokens[distance:] * np.uint64(weight)
        weight = weight * int(MULTIPLIER) & 0xFFFFFFFFFFFFFFFF
    return sums


def digest(shingles: Hashes, offsets: Integers) -> list[bytes]:
    """Return 16 bytes per document, equal for equal shingle sets: XXH3-128 of the ascending little-endian shingles."""
    content = shingles.astype("<u8", copy=False).data.cast("B")
    bounds = (offsets * 8).tolist()
    return [xxhash.xxh3_128_digest(content[start:end]) for start, end in pairwise(bounds)]
