"""SimHash of texts, and sorted neighbourhoods, beside MinHash: what each brings together, and for how much.

A bit of a SimHash tells on which side of a random hyperplane a set lies (M. Charikar: Similarity estimation techniques
from rounding algorithms. STOC 2002): two agree in it with probability 1 - angle / pi, unrelated ones in every second.
Fingerprints of 64 bits of which at most three differ share one of four blocks (G. Manku, A. Jain, A. Das Sarma:
Detecting near-duplicates for web crawling. WWW 2007). A sorted neighbourhood pairs each document with those that follow
it in an order (M. Hernández, S. Stolfo: The merge/purge problem for large databases. SIGMOD 1995).
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Floats, Hashes, Integers
from dedup.kernels.curve import probability
from dedup.kernels.hashing import GOLDEN, expand, mix
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix as mix_one
from dedup.kernels.sets import filters, lsh, minhash
from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.sets.pairs import decode, encode, find_known, join, sort_distinct
from dedup.settings.banding import count_bands
from tests.experiments.corpora import THRESHOLD, Sets, read_real

BANDS, ROWS = 21, 6
BITS = (8, 12, 16)
"""Bits of a band; as many bands as find what MinHash finds at the threshold."""
BLOCKS, DIFFERING = 4, 3
KEY_BYTES, ID_BYTES, LETTERS = 16, 8, 32
"""Bytes of a key with its document, of a document, and the letters of a text by which documents are sorted."""
WINDOWS = (10, 100)
JUDGED = 20_000
"""Similar pairs, about, whose estimates are judged."""


class Way(NamedTuple):
    """A way to bring similar documents together."""

    name: str
    key_bytes: int
    """Bytes of a document that travel."""
    sign: Callable[[Sets, pa.Array], Any]
    meet: Callable[[Any], Integers]
    """Returns the distinct pairs, of what `sign` returns."""
    estimate: Callable[[Any, Integers, Integers], Floats] | None = None


def list_ways() -> Iterator[Way]:
    """Yield all ways."""
    yield Way(f"MinHash, {BANDS} bands of {ROWS} values", BANDS * KEY_BYTES, _sign_rows, _meet_rows, _estimate_rows)
    agreed = 1 - math.acos(2 * THRESHOLD / (1 + THRESHOLD)) / math.pi
    for bits in BITS:
        bands = count_bands(agreed, probability(THRESHOLD, BANDS, ROWS), bits) or 0
        sign, meet = partial(sign_bits, bits=bands * bits), partial(_meet_bits, bands=bands, bits=bits)
        yield Way(f"SimHash, {bands} bands of {bits} bits", bands * KEY_BYTES, sign, meet, estimate_bits)
    sign, name = partial(sign_bits, bits=64), f"SimHash of 64 bits, at most {DIFFERING} differ"
    yield Way(name, BLOCKS * KEY_BYTES, sign, _meet_close, estimate_bits)
    for orders, name in ((1, "first letters"), (2, "first letters and last")):
        for window in WINDOWS:
            told = f"sorted by {name}, window of {window}"
            yield Way(told, orders * (LETTERS + ID_BYTES), partial(sort, orders=orders), partial(slide, window=window))


def sign_bits(sets: Sets, _texts: pa.Array | None = None, *, bits: int) -> Hashes:
    """Return SimHash of sets, at least so many bits in words of 64: each as most shingles' hashes have it."""
    words = np.empty((sets.offsets.size - 1, -(-bits // 64)), np.uint64)
    _sign(sets.shingles, sets.offsets, expand(1, words.shape[1]), words)
    return words


@compiled
def _sign(shingles: Hashes, offsets: Integers, seeds: Hashes, words: Hashes) -> None:
    counts = np.empty(64, np.int64)
    for document in range(offsets.size - 1):
        begin, end = offsets[document], offsets[document + 1]
        for word in range(seeds.size):
            counts[:] = 0
            for position in range(begin, end):
                value = mix_one(shingles[position] ^ seeds[word])
                for bit in range(64):
                    counts[bit] += np.int64((value >> np.uint64(bit)) & np.uint64(1))
            words[document, word] = np.uint64(0)
            for bit in range(64):
                if 2 * counts[bit] > end - begin:
                    words[document, word] |= np.uint64(1) << np.uint64(bit)


def _count_unlike(words: Hashes, left: Integers, right: Integers) -> Integers:
    unlike: Integers = np.bitwise_count(words[left] ^ words[right]).sum(axis=1, dtype=np.int64)
    return unlike


def estimate_bits(words: Hashes, left: Integers, right: Integers) -> Floats:
    """Return the Jaccard similarity of pairs, as if both sets were of one size."""
    shared = np.cos(math.pi * _count_unlike(words, left, right) / (64 * words.shape[1]))
    found: Floats = shared / (2 - shared)
    return found


def _meet_bits(words: Hashes, *, bands: int, bits: int) -> Integers:
    flags = np.unpackbits(words.view(np.uint8), axis=1, count=bands * bits, bitorder="little")
    values = flags.reshape(len(words), bands, bits) @ (np.uint64(1) << np.arange(bits, dtype=np.uint64))
    return _join(mix(values + GOLDEN * np.arange(1, bands + 1, dtype=np.uint64)))


def _meet_close(words: Hashes) -> Integers:
    pairs = _meet_bits(words, bands=BLOCKS, bits=64 // BLOCKS)
    return pairs[_count_unlike(words, *decode(pairs)) <= DIFFERING]


def _sign_rows(sets: Sets, _texts: pa.Array) -> Hashes:
    return minhash.sign(sets.shingles, sets.offsets, BANDS * ROWS, 1)


def _meet_rows(signatures: Hashes) -> Integers:
    return _join(lsh.band_keys(signatures, BANDS, ROWS))


def _estimate_rows(signatures: Hashes, left: Integers, right: Integers) -> Floats:
    return filters.estimate_pairs(minhash.low_bytes(signatures), left, right)


def _join(keys: Hashes) -> Integers:
    documents = np.arange(len(keys))
    buckets = lsh.group(keys.reshape(-1), np.repeat(documents, keys.shape[1]))
    return join(*buckets, None, doc_ids=documents)


def sort(_sets: Sets | None, texts: pa.Array, *, orders: int) -> list[Integers]:
    """Return documents in the order of their first letters, and in that of their last, from the end."""
    lower = pc.utf8_lower(pc.utf8_normalize(texts, "NFKC"))
    keys = [pc.utf8_slice_codeunits(each, 0, LETTERS) for each in (lower, pc.utf8_reverse(lower))]
    return [pc.array_sort_indices(key).to_numpy().astype(np.int64) for key in keys[:orders]]


def slide(orders: list[Integers], *, window: int) -> Integers:
    """Return the distinct pairs of documents within a window of one of the orders."""
    ends = [(order[:-step], order[step:]) for order in orders for step in range(1, min(window, order.size))]
    return sort_distinct(np.concatenate([encode(np.minimum(*each), np.maximum(*each)) for each in ends]))


def measure(data: str = "") -> list[dict[str, Any]]:
    """Return the figures of each corpus and way; those of the parquet files of a folder too."""
    return [
        {"corpus": name, "way": way.name, "bytes": way.key_bytes, **_try(way, sets, texts)}
        for name, sets, texts in read_real(data)
        for way in list_ways()
    ]


def _try(way: Way, sets: Sets, texts: pa.Array) -> dict[str, Any]:
    # Compiles the loops.
    way.meet(way.sign(Sets(sets.shingles, sets.offsets[:3], sets.left, sets.right), texts[:2]))
    begin = time.process_time()
    signed = way.sign(sets, texts)
    found = {"sign_us": (time.process_time() - begin) / len(texts) * 1e6}
    if way.estimate:
        step = -(-sets.left.size // JUDGED)
        left, right = sets.left[::step], sets.right[::step]
        off = way.estimate(signed, left, right) - jaccard(sets.shingles, sets.offsets, left, right)
        found["error"] = float(np.sqrt(np.mean(off**2)))
    begin = time.process_time()
    met = way.meet(signed)
    found["pair_seconds"] = time.process_time() - begin
    recall = float(find_known(encode(sets.left, sets.right), met).mean())
    return {**found, "pairs": met.size, "recall": recall}


def to_table(found: list[Mapping[str, Any]]) -> str:
    """Write what each way to bring texts together finds and costs."""
    lines = [
        (
            "| corpus | documents meet by | bytes a document | pairs that meet | recall | error of the estimate "
            "| us to sign one | s to pair all |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        cells = [
            each["corpus"],
            each["way"],
            f"{each['bytes']:,}",
            f"{each['pairs']:,}",
            f"{each['recall']:.4f}",
            f"{each['error']:.4f}" if "error" in each else "",
            f"{each['sign_us']:,.1f}",
            f"{each['pair_seconds']:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
