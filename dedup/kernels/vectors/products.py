"""Products of vectors: the cosine of a pair to the last bit, and approximate ones of many pairs, exact integers all.

Sums of floats depend on their order, and so on how BLAS cuts a matrix and on how rows are parted. A vector is therefore
searched by its *steps*: its direction in whole numbers, STEPS long. Every product and every partial sum of two such
vectors is an integer below 2^24 by the inequality of Cauchy and Schwarz, which float32 holds exactly: in any order,
on any machine, the result is the same.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.kernels import Flags, Floats, Integers
from dedup.kernels.runs.blocks import lists, unlists
from dedup.kernels.runs.bounds import find_bounds

STEPS = 4000
"""Length of a vector of steps; with the rounding of up to 36,000 dimensions its square is below 2^24."""
VALUE_BYTES = 4
ROWS = 1 << 10
"""Vectors multiplied with others at a time: their products fit the caches."""
PAIRS = 1 << 14
"""Pairs multiplied at a time."""
BOUNDING = 64
"""Dimensions whose products tell of most pairs that they are too far apart: of learned directions the first are the
strongest."""
CHEAPER = 16
"""Products of whole vectors that take as long as that of a pair by itself."""

Matrix = npt.NDArray[np.float32]


def to_matrix(vectors: pa.Array | pa.ChunkedArray, kind: str = "<f4") -> npt.NDArray[Any]:
    """Return vectors of one length, each the bytes of its values, as a matrix [n, dimensions]; none may be null."""
    chunks = vectors.chunks if isinstance(vectors, pa.ChunkedArray) else [vectors]
    parts = [unlists(each, kind)[0].reshape(len(each), -1) for each in chunks if len(each)]
    return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else np.empty((0, 0), kind)


def to_bytes(matrix: npt.NDArray[Any]) -> pa.Array:
    """Return the rows of a matrix as bytes, as `to_matrix` reads them."""
    return lists(matrix.reshape(-1), np.arange(len(matrix) + 1) * matrix.shape[1])


def find_bad(matrix: Matrix) -> tuple[Flags, Flags]:
    """Flag the vectors that have NaN or infinity, and those of zeros alone."""
    return ~np.asarray(np.isfinite(matrix).all(axis=1)), ~np.asarray(matrix.any(axis=1))


def to_steps(matrix: Matrix) -> npt.NDArray[np.int16]:
    """Return the directions of vectors in whole numbers, STEPS long."""
    found = np.empty(matrix.shape, np.int16)
    for begin in range(0, len(matrix), ROWS):
        # In 64 bits, which hold the squares of all that 32 do; a row is summed by itself.
        values = matrix[begin : begin + ROWS].astype(np.float64)
        values *= (STEPS / np.sqrt(np.einsum("ij,ij->i", values, values)))[:, None]
        found[begin : begin + ROWS] = np.rint(values, out=values)
    return found


def least_product(cosine: float, dimensions: int) -> float:
    """Return the least product of the steps of two vectors with at least this cosine.

    A value of steps is half a step off at most, so a vector is sqrt(dimensions) / 2.
    """
    return STEPS * STEPS * cosine - STEPS * math.sqrt(dimensions) - dimensions / 4


def find_nearest(
    steps: Matrix, others: Matrix, count: int, excluded: Integers | None = None
) -> tuple[Integers, Matrix]:
    """Find the nearest others of each vector of steps, those of equal products by their order.

    Parameters
    ----------
    steps, others : float32 [n, dimensions], [m, dimensions]
    count
        Others of each, at most m.
    excluded : int64 [n]
        Other that is left out of each; -1 for none.

    Returns
    -------
    places : int64 [n, count]
    products : float32 [n, count]
        Minus infinity where there is no other.
    """
    places = np.empty((len(steps), count), np.int64)
    found = np.empty((len(steps), count), np.float32)
    for begin in range(0, len(steps), ROWS):
        products = steps[begin : begin + ROWS] @ others.T
        rows = np.arange(len(products))
        if excluded is not None:
            own = excluded[begin : begin + ROWS]
            products[rows[own >= 0], own[own >= 0]] = -np.inf
        for turn in range(count):
            best = products.argmax(axis=1)
            places[begin : begin + ROWS, turn] = best
            found[begin : begin + ROWS, turn] = products[rows, best]
            products[rows, best] = -np.inf
    return places, found


def find_pairs(steps: Matrix, least: float, most: int, first: int = 0) -> Iterator[tuple[Integers, Integers, int]]:
    """Yield the pairs left < right of vectors of steps whose product is at least so much.

    Of a vector with many such that come later, the `most` nearest are its pairs, those of equal products in their
    order.

    Parameters
    ----------
    first
        Place of the first vector that is the right one of pairs: those before it are no pairs among themselves.

    Yields
    ------
    left, right : int64 [pairs]
    dropped
        Pairs left out.
    """
    bounding = _bound(steps)
    if bounding is not steps and np.median(bounding[:, -1]) ** 2 >= least:
        # The dimensions left out are enough to reach it.
        bounding = steps
    for begin in range(0, len(steps), ROWS):
        start = max(begin, first)
        products = bounding[begin : begin + ROWS] @ bounding[start:].T
        left, right = _find_reaching(products, least, start - begin)
        is_exact = bounding is steps
        if not is_exact and left.size * CHEAPER > products.size:
            products, is_exact = steps[begin : begin + ROWS] @ steps[start:].T, True
            left, right = _find_reaching(products, least, start - begin)
        nearness = products[left, right] if is_exact else _multiply(steps, left + begin, right + start)
        reaching = nearness >= least
        left, right, nearness = left[reaching] + begin, right[reaching] + start, nearness[reaching]
        stay = _mark_nearest(left, nearness, most)
        yield left[stay], right[stay], int(stay.size - np.count_nonzero(stay))


def _mark_nearest(left: Integers, nearness: Matrix, most: int) -> Flags:
    """Flag the `most` nearest pairs of each left one, of equal ones the first; `left` ascends."""
    stay = np.ones(left.size, dtype=bool)
    for begin, end in pairwise(find_bounds(left).tolist()):
        if end - begin > most:
            own = nearness[begin:end]
            least = np.partition(own, -most)[-most]
            stay[begin:end] = own >= least
            last = np.flatnonzero(own == least)
            stay[begin + last[most - np.count_nonzero(own > least) :]] = False
    return stay


def _bound(steps: Matrix) -> Matrix:
    """Return vectors of fewer dimensions whose products are at least those of the vectors: see BOUNDING.

    By the inequality of Cauchy and Schwarz, what the dimensions left out add to a product is at most the product of
    their lengths, which are one more dimension.
    """
    if steps.shape[1] <= 2 * BOUNDING:
        return steps
    rest = steps[:, BOUNDING:]
    lengths = np.ceil(np.sqrt(np.einsum("ij,ij->i", rest, rest)))
    return np.column_stack((steps[:, :BOUNDING], lengths)).astype(np.float32)


def _find_reaching(products: Matrix, least: float, ahead: int) -> tuple[Integers, Integers]:
    """Return the places of products of at least so much, whose column is behind the row.

    Parameters
    ----------
    ahead
        Place of the first column, from that of the first row on.
    """
    reaching = products >= least
    square = reaching[:, : max(len(reaching) - ahead, 0)]
    square &= np.triu(np.ones_like(square), 1 - ahead)
    # A tenth of the time of `np.nonzero` of a matrix.
    left, right = np.divmod(np.flatnonzero(reaching), reaching.shape[1] or 1)
    return left, right


def _multiply(steps: Matrix, left: Integers, right: Integers) -> Matrix:
    """Return the products of pairs."""
    found = np.empty(left.size, np.float32)
    for begin in range(0, left.size, PAIRS):
        some = slice(begin, begin + PAIRS)
        found[some] = np.einsum("ij,ij->i", steps[left[some]], steps[right[some]])
    return found


def find_cosines(vectors: Matrix, left: Integers, right: Integers) -> Floats:
    """Return the cosines of pairs of vectors, each by itself: float64, summed in the order of the dimensions.

    Vectors of one direction have 1 exactly.
    """
    squares, products, is_same = np.zeros(len(vectors)), np.zeros(left.size), np.ones(left.size, dtype=bool)
    for column in np.ascontiguousarray(vectors.T):
        values = column.astype(np.float64)
        one, other = values[left], values[right]
        squares += values * values
        products += one * other
        is_same &= one == other
    return np.clip(np.where(is_same, 1.0, products / np.sqrt(squares[left] * squares[right])), -1.0, 1.0)
