"""Batches of rows with other columns, or of which some are chosen."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def conform(batch: pa.RecordBatch, schema: pa.Schema, /, **columns: Any) -> pa.RecordBatch:  # noqa: ANN401 - see below
    """Return rows with the columns of a schema: those given, else their own, else `fill`.

    Parameters
    ----------
    columns
        Each an array of NumPy or Arrow, or the one value of all rows.

    Examples
    --------
    >>> batch = pa.record_batch({"a": [1, 2]})
    >>> schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
    >>> conform(batch, schema, b="x").to_pylist()
    [{'a': 1, 'b': 'x', 'c': None}, {'a': 2, 'b': 'x', 'c': None}]
    """
    known = dict(zip(batch.schema.names, batch.columns, strict=True)) | columns
    arrays = [_to_array(known.get(field.name), field.type, batch.num_rows) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def conform_each(batches: Iterable[pa.RecordBatch], schema: pa.Schema, **columns: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - see `conform`
    """Yield batches with the columns of a schema: those given, one value each, else their own, else `fill`."""
    for batch in batches:
        yield conform(batch, schema, **columns)


def slice_by_bytes(batch: pa.RecordBatch, limit: int, column: str = "text") -> Iterator[pa.RecordBatch]:
    """Cut a batch into runs of limited bytes in a column of texts or bytes; a longer one is a run alone."""
    cells = batch.column(column)
    if batch.num_rows < 2 or cells.nbytes <= limit:
        yield batch
        return
    ends = np.cumsum(pc.fill_null(pc.binary_length(cells), 0).to_numpy().astype(np.int64))
    begin = 0
    while begin < batch.num_rows:
        before = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, before + limit, side="right")), begin + 1)
        yield batch.slice(begin, end - begin)
        begin = end


def _to_array(values: Any, kind: pa.DataType, count: int) -> pa.Array:  # noqa: ANN401 - see `conform`
    if values is None:
        return fill(count, kind)
    if isinstance(values, np.ndarray):
        return pa.array(values, kind)
    if isinstance(values, pa.Array):
        return values if values.type == kind else values.cast(kind)
    return pa.repeat(pa.scalar(values, kind), count)


def fill(count: int, kind: pa.DataType) -> pa.Array:
    """Return nulls; where lists are asked for, empty ones.

    Spark weighs a batch for a worker after every row (`spark.sql.execution.arrow.maxBytesPerBatch`), and for that walks
    all null lists since the last list that is not: the time grows with the square of such a run.
    """
    if not pa.types.is_list(kind):
        return pa.nulls(count, kind)
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], kind.value_type), type=kind)


def take_equal(batches: Iterable[pa.RecordBatch], *, schema: pa.Schema, **values: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - of any type
    """Yield the rows that have these values in columns of these names, with the columns of a schema."""
    for batch in batches:
        chosen = batch
        for name, value in values.items():
            chosen = chosen.filter(pc.equal(chosen[name], value))
        yield chosen.select(schema.names)


def gather_tables(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[pa.Table]:
    """Yield the rows of batches in tables of so many bytes or more; the last may have fewer."""
    held, size = list[pa.RecordBatch](), 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= least:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
