"""The user's ids to document ids."""

import numpy as np
import pyarrow as pa
import xxhash

from dedup.kernels import Integers

SEED = 42
"""Seed of XXH64, the same as in Spark's `xxhash64`."""


def to_doc_ids(ids: pa.Array) -> Integers:
    """Return the 64-bit document id of every id, 0 where it is null.

    Parameters
    ----------
    ids
        int64, which are their own document ids, or string, which are hashed (XXH64 of the UTF-8 bytes).
    """
    if pa.types.is_integer(ids.type):
        own: Integers = ids.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return own
    hashes = [0 if each is None else xxhash.xxh64_intdigest(each, SEED) for each in ids.cast(pa.binary()).to_pylist()]
    return np.array(hashes, dtype=np.uint64).view(np.int64)
