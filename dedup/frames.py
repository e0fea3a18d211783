"""Tables in memory as input: taken by Arrow's stream protocol, and given back as what they were."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from dedup.errors import ConfigError


class ArrowTable(Protocol):
    """A table that Arrow reads: a pandas or Polars DataFrame, a relation of DuckDB, a table or reader of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream of its batches."""


class Frame(NamedTuple):
    """A table, and the function that makes what was given of one."""

    table: pa.Table
    restore: Callable[[pa.Table], Any]


def take_frame(given: object) -> Frame | None:
    """Return a given table or list of rows; None for anything else.

    >>> frame = take_frame([{"id": 1}, {"id": 2, "text": "a"}])
    >>> frame.restore(frame.table)
    [{'id': 1, 'text': None}, {'id': 2, 'text': 'a'}]

    Raises
    ------
    ConfigError
        When it has no columns that Arrow knows.
    """
    rows = given if isinstance(given, list | tuple) and all(isinstance(row, Mapping) for row in given) else ()
    if not rows and not hasattr(given, "__arrow_c_stream__"):
        return None
    try:
        if rows:
            # Arrow would take the columns of the first row only.
            names = dict.fromkeys(name for row in rows for name in row)
            columns = {name: [row.get(name) for row in rows] for name in names}
            return Frame(pa.table(columns), pa.Table.to_pylist)
        return Frame(pa.table(given), _RESTORERS.get(type(given).__module__.partition(".")[0], lambda table: table))
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise ConfigError(f"input: must be rows of columns that Arrow knows ({said})") from error


def _to_pandas(table: pa.Table) -> object:
    return table.to_pandas()


def _to_polars(table: pa.Table) -> object:
    import polars as pl  # noqa: PLC0415 - there where one was given

    return pl.from_arrow(table)


def _to_duckdb(table: pa.Table) -> object:
    import duckdb  # noqa: PLC0415 - as above

    return duckdb.from_arrow(table)


_RESTORERS: Mapping[str, Callable[[pa.Table], object]] = {
    "pandas": _to_pandas,
    "polars": _to_polars,
    "duckdb": _to_duckdb,
}
"""Functions that make what a package gave, by its name; from all others come tables of Arrow."""
