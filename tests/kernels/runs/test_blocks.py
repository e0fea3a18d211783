"""Blocks of numbers in binary cells, and the hash by which Spark routes them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dedup.kernels.runs.blocks import _murmur3, lists, pack, routes, rows, split, unlists, unrows
from tests import strategies
from tests.kernels import ragged

SPARK_HASHES = {
    0: 933211791,
    1: -559580957,
    2: 1765031574,
    3: -1823081949,
    1000: -14577491,
    65536: 1017081869,
    2**31 - 1: 133916647,
}
"""SELECT hash(n) in Spark 4.1.4."""


def as_columns(lists_of_numbers, dtype=np.int64):
    return [np.array(column, dtype=dtype) for column in lists_of_numbers]


def test_a_block_is_its_columns_little_endian():
    block = pack(np.array([1, -2]), np.array([3, 2**64 - 1], dtype=np.uint64))

    assert block == b"".join(number.to_bytes(8, "little", signed=number < 0) for number in (1, -2, 3, 2**64 - 1))


@given(st.lists(st.tuples(st.integers(-2, 5), strategies.int64s, strategies.uint64s), max_size=30))
@example([])
def test_split_sends_every_row_to_its_target_in_order(sent):
    targets, numbers, hashes = zip(*sent, strict=True) if sent else ((), (), ())
    expected = {}
    for target, number, value in sent:
        expected.setdefault(target, []).append((number, value))

    blocks = list(split(*as_columns((targets, numbers)), np.array(hashes, dtype=np.uint64)))

    received = {}
    for target, block in blocks:
        left, right = np.frombuffer(block, "<i8").reshape(2, -1)
        received[target] = list(zip(left.tolist(), right.view(np.uint64).tolist(), strict=True))
    assert received == expected
    assert [target for target, _ in blocks] == sorted(expected)


@given(strategies.hash_sets(), st.data())
@example([], None)
@example([[], []], None)
def test_lists_become_cells_and_come_back_from_any_slice(sets, data):
    values, offsets = ragged(sets)
    cells = lists(values, offsets)
    start = data.draw(st.integers(0, len(sets))) if data else 0
    length = data.draw(st.integers(0, len(sets) - start)) if data else len(sets)

    assert cells.type == pa.binary()
    cells.validate(full=True)
    assert cells.to_pylist() == [b"".join(value.to_bytes(8, "little") for value in each) for each in sets]
    found, bounds = unlists(cells.slice(start, length), "<u8")
    expected, expected_bounds = ragged(sets[start : start + length])
    assert (found.tolist(), bounds.tolist()) == (expected.tolist(), expected_bounds.tolist())
    assert (found.dtype, bounds.dtype) == (np.uint64, np.int64)


def test_lists_take_values_of_any_width_and_stride_and_any_first_offset():
    cells = lists(np.arange(10, dtype=np.uint16)[::2], np.array([1, 3, 5]))

    assert cells.to_pylist() == [b"\x02\0\x04\0", b"\x06\0\x08\0"]
    values, offsets = unlists(cells, "<u2")
    assert (values.tolist(), offsets.tolist()) == ([2, 4, 6, 8], [0, 2, 4])


def test_unlists_reads_what_arrow_made_unaligned_and_null():
    cells = pa.array([b"abc", b"1234567", None, b"8", b"z"], pa.binary())

    values, offsets = unlists(cells.slice(1, 3), "<u8")
    assert values.tobytes() == b"12345678"
    values, offsets = unlists(cells, "u1")
    assert (values.tobytes(), offsets.tolist()) == (b"abc12345678z", [0, 3, 10, 10, 11, 12])


def test_cells_past_the_2_gib_of_an_array_are_refused():
    nothing = np.empty(0, dtype=np.uint64)

    lists(nothing, np.array([0, 0]))
    with pytest.raises(pa.ArrowInvalid):
        lists(nothing, np.array([0, 2**28]))


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 5), st.integers(0, 5))), st.integers(0, 4))
def test_rows_of_a_matrix_become_cells_and_come_back_from_any_slice(matrix, start):
    cells = rows(matrix)

    assert cells.to_pylist() == [bytes(row) for row in matrix.tolist()]
    assert np.array_equal(unrows(cells), matrix)
    if start < len(matrix):
        assert np.array_equal(unrows(cells.slice(start)), matrix[start:])


def test_no_rows_stay_no_rows():
    assert unrows(rows(np.empty((0, 4), dtype=np.uint8))).shape[0] == 0


def test_numbers_hash_as_in_spark():
    assert {number: _murmur3(number) for number in SPARK_HASHES} == SPARK_HASHES


@pytest.mark.parametrize("partitions", [1, 2, 7, 64, 300])
def test_a_route_is_the_least_number_that_reaches_its_partition(partitions):
    least = {}
    for number in range(int(routes(partitions).max()) + 1):
        least.setdefault(_murmur3(number) % partitions, number)

    assert routes(partitions).dtype == np.int64
    assert routes(partitions).tolist() == [least[target] for target in range(partitions)]
