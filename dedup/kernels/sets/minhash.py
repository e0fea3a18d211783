"""Signatures: Fast Similarity Sketching, and the estimate of Jaccard similarity from them.

S. Dahlgaard, M. B. T. Knudsen, M. Thorup: Fast Similarity Sketching. FOCS 2017, arXiv:1704.04370.
"""

import numpy as np
import numpy.typing as npt

from dedup.kernels import Hashes, Integers, compiled
from dedup.kernels.hashing import EMPTY, LOW, expand, mix

CHUNK = 1 << 15
"""Shingles worked on at a time, so that the arrays of a round stay in the processor's second-level cache."""


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
    if compiled.AVAILABLE:
        from dedup.kernels.loops import sets

        sets.sign(shingles, offsets, seeds, signatures)
        return signatures
    start = 0
    while start < offsets.size - 1:
        end = max(int(np.searchsorted(offsets, offsets[start] + CHUNK, side="right")) - 1, start + 1)
        chunk = shingles[offsets[start] : offsets[end]]
        _sign_chunk(chunk, np.diff(offsets[start : end + 1]), signatures[start:end], seeds)
        start = end
    return signatures


def _sign_chunk(shingles: Hashes, counts: Integers, signatures: Hashes, seeds: Hashes) -> None:
    """Fill the signatures of consecutive documents in place."""
    size = signatures.shape[1]
    cells = signatures.reshape(-1)
    open_rows = np.full(counts.size, size)
    owners = np.repeat(np.arange(counts.size), counts)
    for number in range(size):
        active = (open_rows > 0)[owners]
        if not active.all():
            shingles, owners = shingles[active], owners[active]
        if not shingles.size:
            return
        hashes = mix(shingles ^ seeds[number])
        rows = ((hashes >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
        values = (hashes & LOW) | np.uint64(number << 32)
        index = owners * size + rows.astype(np.int64)
        if number:
            # A filled row holds a value of an earlier round, which is less than any of this one.
            vacant = cells[index] >= np.uint64(number << 32)
            index, values = index[vacant], values[vacant]
        np.minimum.at(cells, index, values)
        open_rows = np.count_nonzero(signatures == EMPTY, axis=1)
    _fill(shingles, owners, signatures, seeds)


def _fill(shingles: Hashes, owners: Integers, signatures: Hashes, seeds: Hashes) -> None:
    """Give every row still empty the least value among all shingles of its document: rounds size to 2 x size - 1."""
    size = signatures.shape[1]
    for row in range(size):
        vacant = (signatures[:, row] == EMPTY)[owners]
        values = mix(shingles[vacant] ^ seeds[size + row]) & LOW
        np.minimum.at(signatures[:, row], owners[vacant], values | np.uint64((size + row) << 32))


def low_bytes(signatures: Hashes) -> npt.NDArray[np.uint8]:
    """Return the low byte of every row, all that `estimate` needs: uint8 [n, size].

    What is stored no longer merges: the rounds are gone.
    """
    return signatures.astype(np.uint8)


def estimate(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Estimate the Jaccard similarity of pairs from the low bytes of their signatures, shape [pairs, size] each.

    Rows that differ agree in their low byte once in 256, which is corrected for (Li, König: b-bit minwise hashing,
    2010), so the estimate is unbiased and can be slightly below 0.
    """
    return correct(np.count_nonzero(left == right, axis=1) / left.shape[1])


def correct(agreement: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the estimates that shares of equal low bytes stand for."""
    corrected: npt.NDArray[np.float64] = (agreement - 1 / 256) / (1 - 1 / 256)
    return corrected
