"""Buckets over the cap, of which all members are linked anew once one of them has changed; see docs/templates.md."""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.kernels import Integers
from dedup.kernels.runs import blocks
from dedup.stages import edges, templates
from dedup.stages.exchange import Batches
from dedup.stages.placement import CELL_BYTES, place_prefixes, tasks
from dedup.stages.table import Table, count_rows
from dedup.store.arrays import is_in
from dedup.store.joins.arriving import MET, sign_sets
from dedup.store.joins.reading import to_wanted
from dedup.store.joins.step import LINKS, Step, bucket, find_heads, list_own, measure_sets, name_under
from dedup.tables.schemas import SETS

KEYS = ("left_keys", "right_keys")


class Crowd(NamedTuple):
    """The members of buckets over the cap."""

    hot: Integers
    """Keys of these buckets, ascending."""
    rows: Table[int]
    """MET."""
    heads: DataFrame
    """HEADS of their sets, and of all that the batch can be paired with."""


class Linked(NamedTuple):
    """What takes the place of buckets over the cap."""

    signed: DataFrame
    """SIGNED of their members."""
    buckets: Table[templates.Linked]
    sets: Table[edges.Sets]
    """SETS of their members."""


def find_crowd(step: Step, hot: Integers) -> Crowd | None:
    """Keep the members of the buckets of these keys after the step; None without any."""
    if not hot.size:
        return None
    keys = to_wanted(step.reader.spark, hot)
    there = step.reader.find_bands(keys, tasks(16 * step.search.cap * hot.size, CELL_BYTES, step.cores))
    came = list_own(step).join(F.broadcast(keys.withColumnRenamed("wanted", "key")), on="key", how="left_semi")
    rows = step.keep("crowd", MET, lambda _: there.unionByName(came), count_rows)
    old = rows.frame.filter(F.col("set") < step.first).select("set")
    return Crowd(hot, rows, find_heads(step, "crowd_heads", old.unionByName(step.met.rows.frame.select("set"))))


def link_anew(step: Step, crowd: Crowd) -> Linked:
    """Keep what takes the place of the buckets, and the sets of their members."""
    signed = sign_sets(
        step.keep,
        "crowd_sets",
        step.reader,
        crowd.rows,
        step.search,
        seed=step.seed,
        sets=step.count,
        cores=step.cores,
    ).frame
    keep, named = name_under(step.keep, "crowd"), crowd.heads.select("set", "doc_id")
    members = crowd.rows.frame.join(named, on="set", how="inner").select("key", "doc_id")
    large = bucket(keep, members, place_prefixes(crowd.rows.counts, step.cores))
    found = signed.join(named, on="set", how="inner").select(*SETS.names)
    sets = keep("members", SETS, lambda _: found, measure_sets, summed={"bytes": "octet_length(shingles)"})
    linked = templates.link(
        keep,
        large.frame,
        sets,
        cap=step.search.cap,
        threshold=step.search.threshold,
        exhaust=False,
        partitions=place_prefixes(sets.counts.bytes / 8, step.cores),
    )
    return Linked(signed, linked, sets)


def moves(crowd: Crowd) -> bool:
    """Tell whether the least document of a set of the crowd is another now."""
    moved = crowd.heads.filter(F.col("doc_id") != F.col("before")).select("set")
    return not crowd.rows.frame.join(moved, on="set", how="left_semi").isEmpty()


def find_withdrawn(known: DataFrame, found: DataFrame, crowd: DataFrame, hot: Integers) -> pa.Table:
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
