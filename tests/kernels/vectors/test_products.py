"""Products of vectors, held against plain Python."""

import math
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dedup.kernels.vectors import products
from dedup.kernels.vectors.products import (
    STEPS,
    find_cosines,
    find_nearest,
    find_pairs,
    least_product,
    to_bytes,
    to_matrix,
    to_steps,
)

VALUES = st.floats(-(2.0**120), 2.0**120, width=32)
MATRICES = (
    st.integers(1, 40)
    .flatmap(lambda wide: arrays(np.float32, st.tuples(st.integers(1, 12), st.just(wide)), elements=VALUES))
    .filter(lambda matrix: matrix.any(axis=1).all())
)
"""Matrices without a row of zeros."""


def cosine(one, other):
    one, other = one.astype(float).tolist(), other.astype(float).tolist()
    dot = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(math.fsum(a * a for a in one)) / math.sqrt(math.fsum(b * b for b in other))


@given(MATRICES)
def test_a_pair_in_reach_is_never_missed_and_steps_multiply_to_the_same_in_any_order(matrix):
    steps = to_steps(matrix)
    held = steps.astype(np.float32)
    rows, wide = matrix.shape

    exact = steps.astype(np.int64) @ steps.astype(np.int64).T
    assert np.array_equal(held @ held.T, exact)
    assert exact.max() < 1 << 24
    assert np.array_equal(steps, np.concatenate([to_steps(matrix[[row]]) for row in range(rows)]))
    for a in range(rows):
        for b in range(rows):
            assert exact[a, b] >= least_product(cosine(matrix[a], matrix[b]), wide) - 1


@given(MATRICES, st.floats(-0.9, 0.99), st.integers(1, 4), st.sampled_from([(2, 0), (2, 100), (64, 16)]))
def test_pairs_are_those_of_a_great_product_the_nearest_of_each(matrix, threshold, most, bounding):
    steps = to_steps(matrix).astype(np.float32)
    least = threshold * STEPS * STEPS

    found, dropped = set(), 0
    with patch.multiple(products, BOUNDING=bounding[0], CHEAPER=bounding[1]):
        for left, right, count in find_pairs(steps, least, most):
            found |= {*zip(left.tolist(), right.tolist(), strict=True)}
            dropped += count

    expected, every = set(), 0
    for a in range(len(steps)):
        near = [(-(steps[a] @ steps[b]), b) for b in range(a + 1, len(steps)) if steps[a] @ steps[b] >= least]
        expected |= {(a, b) for _, b in sorted(near)[:most]}
        every += len(near)
    assert found == expected
    assert dropped == every - len(expected)


@given(MATRICES, st.data())
def test_the_nearest_are_those_of_the_greatest_products(matrix, data):
    steps = to_steps(matrix).astype(np.float32)
    count = data.draw(st.integers(1, len(steps)))
    excluded = np.array(data.draw(st.lists(st.integers(-1, len(steps) - 1), min_size=len(steps), max_size=len(steps))))

    places, products = find_nearest(steps, steps, count, excluded)

    for row, own in enumerate(excluded.tolist()):
        order = sorted((-(steps[row] @ steps[other]), other) for other in range(len(steps)) if other != own)
        there = min(count, len(order))
        assert places[row, :there].tolist() == [other for _, other in order[:there]]
        assert np.isneginf(products[row, there:]).all()


@given(MATRICES)
def test_cosines_are_those_of_plain_python_whatever_is_computed_beside(matrix):
    left, right = np.triu_indices(len(matrix))

    found = find_cosines(matrix, left, right)

    for a, b, value in zip(left.tolist(), right.tolist(), found.tolist(), strict=True):
        assert value == pytest.approx(cosine(matrix[a], matrix[b]), abs=1e-12)
        assert find_cosines(matrix[[a, b]], np.array([0]), np.array([1]))[0] == value
    assert (found[left == right] == 1.0).all()


@given(MATRICES)
def test_matrices_come_back_from_their_bytes(matrix):
    held = to_bytes(matrix)

    assert np.array_equal(to_matrix(held), matrix)
    assert np.array_equal(to_matrix(pa.chunked_array([held.slice(0, 1), held.slice(1)])), matrix)
