"""64-bit hashing: bijection and sequence behind every hash of the specification."""

from hashlib import blake2b

import numpy as np

from dedup.kernels import Hashes

VERSION = 2
"""Version of the steps from a text to a band key (docs/hash-spec.md); hashes of two versions are never compared."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio: the odd constant that spreads consecutive numbers (Steele, Lea, Flood 2014)."""
WEIGHT_SEED = 0x776569676874
"""Number that sets the weights of a shingle's tokens apart from other expansions of a seed."""
KEY_SEED = 0x6B6579
"""Seed of the salts that turn a band of a signature into its key."""
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
"""Value of a signature's row without a shingle: a document without shingles has only these."""
LOW = np.uint64(0xFFFFFFFF)
"""Mask of the low half of a hash."""


def mix(values: Hashes) -> Hashes:
    """Return a bijection of 64-bit values in which every input bit changes every output bit with probability 1/2.

    The finaliser of MurmurHash3 (Appleby 2011) with the multipliers of Stafford's variant 13, as in SplitMix64.
    """
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def expand(seed: int, count: int) -> Hashes:
    """Return `count` 64-bit values that depend on `seed` alone: the SplitMix64 sequence."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
    return mix(steps + np.uint64(seed & 0xFFFFFFFFFFFFFFFF))


def weigh(count: int, seed: int, key: bytes) -> Hashes:
    """Return the weights of consecutive tokens, the last token's first: odd numbers, uint64 [count].

    With a key BLAKE2b of the place decides, 8 bytes little-endian, the seed for its salt and `weight` for its
    personalisation: nobody without the key knows which sums are equal. Otherwise the seed expands to them.
    """
    if not key:
        return expand(seed ^ WEIGHT_SEED, count) | np.uint64(1)
    salt = seed.to_bytes(16, "little")
    hashed = [
        blake2b(place.to_bytes(8, "little"), digest_size=8, key=key, salt=salt, person=b"weight").digest()
        for place in range(count)
    ]
    return np.frombuffer(b"".join(hashed), dtype="<u8") | np.uint64(1)


def key_fingerprint(key: bytes) -> str:
    """Return 8 bytes in hexadecimal that identify a key and reveal nothing else of it; empty without a key."""
    return blake2b(b"fingerprint", digest_size=8, key=key, person=b"dedup").hexdigest() if key else ""
