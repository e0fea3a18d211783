"""COMPONENTS, IDENTICAL, SIGNATURES, EDGES -> MEMBERS -> DUPLICATES."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.kernels.representatives import LARGEST, POLICIES, elect, look_up, tell_largest
from dedup.kernels.runs import mark_firsts
from dedup.stages.edges import Sets, compare
from dedup.stages.exchange import Batches, Counters
from dedup.stages.placement import fits_broadcast, place_members
from dedup.stages.table import Keep, Seen, Table, read_histogram
from dedup.tables.counts import Connected, Elected, Signed
from dedup.tables.schemas import SPARED
from dedup.tables.schemas import members as members_schema

PAIR = ["left_id", "right_id"]


def elect_representatives(
    keep: Keep,
    connected: Table[Connected],
    *,
    identical: DataFrame,
    signed: Table[Signed],
    edges: DataFrame,
    edge_count: int,
    sets: Table[Sets],
    policy: str,
    per_source: int,
    cores: int,
) -> Table[Elected]:
    """Keep MEMBERS, with the exact similarity of each to the one kept; `per_source` 0 sets no limit."""
    count = connected.counts.rows

    def build(counters: Counters) -> DataFrame:
        return join_members(
            connected.frame,
            identical,
            signed.frame,
            edges,
            policy=policy,
            partitions=place_members(count, edge_count, cores),
            broadcast=fits_broadcast(count),
            counters=counters,
        )

    elected = keep(
        "members",
        members_schema(signed.frame.schema["id"].dataType),
        build,
        measure_members,
        summed={"near": "int(kind = 'near')", "distant": "int(jaccard IS NULL)"},
    )
    frame, counts = elected.frame, elected.counts
    if counts.distant:
        pairs = find_distant(frame)
        distant = compare(keep, "distant", pairs, counts.distant, sets, threshold=0.0, cores=cores)
        frame = measure(frame, distant.frame)
    if per_source:
        found = find_spared(frame, per_source=per_source)
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
    return Table(frame=frame, counts=counts)


def measure_members(seen: Seen) -> Elected:
    """Return the counts of MEMBERS."""
    largest = sorted(map(json.loads, seen.get("largest", ())), key=lambda one: (-one["documents"], one["component_id"]))
    return Elected(
        rows=seen["rows"],
        near=seen["near"],
        distant=seen["distant"],
        sizes=read_histogram(seen, "sizes"),
        largest=largest[:LARGEST],
    )


def join_members(
    components: DataFrame,
    identical: DataFrame,
    signatures: DataFrame,
    edges: DataFrame,
    *,
    policy: str,
    partitions: int,
    broadcast: bool,
    counters: Counters,
) -> DataFrame:
    """COMPONENTS, IDENTICAL, SIGNATURES, EDGES -> MEMBERS; shuffles members and edges.

    A component comes whole to one task, which takes about 200 bytes of memory for each of its members and edges.

    Parameters
    ----------
    broadcast
        Whether COMPONENTS fits into every executor's memory.
    counters
        Takes `sizes`, how many components there are of every size, and `largest`, at least the LARGEST components of
        all, each as JSON (see `tell_largest`).
    """
    id_type = signatures.schema["id"].dataType

    def join(batches: Batches) -> Batches:
        # Apart at once: together every edge would have a member's columns and every member an edge's.
        taken: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        for batch in batches:
            is_member = pc.is_valid(batch["doc_id"])
            taken[0].append(batch.filter(is_member).drop_columns([*PAIR, "jaccard"]))
            taken[1].append(batch.filter(pc.invert(is_member)).select([*PAIR, "jaccard"]))
        if not taken[0]:
            return
        members, edges = _distinct(pa.Table.from_batches(taken[0])), pa.Table.from_batches(taken[1])
        component_ids, set_ids, ids = members["component_id"].to_numpy(), members["set_id"].to_numpy(), members["id"]
        chosen = elect(component_ids, POLICIES[policy](members))
        left, right = np.minimum(set_ids, set_ids[chosen]), np.maximum(set_ids, set_ids[chosen])
        similarities = look_up(left, right, tuple(edges[name].to_numpy() for name in (*PAIR, "jaccard")))
        counters.add_each("sizes", np.unique(component_ids, return_counts=True)[1])
        for told in tell_largest(members, component_ids, chosen):
            counters.add_text("largest", json.dumps(told))
        sources = members["source"]
        kinds = np.where(chosen == np.arange(chosen.size), 0, np.where(left == right, 1, 2))
        yield pa.RecordBatch.from_arrays(
            [
                members["doc_id"].combine_chunks(),
                ids.combine_chunks(),
                ids.take(pa.array(chosen)).combine_chunks(),
                pa.array(component_ids),
                pa.array(["kept", "identical", "near"]).take(pa.array(kinds)),
                pa.array(similarities, from_pandas=True),
                pa.array(left),
                pa.array(right),
                sources.combine_chunks(),
                sources.take(pa.array(chosen)).combine_chunks(),
            ],
            names=members_schema(T.LongType()).names,
        )

    places = F.broadcast(components) if broadcast else components
    found = signatures.select("doc_id", "id", "source").join(places, on="doc_id", how="inner")
    members = found.join(identical, on="doc_id", how="left").withColumn("set_id", F.coalesce("set_id", "doc_id"))
    placed = edges.join(places.withColumnRenamed("doc_id", "left_id"), on="left_id", how="inner")
    rows = members.unionByName(placed.select(*PAIR, "jaccard", "component_id"), allowMissingColumns=True)
    return rows.repartition(partitions, "component_id").mapInArrow(join, members_schema(id_type))


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
    """MEMBERS -> SPARED: duplicates that the sources of their representatives may not have removed; shuffles them.

    Of the documents of other sources that one source has removed, the `per_source` least by doc_id are.
    """
    foreign = ~F.col("source").eqNullSafe(F.col("representative_source"))
    removed = members.filter(F.col("kind") != "kept").filter(foreign)
    order = Window.partitionBy("representative_source").orderBy("doc_id")
    return (
        removed.withColumn("rank", F.row_number().over(order))
        .filter(F.col("rank") > per_source)
        .select("doc_id", "kind")
    )


def spare(members: DataFrame, spared: DataFrame) -> DataFrame:
    """MEMBERS, SPARED -> MEMBERS in which the spared documents are kept."""
    marks = spared.select("doc_id", F.expr("true").alias("spared"))
    marked = members.join(marks, on="doc_id", how="left")
    own = {"representative_id": F.col("id"), "kind": F.lit("kept"), "jaccard": F.lit(1.0)}
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
        "component_id",
        "jaccard",
    )
