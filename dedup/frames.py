"""Tables in memory as input: taken by Arrow's stream protocol, and given back as what they were."""

import json
import warnings
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
        with warnings.catch_warnings():
            # Names that are no strings do come back: see `_to_pandas`.
            warnings.filterwarnings("ignore", "The DataFrame has .* not roundtrip correctly")
            has_levels = getattr(getattr(given, "index", None), "nlevels", 1) > 1
            # A level of mere row numbers would be no column, and the labels of the rows that stay would lack it.
            table = pa.Table.from_pandas(given, preserve_index=True) if has_levels else pa.table(given)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = str(error).splitlines()[0]
        raise ConfigError(f"input: must be rows of columns that Arrow knows ({said})") from error
    kinds = getattr(given, "schema", None)
    # Of these Polars would give the addresses.
    if isinstance(kinds, Mapping) and (objects := [name for name, kind in kinds.items() if str(kind) == "Object"]):
        raise ConfigError(f"input: must be rows of columns that Arrow knows (got Object of Polars in {objects[0]!r})")
    if len({*table.column_names}) < table.num_columns:
        raise ConfigError(f"input: must be rows of columns of different names (got {', '.join(table.column_names)})")
    # Classes derived from a package's own come back as that.
    packages = (each.__module__.partition(".")[0] for each in type(given).__mro__)
    restore = next((_RESTORERS[name] for name in packages if name in _RESTORERS), lambda _, found: found)
    return Frame(table, partial(restore, given.iloc[:0].copy() if hasattr(given, "iloc") else None))


def _to_pandas(like: Any, table: pa.Table) -> object:  # noqa: ANN401 - a frame of pandas without rows
    """Return a table with the names, types and labels of a frame."""
    told = table.schema.pandas_metadata
    if told is None:
        return table.to_pandas()
    # By their places, as Arrow has names that are no strings as such, and cannot read all of them back.
    fields = [each["field_name"] for each in told["columns"]][: len(like.columns)]
    places = [place for place, field in enumerate(fields) if field in table.column_names]
    types = {fields[place]: like.dtypes.iloc[place] for place in places}
    # Nor can it read the names of nested types, and mapped by type, columns of objects would have the nulls of Arrow.
    of_arrow = {field: kind for field, kind in types.items() if hasattr(kind, "pyarrow_dtype")}
    told["columns"] = [
        each | {"name": each["field_name"]} for each in told["columns"] if each["field_name"] not in of_arrow
    ]
    told["column_indexes"] = []
    frame = table.drop_columns([*of_arrow]).replace_schema_metadata({"pandas": json.dumps(told)}).to_pandas()
    for place, field in enumerate(types):
        if field in of_arrow:
            frame.insert(place, field, of_arrow[field].__from_arrow__(table[field]))
    frame = frame.astype({field: kind for field, kind in types.items() if frame.dtypes[field] != kind})
    own, added = like.columns[places], frame.columns[len(places) :]
    frame.columns = own.append(added.rename(own.name)) if len(added) else own
    frame.index.names = like.index.names
    if frame.index.nlevels > 1:
        levels = zip(frame.index.levels, like.index.levels, strict=True)
        frame.index = frame.index.set_levels([each.astype(of.dtype) for each, of in levels])
    elif frame.index.dtype != like.index.dtype:
        frame.index = frame.index.astype(like.index.dtype)
    return frame


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
"""Functions that make what a package gave, by its name; of that without rows and a table. From all others come
tables of Arrow."""
