"""Exchange of rows between tasks: those of several tables to one place, such as pairs and their documents."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine import sessions
from dedup.engine.engine import Batches, Tally, Work
from dedup.engine.pairing import ADDRESSED
from dedup.engine.placement import SENT_BYTES, Meeting, ceil_div
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Ending
from dedup.kernels import Integers
from dedup.kernels.hashing import mix
from dedup.kernels.runs.batches import gather_tables
from dedup.kernels.runs.blocks import divide, routes
from dedup.kernels.runs.bounds import mark_firsts

Pairs: TypeAlias = tuple[Integers, Integers]
Receive: TypeAlias = Callable[[Sequence[pa.Table | None]], Iterable[pa.RecordBatch | Tally]]
WAVES = 8
"""Tasks for each core, so that cores end together."""
NUMBERS = 64
"""Splits or output files that a task has at most: it is given all rows of theirs at once."""
SENT = pa.schema([("target", pa.int32()), ("part", pa.int32()), ("rows", pa.binary())])
"""Rows of one of the parts that are brought together, as a stream of Arrow, on their way to a task."""


def bring(
    parts: Sequence[tuple[DataFrame | SparkRows, Work]],
    receive: Receive,
    ending: Ending,
    count: int,
    *,
    merges: bool = False,
) -> DataFrame:
    """Bring rows of several parts to so many tasks, and return what these make of them.

    Parameters
    ----------
    parts
        Rows, and the work that makes of them those that are sent, with the column `target`: the number of a task.
    receive
        Given the rows of each part, None where there are none, yields rows, which `ending` takes; a task to which
        nothing comes makes nothing.
    merges
        Whether Spark, whose own number of partitions is the count, makes one task of several to which little comes.
    """
    targets, of_parts = routes(count), len(parts)

    def send(batches: Batches, emit: Work, number: int) -> Batches:
        for table in gather_tables(emit(batches), SENT_BYTES):
            divided, given = divide(targets[table["target"].to_numpy()]), table.drop_columns(["target"])
            sent = [
                {"target": target, "part": number, "rows": sessions.pack(given.take(rows))} for target, rows in divided
            ]
            yield pa.RecordBatch.from_pylist(sent, SENT)

    def work(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
        received: list[list[pa.Table]] = [[] for _ in range(of_parts)]
        for batch in batches:
            for number, cell in zip(batch["part"].to_pylist(), batch["rows"], strict=True):
                received[number].append(pa.ipc.open_stream(cell.as_buffer()).read_all())
        if any(received):
            # Rows that Spark has read say of some columns that they hold no null.
            united = (pa.concat_tables(tables, promote_options="default") if tables else None for tables in received)
            yield from receive([*united])

    sent = [
        rows.mapInArrow(partial(send, emit=emit, number=number), from_arrow_schema(SENT))
        for number, (rows, emit) in enumerate(parts)
    ]
    united = reduce(DataFrame.union, sent)
    brought = united.repartition("target") if merges else united.repartition(count, "target")
    return brought.mapInArrow(ending(work), ending.schema)


def spread(
    session: SparkSession,
    parts: Sequence[DataFrame | SparkRows],
    key: str,
    receive: Receive,
    ending: Ending,
    *,
    numbers: int,
) -> DataFrame:
    """Bring rows of several parts to tasks by a number below `numbers`, as many numbers to each; see `bring`."""
    cores = sessions.count_cores(session)
    count = max(min(numbers, WAVES * cores), ceil_div(numbers, NUMBERS), 1)

    def place(batches: Batches) -> Batches:
        for batch in batches:
            yield batch.append_column("target", pa.array(batch[key].to_numpy().astype(np.int64) % count))

    return bring([(part, place) for part in parts], receive, ending, count)


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
    for batch in batches:
        for left, right in pairs_of(batch):
            cells = _cells(left, right, meeting.groups)
            found = distinct(np.concatenate((left, right)), np.concatenate((cells, cells)))
            yield pa.RecordBatch.from_arrays([*map(pa.array, found)], schema=ADDRESSED)


def meet(
    source: SparkRows,
    pairs_of: Callable[[pa.RecordBatch], Iterator[Pairs]],
    payload: SparkRows,
    compare: Callable[[pa.Table, Pairs], Iterable[pa.RecordBatch | Tally]],
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
        Given the payload of a cell's documents and the ids of its distinct pairs, yields rows, which `ending` takes.
    """

    def send_pairs(batches: Batches) -> Batches:
        for batch in batches:
            for left, right in pairs_of(batch):
                columns = left, right, _cells(left, right, meeting.groups)
                yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], ["left_id", "right_id", "target"])

    def send_whole(batches: Batches) -> Batches:
        for batch in batches:
            yield batch.append_column("target", pa.array(np.zeros(batch.num_rows, np.int64)))

    def receive(tables: Sequence[pa.Table | None]) -> Iterator[pa.RecordBatch | Tally]:
        pairs, documents = tables
        if pairs is None:
            return
        left, right = distinct(*(pairs[name].to_numpy() for name in ("left_id", "right_id")))
        if documents is None:
            raise ValueError(f"every document of a pair must be given (got none of {left[0]})")
        yield from compare(documents, (left, right))

    parts = [(source, send_pairs), (payload, send_whole if meeting.whole else iter)]
    return bring(parts, receive, ending, meeting.cells)


def distinct(left: Integers, right: Integers) -> Pairs:
    """Return the distinct pairs in ascending order."""
    order = np.lexsort((right, left))
    left, right = left[order], right[order]
    first = mark_firsts(left, right)
    return left[first], right[first]
