"""Runs of equal rows in sorted columns, against a walk through them one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.runs.bounds import find_bounds, mark_firsts, mark_repeated, rank

columns = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12).map(sorted)


def walk(rows):
    """Return for every row whether it begins a run, whether its run is longer, and how many of it stand before."""
    firsts, repeated, ranks = [], [], []
    for number, row in enumerate(rows):
        firsts.append(number == 0 or rows[number - 1] != row)
        repeated.append(rows.count(row) > 1)
        ranks.append(rows[:number].count(row))
    return firsts, repeated, ranks


@given(columns)
def test_runs_of_pairs_are_those_of_a_walk(rows):
    left, right = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    firsts, repeated, ranks = walk(rows)

    assert mark_firsts(left, right).tolist() == firsts
    assert mark_repeated(left, right).tolist() == repeated
    assert rank(left, right).tolist() == ranks
    assert find_bounds(left, right).tolist() == [*np.flatnonzero(firsts).tolist(), len(rows)]


@given(columns)
def test_runs_of_one_column_are_those_of_a_walk(rows):
    firsts, repeated, ranks = walk([left for left, _ in rows])
    column = np.array([left for left, _ in rows], dtype=np.uint64)

    assert mark_firsts(column).tolist() == firsts
    assert mark_repeated(column).tolist() == repeated
    assert rank(column).tolist() == ranks
