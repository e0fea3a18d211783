"""Buckets against a dictionary of keys, and the way their rows find a partition."""

import random
from collections import Counter

import pytest
from pyspark.sql import functions as F

from dedup.kernels.runs.blocks import routes
from dedup.stages.buckets import bucket_bands, bucket_prefixes
from dedup.stages.exchange import Counters
from tests import oracles
from tests.stages import draw_ids, make_signatures, pack, settings, signed, unpack


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64])
def test_spark_sends_one_route_to_each_partition(spark, partitions):
    targets = routes(partitions).tolist()
    frame = spark.createDataFrame([(target,) for target in targets], "target int")

    found = frame.repartition(partitions, "target").select(F.spark_partition_id().alias("place"), "target").collect()

    assert sorted((row.place, row.target) for row in found) == list(enumerate(targets))


def collect(bucket, keyed, band_rows, **changes):
    """Return the members by key, in their order; a key stands in one row, and sizes and all rows are counted."""
    counters = Counters(keyed.sparkSession)
    table = bucket(keyed, **changes, counters=counters).collect()
    found = {row.key: unpack(row.doc_ids, "<i8") for row in table}
    sizes = [row["size"] for row in table]
    assert sizes == [len(ids) for ids in found.values()]
    assert counters.values().get("sizes", {}) == {str(size): count for size, count in Counter(sizes).items()}
    assert counters.values().get("band_rows", 0) == band_rows
    return found


def group(keyed):
    """Return the sorted members of keys that occur twice and more."""
    found = {}
    for key, doc_id in keyed:
        found.setdefault(signed(key), set()).add(doc_id)
    return {key: sorted(ids) for key, ids in found.items() if len(ids) > 1}


def draw_signatures(seed, documents, size):
    """Return signatures of few values, so that bands agree often."""
    chance = random.Random(seed)
    return {doc_id: chance.choices(range(6), k=size) for doc_id in draw_ids(chance, documents)}


@pytest.mark.parametrize(("bands", "rows", "partitions", "batch"), [(3, 1, 5, 3), (2, 3, 1, 4096)])
def test_buckets_are_documents_that_agree_in_a_band(spark, bands, rows, partitions, batch):
    signatures = draw_signatures(1, 60, bands * rows)
    table = [
        (doc_id, doc_id, 1, 0, 0, pack(oracles.band_keys(values, bands, rows))) for doc_id, values in signatures.items()
    ]
    # Equal rows without an id column are one document: it shares no bucket with itself.
    table += table[:20]
    expected = group(
        (key, doc_id) for doc_id, values in signatures.items() for key in oracles.band_keys(values, bands, rows)
    )
    assert len(expected) > 2
    assert len(expected) < bands * len(signatures)

    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": batch}):
        found = collect(bucket_bands, make_signatures(spark, table), 80 * bands, partitions=partitions)

    assert found == expected


def test_buckets_of_prefixes_are_documents_that_share_a_shingle(spark):
    chance = random.Random(2)
    shingles = draw_ids(chance, 30)
    prefixes = [(doc_id, shingle) for doc_id in range(-10, 10) for shingle in chance.sample(shingles, 4)]
    frame = spark.createDataFrame(prefixes, "doc_id long, shingle long").repartition(3)

    found = collect(bucket_prefixes, frame, 80, partitions=4)

    assert found == group((shingle, doc_id) for doc_id, shingle in prefixes)


def test_nothing_shared_makes_no_bucket(spark):
    alone = spark.createDataFrame([(1, 5), (2, 6)], "doc_id long, shingle long")

    assert collect(bucket_prefixes, alone, 2, partitions=3) == {}
    assert collect(bucket_prefixes, alone.limit(0), 0, partitions=3) == {}
