"""Grams, runs of consecutive tokens, of documents and of texts to search for: hashed, filtered and looked up."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.hashing import GOLDEN, mix, weigh
from dedup.kernels.runs.bounds import find_bounds, mark_firsts
from dedup.kernels.text.tokenizer import Tokenizer

SPARSITY = 4
"""Bits by which the bits of a filter outnumber its grams: each sets two, so one in eight is set at most."""


class Filter(NamedTuple):
    """Bloom filter of the texts' grams, in two to four bytes for each.

    Two bits of each are set [1]_; of other grams one in 64 finds both set, or fewer.

    References
    ----------
    .. [1] B. H. Bloom: Space/time trade-offs in hash coding with allowable errors. CACM 13 (1970).
    """

    sizes: tuple[int, ...]
    """Sizes of the grams in tokens, ascending."""
    bits: Bytes
    """Bits, 2^n of them, the first of a byte its highest."""


class GramIndex(NamedTuple):
    """Distinct grams, each known by its number here."""

    filter: Filter
    high: Hashes
    """First half of 128 bits of each, ascending."""
    low: Hashes
    """The other half, ascending among equal first halves."""
    sizes: npt.NDArray[np.uint8]
    """Tokens of each."""


class Occurrences(NamedTuple):
    """Places of the grams of an index, ascending by gram, text and place."""

    grams: Integers
    texts: Integers
    places: Integers
    """The first token, counted in its text."""


class Hits(NamedTuple):
    """Grams of documents that pass a filter, ascending by document and place."""

    documents: Integers
    places: Integers
    """The first token, counted in its document."""
    sizes: Integers
    """Tokens."""
    high: Hashes
    low: Hashes


def index(tokens: Hashes, offsets: Integers, size: int, tokenizer: Tokenizer) -> tuple[GramIndex, Occurrences]:
    """Index texts: all their runs of `size` tokens, or all tokens of a shorter text as one.

    Parameters
    ----------
    tokens : uint64 [tokens]
        As from `Tokenizer.hash`.
    offsets : int64 [n + 1]
    size
        From 1 to 64.
    tokenizer
        Source of the tokens; its seed and key decide the weight of each place.
    """
    counts = np.diff(offsets)
    owned = np.where(counts > 0, np.maximum(counts - size + 1, 1), 0)
    bounds = np.concatenate(([0], np.cumsum(owned)))
    texts = np.repeat(np.arange(counts.size), owned)
    places = np.arange(bounds[-1]) - bounds[texts]
    sizes = np.minimum(counts, size)[texts]
    high, low = (_hash(tokens, offsets[texts] + places, sizes, weights) for weights in _weigh(size, tokenizer))
    order = np.lexsort((places, texts, low, high))
    firsts = mark_firsts(high[order], low[order])
    chosen = order[firsts]
    found_sizes = tuple(np.unique(sizes).tolist())
    found = GramIndex(
        Filter(found_sizes, _set_bits(high[chosen], low[chosen])),
        high[chosen],
        low[chosen],
        sizes[chosen].astype(np.uint8),
    )
    return found, Occurrences(np.cumsum(firsts) - 1, texts[order], places[order])


def find(tokens: Hashes, offsets: Integers, known: Filter, size: int, tokenizer: Tokenizer) -> Hits:
    """Return the grams of documents that pass a filter; `size` and `tokenizer` as for `index`.

    Cost: at most `size` multiplications a token, and a look at a bit for each size.
    """
    first_weights, second_weights = _weigh(size, tokenizer)
    integers, hashes = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    found = [Hits(integers, integers, integers, hashes, hashes)]
    for tried, high in _roll(tokens, known.sizes, first_weights):
        places = np.flatnonzero(_read_bit(known.bits, high))
        documents = np.searchsorted(offsets, places, side="right") - 1
        within = places + tried <= offsets[documents + 1]
        documents, places = documents[within], places[within]
        sizes = np.full(places.size, tried)
        low = _hash(tokens, places, sizes, second_weights)
        passed = _read_bit(known.bits, low)
        documents, places = documents[passed], places[passed]
        found.append(Hits(documents, places - offsets[documents], sizes[passed], high[places], low[passed]))
    whole = [np.concatenate(columns) for columns in zip(*found, strict=True)]
    order = np.lexsort((whole[2], whole[1], whole[0]))
    return Hits(*(column[order] for column in whole))


def look_up(known: GramIndex, high: Hashes, low: Hashes) -> Integers:
    """Return the numbers of grams, -1 for unknown ones; int64 [n]."""
    if not known.high.size:
        return np.full(high.size, -1)
    places = np.searchsorted(known.high, high)
    numbers = np.full(high.size, -1)
    # Of two grams with one first half, which chance makes once in 2^64, the second is a place further.
    for step in range(int(np.diff(find_bounds(known.high)).max())):
        tried = np.minimum(places + step, known.high.size - 1)
        same = (known.high[tried] == high) & (known.low[tried] == low)
        numbers[same] = tried[same]
    return numbers


def _weigh(size: int, tokenizer: Tokenizer) -> tuple[Hashes, Hashes]:
    """Return the weights of a gram's tokens for either half of its hash."""
    weights = weigh(2 * size, tokenizer.seed, tokenizer.key)
    return weights[:size], weights[size:]


def _roll(tokens: Hashes, sizes: Sequence[int], weights: Hashes) -> Iterator[tuple[int, Hashes]]:
    """Yield the hashes of the runs of each size that begin at each token, across documents too."""
    sums = np.zeros_like(tokens)
    for step in range(max(sizes, default=0)):
        sums = sums[: max(tokens.size - step, 0)]
        sums += tokens[step:] * weights[step]
        if step + 1 in sizes:
            yield step + 1, mix(sums + np.uint64((step + 1) * int(GOLDEN) & 0xFFFFFFFFFFFFFFFF))


def _hash(tokens: Hashes, places: Integers, sizes: Integers, weights: Hashes) -> Hashes:
    """Return the hashes of the runs of these places and sizes."""
    sums = sizes.astype(np.uint64) * GOLDEN
    for step in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > step)
        sums[longer] += tokens[places[longer] + step] * weights[step]
    return mix(sums)


def _set_bits(*hashes: Hashes) -> Bytes:
    flags = np.zeros(1 << max(int(hashes[0].size).bit_length() + SPARSITY, 3), dtype=bool)
    for each in hashes:
        flags[each >> np.uint64(64 - (flags.size.bit_length() - 1))] = True
    return np.packbits(flags)


def _read_bit(bits: Bytes, hashes: Hashes) -> Flags:
    """Flag the hashes whose bit, numbered by their leading bits, is set."""
    places = hashes >> np.uint64(64 - (bits.size * 8).bit_length() + 1)
    flags: Flags = (bits[places >> np.uint64(3)] << (places & np.uint64(7)).astype(np.uint8)) & 0x80 > 0
    return flags
