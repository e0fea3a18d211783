"""BUCKETS, SIGNATURES -> CANDIDATES."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.kernels import Hashes, Integers
from dedup.kernels.curve import least_estimate
from dedup.kernels.runs.blocks import unlists, unrows
from dedup.kernels.sets import filters, lsh
from dedup.stages.exchange import Counters, Pairs, meet
from dedup.stages.placement import Meeting, place_pairs
from dedup.stages.table import Keep, Seen, Table
from dedup.stages.templates import Linked, count_pairs
from dedup.tables.counts import Bucketed, Paired
from dedup.tables.schemas import CANDIDATES


def pair(
    keep: Keep,
    bucketed: Table[Bucketed],
    linked: Table[Linked] | None,
    heads: DataFrame,
    *,
    documents: int,
    threshold: float,
    signature_size: int,
    estimate_sigmas: float | None,
    cap: int,
) -> Table[Paired]:
    """Keep CANDIDATES; for the settings see `pair_documents`.

    Parameters
    ----------
    linked
        What takes the place of buckets over the cap; None where there are none.
    """
    sizes = bucketed.counts.sizes
    small = {size: count for size, count in sizes.items() if size <= cap}
    frame, members = bucketed.frame.filter(F.col("size") <= cap), bucketed.counts.members
    circled, more, uncompared = 0, 0, 0
    if linked is not None:
        frame, more = frame.unionByName(linked.frame), linked.counts.members
        circled, uncompared = count_pairs(linked.counts.sizes, cap)
    compared = count_pairs(small, None)[0] + circled
    settled = count_pairs(sizes, None)[0] - compared - uncompared

    def build(counters: Counters) -> DataFrame:
        return pair_documents(
            frame,
            heads,
            threshold=threshold,
            signature_size=signature_size,
            estimate_sigmas=estimate_sigmas,
            pairs_of=partial(lsh.pairs, max_bucket=cap, most=filters.PAIRS_AT_A_TIME),
            meeting=place_pairs(compared + more, members + more, documents, signature_size),
            counters=counters,
        )

    def measure(seen: Seen) -> Paired:
        return Paired(
            rows=seen["rows"],
            pairs_in_buckets=compared,
            pairs_uncompared=uncompared,
            pairs_settled=settled,
            pairs_distinct=seen.get("pairs_distinct", 0),
            pairs_after_length=seen.get("pairs_after_length", 0),
        )

    return keep("candidates", CANDIDATES, build, measure)


def pair_documents(
    buckets: DataFrame,
    signatures: DataFrame,
    *,
    pairs_of: Callable[[Hashes, Integers, Integers], Iterator[Pairs]],
    threshold: float,
    signature_size: int,
    estimate_sigmas: float | None,
    meeting: Meeting,
    counters: Counters,
) -> DataFrame:
    """BUCKETS, SIGNATURES -> CANDIDATES; shuffles 16 bytes a pair and the signatures of documents in a bucket.

    Distinct pairs of the buckets, less those whose sizes alone rule out the threshold (Jaccard is at most the lesser
    size over the greater) and those whose estimate is `estimate_sigmas` standard errors below it (None: no estimate).

    Parameters
    ----------
    pairs_of
        Gives pairs of buckets, which are keys, members and offsets as from `lsh.group`.
    meeting
        As for `exchange.meet`.
    counters
        Takes `pairs_distinct` and `pairs_after_length`.
    """
    floor = None
    if estimate_sigmas is not None:
        floor = least_estimate(threshold, signature_size, estimate_sigmas)

    def list_pairs(batch: pa.RecordBatch) -> Iterator[Pairs]:
        members, offsets = unlists(batch["doc_ids"], "<i8")
        return pairs_of(batch["key"].to_numpy().view(np.uint64), members, offsets)

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
    return meet(buckets, list_pairs, payload, compare, CANDIDATES, meeting=meeting)
