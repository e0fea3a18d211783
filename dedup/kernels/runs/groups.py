"""Groups of rows of equal keys in an ordered stream of batches."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from dedup.kernels import Integers
from dedup.kernels.runs.bounds import find_bounds, mark_firsts, rank


def join_groups(batches: Iterable[pa.RecordBatch], by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in batches that each hold whole groups.

    Parameters
    ----------
    by
        Columns, int64 without nulls, by which the rows are in ascending order.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        bounds = bound_groups(batch, by)
        begin, last = 0, int(bounds[-2])
        if held and _is_next(held[-1], batch, by):
            begin = int(bounds[1])
            held.append(batch.slice(0, begin))
            if begin == batch.num_rows:
                continue
        if held:
            yield _join(held)
        if last > begin:
            yield batch.slice(begin, last - begin)
        held = [batch.slice(last)]
    if held:
        yield _join(held)


def drop_repeated(batches: Iterable[pa.RecordBatch], by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield of rows that are equal in some columns, int64 without nulls, the first; equal rows lie side by side."""
    last: tuple[object, ...] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = [batch[name].to_numpy() for name in by]
        firsts = mark_firsts(*columns)
        firsts[0] = tuple(column[0] for column in columns) != last
        last = tuple(column[-1] for column in columns)
        yield batch if firsts.all() else batch.filter(pa.array(firsts))


def rank_groups(batches: Iterable[pa.RecordBatch], by: str) -> Iterator[tuple[pa.RecordBatch, Integers]]:
    """Yield batches with rows, and how many rows of its group stand before each; groups may go on in the next batch.

    Parameters
    ----------
    by
        Column, int64 without nulls, whose equal values lie side by side.
    """
    seen, last = 0, None
    for batch in batches:
        if batch.num_rows:
            keys = batch[by].to_numpy()
            ranks = rank(keys) + np.where(keys == last, seen, 0)
            seen, last = int(ranks[-1]) + 1, keys[-1]
            yield batch, ranks


def bound_groups(batch: pa.RecordBatch, by: Sequence[str]) -> Integers:
    """Return the first row of each group of a batch, and at the end its length; int64 [groups + 1]."""
    return find_bounds(*(batch[name].to_numpy() for name in by))


def _is_next(before: pa.RecordBatch, batch: pa.RecordBatch, by: Sequence[str]) -> bool:
    """Return whether a batch goes on with the last group of the batch before."""
    return all(before[name][-1] == batch[name][0] for name in by)


def _join(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return held[0] if len(held) == 1 else pa.concat_batches(held)
