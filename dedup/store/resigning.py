"""Shingle sets of a store signed again: it holds no signatures."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches
from dedup.kernels import Bytes, Hashes, Integers
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform
from dedup.kernels.sets import lsh, minhash
from dedup.tables import arrow

SIGNED = 1 << 15
"""Sets signed at a time: a signature takes eight bytes a value while it is made."""
PAYLOAD = ("doc_id", "size", "signature")
"""Columns of documents by which their pairs are estimated."""
SIGNED_SETS = pa.schema([*arrow.integers("doc_id", "size"), ("signature", pa.binary()), ("band_keys", pa.binary())])
"""Documents with signatures and band keys."""


class Signer(NamedTuple):
    """Parameters by which sets are signed again."""

    bands: int
    rows: int
    seed: int

    def sign(self, shingles: Hashes, offsets: Integers) -> tuple[Bytes, Hashes]:
        """Return the low bytes of the signatures of sets, uint8 [sets, bands x rows], and their band keys."""
        count, values = offsets.size - 1, self.bands * self.rows
        low, keys = np.empty((count, values), np.uint8), np.empty((count, self.bands), np.uint64)
        for begin in range(0, count, SIGNED):
            end = min(begin + SIGNED, count)
            part = shingles[offsets[begin] : offsets[end]], offsets[begin : end + 1] - offsets[begin]
            signatures = minhash.sign(*part, values, self.seed)
            low[begin:end] = minhash.low_bytes(signatures)
            keys[begin:end] = lsh.band_keys(signatures, self.bands, self.rows)
        return low, keys


def sign_sets(batches: Batches, *, signer: Signer) -> Batches:
    """Turn SETS into SIGNED_SETS."""
    for batch in batches:
        values, offsets = blocks.unlists(batch["shingles"], "<u8")
        low, keys = signer.sign(values, offsets)
        told = {"size": np.diff(offsets), "signature": blocks.rows(low), "band_keys": blocks.rows(keys.view(np.uint8))}
        yield conform(batch, SIGNED_SETS, **told)
