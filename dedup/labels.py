"""Pairs of documents that somebody has labelled, as the truth to hold a result against."""

from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.corpus import guess_format, read_corpus
from dedup.errors import DataError, SchemaError, StorageError
from dedup.kernels.intervals import measure_share
from dedup.schemas import LABELS
from dedup.stages.components import find_parted
from dedup.stages.documents import INTEGRAL, column, to_doc_id
from dedup.storage import Storage

SHOWN = 3
"""Offending rows shown in an error."""
SIMILARITY_BINS = 20
"""Bins of recall below that of identical sets."""


def read_labels(spark: SparkSession, storage: Storage, path: str, *, id_type: T.DataType, where: str) -> DataFrame:
    """Read labelled pairs: parquet, JSON lines or CSV with columns left_id, right_id and, if wanted, duplicate.

    Parameters
    ----------
    id_type
        Type of the corpus' own ids, to which those of the labels are turned.
    where
        What the user calls the file, for messages.

    Returns
    -------
    DataFrame
        LABELS, each once. Pairs of a document with itself say nothing and are left out; an id that cannot be of the
        corpus is null. Without a column `duplicate`, or where its cell is null, a pair is one of duplicates.

    Raises
    ------
    StorageError
        When there is no such file, or its name tells no format.
    SchemaError
        When a column is missing, or of a type that cannot serve.
    DataError
        When a label is neither true nor false, or a pair has both.
    """
    try:
        kind = guess_format(storage, [path])
        rows = read_corpus(spark, storage, [path], kind=kind).rows
    except (StorageError, DataError) as error:
        # Said of the input, with advice that helps only there.
        raise type(error)(str(error).partition("; ")[0].replace("--input", where, 1)) from error
    ids = [_find_id(rows, name, id_type, where) for name in ("left_id", "right_id")]
    left, right = (to_doc_id(user_id, id_type) for user_id in ids)
    labels = rows.select(
        F.when(left > right, right).otherwise(left).alias("left_id"),
        F.when(left > right, left).otherwise(right).alias("right_id"),
        _find_label(rows, where).alias("duplicate"),
    )
    labels = labels.filter(~F.equal_null("left_id", "right_id")).distinct()
    twice = labels.groupBy("left_id", "right_id").agg(F.count(F.lit(1)).alias("count")).filter(F.col("count") > 1)
    if (count := twice.filter(F.col("left_id").isNotNull() & F.col("right_id").isNotNull()).count()) > 0:
        raise DataError(f"{where} {path}: a pair must have one label (got {count:,} pairs with both)")
    return labels.select(*LABELS.names)


def select_known(labels: DataFrame, signatures: DataFrame) -> DataFrame:
    """LABELS, SIGNATURES or DOCUMENTS -> LABELS of which both documents are in the corpus; labels are few."""
    ends = labels.select(F.explode(F.array("left_id", "right_id")).alias("doc_id")).distinct()
    known = signatures.select("doc_id").join(F.broadcast(ends), on="doc_id", how="left_semi").distinct()
    for side in ("left_id", "right_id"):
        labels = labels.join(known.withColumnRenamed("doc_id", side), on=side, how="left_semi")
    return labels.select(*LABELS.names)


def find_heads(labels: DataFrame, identical: DataFrame) -> DataFrame:
    """LABELS, IDENTICAL -> LABELS of the least document of each shingle set.

    As many as before, so that a pair can repeat, and can be one of a document with itself.
    """
    for side in ("left_id", "right_id"):
        heads = identical.select(F.col("doc_id").alias(side), F.col("set_id").alias("head"))
        labels = labels.join(heads, on=side, how="left").withColumn(side, F.coalesce("head", side)).drop("head")
    least, greatest = F.least("left_id", "right_id"), F.greatest("left_id", "right_id")
    return labels.withColumns({"left_id": least, "right_id": greatest}).select(*LABELS.names)


def select_apart(labels: DataFrame, heads: DataFrame) -> DataFrame:
    """LABELS of `find_heads`, SIGNATURES of `identical.select_heads` -> PAIRS of two shingle sets, neither empty."""
    pairs = labels.filter("left_id < right_id").select("left_id", "right_id").distinct()
    for side in pairs.columns:
        pairs = pairs.join(heads.select(F.col("doc_id").alias(side)), on=side, how="left_semi")
    return pairs.select("left_id", "right_id")


def measure_recall(labels: DataFrame, compared: DataFrame, components: DataFrame) -> list[dict[str, Any]]:
    """Count the labelled pairs that are in one component, by similarity.

    Parameters
    ----------
    labels
        LABELS of `find_heads`.
    compared
        EDGES of `select_apart`, whatever their Jaccard.
    components
        COMPONENTS.

    Returns
    -------
    list of dict
        For each bin of similarity, SIMILARITY_BINS of equal width and one of identical sets, that holds any: `jaccard`,
        its mean; `pairs` and those `joined`; `recall`, the share of these, between `low` and `high` in 95 of 100
        samples.
    """
    apart = F.col("left_id") < F.col("right_id")
    measured = labels.join(compared, on=["left_id", "right_id"], how="left")
    # A document without a token resembles nothing, not even another such.
    measured = measured.withColumn("jaccard", F.when(apart, F.coalesce("jaccard", F.lit(0.0))).otherwise(1.0))
    number = F.floor(F.col("jaccard") * SIMILARITY_BINS).alias("bin")
    every = measured.groupBy(number).agg(F.avg("jaccard"), F.count(F.lit(1))).collect()
    parted: dict[int, int] = dict(find_parted(measured, components).groupBy(number).agg(F.count(F.lit(1))).collect())
    points = []
    for place, jaccard, pairs in sorted(every):
        joined = pairs - parted.get(place, 0)
        share = measure_share(np.array([joined]), np.array([pairs]))
        points.append(
            {"jaccard": jaccard, "pairs": pairs, "joined": joined}
            | {"recall": share.share, "low": share.low, "high": share.high}
        )
    return points


def _find_id(rows: DataFrame, name: str, id_type: T.DataType, where: str) -> Column:
    """Return the column of ids as the corpus' own type."""
    if rows.columns.count(name) != 1:
        raise SchemaError(
            f"{where}: must have the columns left_id, right_id and perhaps duplicate (got {', '.join(rows.columns)})"
        )
    kind = rows.schema[name].dataType
    if not isinstance(kind, (*INTEGRAL, T.StringType)):
        raise SchemaError(f"{where}: column {name!r} must be an integer or a string (got {kind.simpleString()})")
    return column(name).try_cast("string" if isinstance(id_type, T.StringType) else "long")


def _find_label(rows: DataFrame, where: str) -> Column:
    if "duplicate" not in rows.columns:
        return F.lit(True)  # noqa: FBT003 - a value, in Spark
    given = column("duplicate")
    label = given.try_cast("boolean")
    wrong = rows.filter(given.isNotNull() & label.isNull()).limit(SHOWN).collect()
    if wrong:
        shown = ", ".join(repr(row["duplicate"]) for row in wrong)
        raise DataError(f"{where}: column 'duplicate' must be true or false (got {shown})")
    return F.coalesce(label, F.lit(True))  # noqa: FBT003 - as above
