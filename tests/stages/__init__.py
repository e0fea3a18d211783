"""Tables as the stages take them, made of Python values, and what a stage must say of a text by the oracle."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from random import Random

import numpy as np
import pyarrow as pa
import xxhash
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from dedup.stages.exchange import Counters
from dedup.stages.table import Keep, Table
from dedup.tables import schemas
from tests import oracles


def signed(value: int) -> int:
    """Return the int64 of the same 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def draw_ids(chance: Random, count: int) -> list[int]:
    """Return distinct int64s from the whole range, the ends of it among them."""
    drawn = {chance.randrange(-(2**63) + 1, 2**63 - 1) for _ in range(count - 2)}
    return chance.sample([-(2**63), 2**63 - 1, *sorted(drawn)], count)


def pack(values: Iterable[int], dtype: str = "<u8") -> bytes:
    return np.array(list(values), dtype=dtype).tobytes()


def unpack(cell: bytes, dtype: str = "<u8") -> list[int]:
    return np.frombuffer(bytes(cell), dtype=dtype).tolist()


def rows(frame: DataFrame) -> list[tuple]:
    """Return the rows in an order of their own, binary cells as bytes."""
    found = [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in frame.collect()]
    return sorted(found, key=repr)


def shingles(text: str | bytes | None, size: int = 5, seed: int = 1) -> list[int]:
    return oracles.shingle_hashes([oracles.token_hash(token, seed) for token in oracles.tokens(text)], size, seed)


def low_bytes(values: Sequence[int]) -> bytes:
    """Return a signature as it is stored."""
    return bytes(value & 0xFF for value in values)


def digest(hashes: Iterable[int]) -> tuple[int, int]:
    whole = xxhash.xxh3_128_intdigest(pack(sorted(hashes)))
    return signed(whole >> 64), signed(whole & oracles.MASK)


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


def make_sets(spark: SparkSession, sets: Mapping[int, Iterable[int]]) -> DataFrame:
    """Return SETS."""
    cells = [(doc_id, pack(sorted(members))) for doc_id, members in sets.items()]
    return make_table(spark, cells, schemas.SETS).repartition(2)


def make_keep(spark: SparkSession) -> Keep:
    """Return what keeps tables in memory."""

    def keep(_, schema, build, measure, *, summed=None):
        counters = Counters(spark)
        table = spark.createDataFrame(build(counters).toArrow(), schema)
        sums = {key: F.sum(F.expr(expression)) for key, expression in {"rows": "1", **(summed or {})}.items()}
        [seen] = table.agg(*[each.alias(key) for key, each in sums.items()]).collect()
        counts = {key: value or 0 for key, value in seen.asDict().items()} | counters.values()
        return Table(frame=table, counts=measure(counts))

    return keep


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
