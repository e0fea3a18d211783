"""Input rows -> DOCUMENTS, and the check of their ids."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import DataError, SchemaError

INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
AS_JSON = {
    "ignoreNullFields": "false",
    # The default formats drop what is below a millisecond.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How a row becomes the text whose digest is its id: unlike rows, unlike texts."""
SHOWN = 5
"""Offending ids shown in an error."""
SHOWN_LENGTH = 40
"""Characters shown of a text."""


def column(name: str) -> Column:
    """Return the top-level column of this very name, whatever dots, spaces or backticks it holds."""
    return F.col("`" + name.replace("`", "``") + "`")


def identify(corpus: DataFrame, *, id_column: str) -> tuple[Column, Column]:
    """Return the expressions of a row's own id and of its 64-bit document id; null where the id is.

    An integer id is its own document id; a string is hashed (XXH64, seed 42). Without an id column the id is the
    MD5 of the row as JSON with its nulls, so wholly equal rows, and practically only those, are one document.

    Raises
    ------
    SchemaError
        When the column is missing, named twice, or neither an integer nor a string.
    """
    if not id_column:
        whole = F.struct(*[column(name).alias(f"c{number}") for number, name in enumerate(corpus.columns)])
        user_id = F.md5(F.to_json(whole, AS_JSON))
        return user_id, to_doc_id(user_id, T.StringType())
    kind = _kind(corpus, id_column, "input.id_column", (*INTEGRAL, T.StringType), "an integer or a string")
    user_id = column(id_column)
    return user_id, to_doc_id(user_id, kind)


def to_doc_id(user_id: Column, kind: T.DataType) -> Column:
    """Return the document id of a user's own id of this type; null where that is."""
    if isinstance(kind, T.StringType):
        return F.when(user_id.isNotNull(), F.xxhash64(user_id))
    return user_id.cast("long")


def _kind(corpus: DataFrame, name: str, setting: str, kinds: tuple[type[T.DataType], ...], rule: str) -> T.DataType:
    found = [field for field in corpus.schema.fields if field.name == name]
    if len(found) != 1:
        message = f"{setting}: must be the name of one column of the input (got {name!r}, the input has"
        raise SchemaError(f"{message} {', '.join(corpus.columns)})")
    if not isinstance(found[0].dataType, kinds):
        raise SchemaError(f"{setting}: column {name!r} must be {rule} (got {found[0].dataType.simpleString()})")
    return found[0].dataType


def read_documents(corpus: DataFrame, *, id_column: str, text_column: str, source_column: str = "") -> DataFrame:
    """Input -> DOCUMENTS (doc_id, id, text, source), one row per input row; no shuffle.

    The text is as it is, a string or bytes, null or not: a cast would copy the whole corpus twice more.

    Raises
    ------
    SchemaError
        When a column is missing, named twice, or of a type that cannot serve.
    """
    user_id, doc_id = identify(corpus, id_column=id_column)
    _kind(corpus, text_column, "input.text_column", (T.StringType, T.BinaryType), "a string")
    source = F.lit(None)
    if source_column:
        kind = (T.BooleanType, T.DateType, *INTEGRAL, T.StringType)
        _kind(corpus, source_column, "input.source_column", kind, "an integer, a string, a date or a boolean")
        source = column(source_column)
    columns = {"doc_id": doc_id, "id": user_id, "text": column(text_column), "source": source.cast("string")}
    return corpus.select(*[expression.alias(name) for name, expression in columns.items()])


def check_null(documents: DataFrame, nulls: int, *, id_column: str) -> None:
    """Refuse ids that are null.

    Parameters
    ----------
    nulls
        How many there are.

    Raises
    ------
    DataError
        Shows the texts of some.
    """
    if nulls:
        texts = documents.filter(F.col("doc_id").isNull()).limit(SHOWN)
        begins = F.substring(F.coalesce(F.col("text").cast("string"), F.lit("")), 1, SHOWN_LENGTH)
        shown = ", ".join(repr(row.begins) for row in texts.select(begins.alias("begins")).collect())
        raise DataError(
            f"input.id_column: column {id_column!r} must not be null "
            f"(got {nulls:,} nulls; their texts begin {shown}); fill them in or set another column"
        )


def check_repeated(signatures: DataFrame, repeated: DataFrame, *, id_column: str) -> None:
    """Refuse ids that stand for two documents.

    Parameters
    ----------
    repeated
        Not empty.
    id_column
        Empty where an id is the digest of its row: then repeated ids are equal rows, and no fault.

    Raises
    ------
    DataError
        Names some of the ids.
    """
    ids = (
        signatures.select("doc_id", "id")
        .join(repeated, on="doc_id", how="left_semi")
        .groupBy("doc_id", "id")
        .agg(F.count(F.lit(1)).alias("copies"))
    )
    collided = ids.groupBy("doc_id").agg(F.sort_array(F.collect_list("id")).alias("ids")).filter(F.size("ids") > 1)
    for row in collided.limit(1).collect():
        raise DataError(
            f"ids {row.ids[0]!r} and {row.ids[1]!r} have one 64-bit hash ({row.doc_id}); "
            "rename one of them, or set input.id_column to an integer column"
        )
    if id_column:
        shown = ", ".join(f"{row.id!r} ({row.copies:,} rows)" for row in ids.orderBy("id").limit(SHOWN).collect())
        raise DataError(
            f"input.id_column: column {id_column!r} must be unique (got {repeated.count():,} repeated ids: {shown}); "
            "set another column, or none to take equal rows for one document"
        )
