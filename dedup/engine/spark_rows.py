"""Rows on Spark, whose DataFrame is planned only where one is asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dedup.engine import sessions
from dedup.engine.engine import Batches, Emit
from dedup.engine.placement import READ_BYTES, SENT_BYTES, tasks
from dedup.engine.relations import Projection, Relation, TableScan
from dedup.engine.tasks import Held
from dedup.kernels.runs.batches import gather_tables

PACKED = pa.schema([("rows", pa.binary())])
"""Rows as streams of Arrow."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkRows:
    """Rows on Spark.

    Each step of a DataFrame's plan costs the driver tens of milliseconds, and rows that workers read by themselves need
    none.
    """

    session: SparkSession
    columns: Sequence[str]
    plan: Callable[[], DataFrame]
    """Plans the DataFrame."""
    relation: Relation | None = None
    """The same rows, as workers read them by themselves; None where they cannot."""
    tally: Mapping[str, Any] | None = None
    """Counts of the table that these rows are, or are selected of: `rows`, and what its work has counted; None where
    nobody has counted them."""
    parts: Sequence["SparkRows"] = ()
    """Tables whose rows these are; none where these are of one."""

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """Return the rows of a DataFrame."""
        return cls(session=frame.sparkSession, columns=frame.columns, plan=lambda: frame)

    @classmethod
    def empty(cls, spark: SparkSession, schema: pa.Schema) -> Self:
        """Return no rows."""
        return cls(
            session=spark,
            columns=schema.names,
            plan=lambda: spark.createDataFrame([], from_arrow_schema(schema)),
            relation=TableScan([], schema),
            tally={"rows": 0},
        )

    @cached_property
    def frame(self) -> DataFrame:
        """The rows, as Spark reads them."""
        return self.plan()

    @property
    def schema(self) -> pa.Schema:
        """Their columns as Arrow has them."""
        return to_arrow_schema(self.frame.schema) if self.relation is None else self.relation.schema

    @property
    def count(self) -> int | None:
        """Number of rows of the table that these are selected of; None where nobody has counted them."""
        return None if self.tally is None else int(self.tally["rows"])

    def select(self, *columns: str, **renamed: str) -> "SparkRows":
        """Return some columns; see `Engine.select`."""
        names = dict(zip(columns, columns, strict=True)) | renamed
        return SparkRows(
            session=self.session,
            columns=[*names],
            plan=lambda: self.frame.select(*columns, *(F.col(old).alias(new) for new, old in renamed.items())),
            relation=None if self.relation is None else Projection(self.relation, names),
            tally=self.tally,
            parts=[part.select(*columns, **renamed) for part in self.parts],
        )

    def mapInArrow(self, work: Emit, schema: T.StructType) -> DataFrame:  # noqa: N802 - as a DataFrame has it
        """Return what the work makes of the rows; where workers read them by themselves, all of a task in one call."""
        if self.relation is None:
            made = [part.mapInArrow(work, schema) for part in self.parts] or [self.frame.mapInArrow(work, schema)]
            return reduce(DataFrame.union, made)
        shares = share(self.relation, sessions.count_cores(self.session))
        read = partial(_read, relation=Held(self.relation), columns=[*self.columns], shares=shares)
        numbers = self.session.range(0, len(shares), 1, len(shares))
        return numbers.mapInArrow(lambda batches: work(read(batches)), schema)

    def collect(self) -> pa.Table:
        """Return all rows, which are few."""
        if self.relation is None:
            return self.frame.toArrow()
        cells = self.mapInArrow(_pack, from_arrow_schema(PACKED)).toArrow()["rows"]
        tables = [pa.ipc.open_stream(cell.as_buffer()).read_all() for cell in cells]
        return pa.concat_tables(tables, promote_options="default") if tables else self.schema.empty_table()


def share(relation: Relation, cores: int) -> list[range]:
    """Return the fragments of each task that reads a relation; there is a task at least."""
    ends = np.cumsum([fragment.size for fragment in relation.fragments], dtype=np.int64)
    count = tasks(int(ends[-1]) if ends.size else 0, READ_BYTES, cores)
    bounds = np.searchsorted(ends, np.linspace(0, ends[-1] if ends.size else 0, count + 1)[1:-1]).tolist()
    shares = [range(*bound) for bound in pairwise([0, *bounds, ends.size])]
    return [each for each in shares if each] or shares[:1]


def _pack(batches: Batches) -> Batches:
    for table in gather_tables(batches, SENT_BYTES):
        yield pa.RecordBatch.from_pylist([{"rows": sessions.pack(table)}], PACKED)


def _read(numbers: Batches, *, relation: Held[Relation], columns: Sequence[str], shares: Sequence[range]) -> Batches:
    for number in chain.from_iterable(batch["id"].to_pylist() for batch in numbers):
        for fragment in shares[number]:
            yield from relation.value.read(fragment, columns)
