"""Tables that stay, with the counts made as they were written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedup.engine.exchange import Counters

Counts = TypeVar("Counts")
Seen: TypeAlias = Mapping[str, Any]
"""Counts made as a table was written: `rows`, sums of columns, and the counters of workers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptTable(Generic[Counts]):
    """A table that is written and can be read as often as needed."""

    frame: DataFrame
    counts: Counts


class TableWriter(Protocol):
    """A writer of tables; those that an earlier try has finished are not made again."""

    def of(self, part: str) -> "TableWriter":
        """Return a writer of the tables of a part, whose names begin so."""

    def __call__(
        self,
        name: str,
        schema: T.StructType,
        build: Callable[[Counters], DataFrame],
        measure: Callable[[Seen], Counts],
        *,
        summed: Mapping[str, str] | None = None,
    ) -> KeptTable[Counts]:
        """Make a table and read it again.

        Parameters
        ----------
        name
            Name of the table, unique in a run.
        build
            Returns the rows; what its workers count goes to the counters.
        measure
            Makes the counts from what was seen.
        summed
            SQL expressions over the table whose sums are seen under these names.
        """


def count_rows(seen: Seen) -> int:
    """Return how many rows a table has that needs no other counts."""
    return int(seen["rows"])
