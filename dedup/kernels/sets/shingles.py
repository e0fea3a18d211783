"""Sets of shingle hashes, made of token hashes, and their digest."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from dedup.kernels import Hashes, Integers, loops
from dedup.kernels.hashing import GOLDEN, mix, weigh
from dedup.kernels.runs.bounds import mark_firsts, rank
from dedup.kernels.text.text_columns import TextColumns
from dedup.kernels.text.tokenizer import Tokenizer


class Shingled(NamedTuple):
    """Tokens and shingle sets of n texts."""

    tokens: Hashes
    token_bounds: Integers
    """Text i owns `tokens[token_bounds[i]:token_bounds[i + 1]]`; int64 [n + 1]."""
    shingles: Hashes
    """Ascending and distinct within a text."""
    offsets: Integers


def shingle_texts(texts: pa.Array, shingle_size: int, tokenizer: Tokenizer) -> Shingled:
    """Return the tokens and shingle sets of texts; of several columns no shingle is of two.

    A shingle of a column of weight w is w elements of the set, so that the Jaccard of two sets is that of the columns'
    multisets (Chum, Philbin, Zisserman 2008: Near Duplicate Image Detection, integer weights).
    """
    if not isinstance(tokenizer, TextColumns):
        tokens, bounds = tokenizer.hash(texts)
        return Shingled(tokens, bounds, *shingle(tokens, bounds, shingle_size, tokenizer))
    weights = np.array(tokenizer.weights)
    tokens, bounds = tokenizer.tokenizer.hash(tokenizer.part(texts))
    values, offsets = shingle(tokens, bounds, shingle_size, tokenizer)
    owners, columns = np.divmod(np.repeat(np.arange(offsets.size - 1), np.diff(offsets)), weights.size)
    rows = np.repeat(np.arange(values.size), weights[columns])
    numbers = (1 + np.cumsum(weights) - weights)[columns[rows]] + rank(rows)
    elements, owners = mix(values[rows] + numbers.astype(np.uint64) * GOLDEN), owners[rows]
    order = np.lexsort((elements, owners))
    elements, owners = elements[order], owners[order]
    firsts = mark_firsts(owners, elements)
    limits = np.searchsorted(owners[firsts], np.arange(len(texts) + 1))
    return Shingled(tokens, bounds[:: weights.size], elements[firsts], limits)


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
