"""Tables of a store as DataFrames: the workers read the files themselves, and only the groups of rows they need."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.files.systems import absolute
from dedup.kernels import Flags, Integers
from dedup.kernels.runs.blocks import routes, split, unpack
from dedup.stages.exchange import Batches, gather
from dedup.stages.placement import ceil_div, fits_broadcast
from dedup.store.arrays import distinct, is_in
from dedup.store.folder import File
from dedup.store.schemas import TABLES, Layout
from dedup.store.snapshot import Snapshot, find_rows
from dedup.store.tables import Tables

SCANNED = 1 << 21
"""Rows that a task reads of a whole table."""
SENT = T.StructType().add("target", T.IntegerType()).add("block", T.BinaryType())
WANTED = T.StructType().add("wanted", T.LongType())
"""Keys of rows that are asked for."""


class Part(NamedTuple):
    """Groups of rows of a file."""

    file: File
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The files of a store at one moment, for the tasks of Spark."""

    spark: SparkSession
    tables: Tables
    """By a path that serves workers in other folders too."""
    files: Mapping[str, Sequence[File]]
    layouts: Mapping[str, Layout]

    @classmethod
    def of(cls, spark: SparkSession, snapshot: Snapshot) -> "Reader":
        """Return the reader of a snapshot."""
        return cls(
            spark=spark,
            tables=replace(snapshot.tables, path=absolute(snapshot.tables.path)),
            files={name: snapshot.list_files(name) for name in TABLES},
            layouts={name: snapshot.layout(name) for name in TABLES},
        )

    def add(self, name: str, files: Sequence[File]) -> "Reader":
        """Return a reader of more files."""
        return replace(self, files={**self.files, name: [*self.files[name], *files]})

    def count(self, name: str) -> int:
        """Return the rows of a table."""
        return sum(file.rows for file in self.files[name])

    def scan(self, name: str, columns: Sequence[str], keep: Callable[[pa.Table], Flags] | None = None) -> DataFrame:
        """Return all rows of some columns, or those that tasks are to keep."""
        tables, parts = self.tables, _cut(self.files[name], self.layouts[name].group)
        schema, together = self._select(name, columns), self.layouts[name].together

        def read(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch["id"].to_pylist():
                    for file, begin, end in parts[number]:
                        with tables.read(name, file) as found:
                            for first in range(begin, end, together):
                                groups = list(range(first, min(first + together, end)))
                                rows = found.read_row_groups(groups, schema.names)
                                kept = rows.filter(pa.array(keep(rows))) if keep else rows
                                yield from kept.cast(schema).to_batches()

        numbers = self.spark.range(0, len(parts), 1, max(len(parts), 1))
        return numbers.mapInArrow(read, from_arrow_schema(schema))

    def select(self, name: str, columns: Sequence[str], on: str, wanted: DataFrame, count: int) -> DataFrame:
        """Return the rows whose value of a column, one of those read, is among so many, which are distinct.

        Few are sent to the tasks, so that only rows wanted leave Python.
        """
        if not fits_broadcast(count):
            return self.scan(name, columns).join(wanted.select(on), on=on, how="left_semi")
        listed = np.sort(wanted.select(on).toArrow()[on].to_numpy())
        held = self.spark.sparkContext.broadcast(listed)
        return self.scan(name, columns, lambda rows: is_in(rows[on].to_numpy(), held.value))

    def find(
        self, name: str, wanted: DataFrame, columns: Sequence[str], place: Callable[[Integers], Integers], tasks: int
    ) -> DataFrame:
        """Return the rows whose key is one of those wanted; shuffles the keys.

        Parameters
        ----------
        wanted
            WANTED, perhaps with repetitions.
        place
            Gives for keys the task that looks for them, in the order of the keys, so that a task reads few groups.
        """
        tables, files, layout = self.tables, self.files[name], self.layouts[name]
        schema, targets = self._select(name, columns), routes(tasks)

        def send(batches: Batches) -> Batches:
            for batch in batches:
                keys = batch["wanted"].to_numpy()
                sent = list(split(targets[place(keys)], keys))
                yield pa.record_batch(
                    [pa.array([target for target, _ in sent], pa.int32()), pa.array([b for _, b in sent], pa.binary())],
                    names=SENT.names,
                )

        def receive(batches: Batches) -> Batches:
            table = gather(batches)
            if table is None:
                return
            keys = distinct(*unpack(table["block"], 1))
            for file in files:
                with tables.read(name, file) as found:
                    for rows in find_rows(found, layout, keys, schema.names):
                        yield from rows.select(schema.names).cast(schema).to_batches()

        if not files:
            return self.spark.createDataFrame([], from_arrow_schema(schema))
        sent = wanted.mapInArrow(send, SENT).repartition(tasks, "target")
        return sent.mapInArrow(receive, from_arrow_schema(schema))

    def find_bands(self, keys: DataFrame, tasks: int) -> DataFrame:
        """Return the band rows of keys."""

        def place(keys: Integers) -> Integers:
            # The upper half of a key as signed numbers are ordered.
            high = (keys >> 32) + (1 << 31)
            found: Integers = high * tasks >> 32
            return found

        return self.find("bands", keys, ["key", "set"], place, tasks)

    def find_sets(self, numbers: DataFrame, columns: Sequence[str], count: int, tasks: int) -> DataFrame:
        """Return the rows of sets, whose numbers are below a count."""

        def place(numbers: Integers) -> Integers:
            found: Integers = numbers * tasks // count
            return found

        return self.find("sets", numbers, columns, place, tasks)

    def _select(self, name: str, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self.layouts[name].schema.field(each) for each in columns])


def _cut(files: Sequence[File], group: int) -> list[list[Part]]:
    """Share the groups of files out to tasks."""
    most = max(SCANNED // group, 1)
    parts: list[list[Part]] = []
    free = 0
    for file in files:
        count, begin = ceil_div(file.rows, group), 0
        while begin < count:
            if not free:
                parts.append([])
                free = most
            end = min(begin + free, count)
            parts[-1].append(Part(file, begin, end))
            free -= end - begin
            begin = end
    return parts


def as_wanted(rows: DataFrame, column: str) -> DataFrame:
    """Return WANTED."""
    return rows.select(F.col(column).alias("wanted"))


def to_wanted(spark: SparkSession, keys: Integers) -> DataFrame:
    """Return keys of the driver as WANTED."""
    return spark.createDataFrame(pa.table({"wanted": np.asarray(keys, dtype=np.int64)}))
