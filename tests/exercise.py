"""The exercise of the literature: 2,000 documents in 200 clusters of 10 edited copies, plus 500 unrelated ones.

How many pairs become candidates, and how often does a pair of some similarity not? `python -m tests.exercise` prints
the table of docs/how-it-works.md.
"""

import random
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa

from dedup.kernels.sets import lsh, minhash, shingles
from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.text.unicode_words import UnicodeWords

BANDS, ROWS, SHINGLE_SIZE = 21, 6, 5
CLUSTERS, NOISE = 200, 500
EDITS = (1, 1, 1, 1, 2, 2, 3, 4, 6, 9)
"""Words exchanged in each copy of an original: two copies are from .95 down to .4 similar."""
COPIES = len(EDITS)
SEEDS = range(1, 21)
BINS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def make_documents() -> list[str]:
    """Return the clusters, ten documents each, then the noise: 150 words of a vocabulary of 20,000."""
    chance = random.Random(2026)
    vocabulary = [f"w{number}" for number in range(20_000)]
    documents = []
    for _ in range(CLUSTERS):
        original = chance.choices(vocabulary, k=150)
        for edits in EDITS:
            words = list(original)
            for _ in range(edits):
                words[chance.randrange(len(words))] = chance.choice(vocabulary)
            documents.append(" ".join(words))
    documents += [" ".join(chance.choices(vocabulary, k=150)) for _ in range(NOISE)]
    return documents


def cluster_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Return the two documents of every pair within a cluster."""
    within = [
        (COPIES * cluster + left, COPIES * cluster + right)
        for cluster in range(CLUSTERS)
        for left, right in combinations(range(COPIES), 2)
    ]
    left, right = np.array(within, dtype=np.int64).T
    return left, right


def measure(documents: Sequence[str]) -> list[dict[str, float]]:
    """Return pairs, misses measured over all SEEDS and misses by the formula, for every bin of similarity."""
    tokens, bounds = UnicodeWords().hash(pa.array(documents))
    values, offsets = shingles.shingle(tokens, bounds, SHINGLE_SIZE, UnicodeWords())
    left, right = cluster_pairs()
    exact = jaccard(values, offsets, left, right)
    missed = np.array(
        [
            ~(keys[left] == keys[right]).any(axis=1)
            for keys in (
                lsh.band_keys(minhash.sign(values, offsets, BANDS * ROWS, seed), BANDS, ROWS) for seed in SEEDS
            )
        ]
    )
    theory = (1 - exact**ROWS) ** BANDS
    rows = []
    for low, high in pairwise(BINS):
        inside = (exact >= low) & (exact < high)
        by_seed = missed[:, inside].mean(axis=1)
        rows.append(
            {
                "low": low,
                "high": high,
                "pairs": int(inside.sum()),
                "missed": float(by_seed.mean()),
                "error": float(by_seed.std(ddof=1) / len(SEEDS) ** 0.5),
                "theory": float(theory[inside].mean()),
            }
        )
    return rows


def to_markdown(rows: Sequence[dict[str, float]]) -> str:
    """Write the table of docs/how-it-works.md."""
    lines = ["| Jaccard | pairs | missed | (1 - J^6)^21 |", "|---|---|---|---|"]
    lines += [
        f"| {row['low']:.1f} to {row['high']:.1f} | {row['pairs']:,} | {row['missed']:.4f} | {row['theory']:.4f} |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(to_markdown(measure(make_documents())))
