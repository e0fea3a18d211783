"""Signatures: Fast Similarity Sketching, and the estimate of Jaccard similarity from them.

S. Dahlgaard, M. B. T. Knudsen, M. Thorup: Fast Similarity Sketching. FOCS 2017, arXiv:1704.04370.
"""

import numpy as np
import numpy.typing as npt

from dedup.kernels import Bytes, Hashes, Integers, loops
from dedup.kernels.hashing import EMPTY, expand

WIDTHS = (1, 2, 4, 8)
"""Bits of a row that a packed signature can have."""


def sign(shingles: Hashes, offsets: Integers, size: int, seed: int) -> npt.NDArray[np.uint64]:
    """Return the signature of every document.

    In round i < size every shingle falls into a random row, in round size + i into row i; a row keeps the least of
    `round << 32 | u`, u the shingle's 32 random bits of that round. A document leaves once no row is empty, so short
    documents see many rounds and long ones few. Two documents agree in a row with probability equal to the Jaccard
    similarity of their sets; the variance is at most that of `size` independent permutations, and about half of it
    where the union of both sets is no larger than the signature.

    Parameters
    ----------
    shingles : uint64 [shingles]
    offsets : int64 [n + 1]
    size
        Rows of a signature, bands x rows.
    seed
        0 to 2^63 - 1.

    Returns
    -------
    uint64 [n, size]
        Mergeable: the signature of a union is the element-wise minimum.
    """
    signatures = np.full((offsets.size - 1, size), EMPTY)
    seeds = expand(seed, 2 * size)
    loops.sets.sign(shingles, offsets, seeds, signatures)
    return signatures


def low_bytes(signatures: Hashes) -> npt.NDArray[np.uint8]:
    """Return the low byte of every row, as `estimate` takes them; uint8 [n, size].

    Low bytes no longer merge: the rounds are gone.
    """
    return signatures.astype(np.uint8)


def pack(low: Bytes, bits: int) -> Bytes:
    """Return the lowest bits of every row end to end, as `estimate` takes them; uint8 [n, ceil(size * bits / 8)].

    Row i takes the bits from i * bits on, counted from the lowest of the first byte; what is left of the last byte is
    0. So 128 rows of one bit are 16 bytes.

    Parameters
    ----------
    low
        As from `low_bytes`.
    bits
        One of WIDTHS.
    """
    kept = np.unpackbits(low[:, :, None], axis=2, count=bits, bitorder="little")
    return np.packbits(kept.reshape(len(low), -1), axis=1, bitorder="little")


def estimate(left: Bytes, right: Bytes, *, size: int | None = None, bits: int = 8) -> npt.NDArray[np.float64]:
    """Estimate the Jaccard similarity of pairs from signatures as packed by `pack`, or from their low bytes.

    Rows that differ agree in their lowest b bits once in 2^b, which is corrected for (Li, König: b-bit minwise hashing,
    2010), so the estimate is unbiased and can be below 0: `dedup.kernels.curve.standard_error` has its error.

    Parameters
    ----------
    left, right : uint8 [pairs, bytes]
    size
        Rows of a signature; None for the number of bytes.
    """
    size = left.shape[1] if size is None else size
    unlike = np.unpackbits(left ^ right, axis=1, count=size * bits, bitorder="little").reshape(-1, size, bits)
    return correct((size - np.count_nonzero(unlike.any(axis=2), axis=1)) / size, bits)


def correct(agreement: npt.NDArray[np.float64], bits: int = 8) -> npt.NDArray[np.float64]:
    """Return the estimates of Jaccard similarity for shares of rows of which the lowest bits are equal."""
    chance = 2.0**-bits
    corrected: npt.NDArray[np.float64] = (agreement - chance) / (1 - chance)
    return corrected
