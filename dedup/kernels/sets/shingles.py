"""Sets of shingle hashes, made of token hashes, and their digest."""

from itertools import pairwise

import numpy as np
import xxhash

from dedup.kernels import Hashes, Integers, loops
from dedup.kernels.hashing import weigh
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
    shingles, bounds = np.empty(tokens.size, dtype=np.uint64), np.zeros_like(offsets)
    loops.sets.shingle(tokens, offsets, weights, shingles, bounds)
    return shingles[: bounds[-1]], bounds


def digest(shingles: Hashes, offsets: Integers) -> list[bytes]:
    """Return 16 bytes a document, equal for equal shingle sets: XXH3-128 of the ascending little-endian shingles."""
    content = shingles.astype("<u8", copy=False).data.cast("B")
    bounds = (offsets * 8).tolist()
    return [xxhash.xxh3_128_digest(content[start:end]) for start, end in pairwise(bounds)]


def digest_halves(shingles: Hashes, offsets: Integers) -> tuple[Integers, Integers]:
    """Return the digests of documents as two columns of int64, the upper half first."""
    halves = np.frombuffer(b"".join(digest(shingles, offsets)), dtype=">i8").astype(np.int64)
    return halves[::2], halves[1::2]
