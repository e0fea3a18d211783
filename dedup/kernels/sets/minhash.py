"""Signatures: Fast Similarity Sketching, and the estimate of Jaccard similarity from them.

S. Dahlgaard, M. B. T. Knudsen, M. Thorup: Fast Similarity Sketching. FOCS 2017, arXiv:1704.04370.
"""

import numpy as np
import numpy.typing as npt

from dedup.kernels import Hashes, Integers, loops
from dedup.kernels.hashing import EMPTY, expand


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


def estimate(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Estimate the Jaccard similarity of pairs from the low bytes of their signatures, shape [pairs, size] each.

    Rows that differ agree in their low byte once in 256, which is corrected for (Li, König: b-bit minwise hashing,
    2010), so the estimate is unbiased and can be slightly below 0.
    """
    return correct(np.count_nonzero(left == right, axis=1) / left.shape[1])


def correct(agreement: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the estimates of Jaccard similarity for shares of equal low bytes."""
    corrected: npt.NDArray[np.float64] = (agreement - 1 / 256) / (1 - 1 / 256)
    return corrected
