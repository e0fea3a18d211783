"""Tables as the stages take them, made of Python values."""

from collections.abc import Sequence
from contextlib import contextmanager
from random import Random

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.tables import arrow


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


def make_table(spark: SparkSession, values: Sequence[tuple], schema: pa.Schema) -> DataFrame:
    """Return a table by way of Arrow: a Python list takes a Spark job with Python workers wherever it is read."""
    columns = zip(*values, strict=True) if values else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema), from_arrow_schema(schema))


def make_register(spark: SparkSession, ids: Sequence[tuple], id_type: pa.DataType) -> DataFrame:
    """Return REGISTER of (doc_id, id)."""
    schema = arrow.register(id_type)
    return make_table(spark, [(*pair, *[None] * (len(schema) - 2)) for pair in ids], schema).repartition(2)


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
