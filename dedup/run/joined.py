"""What a store says of a batch added by Spark, in the terms of a run's output: `grown` as tables."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.layers import NEAR
from dedup.output.row_decisions import Findings
from dedup.stages import edges, identical
from dedup.stages.placement import BROADCAST_ROWS
from dedup.stages.table import Keep, Table, count_rows
from dedup.store.joins.adding import Grown
from dedup.store.joins.signing import Read
from dedup.store.schemas import NO_SET
from dedup.tables import schemas
from dedup.tables.counts import Collapsed, Connected, Elected, Layered, Near

KEPT = "kept"
MANY = BROADCAST_ROWS + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """A batch as the output applies it."""

    findings: Findings[DataFrame]
    removals: DataFrame
    """REMOVALS of these."""
    counts: Near
    changes: DataFrame
    """As `grown.to_changes`."""


def tell(keep: Keep, grown: Grown, read: Read, threshold: float) -> Told:
    """Return what has become of the documents of a batch."""
    signed, verdicts = read.signed, grown.decided.verdicts
    came = signed.frame.select("doc_id").distinct()
    members = _keep_members(keep, grown, signed.frame, came)
    gone = members.frame.filter(F.col("kind") != KEPT)
    same = _select_same(verdicts.frame, came)
    found = _name_edges(grown, same)
    misses = _list_near_misses(grown, threshold)
    repeated = identical.select_repeated(read.shared.frame) if read.shared.counts.repeated else None
    # Near misses that were not collected are nobody knows how many.
    pairs = members.counts + grown.joined.found.counts if grown.joined.near_misses is not None else MANY
    with ThreadPoolExecutor() as beside:
        naming = beside.submit(_name_ends, keep, grown, signed.frame, found.unionByName(misses))
        counts = _count(grown, read, gone, came=came, same=same, threshold=threshold, members=members.counts)
        named = naming.result()
    step = Layered(
        layer=NEAR,
        documents=signed.counts.rows,
        text_bytes=signed.counts.text_bytes,
        tokens=signed.counts.tokens,
        removed=counts.elected.rows,
    )
    findings = Findings(
        documents=signed.frame,
        steps=[step],
        removals=gone,
        repeated=repeated,
        copies=(NEAR, "identical"),
        kept=members.frame.filter(F.col("kind") == KEPT),
        edges=found,
        near_misses=misses,
        pairs=pairs,
        named=named,
        shown=counts.elected.shown,
    )
    told = verdicts.frame.filter(F.col("was_kept").isNotNull())
    renamed = told.drop("component_id").withColumnsRenamed({"kept": "is_kept", "component": "component_id"})
    changes = renamed.select("id", "batch", "was_kept", "is_kept", "would_be_kept", "component_id")
    return Told(findings=findings, removals=gone, counts=counts, changes=changes)


def _keep_members(keep: Keep, grown: Grown, signed: DataFrame, came: DataFrame) -> Table[int]:
    """Keep REMOVALS of the batch's own documents, those that stay for others among them.

    A document that was in the store already goes as a copy of itself if it is kept there.
    """
    schema = schemas.removals(signed.schema["id"].dataType)
    known = grown.step.met.known.frame.withColumn("is_known", F.expr("true"))
    own = grown.decided.verdicts.frame.join(came, on="doc_id", how="left_semi")
    own = own.join(known.select("doc_id", "is_known"), on="doc_id", how="left")
    copied = F.col("kept") & F.coalesce("is_known", F.expr("false"))
    listed = own.withColumn("kind", F.when(copied, "identical").otherwise(F.col("kind")))
    listed = listed.withColumn("component_id", F.col("component")).withColumn("layer", F.lit(NEAR))
    # Documents without a token are no voters.
    empty = signed.select("doc_id", "id").dropDuplicates(["doc_id"])
    empty = empty.join(known.filter(F.col("set") == NO_SET).select("doc_id"), on="doc_id", how="left_semi")
    itself = {"representative_id": F.col("id"), "component_id": F.col("id"), "jaccard": F.lit(1.0)}
    copies = empty.withColumns({"layer": F.lit(NEAR), "kind": F.lit("identical"), **itself})
    rows = listed.select(*schema.names).unionByName(copies.select(*schema.names))
    return keep("own", schema, lambda _: rows, count_rows)


def _select_same(verdicts: DataFrame, came: DataFrame) -> DataFrame:
    """Return IDENTICAL of which one document has come."""
    pairs = verdicts.filter(F.col("doc_id") != F.col("head")).select("doc_id", F.col("head").alias("set_id"))
    by_head = pairs.join(came.withColumnRenamed("doc_id", "set_id"), on="set_id", how="left_semi")
    return pairs.join(came, on="doc_id", how="left_semi").unionByName(by_head.select("doc_id", "set_id")).distinct()


def _name_edges(grown: Grown, same: DataFrame) -> DataFrame:
    """Return EDGES that the batch has brought, identical documents among them."""
    found = grown.joined.found.frame
    for end in ("left", "right"):
        heads = grown.joined.heads.select(F.col("set").alias(end), F.col("doc_id").alias(f"{end}_id"))
        found = found.join(heads, on=end, how="inner")
    copies = same.withColumnsRenamed({"doc_id": "left_id", "set_id": "right_id"}).withColumn("jaccard", F.lit(1.0))
    return found.select(*schemas.EDGES.names).unionByName(copies)


def _list_near_misses(grown: Grown, threshold: float) -> DataFrame:
    """Return EDGES of near misses."""
    if grown.joined.near_misses is None:
        return edges.select_near_misses(grown.joined.compared, threshold=threshold)
    return grown.step.reader.spark.createDataFrame(grown.joined.near_misses)


def _name_ends(keep: Keep, grown: Grown, signed: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return doc_id and id of all documents of pairs."""
    columns = signed.select("doc_id", "id")
    if grown.state.id_type == "int64":
        # Integers are their own document ids, so none are looked up.
        return columns
    ends = pairs.select(F.explode(F.array("left_id", "right_id")).alias("doc_id")).distinct()
    listed = keep("pair_ends", schemas.ENDS, lambda _: ends, count_rows)
    there = grown.step.reader.select("documents", ["doc_id", "id"], "doc_id", listed.frame, listed.counts)
    own = columns.join(listed.frame, on="doc_id", how="left_semi")
    rows = there.unionByName(own).dropDuplicates(["doc_id"])
    return keep("named", columns.schema, lambda _: rows, count_rows).frame


def _count(
    grown: Grown, read: Read, gone: DataFrame, *, came: DataFrame, same: DataFrame, threshold: float, members: int
) -> Near:
    joined, connected = grown.joined, grown.decided.connected
    [sums] = gone.agg(
        F.count_if(F.col("kind") == "near").alias("near"),
        F.count_if(F.col("jaccard") < threshold).alias("chained"),
        F.min("jaccard").alias("least"),
    ).collect()
    elected: Elected = replace(grown.decided.verdicts.counts, rows=members, **sums.asDict())
    copies = same.join(came, on="doc_id", how="left_semi").count()
    return Near(
        signed=read.signed.counts,
        collapsed=Collapsed(rows=copies, repeated=read.shared.counts.repeated),
        bucketed=joined.bucketed,
        paired=joined.paired,
        verified=joined.verified,
        connected=Connected(rows=members, engine=connected.counts.engine),
        lost=grown.lost,
        elected=elected,
        labeled=None,
    )
