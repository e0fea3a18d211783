"""Digests of 128 bits: nobody writes two values of one digest."""

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Integers, loops
from dedup.kernels.text.tokenizer import read_buffers


def digest_runs(raw: Bytes, bounds: Integers, key: bytes = b"") -> Integers:
    """Return BLAKE2b (RFC 7693) of 128 bits of runs of bytes that lie end to end, with a key of at most 64 bytes.

    Parameters
    ----------
    raw : uint8 [bytes]
    bounds : int64 [runs + 1]

    Returns
    -------
    int64 [runs, 2]
    """
    found = np.empty((bounds.size - 1, 2), dtype=np.uint64)
    loops.blake2.digest(raw, bounds, np.frombuffer(key, dtype=np.uint8), found)
    return found.view(np.int64)


def digest_each(values: pa.Array) -> Integers:
    """Return the digests of strings or bytes; null counts as empty."""
    return digest_runs(*read_buffers(values))


def number_names(names: pa.Array) -> Integers:
    """Return a number for each name, the same in all places; null is a name like others."""
    named = [b"" if name is None else b"=" + name.encode() for name in names.to_pylist()]
    return digest_each(pa.array(named, pa.binary()))[:, 0].copy()
