"""Hash of one value at a time."""

import numpy as np

from dedup.kernels.loops.compiler import compiled


@compiled
def mix(value: np.uint64) -> np.uint64:
    """Return what `dedup.kernels.hashing.mix` returns."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
