"""Digest of ids and shingle sets that tells two batches apart, whatever the order of their documents."""

import numpy as np

from dedup.kernels import Integers
from dedup.kernels.hashing import GOLDEN, mix


def sum_content(doc_ids: Integers, high: Integers, low: Integers) -> tuple[int, int]:
    """Return what documents add to the two halves of a digest, each at least 0 and below 2**64.

    Parameters
    ----------
    doc_ids, high, low : int64 [n]
        Ids and the halves of the digests of their shingle sets.
    """
    rows = mix(doc_ids.view(np.uint64) + mix(high.view(np.uint64) + mix(low.view(np.uint64) + GOLDEN)))
    return int(rows.sum(dtype=np.uint64)), int(mix(rows + GOLDEN).sum(dtype=np.uint64))


def name_content(high: int, low: int) -> str:
    """Return the digest of sums of both halves."""
    return f"{high % (1 << 64):016x}{low % (1 << 64):016x}"
