"""Tables that stay, with the counts made as they were written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedup.engine.exchange import Counters

Seen: TypeAlias = Mapping[str, Any]
"""Counts made as a table was written: `rows`, sums of columns, and the counters of workers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptTable:
    """A table that is written and can be read as often as needed."""

    frame: DataFrame
    counts: Seen


class TableWriter(Protocol):
    """A writer of tables; those that an earlier try has finished are not made again."""

    def of(self, part: str) -> "TableWriter":
        """Return a writer of the tables of a part, whose names begin so."""

    def __call__(
        self,
        name: str,
        schema: T.StructType,
        build: Callable[[Counters], DataFrame],
        *,
        summed: Mapping[str, str] | None = None,
    ) -> KeptTable:
        """Make a table and read it again.

        Parameters
        ----------
        name
            Name of the table, unique in a run.
        build
            Returns the rows; what its workers count goes to the counters.
        summed
            SQL expressions over the table whose sums are seen under these names.
        """
