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
    batches: Iterable[pa.RecordBatch], by: Sequence[str], of: Sequence[str], enough: Sequence[int]
) -> Iterator[tuple[pa.RecordBatch, Integers]]:
    """Yield the same rows in the same order, with the counts of their groups.

    Rows of a group are held back until it ends or one of its counts is enough, so memory does not grow with the group.

    Parameters
    ----------
    by
        Columns, int64 without nulls, by which the rows are in ascending order; equal ones make a group.
    of
        Columns by which the rows of a group are in ascending order, one or more. The first is counted by its distinct
        values, the second by those of both, and so on.
    enough
        Highest count of each of `of`, at least 1.

    Yields
    ------
    batch
        At least a row, not always whole groups.
    counts
        int64 [len(of), rows], at most `enough`; if one count of a row has reached it, the others may be incomplete.
    """
    held: list[pa.RecordBatch] = []
    last: tuple[int, ...] = ()
    counted = np.zeros(len(of), dtype=np.int64)
    limits = np.array(enough, dtype=np.int64)
    width = len(by)

    def release() -> Iterator[tuple[pa.RecordBatch, Integers]]:
        for each in held:
            yield each, np.repeat(np.minimum(counted, limits)[:, None], each.num_rows, axis=1)
        held.clear()

    for batch in batches:
        if not batch.num_rows:
            continue
        bounds = bound_groups(batch, by)
        columns = [batch[name].to_numpy() for name in (*by, *of)]
        firsts = [mark_firsts(*columns[: width + number]) for number in range(1, len(of) + 1)]
        counts = np.stack([np.add.reduceat(each.astype(np.int64), bounds[:-1]) for each in firsts])
        first = tuple(int(column[0]) for column in columns)
        if last[:width] == first[:width]:
            counts[:, 0] += counted - [
                last[: width + number] == first[: width + number] for number in range(1, len(of) + 1)
            ]
            counted = counts[:, 0]
        if last[:width] != first[:width] or bounds.size > 2:
            yield from release()
        begin = int(bounds[-2])
        if begin:
            done = np.minimum(np.repeat(counts[:, :-1], np.diff(bounds)[:-1], axis=1), limits[:, None])
            yield batch.slice(0, begin), done
        held.append(batch.slice(begin))
        counted = counts[:, -1]
        if (counted >= limits).any():
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
