"""What comes to a store, and what all parts of the search for its edges have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engines.values import Search
from dedup.kernels.runs import blocks
from dedup.stages import buckets
from dedup.stages.edges import Sets
from dedup.stages.exchange import Batches
from dedup.stages.table import Keep, Table, count_rows
from dedup.store.joins.arriving import MET, Met, Numbered
from dedup.store.joins.reading import Reader
from dedup.store.state import State
from dedup.tables.counts import Bucketed, Signed

HEADS = T.StructType().add("set", T.LongType()).add("doc_id", T.LongType()).add("before", T.LongType())
"""The least document of sets, and the one before the batch."""
LINKS = T.StructType().add("left", T.LongType()).add("right", T.LongType()).add("jaccard", T.DoubleType())
"""Edges of sets, left < right."""


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
    numbered: Numbered
    documents: Table[int]
    """Rows of `documents` that have come."""
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
        return self.state.sets + self.numbered.fresh.counts


def name_under(keep: Keep, prefix: str) -> Keep:
    """Return a writer of tables under other names."""

    def named(name: str, *args: object, **kwargs: object) -> object:
        return keep(f"{prefix}_{name}", *args, **kwargs)  # type: ignore[arg-type]

    return named  # type: ignore[return-value]


def bucket(keep: Keep, rows: DataFrame, partitions: int) -> Table[Bucketed]:
    """Keep BUCKETS of rows (key, doc_id)."""
    keyed = rows.select("doc_id", F.col("key").alias("shingle"))
    return buckets.bucket(keep, partial(buckets.bucket_prefixes, keyed), partitions)


def find_heads(step: Step, name: str, wanted: DataFrame) -> DataFrame:
    """Keep, under a name, HEADS of these sets of the store and of all that have come; scans `documents`."""
    there = step.reader.scan("documents", ["doc_id", "set"])
    old = there.join(wanted.distinct(), on="set", how="left_semi").withColumn("before", F.col("doc_id"))
    came = step.numbered.twins.unionByName(step.numbered.fresh.frame)
    new = came.select("doc_id", "set", F.lit(None).cast("long").alias("before"))
    least = old.unionByName(new).groupBy("set").agg(F.min("doc_id").alias("doc_id"), F.min("before").alias("before"))
    return step.keep(name, HEADS, lambda _: least.select(*HEADS.names), count_rows).frame


def list_own(step: Step) -> DataFrame:
    """Return the band rows of the sets that have come: MET; shuffles them."""

    def explode(batches: Batches) -> Batches:
        for batch in batches:
            keys, offsets = blocks.unlists(batch["band_keys"], "<i8")
            yield pa.record_batch({"key": keys, "set": np.repeat(batch["set"].to_numpy(), np.diff(offsets))})

    keyed = step.signed.frame.select("doc_id", "band_keys").dropDuplicates(["doc_id"])
    fresh = step.numbered.fresh.frame.select("doc_id", "set")
    return keyed.join(fresh, on="doc_id", how="inner").mapInArrow(explode, MET)


def measure_sets(seen: Mapping[str, int]) -> Sets:
    """Return the counts of SETS."""
    return Sets(rows=seen["rows"], bytes=seen["bytes"])
