"""DOCUMENTS -> SIGNATURES."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.kernels import features, frequencies
from dedup.kernels.runs import blocks
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.stages.documents import Corpus
from dedup.stages.exchange import Counters, by_piece
from dedup.stages.table import Keep, Seen, Table
from dedup.tables.counts import Signed
from dedup.tables.schemas import signatures as signatures_schema

COUNTED = ("text_bytes", "tokens", "shingles", "documents_empty", "documents_short", "ids_null", "sample_bytes")
"""What workers count; a document is empty without a token, short with fewer than `shingle_size`."""


def sign(
    keep: Keep, corpus: Corpus, build: Callable[[Counters], DataFrame], hashed: Mapping[str, Any]
) -> Table[Signed]:
    """Keep SIGNATURES as `sign_documents` makes them."""
    return keep("signatures", signatures_schema(corpus.id_type, hashed), build, measure)


def measure(seen: Seen) -> Signed:
    """Return the counts of SIGNATURES."""
    return Signed(rows=seen["rows"], **{name: seen.get(name, 0) for name in COUNTED})


def sign_documents(
    corpus: Corpus,
    *,
    tokenizer: Tokenizer,
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
        Takes COUNTED.
    """

    def sign_piece(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = features.compute(
            batch["text"], tokenizer, shingle_size=shingle_size, bands=bands, rows=rows, seed=signature_seed
        )
        token_counts = found.token_counts
        text_bytes = pc.binary_length(batch["text"]).fill_null(0).cast(pa.int64())
        counters.add("text_bytes", pc.sum(text_bytes).as_py() or 0)
        counters.add("tokens", found.tokens.size)
        counters.add("shingles", found.shingle_counts.sum())
        counters.add("documents_empty", np.count_nonzero(token_counts == 0))
        counters.add("documents_short", np.count_nonzero((token_counts > 0) & (token_counts < shingle_size)))
        counters.add("ids_null", batch["doc_id"].null_count)
        doc_ids = batch["doc_id"].fill_null(0).to_numpy(zero_copy_only=False)
        sample = frequencies.sample(doc_ids, found.tokens, found.token_bounds, sample_share)
        counters.add("sample_bytes", pc.sum(pc.binary_length(sample)).as_py() or 0)
        return pa.record_batch(
            {
                "doc_id": batch["doc_id"],
                "id": batch["id"],
                "shingle_count": found.shingle_counts.astype(np.int32),
                "digest_high": found.digest_high,
                "digest_low": found.digest_low,
                "band_keys": blocks.rows(found.keys.view(np.uint8)),
                "signature": blocks.rows(found.low),
                "source": batch["source"],
                **_place(batch),
                "text_bytes": text_bytes,
                "order_keys": batch["order_keys"],
                "merged": batch["merged"],
                "tokens": sample,
            }
        )

    return corpus.scan(by_piece(sign_piece), signatures_schema(corpus.id_type, hashed))


def _place(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return where documents of files stand; null of rows that Spark reads."""
    kinds = {"split": pa.int32(), "file": pa.int32(), "row": pa.int64()}
    names = set(batch.schema.names)
    return {name: batch[name] if name in names else pa.nulls(batch.num_rows, kind) for name, kind in kinds.items()}


def select_sample(signatures: DataFrame) -> DataFrame:
    """SIGNATURES -> (doc_id, tokens) of the documents of the sample."""
    return signatures.filter(F.col("tokens").isNotNull()).select("doc_id", "tokens")
