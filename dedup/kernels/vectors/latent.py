"""Vectors learned from a corpus: words, pairs and pieces of words, and the directions in which texts differ most.

Latent semantic analysis [1]_ of hashed features: every text is a sparse row over FEATURES, weighted by tf-idf, and a
randomised singular value decomposition [2]_ of the rows of a sample gives the directions. Pieces of four bytes let
forms of a word be near each other in any language. Nothing is downloaded.

Rows of a text depend on it alone. The directions are rounded to whole numbers of 16 bits, so that the last bits of the
decomposition, which depend on the threads of BLAS, do not show, and all directions fit a cache.

References
----------
.. [1] S. Deerwester et al.: Indexing by latent semantic analysis. JASIS 41 (1990).
.. [2] N. Halko, P. G. Martinsson, J. A. Tropp: Finding structure with randomness. SIAM Review 53 (2011).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.kernels import Floats, Integers, loops
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.products import Matrix

FEATURES = 1 << 15
DIMENSIONS = 256
OVERSAMPLED = 16
"""Further directions that the decomposition begins with."""
ROUNDS = 2
"""Iterations that part the strong directions from the weak."""
SEED = 36
LARGEST = np.iinfo(np.int16).max

Directions = npt.NDArray[np.int16]


class Features(NamedTuple):
    """Features of n texts, each those of one text alone."""

    columns: npt.NDArray[np.uint16]
    weights: Matrix
    """1 + log(count) of each word and pair of words, and of a word's pieces; float32."""
    bounds: Integers
    """Text i owns what is from `bounds[i]` to `bounds[i + 1]`; int64 [n + 1]."""


NO_FEATURES = Features(np.empty(0, np.uint16), np.empty(0, np.float32), np.zeros(1, np.int64))


def count_features(texts: pa.Array, tokenizer: Tokenizer) -> Features:
    """Return the features of texts."""
    places = tokenizer.locate(texts)
    hashes, offsets = tokenizer.hash(texts)
    most = np.minimum(2 * np.diff(offsets) + np.diff(places.widths[offsets]), FEATURES).sum()
    columns, weights = np.empty(most, np.uint16), np.empty(most, np.float32)
    bounds = np.zeros_like(offsets)
    given = (hashes, offsets, places.digested, places.widths, np.uint64(FEATURES))
    loops.projection.count_features(*given, columns, weights, bounds)
    return Features(columns[: bounds[-1]], weights[: bounds[-1]], bounds)


def fit(features: Features) -> Directions:
    """Return the directions of a sample, by which features are multiplied; int16 [FEATURES, dimensions].

    Parameters
    ----------
    features
        Features of documents in an order that is always the same.
    """
    columns, bounds = features.columns, features.bounds
    count = bounds.size - 1
    if not columns.size:
        return np.zeros((FEATURES, 1), np.int16)
    weights = np.log((1 + count) / (1 + np.bincount(columns, minlength=FEATURES))) + 1
    values = features.weights * weights[columns]
    owners = np.repeat(np.arange(count), np.diff(bounds))
    lengths = np.sqrt(np.bincount(owners, values * values, minlength=count))
    values = (values / lengths[owners]).astype(np.float32)
    order = np.argsort(columns, kind="stable")
    turned = np.concatenate(([0], np.cumsum(np.bincount(columns, minlength=FEATURES))))
    rows, transposed = (values, columns, bounds), (values[order], owners[order], turned)
    wanted = min(DIMENSIONS, count)
    begin = np.random.default_rng(SEED).standard_normal((count, min(wanted + OVERSAMPLED, count)))
    basis = _orthonormalise(_multiply(*rows, _multiply(*transposed, begin)))
    for _ in range(ROUNDS):
        basis = _orthonormalise(_multiply(*rows, _multiply(*transposed, basis)))
    # The strongest are last.
    found = weights[:, None] * _orthonormalise(_multiply(*transposed, basis))[:, ::-1][:, :wanted]
    found *= LARGEST / np.abs(found).max()
    return np.rint(found).astype(np.int16)


def _multiply(values: Floats, columns: npt.NDArray[Any], bounds: Integers, matrix: Floats) -> Floats:
    """Return the product of sparse rows and a matrix, by all processors, each row by one."""
    threads = os.cpu_count() or 1
    held, found = matrix.astype(np.float32), np.zeros((bounds.size - 1, matrix.shape[1]), np.float32)
    cuts = np.searchsorted(bounds, np.linspace(0, bounds[-1], 4 * threads + 1))
    with ThreadPoolExecutor(threads) as pool:
        parts = [
            pool.submit(loops.projection.multiply, values, columns, bounds[begin : end + 1], held, found[begin:end])
            for begin, end in pairwise(cuts.tolist())
        ]
    for part in parts:
        part.result()
    return found.astype(np.float64)


def _orthonormalise(matrix: Floats) -> Floats:
    """Return an orthonormal basis of the columns, the strongest direction last.

    By the products of the columns it takes a tenth of the time of a QR decomposition.
    """
    values, turned = np.linalg.eigh(matrix.T @ matrix)
    found: Floats = matrix @ (turned / np.sqrt(np.maximum(values, values[-1] * 1e-12)))
    return found


def encode(texts: pa.Array, tokenizer: Tokenizer, directions: Directions) -> Matrix:
    """Return the vectors of texts; those without a word are zero."""
    features = count_features(texts, tokenizer)
    found = np.zeros((len(texts), directions.shape[1]), np.float32)
    loops.projection.multiply(features.weights, features.columns, features.bounds, directions, found)
    return found
