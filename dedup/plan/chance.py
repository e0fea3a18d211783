"""Similarity of unrelated texts whose shingles are character n-grams: the longer the texts, the higher.

Their distinct n-grams become few beside all n-grams that a language has, so that of two long texts many are equal.
"""

import numpy as np

LENGTHS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
"""Characters of each text."""
SIMILARITIES = {
    5: (0.0218, 0.0465, 0.0862, 0.1274, 0.1730, 0.2213, 0.2560),
    6: (0.0112, 0.0251, 0.0510, 0.0771, 0.1085, 0.1448, 0.1747),
    7: (0.0052, 0.0126, 0.0296, 0.0487, 0.0726, 0.1002, 0.1234),
    8: (0.0026, 0.0069, 0.0173, 0.0296, 0.0468, 0.0689, 0.0890),
    9: (0.0014, 0.0038, 0.0105, 0.0187, 0.0308, 0.0471, 0.0628),
    13: (0.0000, 0.0004, 0.0016, 0.0028, 0.0055, 0.0103, 0.0156),
}
"""Mean Jaccard similarity by characters in a shingle, of English as `python -m tests.experiments.characters` has it."""


def estimate_chance(characters: float, shingle_size: int) -> float:
    """Return the similarity of two unrelated texts of so many characters; that of the next smaller shingles measured.

    Of shingles of fewer than 5 characters it is at least as high.
    """
    size = max((each for each in SIMILARITIES if each <= shingle_size), default=min(SIMILARITIES))
    return float(np.interp(np.log(characters), np.log(LENGTHS), SIMILARITIES[size]))
