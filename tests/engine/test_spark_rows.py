"""Rows on Spark: the same whether Spark reads them or workers do by themselves, and as files that users find."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.engine import Shuffle
from dedup.engine.sorting import shuffle_rows
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Uncounted, WrittenFiles
from dedup.run.tables import _list_fragments
from tests.engine.tables import make_table

NAMED = pa.schema({"key": pa.int64(), "name": pa.string()})


def keep(rows, folder, **options):
    """Write rows as workers do, and return what Spark is told."""
    ending = WrittenFiles(folder=str(folder), rows=from_arrow_schema(NAMED), **options)
    return rows.mapInArrow(ending(iter), ending.schema).toArrow().to_pylist()


def plan_none():
    raise AssertionError("a DataFrame is planned that nobody reads")


def read_kept(spark, folder, values):
    """Return rows that workers have written, whose DataFrame must not be asked for."""
    table = make_table(spark, values, NAMED).repartition(2)
    relation = _list_fragments(str(folder), keep(SparkRows.of(table), folder), NAMED)
    return replace(SparkRows.of(table), relation=relation, plan=plan_none)


def collect(rows):
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_rows_that_workers_read_need_no_dataframe(spark, tmp_path):
    kept = read_kept(spark, tmp_path, [(1, "a"), (2, "b"), (3, "c")])

    assert collect(kept.select("name", number="key").collect()) == [("a", 1), ("b", 2), ("c", 3)]
    assert SparkRows.empty(spark, NAMED).collect().equals(NAMED.empty_table())


@pytest.mark.parametrize("expected", [None, 1_000_000])
def test_tables_of_which_workers_read_some_come_together(spark, tmp_path, expected):
    """Spark says of numbers that it has made that none is null, a file says nothing of the kind."""
    kept = read_kept(spark, tmp_path, [(each, "kept") for each in range(20)])
    made = SparkRows.of(spark.range(10).selectExpr("id as key", "'made' as name"))
    schema = pa.schema([("key", pa.int64()), ("names", pa.int64())])

    def count(batches):
        for group in (
            pa.Table.from_batches(list(batches), NAMED).group_by("key").aggregate([("name", "count")]).to_batches()
        ):
            yield pa.RecordBatch.from_arrays([group["key"], group["name_count"]], schema=schema)

    united = SparkRows(session=spark, columns=NAMED.names, plan=plan_none, parts=[kept, made])
    shuffle = Shuffle(emitted=NAMED, by=["key"], work=count, schema=schema, in_order=False)
    found = shuffle_rows(united, shuffle, Uncounted(schema=from_arrow_schema(schema)), expected, 2).toArrow()

    assert collect(found) == [(each, 2 if each < 10 else 1) for each in range(20)]


def test_files_that_users_find_are_the_same_when_a_task_is_tried_again(spark, tmp_path):
    rows = SparkRows.of(make_table(spark, [(each, "x") for each in range(10)], NAMED).repartition(3))

    told = [keep(rows, tmp_path / "out", is_published=True) for _ in range(2)]

    names = {path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")}
    assert names == {each["file"] for each in told[0]} == {each["file"] for each in told[1]}
    assert names <= {f"part-{number:05}.parquet" for number in range(3)}
    assert sum(each["rows"] for each in told[0]) == 10
    assert pc.sum(ds.dataset(tmp_path / "out").to_table()["key"]).as_py() == sum(range(10))


def test_a_table_without_rows_is_one_file_that_can_be_read(spark, tmp_path):
    [told] = keep(SparkRows.empty(spark, NAMED), tmp_path / "out", is_published=True)

    assert (told["file"], told["rows"]) == ("part-00000.parquet", 0)
    assert ds.dataset(tmp_path / "out").to_table().equals(NAMED.empty_table())
    # What is read again needs none.
    assert keep(SparkRows.empty(spark, NAMED), tmp_path / "kept") == []
