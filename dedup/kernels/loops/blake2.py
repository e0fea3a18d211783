"""BLAKE2b of many short values: Python's own takes a microsecond for a value whatever its length."""

import numpy as np

from dedup.kernels import Bytes, Hashes, Integers
from dedup.kernels.loops.compiler import compiled

BLOCK = 128
ROUNDS = 12
DIGEST_BYTES = 16
INITIAL = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)
GOES_ON, LAST = np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
ORDERS = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    dtype=np.int64,
)
"""Words of the block that each round takes; the last two are the first two again."""


@compiled
def _turn(word: np.uint64, bits: np.uint64) -> np.uint64:
    return (word >> bits) | (word << (np.uint64(64) - bits))


@compiled
def _mix(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, one: np.uint64, other: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a += b + one
    d = _turn(d ^ a, np.uint64(32))
    c += d
    b = _turn(b ^ c, np.uint64(24))
    a += b + other
    d = _turn(d ^ a, np.uint64(16))
    c += d
    return a, _turn(b ^ c, np.uint64(63)), c, d


@compiled
def _compress(state: Hashes, words: Hashes, taken: int, last: np.uint64) -> None:
    """Take a block into the state; sixteen words of their own stay in registers."""
    v0, v1, v2, v3, v4, v5, v6, v7 = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    v8, v9, v10, v11 = INITIAL[0], INITIAL[1], INITIAL[2], INITIAL[3]
    v12, v13, v14, v15 = INITIAL[4] ^ np.uint64(taken), INITIAL[5], INITIAL[6] ^ last, INITIAL[7]
    for number in range(ROUNDS):
        order = ORDERS[number % 10]
        v0, v4, v8, v12 = _mix(v0, v4, v8, v12, words[order[0]], words[order[1]])
        v1, v5, v9, v13 = _mix(v1, v5, v9, v13, words[order[2]], words[order[3]])
        v2, v6, v10, v14 = _mix(v2, v6, v10, v14, words[order[4]], words[order[5]])
        v3, v7, v11, v15 = _mix(v3, v7, v11, v15, words[order[6]], words[order[7]])
        v0, v5, v10, v15 = _mix(v0, v5, v10, v15, words[order[8]], words[order[9]])
        v1, v6, v11, v12 = _mix(v1, v6, v11, v12, words[order[10]], words[order[11]])
        v2, v7, v8, v13 = _mix(v2, v7, v8, v13, words[order[12]], words[order[13]])
        v3, v4, v9, v14 = _mix(v3, v4, v9, v14, words[order[14]], words[order[15]])
    state[0] ^= v0 ^ v8
    state[1] ^= v1 ^ v9
    state[2] ^= v2 ^ v10
    state[3] ^= v3 ^ v11
    state[4] ^= v4 ^ v12
    state[5] ^= v5 ^ v13
    state[6] ^= v6 ^ v14
    state[7] ^= v7 ^ v15


@compiled
def digest(raw: Bytes, bounds: Integers, key: Bytes, found: Hashes) -> None:
    """Digest runs of bytes that lie end to end.

    Parameters
    ----------
    raw : uint8 [bytes]
    bounds : int64 [values + 1]
    key : uint8 [at most 64]
    found : uint64 [values, 2]
        The digests of 128 bits, little-endian.
    """
    state, words = np.empty(8, np.uint64), np.empty(16, np.uint64)
    block = words.view(np.uint8)
    for value in range(bounds.size - 1):
        begin, end = bounds[value], bounds[value + 1]
        state[:] = INITIAL
        state[0] ^= np.uint64(0x01010000 ^ (key.size << 8) ^ DIGEST_BYTES)
        taken = 0
        if key.size:
            block[:] = 0
            block[: key.size] = key
            taken = BLOCK
            _compress(state, words, taken, LAST if end == begin else GOES_ON)
        while end - begin > BLOCK:
            block[:] = raw[begin : begin + BLOCK]
            begin += BLOCK
            taken += BLOCK
            _compress(state, words, taken, GOES_ON)
        if end > begin or not key.size:
            block[:] = 0
            block[: end - begin] = raw[begin:end]
            _compress(state, words, taken + end - begin, LAST)
        found[value, 0], found[value, 1] = state[0], state[1]
