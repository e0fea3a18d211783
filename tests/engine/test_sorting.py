"""Rows brought together in blocks: each once, in order, whatever fits into memory."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine import sorting
from dedup.engine.engine import Shuffle
from dedup.engine.sorting import put_in_order, shuffle_rows
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Uncounted
from tests.engine.tables import make_table, signed


@pytest.mark.parametrize("held_bytes", [1 << 20, 2000, 1])
@pytest.mark.parametrize("largest", [0, 1, 3, 2**62])
def test_rows_come_in_order_however_few_fit(held_bytes, largest):
    chance = np.random.default_rng(largest % 7)
    blocks = [chance.integers(-largest, largest + 1, (3, size)) for size in chance.integers(0, 40, 20)]
    whole = np.concatenate(blocks, axis=1)

    found = np.concatenate([*put_in_order(iter(blocks), [2, 0], held_bytes)], axis=1)

    assert found[[2, 0]].T.tolist() == sorted(whole[[2, 0]].T.tolist())
    assert sorted(found.T.tolist()) == sorted(whole.T.tolist())


def test_no_block_is_no_row():
    assert [*put_in_order(iter([]), [0])] == []


def test_rows_of_equal_keys_come_to_one_call(spark, monkeypatch):
    monkeypatch.setattr(sorting, "SENT_BYTES", 100)
    chance = Random(3)
    rows = [(signed(chance.choice([5, 6, 2**63, chance.getrandbits(64)])), chance.randint(0, 3), n) for n in range(500)]
    names = ["key", "part", "number"]
    schema = pa.schema([(name, pa.int64()) for name in names])
    told = pa.schema([*schema, ("call", pa.int64())])

    def note(batches):
        call = chance.getrandbits(62)
        for batch in batches:
            yield batch.append_column("call", pa.array([call] * batch.num_rows, pa.int64()))

    table = make_table(spark, rows, schema)
    shuffle = Shuffle(emitted=schema, by=["key", "part"], order=["number"], work=note, schema=told)
    given = SparkRows.of(table.repartition(3))
    found = shuffle_rows(given, shuffle, Uncounted(schema=from_arrow_schema(told)), None, 2).toArrow()
    places = {}
    for place, row in enumerate(found.to_pylist()):
        places.setdefault((row["key"], row["part"]), []).append((row["call"], place, row["number"]))
    assert sorted(tuple(row[name] for name in names) for row in found.to_pylist()) == sorted(rows)
    for met in places.values():
        calls, at, numbers = zip(*met, strict=True)
        assert len(set(calls)) == 1
        assert list(at) == list(range(at[0], at[0] + len(at)))
        assert list(numbers) == sorted(numbers)
