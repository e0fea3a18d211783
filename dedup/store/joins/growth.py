"""The edges that a batch brings, by the stages of a single run: `dedup.store.growth` as tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engines.values import Search
from dedup.kernels import Integers, blocks, lsh
from dedup.kernels.filters import PAIRS_AT_A_TIME
from dedup.stages import buckets, candidates, edges, templates, uncompared
from dedup.stages.exchange import Batches
from dedup.stages.placement import BROADCAST_ROWS, CELL_BYTES, place_bands, place_prefixes, tasks
from dedup.stages.table import Keep, Table, count_rows
from dedup.store.arrays import distinct, is_in
from dedup.store.joins.arriving import MET, SET_BYTES, Arrived, Met, sign_sets
from dedup.store.joins.reading import Reader, as_wanted, to_wanted
from dedup.store.state import State
from dedup.tables.counts import Bucketed, Paired, Signed, Verified
from dedup.tables.schemas import BUCKETS, PAIRS, SETS

HEADS = T.StructType().add("set", T.LongType()).add("doc_id", T.LongType()).add("before", T.LongType())
"""The least document of sets, and the one before the batch."""
LINKS = T.StructType().add("left", T.LongType()).add("right", T.LongType()).add("jaccard", T.DoubleType())
"""Edges of sets, left < right."""
KEYS = ("left_keys", "right_keys")


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
    """PAIRS left uncompared, drawn to be compared all the same."""
    sets: Table[edges.Sets]
    """SETS of all that were compared."""
    bucketed: Bucketed
    paired: Paired
    verified: Verified


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """What comes to a store, and how it is searched."""

    keep: Keep
    reader: Reader
    """With the sets that have come."""
    state: State
    """Before the step."""
    signed: Table[Signed]
    met: Met
    arrived: Arrived
    search: Search
    seed: int
    cores: int

    @property
    def first(self) -> int:
        """Number of the first set that has come."""
        return self.state.sets

    @property
    def count(self) -> int:
        """Number that the next set gets."""
        return self.state.sets + self.arrived.fresh.counts


def settle(step: Step, before: Integers) -> Joined:
    """Return the edges that a batch brings.

    Parameters
    ----------
    before
        Keys of the buckets over the cap, ascending; they are on the driver, 8 bytes each, of at most the band rows of
        the store by the cap.
    """
    keep, search = step.keep, step.search
    own = _list_own(step)
    keys = own.select("key").distinct()
    rows = step.met.rows.frame.join(keys, on="key", how="left_semi").unionByName(own)
    bands = place_bands(step.arrived.fresh.counts, 2 * search.bands, step.cores)
    bucketed = _bucket(keep, rows.withColumnRenamed("set", "doc_id"), bands)
    large = bucketed.frame.filter(F.col("size") > search.cap).select("key").toArrow()["key"].to_numpy()
    hot = distinct(before, large)
    crowd = _find_crowd(step, hot, own) if hot.size else None
    heads = _find_heads(step, crowd)
    small = _pair_fresh(bucketed.frame.filter(F.col("size") <= search.cap), heads, step.first)
    payload = _list_payload(step, step.met.sets.frame, heads)
    linked, of_templates, crowded = None, None, None
    if crowd is not None and (large.size > 0 or _moves(crowd, heads)):
        crowded = sign_sets(
            keep,
            "crowd_sets",
            step.reader,
            crowd,
            search,
            seed=step.seed,
            sets=step.count,
            cores=step.cores,
        )
        further = crowded.frame.join(step.met.sets.frame.select("set"), on="set", how="left_anti")
        payload = payload.unionByName(_list_payload(step, further, heads)).dropDuplicates(["doc_id"])
        linked, of_templates = _link(step, crowd, crowded.frame, heads)
    pairs = Table(frame=small, counts=bucketed.counts)
    documents = step.met.sets.counts + step.arrived.fresh.counts + (crowd.counts if crowd else 0)
    paired = candidates.pair(
        keep,
        pairs,
        linked,
        payload,
        documents=documents,
        threshold=search.threshold,
        signature_size=search.bands * search.rows,
        estimate_sigmas=search.estimate_sigmas,
        cap=search.cap,
    )
    drawn = None
    if linked is not None and paired.counts.pairs_uncompared:
        drawn = uncompared.draw(
            keep,
            linked,
            paired.counts,
            payload,
            components=None,
            documents=documents,
            threshold=search.threshold,
            signature_size=search.bands * search.rows,
            estimate_sigmas=search.estimate_sigmas,
            cap=search.cap,
        )
    sets = _collect(step, paired, heads, of_templates)
    verified = edges.verify_candidates(keep, paired, sets, threshold=search.threshold, cores=step.cores)
    found = _name(edges.select_edges(verified.frame, threshold=search.threshold), heads)
    withdrawn = pa.table({name: pa.array([], kind) for name, kind in _ARROW_LINKS.items()})
    if crowded is not None:
        known = step.reader.scan("edges", LINKS.names)
        withdrawn = _find_withdrawn(known, found, crowded.frame, hot)
        found = found.join(known.select("left", "right"), on=["left", "right"], how="left_anti")
    near_misses = None
    if verified.counts.compared - verified.counts.rows <= BROADCAST_ROWS:
        near_misses = edges.collect_near_misses(verified.frame, threshold=search.threshold)
    return Joined(
        found=keep("found", LINKS, lambda _: found, count_rows),
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


_ARROW_LINKS: Mapping[str, pa.DataType] = {"left": pa.int64(), "right": pa.int64(), "jaccard": pa.float64()}


def list_own_rows(fresh: DataFrame, signed: DataFrame) -> DataFrame:
    """Return the band rows of sets that have come: MET; shuffles them."""

    def explode(batches: Batches) -> Batches:
        for batch in batches:
            keys, offsets = blocks.unlists(batch["band_keys"], "<i8")
            yield pa.record_batch({"key": keys, "set": np.repeat(batch["set"].to_numpy(), np.diff(offsets))})

    keyed = signed.select("doc_id", "band_keys").dropDuplicates(["doc_id"])
    return keyed.join(fresh.select("doc_id", "set"), on="doc_id", how="inner").mapInArrow(explode, MET)


def _list_own(step: Step) -> DataFrame:
    return list_own_rows(step.arrived.fresh.frame, step.signed.frame)


def name_under(keep: Keep, prefix: str) -> Keep:
    """Return a writer of tables under other names."""

    def named(name: str, *args: object, **kwargs: object) -> object:
        return keep(f"{prefix}_{name}", *args, **kwargs)  # type: ignore[arg-type]

    return named  # type: ignore[return-value]


def _bucket(keep: Keep, rows: DataFrame, partitions: int) -> Table[Bucketed]:
    """Keep BUCKETS of rows (key, doc_id)."""
    keyed = rows.select("doc_id", F.col("key").alias("shingle"))
    return buckets.bucket(keep, partial(buckets.bucket_prefixes, keyed), partitions)


def _find_crowd(step: Step, hot: Integers, own: DataFrame) -> Table[int]:
    """Keep the band rows of buckets over the cap, after the step."""
    keys = to_wanted(step.reader.spark, hot)
    there = step.reader.find_bands(keys, tasks(16 * step.search.cap * hot.size, CELL_BYTES, step.cores))
    listed = F.broadcast(keys.withColumnRenamed("wanted", "key"))
    came = own.join(listed, on="key", how="left_semi")
    return step.keep("crowd", MET, lambda _: there.unionByName(came), count_rows)


def _find_heads(step: Step, crowd: Table[int] | None) -> DataFrame:
    """Keep HEADS of all sets that can be in a pair; scans `documents`."""
    met = step.met.rows.frame.select("set")
    if crowd is not None:
        met = met.unionByName(crowd.frame.filter(F.col("set") < step.first).select("set"))
    there = step.reader.scan("documents", ["doc_id", "set"])
    old = there.join(met.distinct(), on="set", how="left_semi").withColumn("before", F.col("doc_id"))
    came = step.arrived.twins.unionByName(step.arrived.fresh.frame)
    new = came.select("doc_id", "set", F.lit(None).cast("long").alias("before"))
    least = old.unionByName(new).groupBy("set").agg(F.min("doc_id").alias("doc_id"), F.min("before").alias("before"))
    return step.keep("heads", HEADS, lambda _: least.select(*HEADS.names), count_rows).frame


def _moves(crowd: Table[int], heads: DataFrame) -> bool:
    """Tell whether the least document of a set of the crowd is another now."""
    moved = heads.filter(F.col("doc_id") != F.col("before")).select("set")
    return not crowd.frame.join(moved, on="set", how="left_semi").isEmpty()


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
    return old.unionByName(own.join(step.arrived.fresh.frame.select("doc_id"), on="doc_id", how="left_semi"))


def _link(
    step: Step, crowd: Table[int], sets: DataFrame, heads: DataFrame
) -> tuple[Table[templates.Linked], Table[edges.Sets]]:
    """Keep what takes the place of buckets over the cap, and SETS of their members."""
    keep = name_under(step.keep, "crowd")
    named = heads.select("set", "doc_id")
    members = crowd.frame.join(named, on="set", how="inner").select("key", "doc_id")
    large = _bucket(keep, members, place_prefixes(crowd.counts, step.cores))
    found = sets.join(named, on="set", how="inner").select(*SETS.names)
    sized = keep("members", SETS, lambda _: found, _measure_sets, summed={"bytes": "octet_length(shingles)"})
    linked = templates.link(
        keep,
        large.frame,
        sized,
        cap=step.search.cap,
        threshold=step.search.threshold,
        exhaust=False,
        partitions=place_prefixes(sized.counts.bytes / 8, step.cores),
    )
    return linked, sized


def _measure_sets(seen: Mapping[str, int]) -> edges.Sets:
    return edges.Sets(rows=seen["rows"], bytes=seen["bytes"])


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
    sets = step.keep("sets", SETS, lambda _: found, _measure_sets, summed={"bytes": "octet_length(shingles)"})
    return sets if known is None else edges.add(known, sets)


def _name(found: DataFrame, heads: DataFrame) -> DataFrame:
    """EDGES -> LINKS."""
    for end in PAIRS.names:
        names = heads.select(F.col("doc_id").alias(end), F.col("set").alias(f"{end}_set"))
        found = found.join(names, on=end, how="inner")
    ends = [F.col(f"{end}_set") for end in PAIRS.names]
    return found.select(F.least(*ends).alias("left"), F.greatest(*ends).alias("right"), "jaccard")


def _find_withdrawn(known: DataFrame, found: DataFrame, crowd: DataFrame, hot: Integers) -> pa.Table:
    """Return the edges within buckets over the cap that one search would not find any more, to the driver.

    Parameters
    ----------
    crowd
        SIGNED of all in such buckets.
    """

    def select(batches: Batches) -> Batches:
        for batch in batches:
            left, right = (blocks.unlists(batch[name], "<i8")[0].reshape(batch.num_rows, -1) for name in KEYS)
            shares = ((left == right) & ~is_in(left, hot)).any(axis=1)
            yield batch.filter(pa.array(~shares)).select(LINKS.names)

    within = known
    for end in ("left", "right"):
        keyed = crowd.select(F.col("set").alias(end), F.col("band_keys").alias(f"{end}_keys"))
        within = within.join(keyed, on=end, how="inner")
    within = within.join(found.select("left", "right"), on=["left", "right"], how="left_anti")
    return within.select(*LINKS.names, *KEYS).mapInArrow(select, LINKS).toArrow()
