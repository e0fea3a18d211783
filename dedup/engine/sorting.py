"""Rows of 64-bit numbers brought together by keys and put in order: in blocks, since a row of Spark costs microseconds.

What is too much for the memory of a task is divided by a sample of it into ranges, each a file, as in sample sort [1]_.

References
----------
.. [1] W. D. Frazer, A. C. McKellar: Samplesort: a sampling approach to minimal storage tree sorting. JACM 17 (1970).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.engine import Batches, Shuffle, Tally
from dedup.engine.exchange import bring
from dedup.engine.placement import SENT_BYTES, place_rows
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Ending
from dedup.kernels import Integers
from dedup.kernels.hashing import mix
from dedup.kernels.runs.argsort import argsort
from dedup.kernels.runs.batches import gather_tables
from dedup.kernels.runs.blocks import routes, split
from dedup.kernels.runs.bounds import mark_firsts

SENT = pa.schema([("target", pa.int32()), ("block", pa.binary())])
HELD_BYTES = 128 << 20
"""Rows that a task sorts at a time; it takes three times as much."""
RANGES = 32
BATCH_ROWS = 1 << 16


def shuffle_rows(rows: SparkRows, shuffle: Shuffle, ending: Ending, expected: float | None, cores: int) -> DataFrame:
    """Return what a shuffle makes of rows, of which about `expected` travel; see `Engine.group`."""
    emit, emitted = shuffle.emit, shuffle.emitted
    given = rows.select(*emitted.names) if emit is None else rows
    of_numbers = all(field.type == pa.int64() for field in emitted)
    count = None if expected is None else place_rows(len(emitted) if of_numbers else None, expected, cores)
    if of_numbers:
        return _shuffle_blocks(given, shuffle, ending, count)
    if not shuffle.in_order:
        return _shuffle_tables(given, shuffle, ending, count)
    sent = given.frame if emit is None else given.mapInArrow(emit, from_arrow_schema(emitted))
    ordered = _bring(sent, shuffle.by, count).sortWithinPartitions(*shuffle.by, *shuffle.order)
    return ordered.mapInArrow(ending(shuffle.work), ending.schema)


def _shuffle_tables(rows: SparkRows, shuffle: Shuffle, ending: Ending, partitions: int | None) -> DataFrame:
    """Do so with rows in any order, which need not be rows of Spark on their way."""
    emit, work, by = shuffle.emit, shuffle.work, shuffle.by
    count = partitions or count_partitions(rows.session)

    def place(batches: Batches) -> Batches:
        for batch in filter(len, emit(batches) if emit else batches):
            target = _place(np.stack([batch[name].to_numpy() for name in by]), count)
            yield batch.append_column("target", pa.array(target))

    def receive(tables: Sequence[pa.Table | None]) -> Iterable[pa.RecordBatch | Tally]:
        return work(batch for table in tables if table is not None for batch in table.to_batches())

    return bring([(rows, place)], receive, ending, count, merges=partitions is None)


def _shuffle_blocks(rows: SparkRows, shuffle: Shuffle, ending: Ending, partitions: int | None) -> DataFrame:
    """Do so with rows of int64 columns, in blocks."""
    emit, work, emitted = shuffle.emit, shuffle.work, shuffle.emitted
    count = partitions or count_partitions(rows.session)
    targets = routes(count)
    keys = [emitted.get_field_index(name) for name in (*shuffle.by, *shuffle.order)]
    groups = keys[: len(shuffle.by)]

    def send(batches: Batches) -> Batches:
        for table in gather_tables(filter(len, emit(batches) if emit else batches), SENT_BYTES):
            held = np.stack([column.to_numpy() for column in table.columns])
            sent = list(split(targets[_place(held[groups], count)], *held))
            yield pa.record_batch([[target for target, _ in sent], [block for _, block in sent]], schema=SENT)

    def receive(batches: Batches) -> Iterable[pa.RecordBatch | Tally]:
        cells = chain.from_iterable(batch["block"] for batch in batches)
        blocks = (np.frombuffer(cell.as_buffer(), dtype="<i8").reshape(len(emitted), -1) for cell in cells)
        return work(_write(put_in_order(blocks, keys) if shuffle.in_order else blocks, emitted))

    sent = _bring(rows.mapInArrow(send, from_arrow_schema(SENT)), ["target"], partitions)
    return sent.mapInArrow(ending(receive), ending.schema)


def _bring(rows: DataFrame, keys: Sequence[str], partitions: int | None) -> DataFrame:
    """Shuffle rows by keys; Spark, where the number of partitions is its own, makes fewer of few rows."""
    return rows.repartition(*keys) if partitions is None else rows.repartition(partitions, *keys)


def put_in_order(blocks: Iterable[Integers], keys: Sequence[int], held_bytes: int = HELD_BYTES) -> Iterator[Integers]:
    """Yield the rows of blocks in ascending order.

    Parameters
    ----------
    blocks : int64 [columns, rows] each
    keys
        The columns to order by, the first counts most.
    held_bytes
        About so much is sorted in memory.
    """
    blocks = iter(blocks)
    held: list[Integers] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += block.nbytes
        if size > held_bytes:
            break
    else:
        if held:
            rows = np.concatenate(held, axis=1)
            held.clear()
            order = argsort(rows[keys])
            for begin in range(0, order.size, BATCH_ROWS):
                yield rows[:, order[begin : begin + BATCH_ROWS]]
        return
    columns = held[0].shape[0]
    sample = np.concatenate([block[keys][:, :: max(1, block.shape[1] // RANGES)] for block in held], axis=1)
    sample = sample[:, argsort(sample)]
    sample = sample[:, mark_firsts(*sample)]
    splitters = sample[:, :: max(1, sample.shape[1] // RANGES)]
    with ExitStack() as opened:
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
        files = [opened.enter_context(TemporaryFile(dir=folder)) for _ in range(2 * splitters.shape[1] + 1)]
        for block in chain(held, blocks):
            ranges = _find_ranges(splitters, block[keys])
            for number, content in split(ranges, *block):
                files[number].write(len(content).to_bytes(8, "little") + content)
        held.clear()
        for number, file in enumerate(files):
            file.seek(0)
            restored = _restore(file, columns)
            # Rows that equal a splitter are in order as they are.
            yield from restored if number % 2 else put_in_order(restored, keys, held_bytes)


def _find_ranges(splitters: Integers, rows: Integers) -> Integers:
    """Return of each row twice the number of splitters before it, and 1 more if it equals the next."""
    both = np.concatenate((splitters, rows), axis=1)
    order = argsort(both)
    count = splitters.shape[1]
    is_splitter = order < count
    before = np.cumsum(is_splitter)
    # A stable sort has the splitter first among its equals.
    last = splitters[:, np.maximum(before - 1, 0)]
    equal = (both[:, order] == last).all(axis=0) & (before > 0)
    ranges = np.empty_like(order)
    ranges[order] = 2 * before - equal
    return ranges[count:]


def _restore(file: IO[bytes], columns: int) -> Iterator[Integers]:
    while size := file.read(8):
        yield np.frombuffer(file.read(int.from_bytes(size, "little")), dtype="<i8").reshape(columns, -1)


def count_partitions(spark: SparkSession) -> int:
    """Return the partitions of a shuffle that names no number of its own."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _place(keys: Integers, count: int) -> Integers:
    """Return the place of each row among so many, by the hash of its keys."""
    hashes = np.zeros(keys.shape[1], dtype=np.uint64)
    for key in keys:
        hashes = mix(hashes + key.view(np.uint64))
    places: Integers = ((hashes >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    return places


def _write(blocks: Iterable[Integers], schema: pa.Schema) -> Batches:
    for block in blocks:
        yield pa.RecordBatch.from_arrays(list(map(pa.array, block)), schema=schema)
