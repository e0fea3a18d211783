"""BUCKETS, SIGNATURES -> CANDIDATES."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.exchange import Batches, Counters, Pairs, meet
from dedup.kernels import filters, lsh
from dedup.kernels.blocks import unlists, unrows
from dedup.schemas import CANDIDATES, PAIRS

PAIRS_AT_A_TIME = 1 << 20
"""Pairs enumerated at once: bounds a worker's memory to about 100 MB, whatever the size of a bucket."""
COUNTED = ("pairs_distinct", "pairs_after_length")


def pair_documents(
    buckets: DataFrame,
    signatures: DataFrame,
    *,
    threshold: float,
    signature_size: int,
    estimate_sigmas: float | None,
    max_bucket: int | None,
    groups: int,
    broadcast: bool,
    whole: bool,
    counters: Counters,
) -> DataFrame:
    """BUCKETS, SIGNATURES -> CANDIDATES; shuffles 16 bytes a pair and the signatures of documents in a bucket.

    Distinct pairs of the buckets, less those whose sizes alone rule out the threshold (Jaccard is at most the lesser
    size over the greater) and those whose estimate is `estimate_sigmas` standard errors below it (None: no estimate).

    Parameters
    ----------
    groups, broadcast, whole
        As for `dedup.exchange.meet`.
    counters
        Takes COUNTED.
    """
    floor = None
    if estimate_sigmas is not None:
        floor = filters.least_estimate(threshold, signature_size, estimate_sigmas)

    def pairs_of(batch: pa.RecordBatch) -> Iterator[Pairs]:
        members, offsets = unlists(batch["doc_ids"], "<i8")
        keys = batch["key"].to_numpy().view(np.uint64)
        return lsh.pairs(keys, members, offsets, max_bucket, PAIRS_AT_A_TIME)

    def compare(documents: pa.Table, pairs: Pairs, rows: Pairs) -> pa.RecordBatch:
        counters.add("pairs_distinct", pairs[0].size)
        sizes = documents["shingle_count"].to_numpy()
        possible = filters.select_possible(sizes[rows[0]], sizes[rows[1]], threshold)
        counters.add("pairs_after_length", possible.size)
        if floor is None:
            estimates, likely = np.full(possible.size, np.nan), possible
        else:
            low = np.concatenate([unrows(chunk) for chunk in documents["signature"].chunks])
            estimates = filters.estimate_pairs(low, rows[0][possible], rows[1][possible])
            likely, estimates = possible[estimates >= floor], estimates[estimates >= floor]
        return pa.record_batch(
            {
                "left_id": pairs[0][likely],
                "right_id": pairs[1][likely],
                "estimate": pa.array(estimates, from_pandas=True),
            }
        )

    signature = F.col("signature") if estimate_sigmas is not None else F.lit(b"")
    payload = signatures.select("doc_id", "shingle_count", signature.alias("signature"))
    return meet(buckets, pairs_of, payload, compare, CANDIDATES, groups=groups, broadcast=broadcast, whole=whole)


def sample_uncompared(buckets: DataFrame, *, max_bucket: int, share: float) -> DataFrame:
    """BUCKETS -> (left_id, right_id) of a share of the pairs that the cap leaves out of buckets; shuffles the pairs."""

    def draw(batches: Batches) -> Batches:
        for batch in batches:
            members, offsets = unlists(batch["doc_ids"], "<i8")
            keys = batch["key"].to_numpy().view(np.uint64)
            left, right = lsh.sample_uncompared(keys, members, offsets, max_bucket, share)
            yield pa.record_batch({"left_id": left, "right_id": right})

    large = buckets.filter(F.col("size") > max_bucket).select("key", "doc_ids")
    return large.mapInArrow(draw, PAIRS).distinct()
