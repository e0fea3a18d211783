"""Tables in memory as input: taken by Arrow's stream protocol, and given back as what they were."""

import json
from collections.abc import Callable, Mapping
from functools import partial
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
        table = pa.table(given)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = str(error).splitlines()[0]
        raise ConfigError(f"input: must be rows of columns that Arrow knows ({said})") from error
    if len({*table.column_names}) < table.num_columns:
        raise ConfigError(f"input: must be rows of columns of different names (got {', '.join(table.column_names)})")
    # Classes derived from a package's own come back as that.
    packages = (each.__module__.partition(".")[0] for each in type(given).__mro__)
    restore = next((_RESTORERS[name] for name in packages if name in _RESTORERS), lambda _, found: found)
    return Frame(table, partial(restore, getattr(given, "dtypes", None)))


def _to_pandas(types: Any, table: pa.Table) -> object:  # noqa: ANN401 - a series of pandas
    """Return a table with the types of a frame."""
    if table.schema.pandas_metadata is None:
        return table.to_pandas()
    own = {name: kind for name, kind in types.items() if str(name) in table.column_names}
    # Arrow cannot read the names of nested types, and mapped by type, columns of objects would have the nulls of Arrow.
    of_arrow = {str(name): kind for name, kind in own.items() if hasattr(kind, "pyarrow_dtype")}
    told = table.schema.pandas_metadata
    told["columns"] = [each for each in told["columns"] if each["field_name"] not in of_arrow]
    frame = table.drop_columns([*of_arrow]).replace_schema_metadata({"pandas": json.dumps(told)}).to_pandas()
    for place, name in enumerate(own):
        if str(name) in of_arrow:
            frame.insert(place, name, of_arrow[str(name)].__from_arrow__(table[str(name)]))
    return frame.astype({name: kind for name, kind in own.items() if frame.dtypes[name] != kind})


def _to_polars(_: object, table: pa.Table) -> object:
    import polars as pl  # noqa: PLC0415 - there where one was given

    return pl.from_arrow(table)


def _to_duckdb(_: object, table: pa.Table) -> object:
    import duckdb  # noqa: PLC0415 - as above

    return duckdb.from_arrow(table)


_RESTORERS: Mapping[str, Callable[[Any, pa.Table], object]] = {
    "pandas": _to_pandas,
    "polars": _to_polars,
    "duckdb": _to_duckdb,
}
"""Functions that make what a package gave, by its name; of the types of its columns and a table. From all others come
tables of Arrow."""
