"""Documents that have come, beside what the store has of them: who was there already, and the numbers of their sets."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engines.values import Search
from dedup.kernels.runs import blocks
from dedup.stages.exchange import Batches
from dedup.stages.placement import BAND_BYTES, CELL_BYTES, place_bands, tasks
from dedup.stages.table import Keep, Table, count_rows
from dedup.store.content import name_content, sum_content
from dedup.store.growth import sign
from dedup.store.joins.reading import WANTED, Reader, as_wanted
from dedup.store.schemas import NO_SET
from dedup.tables.counts import Signed
from dedup.tables.schemas import PLACE

SET_BYTES = 1600
"""Of a shingle set, about."""
KNOWN = T.StructType().add("doc_id", T.LongType()).add("set", T.LongType())
"""Documents of the batch that the store has."""
MET = T.StructType().add("key", T.LongType()).add("set", T.LongType())
"""Band rows of the store that share a key with the batch."""
SIGNED = (
    T.StructType()
    .add("set", T.LongType())
    .add("digest_high", T.LongType())
    .add("digest_low", T.LongType())
    .add("shingle_count", T.IntegerType())
    .add("band_keys", T.BinaryType())
    .add("signature", T.BinaryType())
    .add("shingles", T.BinaryType())
)
"""Sets of the store, signed again."""
CAME = (
    T.StructType()
    .add("digest_high", T.LongType())
    .add("digest_low", T.LongType())
    .add("doc_id", T.LongType())  # the least of the set
    .add("split", T.IntegerType())  # where it is read first
    .add("file", T.IntegerType())
    .add("row", T.LongType())
    .add("text_bytes", T.LongType())
    .add("set", T.LongType())  # null where the store has it not
)
"""Distinct shingle sets of the batch."""
DIGESTS = ["digest_high", "digest_low"]
TOLD = T.StructType().add("high", T.StringType()).add("low", T.StringType())


class Met(NamedTuple):
    """What the batch finds in the store."""

    known: Table[int]
    """KNOWN."""
    rows: Table[int]
    """MET."""
    sets: Table[int]
    """SIGNED, of these rows."""


class Numbered(NamedTuple):
    """The shingle sets of the batch."""

    fresh: Table[int]
    """CAME, of sets that the store has not, with their numbers."""
    twins: DataFrame
    """CAME, of sets that it has."""


def digest_content(signatures: DataFrame) -> str:
    """Return the digest of ids and shingle sets, whatever their order; see `content.sum_content`."""

    def add(batches: Batches) -> Batches:
        high = low = 0
        for batch in batches:
            one, other = sum_content(*(batch[name].to_numpy() for name in ("doc_id", *DIGESTS)))
            high, low = high + one, low + other
        yield pa.record_batch({"high": [str(high)], "low": [str(low)]})

    told = signatures.select("doc_id", *DIGESTS).mapInArrow(add, TOLD).toArrow()
    high, low = (sum(map(int, told[name].to_pylist())) for name in TOLD.names)
    return name_content(high, low)


def meet(keep: Keep, reader: Reader, signed: Table[Signed], search: Search, *, seed: int, sets: int, cores: int) -> Met:
    """Keep what the batch finds in the store; scans `documents`, and reads the groups of `bands` and `sets` it needs.

    Parameters
    ----------
    sets
        Number that the next set gets.
    """
    ids = signed.frame.select("doc_id")
    documents = reader.scan("documents", KNOWN.names)
    known = partial(keep, "known", KNOWN, lambda _: documents.join(ids, on="doc_id", how="left_semi"), count_rows)
    count = reader.count("bands")
    several = max(place_bands(signed.counts.rows, search.bands, cores), tasks(16 * count, 8 * BAND_BYTES, cores))
    keys = signed.frame.filter(F.col("shingle_count") > 0).select("band_keys").mapInArrow(_list_keys, WANTED)
    with ThreadPoolExecutor() as beside:
        knowing = beside.submit(known)
        rows = keep("met", MET, lambda _: reader.find_bands(keys, several), count_rows)
        found = sign_sets(keep, "met_sets", reader, rows, search, seed=seed, sets=sets, cores=cores)
        return Met(knowing.result(), rows, found)


def sign_sets(
    keep: Keep, name: str, reader: Reader, rows: Table[int], search: Search, *, seed: int, sets: int, cores: int
) -> Table[int]:
    """Keep, under a name, SIGNED of the sets of MET."""

    def resign(batches: Batches) -> Batches:
        for batch in batches:
            values, offsets = blocks.unlists(batch["shingles"], "<u8")
            low, keys = sign(values, offsets, search, seed)
            columns = {each: batch[each] for each in ("set", *DIGESTS)}
            yield pa.record_batch(
                {
                    **columns,
                    "shingle_count": np.diff(offsets).astype(np.int32),
                    "band_keys": blocks.rows(keys.view(np.uint8)),
                    "signature": blocks.rows(low),
                    "shingles": batch["shingles"],
                }
            )

    several = tasks(SET_BYTES * rows.counts, CELL_BYTES, cores)
    found = reader.find_sets(as_wanted(rows.frame, "set"), ["set", *DIGESTS, "shingles"], sets, several)
    return keep(name, SIGNED, lambda _: found.mapInArrow(resign, SIGNED), count_rows)


def _list_keys(batches: Batches) -> Batches:
    """Turn band keys into WANTED."""
    for batch in batches:
        yield pa.record_batch({"wanted": blocks.unlists(batch["band_keys"], "<i8")[0]})


def number(keep: Keep, signed: Table[Signed], met: Met, *, sets: int) -> Numbered:
    """Give each shingle set its number, that of the store or the next free one in the order of reading.

    Takes 16 bytes of the driver's memory a split.
    """
    full = signed.frame.filter(F.col("shingle_count") > 0)
    first = F.min(F.struct(*PLACE, "text_bytes")).alias("place")
    own = full.groupBy(*DIGESTS).agg(F.min("doc_id").alias("doc_id"), first)
    theirs = met.sets.frame.select("set", *DIGESTS)
    joined = own.select(*DIGESTS, "doc_id", "place.*").join(theirs, on=DIGESTS, how="left").select(*CAME.names)
    came = keep("came", CAME, lambda _: joined, count_rows)
    unknown = came.frame.filter(F.col("set").isNull())
    fresh = keep("fresh", CAME, lambda _: _count_up(unknown, sets), count_rows)
    return Numbered(fresh, came.frame.filter(F.col("set").isNotNull()))


def list_documents(
    keep: Keep, reader: Reader, signed: Table[Signed], met: Met, numbered: Numbered, *, batch: str
) -> Table[int]:
    """Keep the rows of `documents` that have come."""
    numbers = numbered.twins.unionByName(numbered.fresh.frame).select(*DIGESTS, "set")
    unseen = signed.frame.join(met.known.frame.select("doc_id"), on="doc_id", how="left_anti")
    schema = from_arrow_schema(reader.layouts["documents"].schema)
    columns: dict[str, Column] = {
        "set": F.when(F.col("shingle_count") > 0, F.col("set")).otherwise(F.lit(NO_SET)),
        "batch": F.lit(batch),
        "order_keys": F.coalesce("order_keys", F.array().cast("array<double>")),
    }
    rows = unseen.dropDuplicates(["doc_id"]).join(numbers, on=DIGESTS, how="left").withColumns(columns)
    return keep("arrived", schema, lambda _: rows.select(*schema.names), count_rows)


def _count_up(unknown: DataFrame, first: int) -> DataFrame:
    """Give sets numbers in the order of reading."""
    counted = unknown.groupBy("split").count().toArrow().sort_by("split")
    counts = counted["count"].to_numpy()
    begins = pa.table({"split": counted["split"], "begin": first + np.cumsum(counts) - counts})
    offsets = unknown.sparkSession.createDataFrame(begins)
    order = Window.partitionBy("split").orderBy("file", "row")
    placed = unknown.join(F.broadcast(offsets), on="split", how="inner")
    return placed.withColumn("set", F.col("begin") + F.row_number().over(order) - 1).select(*CAME.names)
