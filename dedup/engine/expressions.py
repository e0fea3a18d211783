"""Expressions of Spark for the columns of an input."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.files.conversion import ESCAPES
from dedup.kernels.text.joining import SEPARATOR

TIMES = {
    # The default formats drop what is below a millisecond.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options by which Spark writes times as text."""


def column(name: str) -> Column:
    """Return the top-level column of this very name, whatever dots, spaces or backticks it holds."""
    return F.col("`" + name.replace("`", "``") + "`")


def write_text(corpus: DataFrame, names: Sequence[str]) -> Column:
    """Return the expression of texts; of lists, the text of their elements, and of several columns that of all.

    These are as `dedup.files.columns.join_columns` makes them; Spark leaves out elements that are null.
    """
    texts = [_write_column(corpus, name) for name in names]
    if not texts[1:]:
        return texts[0]
    plain = (F.coalesce(F.translate(text.cast("string"), SEPARATOR, " "), F.lit("")) for text in texts)
    return F.concat_ws(SEPARATOR, *plain)


def _write_column(corpus: DataFrame, name: str) -> Column:
    if not isinstance(corpus.schema[name].dataType, T.ArrayType):
        return column(name)

    def write(element: Column) -> Column:
        text = element.cast("string")
        for plain, escaped in ESCAPES:
            text = F.replace(text, F.lit(plain), F.lit(escaped))
        return F.concat(text, F.lit("\n"))

    return F.array_join(F.transform(column(name), write), "")


def list_entries(value: Column, kind: T.DataType) -> Column:
    """Return a value with its maps as lists of entries, if keys are lists or structs, which JSON has by their place."""
    if not any(sign in kind.simpleString() for sign in ("map<array", "map<struct")):
        return value
    if isinstance(kind, T.MapType):
        entry = T.StructType().add("key", kind.keyType).add("value", kind.valueType)
        return list_entries(F.map_entries(value), T.ArrayType(entry))
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda each: list_entries(each, kind.elementType))
    assert isinstance(kind, T.StructType)
    # By their places, as names may differ in case alone.
    named = T.StructType([T.StructField(f"c{number}", each.dataType) for number, each in enumerate(kind)])
    members = [list_entries(value.cast(named)[each.name], each.dataType).alias(each.name) for each in named]
    return F.when(value.isNotNull(), F.struct(*members))
