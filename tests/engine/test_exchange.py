"""Pairs and their documents brought to one place, and how far a document travels for it."""

import random
from collections import Counter
from functools import partial
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.exchange import list_cells, meet, spread
from dedup.engine.pairing import take_documents
from dedup.engine.placement import Meeting
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Uncounted
from dedup.kernels.runs.blocks import routes
from tests.engine.tables import draw_ids, rows, settings

MET = T.StructType().add("left_id", "long").add("right_id", "long").add("left", "string").add("right", "string")


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64])
def test_spark_sends_one_route_to_each_partition(spark, partitions):
    targets = routes(partitions).tolist()
    frame = spark.createDataFrame([(target,) for target in targets], "target int")

    found = frame.repartition(partitions, "target").select(F.spark_partition_id().alias("place"), "target").collect()

    assert sorted((row.place, row.target) for row in found) == list(enumerate(targets))


def list_pairs(batch):
    yield batch["left_id"].to_numpy(), batch["right_id"].to_numpy()


def place(documents, pairs):
    """Return the documents of pairs, and the places of both ends among them."""
    wanted = np.unique(np.concatenate(pairs))
    return take_documents(documents, wanted), [np.searchsorted(wanted, side) for side in pairs]


def name_both(documents, pairs):
    """Yield pairs with the names of both documents."""
    found, numbers = place(documents, pairs)
    names = [found["name"].take(pa.array(places)).combine_chunks() for places in numbers]
    yield pa.RecordBatch.from_arrays([*map(pa.array, pairs), *names], names=MET.names)


def bring(spark, pairs, ids, meeting):
    documents = spark.createDataFrame([(each, f"name {each}") for each in ids], "doc_id long, name string")
    source = spark.createDataFrame(pairs, "left_id long, right_id long").repartition(3)
    # A document that comes twice counts once.
    payload = address(source, documents.unionByName(documents.limit(5)), meeting)
    return meet(
        SparkRows.of(source), list_pairs, SparkRows.of(payload), name_both, Uncounted(schema=MET), meeting=meeting
    )


def address(source, payload, meeting):
    """Name the cells of documents, as the engine does."""
    if meeting.whole:
        return payload
    listed = source.mapInArrow(partial(list_cells, pairs_of=list_pairs, meeting=meeting), "doc_id long, target long")
    cells = listed.distinct()
    return payload.join(cells, on="doc_id")


@pytest.mark.parametrize(("groups", "whole"), [(1, False), (1, True), (2, False), (5, False)])
def test_every_pair_comes_once_with_both_documents_wherever_it_meets(spark, groups, whole):
    chance = random.Random(3)
    ids = draw_ids(chance, 16)
    pairs = chance.sample(list(combinations(sorted(ids), 2)), 60)

    # Batches of two rows: some hold only pairs, some only documents.
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 2}):
        meeting = Meeting(groups=groups, whole=whole)
        found = rows(bring(spark, [*pairs, *pairs[:20]], ids, meeting))

    assert found == sorted(((*pair, *(f"name {each}" for each in pair)) for pair in pairs), key=repr)


@pytest.mark.parametrize("groups", [1, 5])
def test_a_document_travels_once_to_each_cell_of_its_group(spark, groups):
    ids = list(range(80))
    pairs = list(combinations(ids[:-10], 2))
    payload = spark.createDataFrame([(doc_id, f"payload {doc_id}") for doc_id in ids], "doc_id long, load string")
    source = spark.createDataFrame(pairs, "left_id long, right_id long").repartition(4)

    def pairs_of(batch):
        yield batch["left_id"].to_numpy(), batch["right_id"].to_numpy()

    def compare(documents, pairs):
        found, numbers = place(documents, pairs)
        loads = found["load"].to_pylist()
        for ends, places in zip(pairs, numbers, strict=True):
            assert [loads[place] for place in places] == [f"payload {doc_id}" for doc_id in ends]
        arrived = np.concatenate((documents["doc_id"].to_numpy(), np.full(1, -pairs[0].size)))
        yield pa.record_batch({"arrived": arrived})

    meeting = Meeting(groups=groups, whole=False)
    schema = T.StructType().add("arrived", "long")
    addressed = SparkRows.of(address(source, payload, meeting))
    met = meet(SparkRows.of(source), pairs_of, addressed, compare, Uncounted(schema=schema), meeting=meeting)
    found = [row.arrived for row in met.collect()]

    # Everyone meets everyone, so a document goes to all cells of its group; one without a pair goes nowhere.
    assert Counter(number for number in found if number >= 0) == dict.fromkeys(ids[:-10], groups)
    cells = [-number for number in found if number < 0]
    assert sum(cells) == len(pairs)
    assert len(cells) == groups * (groups + 1) // 2


def test_a_document_that_is_missing_is_no_other(spark):
    for ids, missing in (([1, 3], 2), ([], 1)):
        with pytest.raises(PythonException, match=rf"must be given \(got none of {missing}\)"):
            bring(spark, [(1, 2)], ids, Meeting(groups=1, whole=True)).collect()


def test_no_pair_meets_nobody(spark):
    source = spark.createDataFrame([], "left_id long, right_id long")
    documents = spark.createDataFrame([(1, "name")], "doc_id long, name string")
    meeting = Meeting(groups=3, whole=False)

    assert (
        rows(
            meet(
                SparkRows.of(source),
                list_pairs,
                SparkRows.of(address(source, documents, meeting)),
                name_both,
                Uncounted(schema=MET),
                meeting=meeting,
            )
        )
        == []
    )


def test_a_task_is_given_no_more_than_so_many_numbers(spark, monkeypatch):
    monkeypatch.setattr("dedup.engine.exchange.NUMBERS", 3)
    monkeypatch.setattr("dedup.engine.exchange.WAVES", 1)
    numbers = spark.range(50).withColumnRenamed("id", "split")
    more = spark.createDataFrame([(each % 50, each) for each in range(200)], "split int, value long")

    def receive(tables):
        counts = [0 if table is None else len(set(table["split"].to_pylist())) for table in tables]
        yield pa.record_batch({"own": counts[:1], "more": counts[1:], "values": [tables[1].num_rows]})

    schema = T.StructType().add("own", "long").add("more", "long").add("values", "long")
    found = spread(spark, [numbers, more], "split", receive, Uncounted(schema=schema), numbers=50).collect()

    assert sum(row.own for row in found) == 50
    assert sum(row["values"] for row in found) == 200
    assert all(row.own == row.more <= 3 for row in found)
