"""Exchange of rows between tasks: pairs and their documents to one place."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.engine import Batches, Tally
from dedup.engine.pairing import ADDRESSED
from dedup.engine.placement import SENT_BYTES, Meeting
from dedup.engine.relations import WorkerRows
from dedup.engine.sessions import pack
from dedup.engine.table import Ending, gather_tables
from dedup.kernels import Integers
from dedup.kernels.hashing import mix
from dedup.kernels.runs.blocks import divide, routes, split, unpack
from dedup.kernels.runs.bounds import mark_firsts

Pairs: TypeAlias = tuple[Integers, Integers]
SENT = pa.schema([("target", pa.int32()), ("pairs", pa.binary()), ("documents", pa.binary())])
"""Blocks of pairs, and tables of their documents as streams of Arrow, on their way to a cell."""


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
    source: DataFrame | WorkerRows,
    pairs_of: Callable[[pa.RecordBatch], Iterator[Pairs]],
    payload: DataFrame | WorkerRows,
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
    groups, targets = meeting.groups, routes(meeting.cells)

    def send_pairs(batches: Batches) -> Batches:
        for batch in batches:
            for left, right in pairs_of(batch):
                blocks = split(targets[_cells(left, right, groups)], left, right)
                yield _send({"target": target, "pairs": block} for target, block in blocks)

    def send_documents(batches: Batches) -> Batches:
        for table in gather_tables(batches, SENT_BYTES):
            to = np.repeat(targets, table.num_rows) if meeting.whole else table["target"].to_numpy()
            documents = table.select([name for name in table.schema.names if name != "target"])
            yield _send({"target": target, "documents": pack(documents.take(rows))} for target, rows in divide(to))

    def receive(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
        table = gather(batches)
        if table is None:
            return
        left, right = distinct(*unpack(table["pairs"], 2))
        streams = (pa.ipc.open_stream(cell.as_buffer()) for cell in table["documents"].drop_null())
        documents = pa.concat_tables([stream.read_all() for stream in streams])
        left_rows, right_rows = (_look_up(documents["doc_id"].to_numpy(), ends) for ends in (left, right))
        yield from compare(documents, (left, right), (left_rows, right_rows))

    pairs, documents = (
        rows.mapInArrow(send, from_arrow_schema(SENT))
        for rows, send in ((source, send_pairs), (payload, send_documents))
    )
    return pairs.union(documents).repartition(targets.size, "target").mapInArrow(ending(receive), ending.schema)


def _send(rows: Iterable[Mapping[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([*rows], SENT)


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
