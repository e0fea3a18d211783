"""The edges that a batch brings, by the stages of a single run: `dedup.store.growth` as tables."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.informing import LOSS, NEAR_MISSES, Inform
from dedup.kernels import Integers
from dedup.kernels.runs import blocks
from dedup.kernels.sets import lsh
from dedup.kernels.sets.filters import PAIRS_AT_A_TIME
from dedup.stages import candidates, edges, uncompared
from dedup.stages.exchange import Batches
from dedup.stages.placement import CELL_BYTES, fits_broadcast, place_bands, tasks
from dedup.stages.table import Table, count_rows
from dedup.store.arrays import distinct
from dedup.store.joins.arriving import SET_BYTES
from dedup.store.joins.crowd import find_crowd, find_withdrawn, link_anew, moves
from dedup.store.joins.reading import as_wanted
from dedup.store.joins.step import LINKS, Step, bucket, find_heads, list_own, measure_sets
from dedup.tables.counts import Bucketed, Paired, Verified
from dedup.tables.schemas import BUCKETS, PAIRS, SETS

NO_LINKS = pa.table(
    {"left": pa.array([], pa.int64()), "right": pa.array([], pa.int64()), "jaccard": pa.array([], pa.float64())}
)


class Joined(NamedTuple):
    """The edges after a batch, as far as it could change them."""

    found: Table[int]
    """LINKS that the store has not."""
    compared: DataFrame
    """EDGES with near misses, by document."""
    near_misses: pa.Table | None
    """NEAR_MISSES; None where they are too many for the driver."""
    withdrawn: pa.Table
    """LINKS of the store that are none any more."""
    heads: DataFrame
    """HEADS."""
    hot: Integers
    """Keys of buckets over the cap, ascending."""
    drawn: uncompared.Drawn | None
    """PAIRS left uncompared, drawn to be compared all the same; None where none were drawn."""
    sets: Table[edges.Sets]
    """SETS of all that were compared."""
    bucketed: Bucketed
    paired: Paired
    verified: Verified


def settle(step: Step, before: Integers, inform: Inform) -> Joined:
    """Return the edges that a batch brings.

    Parameters
    ----------
    before
        Keys of the buckets over the cap, ascending; they are on the driver, 8 bytes each, of at most the band rows of
        the store by the cap.
    """
    keep, search = step.keep, step.search
    own = list_own(step)
    rows = step.met.rows.frame.join(own.select("key").distinct(), on="key", how="left_semi").unionByName(own)
    bands = place_bands(step.numbered.fresh.counts, 2 * search.bands, step.cores)
    with ThreadPoolExecutor() as beside:
        heading = beside.submit(find_heads, step, "heads", step.met.rows.frame.select("set"))
        bucketed = bucket(keep, rows.withColumnRenamed("set", "doc_id"), bands)
        heads = heading.result()
    large = bucketed.frame.filter(F.col("size") > search.cap).select("key").toArrow()["key"].to_numpy()
    hot = distinct(before, large)
    crowd = find_crowd(step, hot)
    documents = step.met.sets.counts + step.numbered.fresh.counts
    if crowd is not None:
        heads, documents = crowd.heads, documents + crowd.rows.counts
    linked = link_anew(step, crowd) if crowd is not None and (large.size or moves(crowd)) else None
    payload = _list_payload(step, step.met.sets.frame, heads)
    if linked is not None:
        further = linked.signed.join(step.met.sets.frame.select("set"), on="set", how="left_anti")
        payload = payload.unionByName(_list_payload(step, further, heads)).dropDuplicates(["doc_id"])
    small = _pair_fresh(bucketed.frame.filter(F.col("size") <= search.cap), heads, step.first)
    paired = candidates.pair(
        keep,
        Table(frame=small, counts=bucketed.counts),
        linked and linked.buckets,
        payload,
        documents=documents,
        threshold=search.threshold,
        signature_size=search.bands * search.rows,
        estimate_sigmas=search.estimate_sigmas,
        cap=search.cap,
    )
    drawn = None
    if linked is not None and paired.counts.pairs_uncompared:
        drawn = inform(
            LOSS,
            uncompared.draw,
            keep,
            linked.buckets,
            paired.counts,
            payload,
            components=None,
            documents=documents,
            threshold=search.threshold,
            signature_size=search.bands * search.rows,
            estimate_sigmas=search.estimate_sigmas,
            cap=search.cap,
        )
    sets = _collect(step, paired, heads, linked and linked.sets)
    verified = edges.verify_candidates(keep, paired, sets, threshold=search.threshold, cores=step.cores)
    found = _name(edges.select_edges(verified.frame, threshold=search.threshold), heads)
    withdrawn = NO_LINKS
    if linked is not None:
        known = step.reader.scan("edges", LINKS.names)
        withdrawn = find_withdrawn(known, found, linked.signed, hot)
        found = found.join(known.select("left", "right"), on=["left", "right"], how="left_anti")
    few = fits_broadcast(verified.counts.compared - verified.counts.rows)
    with ThreadPoolExecutor() as beside:
        missing = partial(edges.collect_near_misses, verified.frame, threshold=search.threshold)
        collecting = beside.submit(inform, NEAR_MISSES, missing) if few else None
        kept = keep("found", LINKS, lambda _: found, count_rows)
        near_misses = collecting.result() if collecting else None
    return Joined(
        found=kept,
        compared=verified.frame,
        near_misses=near_misses,
        withdrawn=withdrawn,
        heads=heads,
        hot=hot,
        drawn=drawn,
        sets=sets,
        bucketed=bucketed.counts,
        paired=paired.counts,
        verified=verified.counts,
    )


def _pair_fresh(small: DataFrame, heads: DataFrame, first: int) -> DataFrame:
    """BUCKETS of sets -> BUCKETS of two documents, of all pairs of which one has come; shuffles pairs."""

    def list_pairs(batches: Batches) -> Batches:
        for batch in batches:
            members, offsets = blocks.unlists(batch["doc_ids"], "<i8")
            keys = batch["key"].to_numpy().view(np.uint64)
            for left, right in lsh.pairs(keys, members, offsets, None, PAIRS_AT_A_TIME):
                is_new = right >= first
                yield pa.record_batch({"left_id": left[is_new], "right_id": right[is_new]})

    def wrap(batches: Batches) -> Batches:
        for batch in batches:
            ends = np.stack([batch[name].to_numpy() for name in PAIRS.names], axis=1).reshape(-1)
            offsets = np.arange(batch.num_rows + 1) * 2
            columns = {"key": np.zeros(batch.num_rows, np.int64), "size": np.full(batch.num_rows, 2, np.int32)}
            yield pa.record_batch({**columns, "doc_ids": blocks.lists(ends, offsets)})

    pairs = small.mapInArrow(list_pairs, PAIRS).distinct()
    for end in PAIRS.names:
        names = heads.select(F.col("set").alias(end), F.col("doc_id").alias(f"{end}_head"))
        pairs = pairs.join(names, on=end, how="inner")
    ends = [F.col(f"{end}_head") for end in PAIRS.names]
    named = pairs.select(F.least(*ends).alias("left_id"), F.greatest(*ends).alias("right_id"))
    return named.mapInArrow(wrap, BUCKETS)


def _list_payload(step: Step, sets: DataFrame, heads: DataFrame) -> DataFrame:
    """Return doc_id, shingle_count and signature of the heads of sets, and of those that have come."""
    columns = ["doc_id", "shingle_count", "signature"]
    old = sets.join(heads.select("set", "doc_id"), on="set", how="inner").select(*columns)
    own = step.signed.frame.select(*columns).dropDuplicates(["doc_id"])
    return old.unionByName(own.join(step.numbered.fresh.frame.select("doc_id"), on="doc_id", how="left_semi"))


def _collect(step: Step, paired: Table[Paired], heads: DataFrame, known: Table[edges.Sets] | None) -> Table[edges.Sets]:
    """Keep SETS of all documents that are to be compared."""
    ends, _ = edges.find_ends(step.keep, paired.frame.select(*PAIRS.names), paired.counts.rows)
    named = ends.distinct().join(heads.select("set", "doc_id"), on="doc_id", how="inner")
    if known is not None:
        named = named.join(known.frame.select("doc_id"), on="doc_id", how="left_anti")
    several = tasks(2 * SET_BYTES * paired.counts.rows, CELL_BYTES, step.cores)
    new = step.reader.find_sets(
        as_wanted(named.filter(F.col("set") >= step.first), "set"), ["set", "shingles"], step.count, several
    )
    old = step.met.sets.frame.select("set", "shingles")
    found = old.unionByName(new).join(named, on="set", how="inner").select(*SETS.names)
    sets = step.keep("sets", SETS, lambda _: found, measure_sets, summed={"bytes": "octet_length(shingles)"})
    return sets if known is None else edges.add(known, sets)


def _name(found: DataFrame, heads: DataFrame) -> DataFrame:
    """EDGES -> LINKS."""
    for end in PAIRS.names:
        names = heads.select(F.col("doc_id").alias(end), F.col("set").alias(f"{end}_set"))
        found = found.join(names, on=end, how="inner")
    ends = [F.col(f"{end}_set") for end in PAIRS.names]
    return found.select(F.least(*ends).alias("left"), F.greatest(*ends).alias("right"), "jaccard")
