"""REMOVALS, REPEATED, REGISTER -> FATES: what becomes of every row of the files that goes."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedup.tables.schemas import PLACE


def find_fates(
    removals: DataFrame,
    repeated: DataFrame | None,
    documents: DataFrame,
    members: DataFrame,
    *,
    copies: tuple[str, str],
    broadcast: bool,
) -> DataFrame:
    """Turn REMOVALS, REPEATED, REGISTER and the members that stay into FATES; shuffles ids and places only.

    Of equal rows, which share a document id, the first by file and row stays if their document does; the others go as
    its identical copies.

    Parameters
    ----------
    repeated
        Ids of equal rows; None if there are none.
    copies
        Layer and kind of the others.
    broadcast
        Whether REMOVALS fits into every executor's memory.
    """
    places = documents.select("doc_id", "id", *PLACE, "text_bytes")
    listed = removals.drop("id")
    gone = places.join(F.broadcast(listed) if broadcast else listed, on="doc_id", how="inner")
    if repeated is None:
        return gone
    order = Window.partitionBy("doc_id").orderBy("file", "row")
    equal = places.join(F.broadcast(repeated.select("doc_id")), on="doc_id", how="left_semi")
    further = equal.withColumn("number", F.row_number().over(order)).filter(F.col("number") > 1).drop("number")
    staying = further.join(removals.select("doc_id"), on="doc_id", how="left_anti")
    named = staying.join(members.select("doc_id", "component_id"), on="doc_id", how="left")
    extra = named.select(
        "doc_id",
        "id",
        *PLACE,
        "text_bytes",
        F.lit(copies[0]).alias("layer"),
        F.lit(copies[1]).alias("kind"),
        F.col("id").alias("representative_id"),
        F.coalesce("component_id", "id").alias("component_id"),
        F.lit(1.0).alias("jaccard"),
    )
    return gone.unionByName(extra)


def merge_values(fates: DataFrame, signatures: DataFrame) -> DataFrame:
    """FATES, SIGNATURES -> (file, row, values) of rows that stay for others; shuffles what is merged.

    `values` has the column `merged` of all documents that a row stands for, its own among them.
    """
    merged = signatures.select("id", *PLACE, F.coalesce("merged", F.array().cast("array<string>")).alias("merged"))
    # Nothing stays for what a layer removes by itself.
    gone = fates.select(*PLACE, "representative_id").filter(F.col("representative_id").isNotNull())
    groups = gone.join(merged, on=[*PLACE], how="inner").groupBy("representative_id")
    passed = groups.agg(F.collect_list("merged").alias("passed")).withColumnRenamed("representative_id", "id")
    staying = merged.join(fates.select(*PLACE), on=[*PLACE], how="left_anti")
    values = F.concat(F.array("merged"), "passed").alias("values")
    return staying.join(passed, on="id", how="inner").select("file", "row", values)
