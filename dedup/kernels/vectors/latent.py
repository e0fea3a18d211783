"""Vectors learned from a corpus: words, pairs and pieces of words, and the directions in which texts differ most.

Latent semantic analysis [1]_ of hashed features: every text is a sparse row over FEATURES, weighted by tf-idf, and a
randomised singular value decomposition [2]_ of the rows of a sample gives the directions. Pieces of four bytes let
forms of a word be near each other in any language. Nothing is downloaded.

Rows of a text depend on it alone. The directions are rounded to 16 bits, so that the last bits of the decomposition,
which depend on the threads of BLAS, do not show.

References
----------
.. [1] S. Deerwester et al.: Indexing by latent semantic analysis. JASIS 41 (1990).
.. [2] N. Halko, P. G. Martinsson, J. A. Tropp: Finding structure with randomness. SIAM Review 53 (2011).
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.kernels import Bytes, Floats, Hashes, Integers
from dedup.kernels.hashing import GOLDEN, mix
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.products import Matrix

FEATURES = 1 << 15
DIMENSIONS = 256
OVERSAMPLED = 16
"""Further directions that the decomposition begins with."""
ROUNDS = 2
"""Iterations that part the strong directions from the weak."""
PIECE = 4
"""Bytes of a piece of a word, with a mark at both its ends."""
PAIR_WEIGHT, PIECE_WEIGHT = 0.5, 0.5
"""Weights beside those of single words; of pieces all of a word together."""
SEED = 36

Directions = npt.NDArray[np.float16]

if TYPE_CHECKING:
    from scipy import sparse


def count_features(texts: pa.Array, tokenizer: Tokenizer) -> "sparse.csr_array":
    """Return the features of texts, 1 + log(count) of each word and pair of words; float64 [n, FEATURES]."""
    places = tokenizer.locate(texts)
    hashes, offsets = tokenizer.hash(texts)
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(sizes.size), sizes)
    words, firsts, numbers = np.unique(hashes, return_index=True, return_inverse=True)
    pieces = _find_pieces(places.digested, places.widths[firsts], places.widths[firsts + 1])
    follows = owners[1:] == owners[:-1]
    paired = mix(hashes[:-1][follows] * GOLDEN + hashes[1:][follows])
    pairs, pair_numbers = np.unique(paired, return_inverse=True)
    held: sparse.csr_array = _count(owners, numbers, (sizes.size, words.size)) @ (_place(words) + PIECE_WEIGHT * pieces)
    held += PAIR_WEIGHT * (_count(owners[1:][follows], pair_numbers, (sizes.size, pairs.size)) @ _place(pairs))
    held.sort_indices()
    return held


def _count(rows: Integers, columns: Integers, shape: tuple[int, int]) -> "sparse.csr_array":
    found = _to_rows(np.ones(rows.size), rows, columns, shape)
    found.data = 1 + np.log(found.data)
    return found


def _place(hashes: Hashes) -> "sparse.csr_array":
    """Return the matrix that gives each hash its feature."""
    columns = (mix(hashes) % np.uint64(FEATURES)).astype(np.int64)
    return _to_rows(np.ones(hashes.size), np.arange(hashes.size), columns, (hashes.size, FEATURES))


def _find_pieces(digested: Bytes, begins: Integers, ends: Integers) -> "sparse.csr_array":
    """Return the matrix that gives each word the features of its pieces, of length 1 in all."""
    lengths = ends - begins + 2
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    marked = np.zeros(offsets[-1] + PIECE, np.uint64)
    inner = np.ones(offsets[-1], dtype=bool)
    inner[offsets[:-1]] = inner[offsets[1:] - 1] = False
    places = np.arange(offsets[-1])[inner]
    owners = np.repeat(np.arange(lengths.size), lengths)
    marked[places] = digested[places - offsets[owners[places]] - 1 + begins[owners[places]]]
    values = np.zeros(offsets[-1], np.uint64)
    for shift in range(PIECE):
        values |= marked[shift : shift + offsets[-1]] << np.uint64(8 * shift)
    whole = np.arange(offsets[-1]) + PIECE <= offsets[owners + 1]
    columns = (mix(values[whole] * GOLDEN) % np.uint64(FEATURES)).astype(np.int64)
    counts = np.bincount(owners[whole], minlength=lengths.size)
    weights = 1 / np.sqrt(np.maximum(counts, 1))
    return _to_rows(weights[owners[whole]], owners[whole], columns, (lengths.size, FEATURES))


def _to_rows(values: Floats, rows: Integers, columns: Integers, shape: tuple[int, int]) -> "sparse.csr_array":
    """Return a sparse matrix, values of one place added up."""
    from scipy import sparse

    return sparse.csr_array((values, (rows, columns)), shape=shape)


def fit(counts: Floats, columns: Integers, bounds: Integers) -> Directions:
    """Return the directions of a sample, by which features are multiplied; float16 [FEATURES, dimensions].

    Parameters
    ----------
    counts, columns, bounds
        The features of n documents as from `count_features`, in an order that is always the same: row i has the
        `counts` of `columns` from `bounds[i]` to `bounds[i + 1]`.
    """
    count = bounds.size - 1
    if not columns.size:
        return np.zeros((FEATURES, 1), np.float16)
    weights = np.log((1 + count) / (1 + np.bincount(columns, minlength=FEATURES))) + 1
    values = counts * weights[columns]
    owners = np.repeat(np.arange(count), np.diff(bounds))
    lengths = np.sqrt(np.bincount(owners, values * values, minlength=count))
    rows = _to_rows(values / lengths[owners], owners, columns, (count, FEATURES))
    transposed = _to_rows(values / lengths[owners], columns, owners, (FEATURES, count))
    wanted = min(DIMENSIONS, count)
    begin = np.random.default_rng(SEED).standard_normal((count, min(wanted + OVERSAMPLED, count)))
    basis = _orthonormalise(rows @ (transposed @ begin))
    for _ in range(ROUNDS):
        basis = _orthonormalise(rows @ (transposed @ basis))
    # The strongest are last.
    found = weights[:, None] * _orthonormalise(transposed @ basis)[:, ::-1][:, :wanted]
    return found.astype(np.float16)


def _orthonormalise(matrix: Floats) -> Floats:
    """Return an orthonormal basis of the columns, the strongest direction last.

    By the products of the columns it takes a tenth of the time of a QR decomposition.
    """
    values, turned = np.linalg.eigh(matrix.T @ matrix)
    found: Floats = matrix @ (turned / np.sqrt(np.maximum(values, values[-1] * 1e-12)))
    return found


def encode(texts: pa.Array, tokenizer: Tokenizer, directions: Matrix) -> Matrix:
    """Return the vectors of texts; those without a word are zero."""
    found: Matrix = (count_features(texts, tokenizer).astype(np.float32) @ directions).astype(np.float32)
    return found
