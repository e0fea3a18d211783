"""Jaccard similarity of unrelated texts by length: words beside characters. python -m tests.experiments.characters.

The texts are Python's own help on its language, and the docstrings of NumPy and of SciPy: neither was copied from
the other, and both are at hand wherever the job is. Each length is the mean over up to 20 pairs of disjoint pieces.
"""

from pydoc_data.topics import topics

import numpy as np
import numpy.linalg
import pyarrow as pa
import scipy.signal
import scipy.stats

from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.sets.shingles import shingle
from dedup.kernels.text.single_characters import SingleCharacters
from dedup.kernels.text.unicode_words import UnicodeWords

LENGTHS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
SIZES = (5, 6, 7, 8, 9, 13)
PIECES = 20
HELP = " ".join(text for _, text in sorted(topics.items()))


def join_docstrings(*modules):
    return " ".join(
        each.__doc__ or "" for module in modules for _, each in sorted(vars(module).items()) if callable(each)
    )


OTHERS = join_docstrings(np, numpy.linalg, np.random), join_docstrings(scipy.stats, scipy.signal)


def measure(length, size, tokenizer):
    """Return the mean similarity of pieces of so many characters of two texts."""
    found = []
    for other in OTHERS:
        starts = range(0, min(len(HELP), len(other), PIECES * length) - length + 1, length)
        texts = [text[start : start + length] for start in starts for text in (HELP, other)]
        sets = shingle(*tokenizer.hash(pa.array(texts)), size, tokenizer)
        pairs = np.arange(len(texts)).reshape(-1, 2)
        found += jaccard(*sets, pairs[:, 0], pairs[:, 1]).tolist()
    return float(np.mean(found))


def main():
    print("| characters of each | 5 words |", *(f"{size} characters |" for size in SIZES))
    print("|---" * (2 + len(SIZES)) + "|")
    for length in LENGTHS:
        row = [measure(length, 5, UnicodeWords()), *(measure(length, size, SingleCharacters()) for size in SIZES)]
        print(f"| {length:,} |", *(f"{each:.4f} |" for each in row))


if __name__ == "__main__":
    main()
