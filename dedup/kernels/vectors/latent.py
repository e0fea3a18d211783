"""Vectors learned from a corpus: words, pairs and pieces of words, and the directions in which texts differ most.

Latent semantic analysis [1]_ of hashed features: every text is a sparse row over FEATURES, weighted by tf-idf, and a
randomised singular value decomposition [2]_ of the rows of a sample gives the directions. Pieces of four bytes let
forms of a word be near each other in any language. Nothing is downloaded. What all texts have in common, the mean of
the sample, is taken out of the directions [3]_: else long texts, which come close to it, are all near each other.

Rows of a text depend on it alone. The directions are rounded to whole numbers of 16 bits, so that the last bits of the
decomposition, which depend on the threads of BLAS, do not show, and all directions fit a cache.

References
----------
.. [1] S. Deerwester et al.: Indexing by latent semantic analysis. JASIS 41 (1990).
.. [2] N. Halko, P. G. Martinsson, J. A. Tropp: Finding structure with randomness. SIAM Review 53 (2011).
.. [3] S. Arora, Y. Liang, T. Ma: A simple but tough-to-beat baseline for sentence embeddings. ICLR (2017).
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.kernels import Bytes, Floats, Hashes, Integers, loops
from dedup.kernels.hashing import GOLDEN, mix
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.products import Matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FEATURES = 1 << 15
DIMENSIONS = 256
OVERSAMPLED = 16
"""Further directions that the decomposition begins with."""
ROUNDS = 2
"""Iterations that part the strong directions from the weak."""
SEED = 36
PIECE = 4
"""Bytes of a piece of a word, with a mark at both its ends."""
PAIR_WEIGHT, PIECE_WEIGHT = np.float32(0.5), 0.5
"""Weights beside those of single words; of pieces all of a word together."""
AT_ONCE = 1 << 14
"""Words of which the features and vectors are held at a time: 16 MB of these, which is faster than all of a batch."""
LARGEST = np.iinfo(np.int16).max
LEAST = 1e-6
"""Weight in a direction below which there is none."""

Directions = npt.NDArray[np.int16]


class Features(NamedTuple):
    """Features of n texts, each those of one text alone."""

    columns: npt.NDArray[np.uint16]
    weights: Matrix
    """1 + log(count) of each word and pair of words, and of a word's pieces; float32."""
    bounds: Integers
    """Text i owns what is from `bounds[i]` to `bounds[i + 1]`; int64 [n + 1]."""


NO_FEATURES = Features(np.empty(0, np.uint16), np.empty(0, np.float32), np.zeros(1, np.int64))


class _Parts(NamedTuple):
    """Texts by their words, so that what a word has is added up once for all that hold it."""

    words: "csr_array"
    """1 + log(count) of the distinct words of each text."""
    pairs: "csr_array"
    """Features of the pairs of neighbouring words of each text."""
    hashes: Hashes
    """Hashes of the words."""
    digested: Bytes
    """Bytes of which every word has those from its begin to its end."""
    begins: Integers
    ends: Integers

    def cut(self) -> "Iterator[tuple[csr_array, csr_array]]":
        """Yield columns of `words`, and the features of these words: each itself and its pieces."""
        for begin in range(0, self.hashes.size, AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            yield self.words[:, some], _cut(self.hashes[some], self.digested, self.begins[some], self.ends[some])


def _read(texts: pa.Array, tokenizer: Tokenizer) -> _Parts:
    places = tokenizer.locate(texts)
    hashes, offsets = tokenizer.hash(texts)
    coded = pa.array(hashes).dictionary_encode()
    known = coded.dictionary.to_numpy()
    # In the order of their hashes, which is that of a text alone, as the last bits of its sums shall be.
    order = np.argsort(known)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(order.size)
    words = ranks[coded.indices.to_numpy()]
    some = np.empty_like(order)
    some[words] = np.arange(words.size)
    paired = np.ones(hashes.size, dtype=bool)
    paired[offsets[1:][np.diff(offsets) > 0] - 1] = False
    pairs = mix(hashes * GOLDEN + np.roll(hashes, -1))[paired] % np.uint64(FEATURES)
    return _Parts(
        words=_weigh(words, offsets, known.size),
        pairs=PAIR_WEIGHT * _weigh(pairs.astype(np.int64), np.append(0, np.cumsum(paired))[offsets], FEATURES),
        hashes=known[order],
        digested=places.digested,
        begins=places.widths[some],
        ends=places.widths[some + 1],
    )


def _weigh(columns: Integers, bounds: Integers, width: int) -> "csr_array":
    """Return 1 + log(count) of the columns of each row."""
    from scipy.sparse import csr_array

    # Copied, since they are summed in place.
    found = csr_array((np.ones(columns.size), columns, bounds), shape=(bounds.size - 1, width), copy=True)
    found.sum_duplicates()
    found.data = (1 + np.log(found.data)).astype(np.float32)
    return found


def _cut(hashes: Hashes, digested: Bytes, begins: Integers, ends: Integers) -> "csr_array":
    """Return the features of words: each itself, and its pieces, of PIECE_WEIGHT in all."""
    from scipy.sparse import csr_array

    widths, rows = ends - begins, np.arange(hashes.size)
    owners, places = np.repeat(rows, widths), _count_up(widths)
    marked = np.zeros(widths.sum() + 2 * rows.size, np.uint64)
    firsts = np.cumsum(widths + 2) - widths - 2
    marked[firsts[owners] + 1 + places] = digested[begins[owners] + places]
    counts = np.maximum(widths + 3 - PIECE, 0)
    owners = np.repeat(rows, counts)
    places = firsts[owners] + _count_up(counts)
    pieces = sum((marked[places + byte] << np.uint64(8 * byte) for byte in range(PIECE)), np.zeros(1, np.uint64))
    columns = np.concatenate((mix(hashes), mix(pieces * GOLDEN))) % np.uint64(FEATURES)
    weights = np.concatenate((np.ones(rows.size), PIECE_WEIGHT / np.sqrt(counts[owners]))).astype(np.float32)
    ends_of = (np.concatenate((rows, owners)), columns.astype(np.int64))
    return csr_array((weights, ends_of), shape=(rows.size, FEATURES))


def _count_up(sizes: Integers) -> Integers:
    """Return the places within groups of these sizes."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def count_features(texts: pa.Array, tokenizer: Tokenizer) -> Features:
    """Return the features of texts."""
    from scipy.sparse import csr_array

    parts = _read(texts, tokenizer)
    found = parts.pairs
    for words, features in parts.cut():
        found = csr_array(found + words @ features)
    found.sum_duplicates()
    return Features(found.indices.astype(np.uint16), found.data.astype(np.float32), found.indptr.astype(np.int64))


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
    found = _orthonormalise(_multiply(*transposed, basis))[:, ::-1][:, :wanted]
    found = weights[:, None] * _remove_common(found, _multiply(*rows, found))
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


def _remove_common(directions: Floats, vectors: Floats) -> Floats:
    """Return directions by which vectors lack what is common to these; of few vectors that is what they are about."""
    if len(vectors) <= DIMENSIONS:
        return directions
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    common = (vectors[lengths > 0] / lengths[lengths > 0, None]).sum(axis=0)
    common /= np.linalg.norm(common)
    found: Floats = directions - np.outer(directions @ common, common)
    # Texts that are all alike have nothing else.
    return found if np.abs(found).max() > LEAST else directions


def encode(texts: pa.Array, tokenizer: Tokenizer, directions: Directions) -> Matrix:
    """Return the vectors of texts; those without a word are zero."""
    parts = _read(texts, tokenizer)
    found = np.zeros((len(texts), directions.shape[1]), np.float32)
    for held, features in parts.cut():
        words = np.zeros((features.shape[0], directions.shape[1]), np.float32)
        _add(features, directions, words)
        _add(held, words, found)
    _add(parts.pairs, directions, found)
    return found


def _add(rows: "csr_array", matrix: npt.NDArray[Any], found: Matrix) -> None:
    """Add the products of sparse rows and a matrix, in the order of the columns."""
    loops.projection.multiply(rows.data, rows.indices, rows.indptr, matrix, found)
