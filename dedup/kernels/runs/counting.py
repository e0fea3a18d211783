"""Counts of groups that may be larger than memory."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from dedup.kernels import Integers
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import bound_groups

UNBOUNDED = 1 << 62
"""Count above any other."""


def count_groups(
    batches: Iterable[pa.RecordBatch], by: Sequence[str], enough: int
) -> Iterator[tuple[pa.RecordBatch, Integers]]:
    """Yield the same rows in the same order, with the counts of their groups.

    Rows of a group are held back until it ends or its count is enough, so memory does not grow with the group.

    Parameters
    ----------
    by
        Columns, int64 without nulls, by which the rows are in ascending order, and then by doc_id; rows of equal ones
        make a group, whose distinct documents are counted.
    enough
        Highest count, at least 1.

    Yields
    ------
    batch
        At least a row, not always whole groups.
    counts
        int64 [rows], at most `enough`.
    """
    held: list[pa.RecordBatch] = []
    last: tuple[int, ...] = ()
    counted = 0

    def release() -> Iterator[tuple[pa.RecordBatch, Integers]]:
        for each in held:
            yield each, np.full(each.num_rows, min(counted, enough))
        held.clear()

    for batch in batches:
        if not batch.num_rows:
            continue
        bounds = bound_groups(batch, by)
        columns = [batch[name].to_numpy() for name in (*by, "doc_id")]
        counts = np.add.reduceat(mark_firsts(*columns).astype(np.int64), bounds[:-1])
        first = tuple(int(column[0]) for column in columns)
        goes_on = last[:-1] == first[:-1]
        if goes_on:
            counts[0] += counted - (last == first)
            counted = int(counts[0])
        if not goes_on or bounds.size > 2:
            yield from release()
        begin = int(bounds[-2])
        if begin:
            yield batch.slice(0, begin), np.minimum(np.repeat(counts[:-1], np.diff(bounds)[:-1]), enough)
        held.append(batch.slice(begin))
        counted = int(counts[-1])
        if counted >= enough:
            yield from release()
        last = tuple(int(column[-1]) for column in columns)
    yield from release()


def add_groups(
    batches: Iterable[pa.RecordBatch], by: Sequence[str], sums: Sequence[str], firsts: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield a row for every group, in memory that does not grow with it.

    Parameters
    ----------
    by
        Columns, int64 without nulls, by which the rows are in ascending order.
    sums
        Columns, int64, summed over each group.
    firsts
        Columns whose first value in the group is taken.

    Yields
    ------
    batch
        Columns of `by`, `sums` and `firsts`, in this order.
    """
    names = [*by, *sums, *firsts]
    asked = [*((name, "sum") for name in sums), *((name, "first") for name in firsts)]
    held: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch.select(names)])
        added = pa.concat_tables([rows] if held is None else [held, rows]).group_by(list(by), use_threads=False)
        groups = added.aggregate(asked).rename_columns(names)
        whole = max(groups.num_rows - 1, 0)
        yield from groups.slice(0, whole).to_batches()
        held = groups.slice(whole)
    yield from held.to_batches() if held is not None else ()
