"""Expressions of Spark for the columns of an input."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.files.conversion import ESCAPES
from dedup.kernels.text.joining import SEPARATOR


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
