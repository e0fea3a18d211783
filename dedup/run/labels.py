"""Pairs of documents that somebody has labelled, as the truth to hold a result against."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.corpus import INTEGRAL, column, to_doc_id
from dedup.errors import DataError, SchemaError, StorageError
from dedup.run.corpus import guess_format, read_corpus
from dedup.run.storage import HadoopStorage
from dedup.tables.schemas import LABELS

SHOWN = 3
"""Offending rows shown in an error."""


def read_labels(
    spark: SparkSession, storage: HadoopStorage, path: str, *, id_type: T.DataType, where: str
) -> DataFrame:
    """Read labelled pairs: parquet, JSON lines or CSV with columns left_id, right_id and, if wanted, duplicate.

    Parameters
    ----------
    id_type
        Type of the corpus' own ids, to which those of the labels are turned.
    where
        Name by which the user calls the file, for messages.

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
