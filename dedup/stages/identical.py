"""SIGNATURES -> IDENTICAL."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

DIGEST = ["digest_high", "digest_low"]


def find_identical(signatures: DataFrame) -> DataFrame:
    """SIGNATURES -> IDENTICAL; shuffles 24 bytes per document.

    Documents of one shingle set, told by its 128-bit digest, collapse to the least of their ids before any banding,
    so that a thousand copies cost as much as one. Documents without a shingle are identical to none.
    """
    documents = signatures.filter(F.col("shingle_count") > 0).select("doc_id", *DIGEST)
    sets = documents.groupBy(*DIGEST).agg(F.min("doc_id").alias("set_id"), F.count(F.lit(1)).alias("copies"))
    shared = sets.filter(F.col("copies") > 1).drop("copies")
    return (
        documents.join(shared, on=DIGEST, how="inner")
        .filter(F.col("doc_id") != F.col("set_id"))
        .select("doc_id", "set_id")
        .distinct()
    )


def select_heads(signatures: DataFrame, identical: DataFrame) -> DataFrame:
    """SIGNATURES, IDENTICAL -> SIGNATURES of one document per shingle set."""
    return signatures.filter(F.col("shingle_count") > 0).join(identical, on="doc_id", how="left_anti")
