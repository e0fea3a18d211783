"""Tables as the stages take them, made of Python values."""

from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from random import Random

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from dedup.tables import schemas


def signed(value: int) -> int:
    """Return the int64 of the same 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def draw_ids(chance: Random, count: int) -> list[int]:
    """Return distinct int64s from the whole range, the ends of it among them."""
    drawn = {chance.randrange(-(2**63) + 1, 2**63 - 1) for _ in range(count - 2)}
    return chance.sample([-(2**63), 2**63 - 1, *sorted(drawn)], count)


def rows(frame: DataFrame) -> list[tuple]:
    """Return the rows in an order of their own, binary cells as bytes."""
    found = [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in frame.collect()]
    return sorted(found, key=repr)


def make_table(spark: SparkSession, values: Sequence[tuple], schema: T.StructType) -> DataFrame:
    """Return a table by way of Arrow: a Python list takes a Spark job with Python workers wherever it is read."""
    arrow = to_arrow_schema(schema)
    columns = zip(*values, strict=True) if values else [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)


def make_signatures(
    spark: SparkSession, documents: Iterable[tuple], id_type: T.DataType | None = None, partitions: int = 2
) -> DataFrame:
    """Return SIGNATURES of (doc_id, id, shingle_count, digest_high, digest_low[, band_keys[, signature[, source]]])."""
    schema = schemas.signatures(id_type or T.LongType())
    rest = (None,) * 5 + (b"", b"") + (None,) * 8
    whole = [(*values, *rest[len(values) :]) for values in documents]
    return make_table(spark, whole, schema).repartition(partitions)


@contextmanager
def settings(spark: SparkSession, **values: object):
    """Change settings of the session while the block runs."""
    names = {name: str(value) for name, value in values.items()}
    before = {name: spark.conf.get(name) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
