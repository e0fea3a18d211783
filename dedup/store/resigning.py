"""Shingle sets of a store signed again: it holds no signatures."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches
from dedup.kernels import Bytes, Hashes, Integers
from dedup.kernels.runs import blocks
from dedup.kernels.sets import lsh, minhash
from dedup.store.search import Search
from dedup.tables import arrow

SIGNED = 1 << 15
"""Sets signed at a time: a signature takes eight bytes a value while it is made."""
PAYLOAD = pa.schema([*arrow.integers("doc_id", "size"), ("signature", pa.binary())])
"""Documents with what their pairs are estimated by."""
KEYED = pa.schema([("doc_id", pa.int64()), ("band_keys", pa.binary())])
"""Documents with their band keys."""


class Signer(NamedTuple):
    """Parameters by which sets are signed again."""

    search: Search
    seed: int


def sign(shingles: Hashes, offsets: Integers, search: Search, seed: int) -> tuple[Bytes, Hashes]:
    """Return the low bytes of the signatures of sets, uint8 [sets, bands x rows], and their band keys."""
    count = offsets.size - 1
    low = np.empty((count, search.bands * search.rows), dtype=np.uint8)
    keys = np.empty((count, search.bands), dtype=np.uint64)
    for begin in range(0, count, SIGNED):
        end = min(begin + SIGNED, count)
        part = shingles[offsets[begin] : offsets[end]], offsets[begin : end + 1] - offsets[begin]
        signatures = minhash.sign(*part, search.bands * search.rows, seed)
        low[begin:end] = minhash.low_bytes(signatures)
        keys[begin:end] = lsh.band_keys(signatures, search.bands, search.rows)
    return low, keys


def sign_sets(batches: Batches, *, signer: Signer) -> Batches:
    """Turn SETS into PAYLOAD."""
    for batch in batches:
        values, offsets = blocks.unlists(batch["shingles"], "<u8")
        low, _ = sign(values, offsets, *signer)
        columns = [batch["doc_id"], pa.array(np.diff(offsets)), blocks.rows(low)]
        yield pa.RecordBatch.from_arrays(columns, schema=PAYLOAD)


def list_keys(batches: Batches, *, signer: Signer) -> Batches:
    """Turn SETS into KEYED."""
    for batch in batches:
        _, keys = sign(*blocks.unlists(batch["shingles"], "<u8"), *signer)
        yield pa.RecordBatch.from_arrays([batch["doc_id"], blocks.rows(keys.view(np.uint8))], schema=KEYED)
