"""Few numbers looked for in many, and what else Arrow finds."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.runs.membership import mark_wanted

MANY = 1 << 16


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 9000),
    spread=st.sampled_from([1, 1 << 20, 1 << 45]),
    cuts=st.lists(st.integers(0, MANY), max_size=4).map(sorted),
)
def test_numbers_are_flagged_that_are_wanted_and_no_others(seed, count, spread, cuts):
    random = np.random.default_rng(seed)
    values = random.integers(-MANY, MANY, MANY) * spread
    wanted = np.concatenate([random.choice(values, count // 2), random.integers(-MANY, MANY, count - count // 2)])
    column = pa.chunked_array(np.split(values, cuts), pa.int64())

    found = mark_wanted(column, pa.chunked_array([wanted]))

    assert np.array_equal(found.to_numpy(zero_copy_only=False), np.isin(values, wanted))


@pytest.mark.parametrize(
    ("values", "wanted", "flags"),
    [
        ([1, None, 3] * 9, [3], [False, False, True] * 9),
        ([1, None, 3] * 9, [None], [False, True, False] * 9),
        ([1, 2, 3], [3, 4, 5], [False, False, True]),
        ([], [], []),
    ],
)
def test_nulls_and_no_fewer_numbers(values, wanted, flags):
    columns = (pa.chunked_array([pa.array(each, pa.int64())]) for each in (values, wanted))

    assert mark_wanted(*columns).to_pylist() == flags


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array(["a", "b"] * 9), pa.array(["b"])),
        (pa.array([1, 2] * 9), pa.array([2], pa.int32())),
        (pa.array([1, 2] * 9, pa.uint64()), pa.array([2], pa.uint64())),
    ],
)
def test_values_of_other_types(values, wanted):
    assert mark_wanted(*(pa.chunked_array([each]) for each in (values, wanted))).to_pylist() == [False, True] * 9


def test_none_of_none_is_wanted():
    assert mark_wanted(pa.chunked_array([[1, 2]]), pa.chunked_array([], pa.int64())).to_pylist() == [False, False]
