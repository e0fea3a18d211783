"""Fewer bits of each value of a signature: what the estimate lets pass, beside what it costs to compare that exactly.

Pairs that share a band and whose sizes allow the threshold are estimated from 1, 2, 4 and 8 bits a value, each with
the least estimate that drops no more pairs at the threshold than the job's. Bytes are counted by the job's own loop,
narrower values by a loop over words of 64 bits.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dedup.kernels import Bytes, Hashes, Integers
from dedup.kernels.curve import least_estimate, standard_error
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.sets import filters, lsh, minhash
from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.sets.pairs import decode, encode, find_known, join
from dedup.settings.banding import SIGMAS
from tests.experiments.corpora import THRESHOLD, Sets, make, read_real

BANDS, ROWS = 21, 6
SIZE = BANDS * ROWS
ROUNDS = 3


def estimate_pairs(packed: Bytes, left: Integers, right: Integers, bits: int) -> np.ndarray:
    """Return the estimates of pairs from packed signatures, as `minhash.estimate` does."""
    words = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
    unlike = np.empty(left.size, np.int64)
    _count_unlike(words, left, right, bits, unlike)
    return minhash.correct(1 - unlike / SIZE, bits)


@compiled
def _count_unlike(words: Hashes, left: Integers, right: Integers, bits: int, unlike: Integers) -> None:
    """Count the values that differ."""
    # The first bit of every value, and the bits by which those that are set are counted.
    firsts = ~np.uint64(0) // ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
    twos, fours = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
    eights, ones = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
    for pair in range(left.size):
        count = np.uint64(0)
        for word in range(words.shape[1]):
            differs = words[left[pair], word] ^ words[right[pair], word]
            step = bits >> 1
            while step:
                differs |= differs >> np.uint64(step)
                step >>= 1
            differs &= firsts
            differs -= (differs >> np.uint64(1)) & twos
            differs = (differs & fours) + ((differs >> np.uint64(2)) & fours)
            differs = (differs + (differs >> np.uint64(4))) & eights
            count += (differs * ones) >> np.uint64(56)
        unlike[pair] = count


def measure(data: str = "") -> list[dict[str, Any]]:
    """Return the figures of each corpus and width; those of the parquet files of a folder too."""
    corpora = {name: sets for name, sets, _ in read_real(data)}
    corpora |= {"plain": make({}), "skewed": make({"skewed": True})}
    return [{"corpus": name, **figures} for name, sets in corpora.items() for figures in _weigh(sets)]


def _weigh(sets: Sets) -> list[dict[str, Any]]:
    signatures = minhash.sign(sets.shingles, sets.offsets, SIZE, 1)
    documents = np.arange(sets.offsets.size - 1)
    buckets = lsh.group(lsh.band_keys(signatures, BANDS, ROWS).reshape(-1), np.repeat(documents, BANDS))
    left, right = decode(join(*buckets, None, doc_ids=documents))
    sizes = np.diff(sets.offsets)
    possible = filters.select_possible(sizes[left], sizes[right], THRESHOLD)
    left, right = left[possible], right[possible]
    truth = encode(np.minimum(sets.left, sets.right), np.maximum(sets.left, sets.right))
    low, found = minhash.low_bytes(signatures), []
    for bits in (0, *minhash.WIDTHS):
        spent, passed = 0.0, np.ones(left.size, bool)
        if bits:
            packed = minhash.pack(low, bits)
            work = _choose(packed, left, right, bits)
            work()
            spent, estimates = min((_time(work) for _ in range(ROUNDS)), key=lambda one: one[0])
            passed = estimates >= least_estimate(THRESHOLD, SIZE, SIGMAS, bits)
        compare = lambda: jaccard(sets.shingles, sets.offsets, left[passed], right[passed])  # noqa: E731, B023 - at once
        comparing, exact = _time(compare)
        similar = exact >= THRESHOLD
        edges = np.sort(encode(left[passed][similar], right[passed][similar]))
        found.append(
            {
                "bits": bits,
                "candidates": left.size,
                "compared": int(passed.sum()),
                "recall": float(find_known(truth, edges).mean()),
                "estimate_seconds": spent,
                "compare_seconds": comparing,
            }
        )
    return found


def _choose(packed: Bytes, left: Integers, right: Integers, bits: int) -> Callable[[], np.ndarray]:
    """Return the estimate of these pairs; that of bytes is the job's own."""
    if bits == 8:
        return lambda: filters.estimate_pairs(packed, left, right)
    return lambda: estimate_pairs(packed, left, right, bits)


def _time(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def to_table(found: list[Mapping[str, Any]]) -> str:
    """Write what each width lets pass and costs."""
    lines = [
        (
            "| corpus | bits a value | bytes a document | standard error at .8 | candidates | compared | recall "
            "| ms to estimate | ms to compare |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        bits = each["bits"]
        cells = [
            each["corpus"],
            f"{bits}" if bits else "no estimate",
            f"{-(-SIZE * bits // 8)}",
            f"{standard_error(THRESHOLD, SIZE, bits):.4f}" if bits else "",
            f"{each['candidates']:,}",
            f"{each['compared']:,}",
            f"{each['recall']:.4f}",
            f"{each['estimate_seconds'] * 1e3:.1f}" if bits else "",
            f"{each['compare_seconds'] * 1e3:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
