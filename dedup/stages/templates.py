"""SETS of documents in buckets over the cap -> the BUCKETS of them that are compared; see docs/templates.md."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.kernels import Hashes, Integers
from dedup.kernels.hashing import mix
from dedup.kernels.runs.blocks import lists, pack, routes, split, unlists, unpack
from dedup.kernels.runs.bounds import find_bounds, mark_firsts
from dedup.kernels.sets import lsh
from dedup.kernels.sets.templates import (
    ItemPairs,
    Items,
    choose_bits,
    find_able,
    find_centres,
    has_enough,
    least_shared,
    link_centres,
    shorten,
    sum_marks,
)
from dedup.stages.buckets import bucket_prefixes
from dedup.stages.edges import Sets
from dedup.stages.exchange import Batches, Counters, gather
from dedup.stages.table import Keep, Seen, Table, count_rows, read_histogram
from dedup.tables.schemas import BUCKETS, ENDS, PARTS

SENT = T.StructType().add("target", T.IntegerType()).add("block", T.BinaryType())
TOLD = (
    T.StructType()
    .add("target", T.IntegerType())
    .add("block", T.BinaryType())
    .add("rare", T.BinaryType())
    .add("hot", T.BinaryType())
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """Counts of the BUCKETS that take the place of those over the cap."""

    rows: int
    members: int = 0
    sizes: Mapping[int, int] = field(default_factory=dict)
    """How many of the buckets over the cap there still are of every size, with none but undecided documents."""
    undecided: int = 0
    """Documents whose pairs are compared under the cap."""


def select_members(buckets: DataFrame, *, cap: int) -> DataFrame:
    """BUCKETS -> (doc_id) of the members of those over the cap, each once; shuffles ids."""

    def explode(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.record_batch({"doc_id": np.unique(unlists(batch["doc_ids"], "<i8")[0])})

    return buckets.filter(F.col("size") > cap).select("doc_ids").mapInArrow(explode, ENDS).distinct()


def link(
    keep: Keep,
    buckets: DataFrame,
    sets: Table[Sets],
    *,
    cap: int,
    threshold: float,
    exhaust: bool,
    partitions: int,
) -> Table[Linked]:
    """Keep the BUCKETS that take the place of those over the cap.

    Parameters
    ----------
    sets
        Of the members of these.
    """
    [counted] = _measure_sets(sets.frame).collect()
    bits = choose_bits(int(counted["shingles"] or 0))
    parts = keep(
        "parts",
        PARTS,
        lambda _: cut_sets(sets.frame, bits=bits, most=cap, threshold=threshold, partitions=partitions),
        count_rows,
    )

    def build(counters: Counters) -> DataFrame:
        found = link_parts(parts.frame, sets.frame, threshold=threshold, most=cap, exhaust=exhaust)
        spark = buckets.sparkSession
        rare = bucket_prefixes(_select_prefixes(parts.frame), partitions=partitions, counters=Counters(spark))
        counters.add("undecided", found.undecided.size)
        circled = keep_undecided(buckets.filter(F.col("size") > cap), found.undecided, counters=counters)
        return rare.unionByName(spark.createDataFrame(_to_buckets(found), BUCKETS)).unionByName(circled)

    return keep("linked", BUCKETS, build, _measure, summed={"members": "size"})


def _measure(seen: Seen) -> Linked:
    return Linked(
        rows=seen["rows"],
        members=seen["members"],
        sizes=read_histogram(seen, "sizes"),
        undecided=seen.get("undecided", 0),
    )


def _measure_sets(sets: DataFrame) -> DataFrame:
    """Turn SETS into (shingles), how many they hold, those of equal rows once; shuffles ids."""
    each = sets.groupBy("doc_id").agg((F.max(F.octet_length("shingles")) / 8).cast("long").alias("shingles"))
    return each.agg(F.sum("shingles").alias("shingles"))


def cut_sets(sets: DataFrame, *, bits: int, most: int, threshold: float, partitions: int) -> DataFrame:
    """Turn SETS into PARTS; shuffles 16 bytes a shingle, and 40 a document and partition.

    Parameters
    ----------
    bits
        Leading bits of a shingle that tell its slot, in which shingles are counted.
    most
        Shingles of a slot that are rare.
    """
    targets = routes(partitions)
    shift = np.uint64(64 - bits)

    def send(batches: Batches) -> Batches:
        for batch in batches:
            values, offsets = unlists(batch["shingles"], "<u8")
            doc_ids = np.repeat(batch["doc_id"].to_numpy(), np.diff(offsets))
            chosen = targets[((values >> shift) * np.uint64(partitions) >> np.uint64(bits)).astype(np.int64)]
            sent = list(split(chosen, values, doc_ids))
            yield pa.record_batch(
                [pa.array([target for target, _ in sent], pa.int32()), pa.array([b for _, b in sent], pa.binary())],
                names=SENT.names,
            )

    def count(batches: Batches) -> Batches:
        table = gather(batches)
        if table is None:
            return
        numbers, doc_ids = unpack(table["block"], 2)
        values = numbers.view(np.uint64)
        order = np.lexsort((doc_ids, values))
        values, doc_ids = values[order], doc_ids[order]
        # Equal input rows are one document that comes several times.
        first = mark_firsts(values, doc_ids)
        values, doc_ids = values[first], doc_ids[first]
        counts = np.diff(find_bounds(values >> shift))
        yield from _tell(values, doc_ids, np.repeat(counts, counts), targets, most)

    def assemble(batches: Batches) -> Batches:
        table = gather(batches)
        if table is not None:
            yield _assemble(table, threshold)

    counted = sets.mapInArrow(send, SENT).repartition(partitions, "target").mapInArrow(count, TOLD)
    return counted.repartition(partitions, "target").mapInArrow(assemble, PARTS)


def _tell(values: Hashes, doc_ids: Integers, frequencies: Integers, targets: Integers, most: int) -> Batches:
    """Tell documents of their rare shingles, how many are hot or alone, and what marks the hot ones."""
    is_hot, is_rare = frequencies > most, (frequencies > 1) & (frequencies <= most)
    owners, places = np.unique(doc_ids, return_inverse=True)
    hot, alone = (
        np.bincount(places[chosen], minlength=owners.size).astype(np.int64) for chosen in (is_hot, frequencies == 1)
    )
    marks = sum_marks(values[is_hot], places[is_hot], owners.size)
    summed = split(_choose(owners, targets), owners, hot, alone, marks[:, 0].copy(), marks[:, 1].copy())
    rare = split(_choose(doc_ids[is_rare], targets), doc_ids[is_rare], values[is_rare], frequencies[is_rare])
    rows: list[tuple[int, bytes | None, bytes | None, bytes | None]] = [
        *((target, block, None, None) for target, block in summed),
        *((target, None, block, None) for target, block in rare),
        (int(targets[0]), None, None, pack(np.unique(values[is_hot]))),
    ]
    kinds = (pa.int32(), pa.binary(), pa.binary(), pa.binary())
    columns = zip(*rows, strict=True)
    yield pa.record_batch(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=TOLD.names
    )


def _choose(doc_ids: Integers, targets: Integers) -> Integers:
    high = mix(doc_ids.view(np.uint64)) >> np.uint64(32)
    chosen: Integers = targets[(high * np.uint64(targets.size) >> np.uint64(32)).astype(np.int64)]
    return chosen


def _assemble(table: pa.Table, threshold: float) -> pa.RecordBatch:
    """Put together what was told of documents, and behind them the hot shingles."""
    told = unpack(table["block"], 5)
    owners, places = np.unique(told[0], return_inverse=True)
    hot, alone = np.zeros((2, owners.size), dtype=np.int64)
    marks = np.zeros((2, owners.size), dtype=np.uint64)
    for into, added in zip((hot, alone, *marks), told[1:], strict=True):
        np.add.at(into, places, added.view(into.dtype))
    doc_ids, values, frequencies = unpack(table["rare"], 3)
    holders = np.searchsorted(owners, doc_ids)
    sizes = hot + alone + np.bincount(holders, minlength=owners.size)
    lengths = sizes - least_shared(sizes, threshold) + 1 - alone
    kept, holders = shorten(values.view(np.uint64), holders, frequencies.view(np.uint64), lengths)
    offsets = np.searchsorted(holders, np.arange(owners.size + 1))
    [shingles] = unpack(table["hot"], 1)
    return pa.record_batch(
        [
            pa.array([*owners.tolist(), None], pa.int64()),
            pa.array(np.append(sizes, 0), pa.int64()),
            pa.array(np.append(hot, 0), pa.int64()),
            pa.array(np.append(has_enough(hot, sizes, threshold), False)),
            *(pa.array(np.append(mark, np.uint64(0)).view(np.int64)) for mark in marks),
            lists(np.concatenate((kept, shingles.view(np.uint64))), np.append(offsets, kept.size + shingles.size)),
        ],
        names=PARTS.names,
    )


def _select_prefixes(parts: DataFrame) -> DataFrame:
    """PARTS -> (doc_id, shingle) of rare shingles."""

    def explode(batches: Batches) -> Batches:
        for batch in batches:
            values, offsets = unlists(batch["shingles"], "<i8")
            yield pa.record_batch(
                {"doc_id": np.repeat(batch["doc_id"].to_numpy(), np.diff(offsets)), "shingle": values}
            )

    kinds = T.StructType().add("doc_id", T.LongType()).add("shingle", T.LongType())
    return parts.filter(F.col("doc_id").isNotNull()).select("doc_id", "shingles").mapInArrow(explode, kinds)


def link_parts(parts: DataFrame, sets: DataFrame, *, threshold: float, most: int, exhaust: bool) -> ItemPairs:
    """Return the pairs of documents that need their hot parts to meet, and the undecided documents.

    Takes 50 bytes of the driver's memory for each document that holds little but hot shingles, and the sets of those
    that stand for all of one hot part.
    """
    columns = ("doc_id", "total", "hot", "mark_high", "mark_low")
    told = parts.filter("is_able").select(*columns).toArrow().sort_by("doc_id")
    doc_ids, totals, hot, high, low = (told[name].to_numpy() for name in columns)
    able = find_able(hot, totals, threshold)
    found = find_centres(able, hot, np.stack((high, low), axis=1).view(np.uint64)[able], totals, threshold)

    def select() -> Items:
        wanted = doc_ids[found.centres]
        ids = sets.sparkSession.createDataFrame(pa.table({"doc_id": wanted}))
        rows = sets.join(F.broadcast(ids), on="doc_id", how="left_semi").dropDuplicates(["doc_id"])
        taken = rows.toArrow().sort_by("doc_id").combine_chunks()
        values, offsets = _join(taken["shingles"])
        cells = parts.filter(F.col("doc_id").isNull()).select("shingles").toArrow()["shingles"]
        is_hot = np.isin(values, np.concatenate([unlists(chunk, "<u8")[0] for chunk in cells.chunks]))
        return Items(values[is_hot], np.concatenate(([0], np.cumsum(is_hot)))[offsets], totals[found.centres])

    linked = link_centres(select, found, threshold, most, exhaust=exhaust)
    return ItemPairs(doc_ids[linked.left], doc_ids[linked.right], doc_ids[linked.undecided])


def _join(cells: pa.ChunkedArray) -> tuple[Hashes, Integers]:
    """Return the sets of all chunks end to end, and their offsets."""
    found = [unlists(chunk, "<u8") for chunk in cells.chunks]
    sizes = np.concatenate([np.diff(offsets) for _, offsets in found])
    return np.concatenate([values for values, _ in found]), np.concatenate(([0], np.cumsum(sizes)))


def _to_buckets(found: ItemPairs) -> pa.Table:
    """Return pairs as BUCKETS of two."""
    ends = np.stack((found.left, found.right), axis=1).reshape(-1)
    count = found.left.size
    return pa.table(
        {
            "key": np.arange(count),
            "size": np.full(count, 2, dtype=np.int32),
            "doc_ids": lists(ends, np.arange(count + 1) * 2),
        }
    )


def keep_undecided(buckets: DataFrame, undecided: Integers, *, counters: Counters) -> DataFrame:
    """BUCKETS -> those of two and more undecided documents, which are ascending; `counters` takes `sizes`."""

    def shrink(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            members, offsets = unlists(batch["doc_ids"], "<i8")
            keys = batch["key"].to_numpy().view(np.uint64)
            keys, members, offsets = lsh.keep_members(keys, members, offsets, np.isin(members, undecided))
            sizes = np.diff(offsets)
            counters.add_each("sizes", sizes)
            yield pa.record_batch(
                {"key": keys.view(np.int64), "size": sizes.astype(np.int32), "doc_ids": lists(members, offsets)}
            )

    return buckets.mapInArrow(shrink, BUCKETS)


def count_pairs(sizes: Mapping[int, int], cap: int | None) -> tuple[int, int]:
    """Return how many pairs buckets of these sizes give, and how many the cap leaves out."""
    listed, frequencies = np.array([*sizes.items()], dtype=np.int64).reshape(-1, 2).T
    compared, uncompared = (int(pairs @ frequencies) for pairs in lsh.pair_counts(listed, cap))
    return compared, uncompared
