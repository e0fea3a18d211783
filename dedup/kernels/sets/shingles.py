"""Token hashes to sets of shingle hashes, and the digest that tells equal sets."""

from itertools import pairwise

import numpy as np
import xxhash

from dedup.kernels import Hashes, Integers, compiled
from dedup.kernels.hashing import GOLDEN, mix, weigh
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.text.tokenizer import Tokenizer


def shingle(tokens: Hashes, offsets: Integers, shingle_size: int, tokenizer: Tokenizer) -> tuple[Hashes, Integers]:
    """Return the set of shingles of every document.

    Parameters
    ----------
    tokens : uint64 [tokens]
    offsets : int64 [n + 1]
        Document i owns `tokens[offsets[i]:offsets[i + 1]]`.
    shingle_size
        Consecutive tokens in a shingle, at least 1.
    tokenizer
        Source of the tokens; its seed and key decide the weight of each place.

    Returns
    -------
    shingles : uint64 [shingles]
        Ascending and distinct within a document. The shingle of m tokens is
        `mix(m * GOLDEN + sum of token_i * weight_(m - 1 - i))`. A document with fewer than `shingle_size` tokens
        has one shingle of them all, one without tokens has none.
    offsets : int64 [n + 1]
    """
    weights = weigh(shingle_size, tokenizer.seed, tokenizer.key)
    if compiled.AVAILABLE:
        return _shingle_compiled(tokens, offsets, weights)
    counts = np.diff(offsets)
    owned = np.where(counts > 0, np.maximum(counts - shingle_size + 1, 1), 0)
    bounds = np.concatenate(([0], np.cumsum(owned)))
    # Positions of the windows that cross no boundary: documents lie end to end in both arrays.
    index = np.arange(bounds[-1]) + np.repeat(offsets[:-1] - bounds[:-1], owned)
    sums = _rolling_sums(tokens, weights)
    shingles = sums[index]
    for document in np.flatnonzero((counts > 0) & (counts < shingle_size)):
        short = tokens[offsets[document] : offsets[document + 1]]
        shingles[bounds[document]] = _rolling_sums(short, weights[: short.size])[0]
    shingles = mix(shingles)
    for start, end in pairwise(bounds.tolist()):
        shingles[start:end].sort()
    first = mark_firsts(shingles)
    first[bounds[:-1][owned > 0]] = True
    return shingles[first], np.concatenate(([0], np.cumsum(first)))[bounds]


def _shingle_compiled(tokens: Hashes, offsets: Integers, weights: Hashes) -> tuple[Hashes, Integers]:
    from dedup.kernels.loops import sets

    shingles, bounds = np.empty(tokens.size, dtype=np.uint64), np.zeros_like(offsets)
    sets.shingle(tokens, offsets, weights, shingles, bounds)
    return shingles[: bounds[-1]], bounds


def _rolling_sums(tokens: Hashes, weights: Hashes) -> Hashes:
    """Return the weighted sum of as many tokens as weights from each position on; the last ones are meaningless."""
    size = weights.size
    sums = np.full(tokens.size, np.uint64(size * int(GOLDEN) & 0xFFFFFFFFFFFFFFFF))
    for distance in range(size):
        sums[: max(tokens.size - distance, 0)] += tokens[distance:] * weights[size - 1 - distance]
    return sums


def digest(shingles: Hashes, offsets: Integers) -> list[bytes]:
    """Return 16 bytes per document, equal for equal shingle sets: XXH3-128 of the ascending little-endian shingles."""
    content = shingles.astype("<u8", copy=False).data.cast("B")
    bounds = (offsets * 8).tolist()
    return [xxhash.xxh3_128_digest(content[start:end]) for start, end in pairwise(bounds)]
