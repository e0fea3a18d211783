"""Frequencies of tokens, from a sample of documents: the slope of frequency over rank.

G. K. Zipf: Human Behavior and the Principle of Least Effort, 1949. The counts of a sample order its tokens and are
fitted to that order, so the two errors are alike; a difference of two slopes means something only where both are
fitted at the same ranks.
"""

import numpy as np
import pyarrow as pa

from dedup.kernels import Flags, Floats, Hashes, Integers
from dedup.kernels.hashing import mix

SALT = np.uint64(0x746F6B656E)
"""Number that makes the sample independent of other uses of the same hash."""
MOST_TOKENS = 1024
"""Tokens taken from the beginning of a document: more documents say more than longer ones."""
LEAST_COUNT = 10
"""Least occurrences of a token that counts: below, its frequency is chance."""
MOST_RANKS = 1000
"""Highest rank of a fit. Rarer tokens have another slope, so a fit of all would depend on the size of the sample: on
samples of 0.25 to 1 MB of three corpora fits up to here differ by .01, and fits up to rank 10,000 by .07."""
GROUPS = 10
"""Parts of a sample, each left out once to see how much a slope owes to chance."""
POINTS = 25
"""Ranks at which frequencies are read, as many in every decade, so that each decade weighs the same."""


def draw(doc_ids: Integers, share: float) -> Flags:
    """Flag the documents of a sample with this share of all; the same ones in any order and partitions."""
    return (mix(doc_ids.view(np.uint64) + SALT) >> np.uint64(32)) < np.uint64(round(share * 2**32))


def shorten(tokens: Hashes) -> bytes:
    """Return the low 32 bits of a document's first MOST_TOKENS token hashes: of 100,000 tokens two or so coincide."""
    return tokens[:MOST_TOKENS].astype("<u4").tobytes()


def sample(doc_ids: Integers, tokens: Hashes, bounds: Integers, share: float) -> pa.Array:
    """Return the shortened tokens of the documents that `draw` draws, null for the others; binary [n].

    Parameters
    ----------
    tokens, bounds
        As from `Tokenizer.hash`.
    """
    drawn = draw(doc_ids, share)
    noted: list[bytes | None] = [None] * drawn.size
    for number in np.flatnonzero(drawn).tolist():
        noted[number] = shorten(tokens[bounds[number] : bounds[number + 1]])
    return pa.array(noted, pa.binary())


def count(texts: list[bytes]) -> Integers:
    """Count each distinct token of shortened documents; descending."""
    return np.sort(np.unique(np.frombuffer(b"".join(texts), dtype="<u4"), return_counts=True)[1])[::-1]


def choose_ranks(*counts: Integers) -> Integers:
    """Return the ranks, from 1 on, at which all of these counts are read; none if no token is common enough."""
    last = min(MOST_RANKS, *(int(np.count_nonzero(each >= LEAST_COUNT)) for each in counts))
    return np.unique(np.geomspace(1, last, POINTS).round().astype(np.int64)) if last else np.empty(0, np.int64)


def fit_slope(counts: Integers, ranks: Integers) -> float | None:
    """Return the slope of log count over log rank by least squares at these ranks; None with fewer than 10 of them.

    Zipf's law is a slope of -1. Boilerplate that repeats lifts the frequent tokens, and the curve becomes steeper.
    """
    if ranks.size < 10:
        return None
    return float(np.polyfit(np.log(ranks), np.log(counts[ranks - 1]), 1)[0])


def divide(doc_ids: Integers) -> Integers:
    """Assign each document of a sample to one of GROUPS parts, independent of the order; int64 [n]."""
    return (mix(mix(doc_ids.view(np.uint64) + SALT)) % np.uint64(GROUPS)).astype(np.int64)


def fit_without_each(texts: list[bytes], groups: Integers, ranks: Integers) -> Floats:
    """Return the slopes of `fit_slope` with each of GROUPS parts of the documents left out in turn; float64 [GROUPS].

    Parameters
    ----------
    texts
        n shortened documents.
    groups : int64 [n]
        As from `divide`.
    """
    lengths = np.array([len(text) // 4 for text in texts])
    tokens, places = np.unique(np.frombuffer(b"".join(texts), dtype="<u4"), return_inverse=True)
    cells = np.repeat(groups, lengths) * tokens.size + places
    parts = np.bincount(cells, minlength=GROUPS * tokens.size).reshape(GROUPS, -1)
    left = np.sort(parts.sum(axis=0) - parts, axis=1)[:, ::-1]
    # The last of the common tokens can be all in one part.
    frequencies = np.log(np.maximum(left[:, ranks - 1], 1)).T
    slopes: Floats = np.polyfit(np.log(ranks), frequencies, 1)[0]
    return slopes


def estimate_error(without: Floats) -> float:
    """Return the standard error of a statistic by the jackknife, from its values without each of the groups.

    J. W. Tukey: Bias and confidence in not quite large samples. Annals of Mathematical Statistics 29 (1958).
    """
    return float(np.sqrt((without.size - 1) * without.var()))
