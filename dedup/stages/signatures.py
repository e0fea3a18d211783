"""DOCUMENTS -> SIGNATURES."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.exchange import Counters, by_piece
from dedup.kernels import blocks, frequencies, lsh, minhash, shingles, text
from dedup.schemas import signatures as signatures_schema

COUNTED = ("text_bytes", "tokens", "shingles", "documents_empty", "documents_short", "ids_null", "sample_bytes")


def sign_documents(
    documents: DataFrame,
    *,
    contract: text.Contract,
    hashed: Mapping[str, Any] | None = None,
    shingle_size: int,
    bands: int,
    rows: int,
    signature_seed: int,
    sample_share: float,
    counters: Counters,
) -> DataFrame:
    """DOCUMENTS -> SIGNATURES; no shuffle.

    One pass over the text: tokens, shingle set, its size and digest, MinHash signature and a key for each of its bands.

    Parameters
    ----------
    hashed
        Version and fingerprint of the key, for the table's metadata.
    bands, rows
        0 bands: no signature.
    sample_share
        Share of the documents whose tokens are stored, to count them.
    counters
        Takes COUNTED. A document is empty without a token, short with fewer than `shingle_size`.
    """

    def sign(batch: pa.RecordBatch) -> pa.RecordBatch:
        tokens, bounds = text.tokenise(batch["text"], contract)
        values, offsets = shingles.shingle(tokens, bounds, shingle_size)
        token_counts = np.diff(bounds)
        counters.add("text_bytes", pc.sum(pc.binary_length(batch["text"])).as_py() or 0)
        counters.add("tokens", tokens.size)
        counters.add("shingles", values.size)
        counters.add("documents_empty", np.count_nonzero(token_counts == 0))
        counters.add("documents_short", np.count_nonzero((token_counts > 0) & (token_counts < shingle_size)))
        counters.add("ids_null", batch["doc_id"].null_count)
        drawn = np.flatnonzero(frequencies.draw(batch["doc_id"].fill_null(0).to_numpy(), sample_share)).tolist()
        sample = {row: frequencies.shorten(tokens[bounds[row] : bounds[row + 1]]) for row in drawn}
        counters.add("sample_bytes", sum(map(len, sample.values())))
        digests = np.frombuffer(b"".join(shingles.digest(values, offsets)), dtype=">i8").astype(np.int64)
        signatures = minhash.sign(values, offsets, bands * rows, signature_seed)
        return pa.record_batch(
            {
                "doc_id": batch["doc_id"],
                "id": batch["id"],
                "shingle_count": np.diff(offsets).astype(np.int32),
                "digest_high": digests[::2].copy(),
                "digest_low": digests[1::2].copy(),
                "band_keys": blocks.rows(lsh.band_keys(signatures, bands, rows).view(np.uint8)),
                "signature": blocks.rows(minhash.low_bytes(signatures)),
                "source": batch["source"],
                "tokens": pa.array([sample.get(row) for row in range(batch.num_rows)], pa.binary()),
            }
        )

    return documents.mapInArrow(by_piece(sign), signatures_schema(documents.schema["id"].dataType, hashed))


def select_sample(signatures: DataFrame) -> DataFrame:
    """SIGNATURES -> (doc_id, tokens) of the documents of the sample."""
    return signatures.filter(F.col("tokens").isNotNull()).select("doc_id", "tokens")
