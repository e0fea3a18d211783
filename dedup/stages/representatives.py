"""COMPONENTS, IDENTICAL, SIGNATURES, EDGES -> MEMBERS -> DUPLICATES."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.kernels.components import take_component
from dedup.kernels.election import (
    Kept,
    Known,
    Members,
    Policy,
    choose,
    count_parted,
    name_decided,
    number_sources,
    rank_members,
)
from dedup.kernels.removal_statistics import (
    REMOVERS,
    TOLD,
    complete_joined,
    count_joined,
    list_own,
    list_reached,
    merge_removals,
    tell_removals,
)
from dedup.kernels.representatives import LARGEST, look_up, tell_largest
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.source_limits import charge
from dedup.stages.edges import Sets, compare
from dedup.stages.exchange import Batches, Counters, gather
from dedup.stages.placement import fits_broadcast, place_members
from dedup.stages.table import Keep, Seen, Table, count_rows, read_histogram
from dedup.tables.counts import Connected, Elected, Signed
from dedup.tables.schemas import COMPONENTS, EDGES, PAIRS, SPARED
from dedup.tables.schemas import members as members_schema

PAIR = ["left_id", "right_id"]
JOINED = "joined_"
"""Prefix of what is counted of the thresholds of `list_own`."""
CARRIED = ("id", "source", "shingle_count", "text_bytes", "order_keys")
"""Of SIGNATURES, what the choice looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How the documents kept are chosen."""

    rules: Sequence[tuple[str, str]]
    """Of `keep.order`, before and after the colon."""
    policy: Policy
    per_source: int
    """Of `limits.per_source`; 0 sets no limit."""


def elect_representatives(
    keep: Keep,
    connected: Table[Connected],
    *,
    identical: DataFrame,
    signed: Table[Signed],
    edges: DataFrame,
    edge_count: int,
    near_misses: pa.Table | None,
    sets: Table[Sets],
    choice: Choice,
    has_sources: bool,
    cores: int,
) -> Table[Elected]:
    """Keep MEMBERS, with the exact similarity of each to the one kept.

    Parameters
    ----------
    near_misses
        NEAR_MISSES, by which is counted what lower thresholds join; None where they are too many for the driver.
    has_sources
        Whether documents have sources, whose removals are counted by those of the ones kept.
    """
    count = connected.counts.rows

    def elect(known: DataFrame, pairs: int, number: str = "") -> tuple[Table[Elected], DataFrame]:
        placed = place(
            connected.frame,
            identical,
            signed.frame,
            known,
            partitions=place_members(count, pairs, cores),
            broadcast=fits_broadcast(count),
        )
        elected = keep(
            f"members{number}",
            members_schema(signed.frame.schema["id"].dataType),
            lambda counters: join_members(placed, choice=choice, counters=counters),
            partial(measure_members, rules=choice.rules),
            summed={"near": "int(kind = 'near')", "distant": "int(jaccard IS NULL)"},
        )
        return elected, placed

    elected, placed = elect(edges, edge_count)
    for number in itertools.count(1):
        if not elected.counts.unsettled:
            break
        asked = keep(f"asked{number}", PAIRS, partial(_ignore, list_unsettled(placed, choice=choice)), count_rows)
        answered = compare(keep, f"answered{number}", asked.frame, asked.counts, sets, threshold=0.0, cores=cores)
        edges, edge_count = edges.unionByName(answered.frame), edge_count + answered.counts
        elected, placed = elect(edges, edge_count, str(number))
    frame, counts = elected.frame, elected.counts
    if counts.distant:
        pairs = find_distant(frame)
        distant = compare(keep, "distant", pairs, counts.distant, sets, threshold=0.0, cores=cores)
        frame = measure(frame, distant.frame)
    if choice.per_source:
        found = find_spared(frame, per_source=choice.per_source)
        spared = keep(
            "spared",
            SPARED,
            lambda _: found,
            lambda seen: (seen["rows"], seen["near"]),
            summed={"near": "int(kind = 'near')"},
        )
        frame = spare(frame, spared.frame)
        rows, near = spared.counts
        counts = replace(counts, near=counts.near - near, spared=rows)
    threshold = choice.policy.threshold
    further = None if near_misses is None else count_further(near_misses, connected, threshold)
    joined = complete_joined([each or 0 for each in counts.joined], further, threshold)
    removers = list_removers(frame) if has_sources else []
    told = measure_removals(frame, threshold)
    return Table(frame=frame, counts=replace(counts, joined=joined, removers=removers, **told))


def measure_members(seen: Seen, rules: Sequence[tuple[str, str]]) -> Elected:
    """Return the counts of MEMBERS."""
    largest = sorted(map(json.loads, seen.get("largest", ())), key=lambda one: (-one["documents"], one["doc_id"]))
    decided = read_histogram(seen, "decided")
    numbers = range(len([name for name in seen if name.startswith(JOINED)]))
    return Elected(
        rows=seen["rows"],
        near=seen["near"],
        joined=[seen[f"{JOINED}{number}"] for number in numbers],
        parted=seen.get("parted", 0),
        distant=seen["distant"],
        copied=seen.get("copied", 0),
        relinked=seen.get("relinked", 0),
        unsettled=seen.get("unsettled", 0),
        rules=name_decided(np.array([decided.get(number, 0) for number in range(len(rules) + 1)]), rules),
        sizes=read_histogram(seen, "sizes"),
        largest=largest[:LARGEST],
    )


def measure_removals(members: DataFrame, threshold: float) -> dict[str, Any]:
    """Return what `tell_removals` tells of MEMBERS, but how many of them are near; no shuffle."""

    def tell(batches: Batches) -> Batches:
        if (removed := gather(batches)) is not None:
            yield pa.record_batch({"told": [json.dumps(tell_removals(removed, threshold))]})

    removed = members.filter(F.col("kind") != "kept").select(*TOLD)
    told = removed.mapInArrow(tell, "told STRING").toArrow()
    return merge_removals(map(json.loads, told["told"].to_pylist()))


def list_removers(members: DataFrame) -> list[dict[str, Any]]:
    """Count the removals of each source by that of the one kept, of the REMOVERS pairs with most; shuffles sums."""
    pair = F.col("source"), F.col("representative_source").alias("by")
    sums = members.filter(F.col("kind") != "kept").groupBy(*pair).agg(F.count(F.lit(1)).alias("documents"))
    most = sums.orderBy(F.desc("documents"), "source", "by").limit(REMOVERS)
    return [row.asDict() for row in most.collect()]


def count_further(near_misses: pa.Table, connected: Table[Connected], threshold: float) -> list[int]:
    """Return how many components and documents near misses join at each of `list_reached`."""
    if not near_misses.num_rows:
        return [0] * len(list_reached(threshold))
    left, right, exact = (near_misses[name].to_numpy() for name in EDGES.names)
    ends = np.concatenate((left, right))
    wanted = connected.frame.sparkSession.createDataFrame(pa.table({"doc_id": np.unique(ends)}))
    found = connected.frame.join(F.broadcast(wanted), on="doc_id", how="left_semi").toArrow().sort_by("doc_id")
    left, right = take_component(ends, *(found[name].to_numpy() for name in COMPONENTS.names)).reshape(2, -1)
    return count_joined(left, right, exact, list_reached(threshold))


def place(
    components: DataFrame,
    identical: DataFrame,
    signatures: DataFrame,
    edges: DataFrame,
    *,
    partitions: int,
    broadcast: bool,
) -> DataFrame:
    """COMPONENTS, IDENTICAL, SIGNATURES, EDGES -> members and pairs, every component whole; shuffles both.

    Parameters
    ----------
    edges
        Pairs below the threshold may be among them.
    broadcast
        Whether COMPONENTS fits into every executor's memory.
    """
    places = F.broadcast(components) if broadcast else components
    found = signatures.select("doc_id", *CARRIED).join(places, on="doc_id", how="inner")
    members = found.join(identical, on="doc_id", how="left").withColumn("set_id", F.coalesce("set_id", "doc_id"))
    placed = edges.join(places.withColumnRenamed("doc_id", "left_id"), on="left_id", how="inner")
    # Lists that are null cost Spark much more than empty ones: see `files.orders`.
    no_keys = F.array().cast(members.schema["order_keys"].dataType).alias("order_keys")
    rows = members.unionByName(placed.select(*PAIR, "jaccard", "component_id", no_keys), allowMissingColumns=True)
    return rows.repartition(partitions, "component_id")


def join_members(placed: DataFrame, *, choice: Choice, counters: Counters) -> DataFrame:
    """Turn members and pairs, as from `place`, into MEMBERS.

    A task takes about 200 bytes of memory for each of the members and pairs of its components.

    Parameters
    ----------
    counters
        Takes `sizes`, how many components there are of every size, `largest`, at least the LARGEST components of all,
        each as JSON (see `tell_largest`), what `Kept` counts, `unsettled`, how many pairs `list_unsettled` gives,
        `parted` as from `count_parted`, and for each of `list_own` how many sets are joined.
    """

    def join(batches: Batches) -> Batches:
        members, known = _part(batches)
        if not members.num_rows:
            return
        ranked = _rank(members, choice)
        kept = choose(ranked, known, choice.policy)
        component_ids, set_ids, ids = ranked.component_ids, ranked.set_ids, members["id"]
        chosen, own = kept.owners, np.arange(kept.owners.size)
        least = np.searchsorted(members["doc_id"].to_numpy(), component_ids)
        left, right = np.minimum(set_ids, set_ids[chosen]), np.maximum(set_ids, set_ids[chosen])
        counters.add_each("sizes", np.unique(component_ids, return_counts=True)[1])
        counters.add_each("decided", np.repeat(np.arange(kept.decided.size), kept.decided))
        counters.add("copied", np.count_nonzero(kept.stays & (chosen != own)))
        counters.add("relinked", kept.relinked)
        counters.add("unsettled", kept.left.size)
        similarities = np.where(kept.stays, 1.0, look_up(left, right, known))
        counters.add("parted", count_parted(ranked, known, kept, similarities, choice.policy))
        for number, joined in enumerate(count_joined(*known, list_own(choice.policy.threshold))):
            counters.add(f"{JOINED}{number}", joined)
        for told in tell_largest(members, component_ids, chosen):
            counters.add_text("largest", json.dumps(told))
        sources, representatives = members["source"], pa.array(np.where(kept.stays, own, chosen))
        kinds = np.where(kept.stays, 0, np.where(left == right, 1, 2))
        yield pa.RecordBatch.from_arrays(
            [
                members["doc_id"].combine_chunks(),
                ids.combine_chunks(),
                members["doc_id"].take(representatives).combine_chunks(),
                ids.take(representatives).combine_chunks(),
                pa.array(component_ids),
                ids.take(pa.array(least)).combine_chunks(),
                pa.array(["kept", "identical", "near"]).take(pa.array(kinds)),
                pa.array(similarities, from_pandas=True),
                pa.array(left),
                pa.array(right),
                sources.combine_chunks(),
                sources.take(pa.array(chosen)).combine_chunks(),
                _charge(members, kept, known, choice),
            ],
            names=members_schema(T.LongType()).names,
        )

    return placed.mapInArrow(join, members_schema(placed.schema["id"].dataType))


def list_unsettled(placed: DataFrame, *, choice: Choice) -> DataFrame:
    """Turn members and pairs into the pairs whose similarity the choice depends on and no edge tells."""

    def ask(batches: Batches) -> Batches:
        members, known = _part(batches)
        if members.num_rows:
            kept = choose(_rank(members, choice), known, choice.policy)
            yield pa.record_batch({"left_id": kept.left, "right_id": kept.right})

    return placed.mapInArrow(ask, PAIRS)


def _part(batches: Batches) -> tuple[pa.Table, Known]:
    """Return the members and the pairs of a task."""
    members, edges = [], []
    # Apart at once: together every edge would have a member's columns and every member an edge's.
    for batch in batches:
        is_member = pc.is_valid(batch["doc_id"])
        members.append(batch.filter(is_member).drop_columns([*PAIR, "jaccard"]))
        edges.append(batch.filter(pc.invert(is_member)).select([*PAIR, "jaccard"]))
    if not members:
        return pa.table({}), Known(*(np.empty(0, dtype=np.int64),) * 2, np.empty(0))
    pairs = pa.Table.from_batches(edges)
    known = Known(*(pairs[name].to_numpy() for name in (*PAIR, "jaccard")))
    return _distinct(pa.Table.from_batches(members)), known


def _rank(members: pa.Table, choice: Choice) -> Members:
    sources = members["source"].combine_chunks()
    keys = members["order_keys"].combine_chunks()
    ranks = rank_members(
        choice.rules,
        ids=members["id"],
        sources=sources,
        text_bytes=members["text_bytes"].to_numpy(),
        keys=keys.flatten().to_numpy(zero_copy_only=False).reshape(members.num_rows, -1),
    )
    component_ids, set_ids, sizes = (members[name].to_numpy() for name in ("component_id", "set_id", "shingle_count"))
    return Members(component_ids, set_ids, sizes, number_sources(sources), ranks)


def _ignore(frame: DataFrame, _: object) -> DataFrame:
    return frame


def _charge(members: pa.Table, kept: Kept, known: Known, choice: Choice) -> pa.Array:
    """Return for every member the sources that answer for its removal, a null like others; null without a limit."""
    if not choice.per_source:
        return pa.nulls(members.num_rows, pa.list_(pa.string()))
    doc_ids, similar = members["doc_id"].to_numpy(), known.jaccard >= choice.policy.threshold
    ends = (members["set_id"].to_numpy(), known.left[similar], known.right[similar])
    heads, left, right = (np.searchsorted(doc_ids, ids) for ids in ends)
    owners = pc.dictionary_encode(members["source"].combine_chunks(), null_encoding="encode")
    numbers = owners.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    charged, sources = charge(kept.owners, heads, numbers, (left, right, known.jaccard[similar]), kept.stays)
    offsets = np.searchsorted(charged, np.arange(doc_ids.size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), owners.dictionary.take(pa.array(sources)))


def _distinct(members: pa.Table) -> pa.Table:
    """Return members in the order of their document ids: rows of equal ids, where there is no id column, are one."""
    doc_ids = members["doc_id"].to_numpy()
    order = np.argsort(doc_ids, kind="stable")
    return members.take(pa.array(order[mark_firsts(doc_ids[order])]))


def find_distant(members: DataFrame) -> DataFrame:
    """MEMBERS -> (left_id, right_id) of the shingle sets of documents and representatives that no edge joins."""
    return members.filter(F.col("jaccard").isNull()).select(*PAIR).distinct()


def measure(members: DataFrame, distant: DataFrame) -> DataFrame:
    """MEMBERS, EDGES of the distant pairs whatever their Jaccard -> MEMBERS."""
    measured = distant.withColumnRenamed("jaccard", "measured")
    joined = members.join(measured, on=PAIR, how="left").withColumn("jaccard", F.coalesce("jaccard", "measured"))
    return joined.select(*members.columns)


def find_spared(members: DataFrame, *, per_source: int) -> DataFrame:
    """MEMBERS -> SPARED: duplicates that the sources which answer for them may not have removed; shuffles them.

    Of the documents for whose removal one source answers, the `per_source` least by doc_id are removed.
    """
    charged = members.select("doc_id", "kind", F.explode("charged").alias("source"))
    order = Window.partitionBy("source").orderBy("doc_id")
    return (
        charged.withColumn("rank", F.row_number().over(order))
        .filter(F.col("rank") > per_source)
        .select("doc_id", "kind")
        .distinct()
    )


def spare(members: DataFrame, spared: DataFrame) -> DataFrame:
    """MEMBERS, SPARED -> MEMBERS in which the spared documents are kept."""
    marks = spared.select("doc_id", F.expr("true").alias("spared"))
    marked = members.join(marks, on="doc_id", how="left")
    own = {
        "representative_doc_id": F.col("doc_id"),
        "representative_id": F.col("id"),
        "kind": F.lit("kept"),
        "jaccard": F.lit(1.0),
    }
    changed = {name: F.when(F.col("spared"), value).otherwise(F.col(name)) for name, value in own.items()}
    return marked.withColumns(changed).select(*members.columns)


def select_removals(members: DataFrame, *, layer: str) -> DataFrame:
    """MEMBERS -> REMOVALS of this layer."""
    return members.filter(F.col("kind") != "kept").select(
        "doc_id",
        "id",
        F.lit(layer).alias("layer"),
        "kind",
        "representative_id",
        F.col("component").alias("component_id"),
        "jaccard",
    )
