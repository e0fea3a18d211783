"""Exchange of rows between tasks: pairs and their documents to one place."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.engine import Batches, Tally
from dedup.engine.pairing import ADDRESSED
from dedup.engine.placement import Meeting
from dedup.engine.table import Ending
from dedup.kernels import Integers
from dedup.kernels.hashing import mix
from dedup.kernels.runs.blocks import routes, split, unpack
from dedup.kernels.runs.bounds import mark_firsts

Pairs: TypeAlias = tuple[Integers, Integers]


def gather(batches: Batches) -> pa.Table | None:
    """Return all rows of a partition, None where there are none."""
    taken = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(taken) if taken else None


def _cells(left: Integers, right: Integers, groups: int) -> Integers:
    """Return the cell of every pair: the number of the unordered pair of its documents' groups."""
    first, second = (
        ((mix(ids.view(np.uint64)) >> np.uint64(32)) * np.uint64(groups) >> np.uint64(32)).astype(np.int64)
        for ids in (left, right)
    )
    low, high = np.minimum(first, second), np.maximum(first, second)
    cells: Integers = high * (high + 1) // 2 + low
    return cells


def list_cells(batches: Batches, *, pairs_of: Callable[[pa.RecordBatch], Iterator[Pairs]], meeting: Meeting) -> Batches:
    """Yield ADDRESSED: the cells of each document in the pairs that batches name, once a batch."""
    targets = routes(meeting.cells)
    for batch in batches:
        for left, right in pairs_of(batch):
            cells = _cells(left, right, meeting.groups)
            doc_ids, cells = distinct(np.concatenate((left, right)), np.concatenate((cells, cells)))
            yield pa.RecordBatch.from_arrays([pa.array(doc_ids), pa.array(targets[cells])], schema=ADDRESSED)


def drop_repeated(batches: Batches) -> Batches:
    """Yield the distinct rows of ADDRESSED."""
    parts = [[column.to_numpy() for column in batch.columns] for batch in batches]
    if parts:
        found = distinct(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        yield pa.RecordBatch.from_arrays([*map(pa.array, found)], schema=ADDRESSED)


def meet(
    source: DataFrame,
    pairs_of: Callable[[pa.RecordBatch], Iterator[Pairs]],
    payload: DataFrame,
    compare: Callable[[pa.Table, Pairs, Pairs], Iterable[pa.RecordBatch | Tally]],
    ending: Ending,
    *,
    meeting: Meeting,
) -> DataFrame:
    """Bring both documents of every pair to one place and compare them there.

    Documents fall into groups by the hash of their id, and a cell holds the pairs of two groups, so a document
    travels to at most as many cells as there are groups, however many pairs it has, and only where it has one. Cells
    are of like size.

    Parameters
    ----------
    source
        Rows that `pairs_of` turns into pairs left_id < right_id, with repetitions.
    payload
        `doc_id` and what the comparison needs of a document, of every document that has a pair, and its `target`:
        ADDRESSED; all go to the one cell of `meeting.whole`.
    compare
        Given the payload of a cell's documents, the ids of its distinct pairs and the rows of both in the payload,
        yields rows, which `ending` takes.
    """
    groups = meeting.groups
    targets = routes(meeting.cells)

    def send_pairs(batches: Batches) -> Batches:
        for batch in batches:
            for left, right in pairs_of(batch):
                sent = list(split(targets[_cells(left, right, groups)], left, right))
                yield pa.record_batch(
                    {"target": pa.array([t for t, _ in sent], pa.int32()), "block": [b for _, b in sent]},
                    schema=pa.schema({"target": pa.int32(), "block": pa.binary()}),
                )

    def receive(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
        table = gather(batches)
        if table is None:
            return
        left, right = distinct(*unpack(table["block"], 2))
        documents = table.filter(pc.is_valid(table["doc_id"])).drop_columns(["target", "block"])
        left_rows, right_rows = (_look_up(documents["doc_id"].to_numpy(), ends) for ends in (left, right))
        yield from compare(documents, (left, right), (left_rows, right_rows))

    target = F.lit(int(targets[0])) if meeting.whole else F.col("target")
    pairs = source.mapInArrow(send_pairs, T.StructType().add("target", T.IntegerType()).add("block", T.BinaryType()))
    return (
        pairs.unionByName(payload.withColumn("target", target.cast("int")), allowMissingColumns=True)
        .repartition(targets.size, "target")
        .mapInArrow(ending(receive), ending.schema)
    )


def _look_up(ids: Integers, wanted: Integers) -> Integers:
    """Return where each id stands; a missing one would otherwise be taken for its neighbour."""
    order = np.argsort(ids, kind="stable")
    rows = order.take(np.searchsorted(ids, wanted, sorter=order), mode="clip")
    if not np.array_equal(ids[rows], wanted):
        raise ValueError(f"every document of a pair must have a payload (got none of {wanted[ids[rows] != wanted][0]})")
    return rows


def distinct(left: Integers, right: Integers) -> Pairs:
    """Return the distinct pairs in ascending order."""
    order = np.lexsort((right, left))
    left, right = left[order], right[order]
    first = mark_firsts(left, right)
    return left[first], right[first]
