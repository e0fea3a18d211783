"""SIGNATURES, or the prefixes of exact mode -> BUCKETS."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.blocks import lists, routes, split, unlists, unpack
from dedup.kernels.sets import lsh
from dedup.stages.exchange import Batches, Counters, gather
from dedup.stages.table import Keep, Seen, Table, read_histogram
from dedup.tables.counts import Bucketed
from dedup.tables.schemas import BUCKETS

KEYED = T.StructType().add("target", T.IntegerType()).add("block", T.BinaryType())


class Build(Protocol):
    """`bucket_bands` or `bucket_prefixes` of some rows."""

    def __call__(self, *, partitions: int, counters: Counters) -> DataFrame:
        """Return BUCKETS."""


def bucket(keep: Keep, build: Build, partitions: int) -> Table[Bucketed]:
    """Keep BUCKETS."""
    return keep(
        "buckets",
        BUCKETS,
        lambda counters: build(partitions=partitions, counters=counters),
        measure,
        summed={"members": "size"},
    )


def measure(seen: Seen) -> Bucketed:
    """Return the counts of BUCKETS."""
    return Bucketed(
        rows=seen["rows"],
        members=seen["members"],
        band_rows=seen.get("band_rows", 0),
        sizes=read_histogram(seen, "sizes"),
    )


def bucket_bands(signatures: DataFrame, *, partitions: int, counters: Counters) -> DataFrame:
    """SIGNATURES -> BUCKETS of documents that agree in a band; shuffles 16 bytes x bands per document."""

    def keys_of(batch: pa.RecordBatch) -> tuple[Hashes, Integers]:
        keys, offsets = unlists(batch["band_keys"], "<u8")
        return keys, np.repeat(batch["doc_id"].to_numpy(), np.diff(offsets))

    return _bucket(signatures.select("doc_id", "band_keys"), keys_of, partitions, counters)


def bucket_prefixes(prefixes: DataFrame, *, partitions: int, counters: Counters) -> DataFrame:
    """Prefixes (doc_id, shingle) -> BUCKETS of documents whose prefixes share a shingle; shuffles 16 bytes a row."""

    def keys_of(batch: pa.RecordBatch) -> tuple[Hashes, Integers]:
        return batch["shingle"].to_numpy().view(np.uint64), batch["doc_id"].to_numpy()

    return _bucket(prefixes.select("doc_id", "shingle"), keys_of, partitions, counters)


def _bucket(
    keyed: DataFrame,
    keys_of: Callable[[pa.RecordBatch], tuple[Hashes, Integers]],
    partitions: int,
    counters: Counters,
) -> DataFrame:
    """Bring equal keys together. Keys that occur once, most of them, end where they arrive.

    `counters` takes `sizes`, how many buckets there are of every size, and `band_rows`, how many rows were shuffled.
    """
    targets = routes(partitions)

    def send(batches: Batches) -> Batches:
        for batch in batches:
            keys, doc_ids = keys_of(batch)
            destinations = targets[((keys >> np.uint64(32)) * np.uint64(partitions) >> np.uint64(32)).astype(np.int64)]
            sent = list(split(destinations, keys, doc_ids))
            yield pa.record_batch(
                [pa.array([target for target, _ in sent], pa.int32()), pa.array([b for _, b in sent], pa.binary())],
                names=["target", "block"],
            )

    def receive(batches: Batches) -> Batches:
        table = gather(batches)
        if table is not None:
            numbers, doc_ids = unpack(table["block"], 2)
            counters.add("band_rows", numbers.size)
            keys, members, offsets = lsh.group(numbers.view(np.uint64), doc_ids)
            sizes = np.diff(offsets)
            counters.add_each("sizes", sizes)
            yield pa.record_batch(
                {
                    "key": keys.view(np.int64),
                    "size": sizes.astype(np.int32),
                    "doc_ids": lists(members, offsets),
                }
            )

    return keyed.mapInArrow(send, KEYED).repartition(partitions, "target").mapInArrow(receive, BUCKETS)
