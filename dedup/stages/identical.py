"""SIGNATURES -> IDENTICAL, REPEATED."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.kernels import Integers
from dedup.kernels.hashing import mix
from dedup.kernels.runs.blocks import routes, split, unpack
from dedup.kernels.sets.identical import find_identical, find_repeated
from dedup.stages.exchange import Batches, gather
from dedup.stages.placement import place_identical
from dedup.stages.table import Keep, Seen, Table
from dedup.tables.counts import Collapsed, Signed
from dedup.tables.schemas import SHARED

SENT = T.StructType().add("target", T.IntegerType()).add("digests", T.BinaryType()).add("ids", T.BinaryType())


def collapse(keep: Keep, signed: Table[Signed], *, cores: int, table: str = "identical") -> Table[Collapsed]:
    """Keep SHARED under a name."""
    partitions = place_identical(signed.counts.rows, cores)
    return keep(
        table,
        SHARED,
        lambda _: find_shared(signed.frame, partitions=partitions),
        measure,
        summed={"identical": "int(set_id IS NOT NULL)", "repeated": "int(copies IS NOT NULL)"},
    )


def measure(seen: Seen) -> Collapsed:
    """Return the counts of SHARED."""
    return Collapsed(rows=seen["identical"], repeated=seen["repeated"])


def find_shared(signatures: DataFrame, *, partitions: int) -> DataFrame:
    """SIGNATURES -> SHARED, from which `select_identical` and `select_repeated`; shuffles 32 bytes per document.

    Documents of one shingle set, told by its 128-bit digest, collapse to the least of their ids before any banding,
    so that a thousand copies cost as much as one. Documents without a shingle are identical to none. Null ids are left
    out.
    """
    targets = routes(partitions)

    def choose(numbers: Integers) -> Integers:
        high = mix(numbers.view(np.uint64)) >> np.uint64(32)
        return targets[((high * np.uint64(partitions)) >> np.uint64(32)).astype(np.int64)]

    def send(batches: Batches) -> Batches:
        for batch in batches:
            named = batch.filter(pc.is_valid(batch["doc_id"]))
            high, low, doc_ids = (named[name].to_numpy() for name in ("digest_high", "digest_low", "doc_id"))
            kept = np.flatnonzero(named["shingle_count"].to_numpy() > 0)
            digests = list(split(choose(high[kept]), high[kept], low[kept], doc_ids[kept]))
            ids = list(split(choose(doc_ids), doc_ids))
            yield pa.record_batch(
                {
                    "target": pa.array([target for target, _ in digests + ids], pa.int32()),
                    "digests": pa.array([block for _, block in digests] + [None] * len(ids), pa.binary()),
                    "ids": pa.array([None] * len(digests) + [block for _, block in ids], pa.binary()),
                }
            )

    def receive(batches: Batches) -> Batches:
        table = gather(batches)
        if table is not None:
            doc_ids, set_ids = find_identical(*unpack(table["digests"], 3))
            repeated, copies = find_repeated(*unpack(table["ids"], 1))
            yield pa.record_batch(
                {
                    "doc_id": np.concatenate((doc_ids, repeated)),
                    "set_id": pa.array([*set_ids.tolist(), *[None] * repeated.size], pa.int64()),
                    "copies": pa.array([*[None] * doc_ids.size, *copies.tolist()], pa.int64()),
                }
            )

    sent = signatures.select("doc_id", "shingle_count", "digest_high", "digest_low").mapInArrow(send, SENT)
    return sent.repartition(partitions, "target").mapInArrow(receive, SHARED)


def select_identical(shared: DataFrame) -> DataFrame:
    """SHARED -> IDENTICAL."""
    return shared.filter(F.col("set_id").isNotNull()).select("doc_id", "set_id")


def select_repeated(shared: DataFrame) -> DataFrame:
    """SHARED -> REPEATED."""
    return shared.filter(F.col("copies").isNotNull()).select("doc_id", "copies")


def select_heads(signatures: DataFrame, identical: DataFrame) -> DataFrame:
    """SIGNATURES, IDENTICAL -> SIGNATURES of one document per shingle set."""
    return signatures.filter(F.col("shingle_count") > 0).join(identical, on="doc_id", how="left_anti")
