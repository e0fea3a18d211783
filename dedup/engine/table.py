"""Tables that stay, with the counts made as they were written, and the last step of each in Spark's workers."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dedup.engine.engine import Batches, Tally, Work
from dedup.engine.spark_rows import SparkRows
from dedup.files.storage import Storage
from dedup.kernels.runs.batches import gather_tables

TALLY = "tally"
"""Column with the counts of a task as JSON, in a row of its own."""
WRITTEN = pa.schema(
    [("file", pa.string()), *((name, pa.int64()) for name in ("groups", "bytes", "rows")), (TALLY, pa.string())]
)
"""Files that tasks have written, each in the table's folder, with their row groups and what these hold in Arrow."""
GROUP_BYTES = 32 << 20
"""Rows of a row group, as Arrow holds them: a worker gathers so many before it writes."""
PUBLISHED: Mapping[str, Any] = MappingProxyType({"compression": "zstd"})
# Hashes do not compress, so it is not tried.
READ_AGAIN: Mapping[str, Any] = MappingProxyType(
    {
        "compression": "none",
        "use_dictionary": False,
        "write_statistics": False,
        "store_schema": False,
        "write_page_checksum": True,
    }
)
SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
"""Key under which Spark looks for the schema in a file of parquet."""


class Ending(Protocol):
    """Last step of a table, in the workers that make its rows: `frame.mapInArrow(ending(work), ending.schema)`."""

    @property
    def schema(self) -> T.StructType:
        """Columns of what the step gives to Spark."""

    def __call__(self, work: Work) -> Callable[[Batches], Batches]:
        """Return the step, given the work that makes the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Ending of rows that are read once by another step: they go there as they are, and tallies nowhere."""

    schema: T.StructType

    def __call__(self, work: Work) -> Callable[[Batches], Batches]:
        """See `Ending`."""
        return partial(_drop_tallies, work=work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Ending of rows that Spark takes: those of the table, of which the column TALLY is null, and those of tallies."""

    rows: T.StructType

    @property
    def schema(self) -> T.StructType:
        """See `Ending`."""
        return T.StructType([*self.rows.fields, T.StructField(TALLY, T.StringType())])

    def __call__(self, work: Work) -> Callable[[Batches], Batches]:
        """See `Ending`."""
        return partial(_add_tallies, work=work, schema=to_arrow_schema(self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Ending of rows that workers write themselves, of which Spark has WRITTEN only.

    A row of Spark costs it microseconds. A task writes a file of a unique name, so of a task that was tried twice the
    file counts whose name came back.
    """

    folder: str
    rows: T.StructType
    is_published: bool = False
    """Whether whoever finds the folder reads all of it: a task writes a file of its own number, as often as it is
    tried, the first one also without rows, and they are compressed."""

    @property
    def schema(self) -> T.StructType:
        """See `Ending`."""
        return from_arrow_schema(WRITTEN)

    def __call__(self, work: Work) -> Callable[[Batches], Batches]:
        """See `Ending`."""
        return partial(_write, work=work, folder=self.folder, rows=self.rows, is_published=self.is_published)


Build: TypeAlias = Callable[[Ending], DataFrame]
"""Makes a table, whose last step is the ending given."""


class TableWriter(Protocol):
    """A writer of tables; those that an earlier try has finished are not made again."""

    def of(self, part: str) -> "TableWriter":
        """Return a writer of the tables of a part, whose names begin so."""

    def __call__(self, name: str, schema: T.StructType, build: Build) -> SparkRows:
        """Make a table of a name that is unique in a run, and return its rows, counted as they were written."""


def end(frame: DataFrame, ending: Ending) -> DataFrame:
    """Return rows that Spark itself has made, with their last step."""
    return frame.mapInArrow(ending(iter), ending.schema)


def read_tallies(tallies: Iterable[str]) -> Tally:
    """Return the sum of tallies that come as JSON."""
    found = Tally()
    for each in tallies:
        found.update({tuple(key) if isinstance(key, list) else key: count for key, count in json.loads(each)})
    return found


def collect_counted(rows: T.StructType, build: Build) -> tuple[pa.Table, Tally]:
    """Return the rows of a table that is small, and what its work has counted."""
    found = build(Counted(rows=rows)).toArrow()
    told = found[TALLY]
    tallies = read_tallies(told.drop_null().to_pylist())
    return found.filter(pc.is_null(told)).drop_columns([TALLY]), tallies


def _to_json(tally: Tally) -> str | None:
    return json.dumps([*tally.items()]) if tally else None


def _drop_tallies(batches: Batches, *, work: Work) -> Batches:
    return _take_rows(work(batches), Tally())


def _take_rows(found: Iterable[pa.RecordBatch | Tally], tally: Tally) -> Iterator[pa.RecordBatch]:
    """Yield the rows among what work yields, and add up its tallies."""
    for each in found:
        if isinstance(each, Tally):
            tally.update(each)
        elif each.num_rows:
            yield each


def _add_tallies(batches: Batches, *, work: Work, schema: pa.Schema) -> Batches:
    tally = Tally()
    for rows in _take_rows(work(batches), tally):
        columns = [*rows.columns, pa.nulls(rows.num_rows, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)
    if tally:
        yield pa.RecordBatch.from_pylist([{TALLY: _to_json(tally)}], schema)


def _write(batches: Batches, *, work: Work, folder: str, rows: T.StructType, is_published: bool) -> Batches:
    schema = to_arrow_schema(rows)
    tally, name, groups, size, count = Tally(), None, 0, 0, 0
    made = (batch.select(schema.names).cast(schema) for batch in _take_rows(work(batches), tally))
    tables = gather_tables(made, GROUP_BYTES)
    number = _read_number() if is_published else None
    first = next(tables, schema.empty_table() if number == 0 else None)
    if first is not None:
        name = f"{uuid.uuid4().hex if number is None else f'part-{number:05}'}.parquet"
        with (
            Storage().create(f"{folder}/{name}") as stream,
            pq.ParquetWriter(stream, schema, **(READ_AGAIN if number is None else PUBLISHED)) as writer,
        ):
            if number is None:
                writer.add_key_value_metadata({SPARK_SCHEMA: rows.json()})
            while first is not None:
                writer.write_table(first, row_group_size=max(first.num_rows, 1))
                groups, size, count = groups + 1, size + first.nbytes, count + first.num_rows
                first = next(tables, None)
    if groups or tally:
        told = {"file": name, "groups": groups, "bytes": size, "rows": count, TALLY: _to_json(tally)}
        yield pa.RecordBatch.from_pylist([told], WRITTEN)


def _read_number() -> int:
    """Return the number of the task at work, the same each time that it is tried."""
    task = TaskContext.get()
    assert task is not None
    return int(task.partitionId())
