"""Single characters as tokens, so that shingles are character n-grams."""

from dataclasses import dataclass

import numpy as np

from dedup.kernels import Bytes, Hashes, Integers, loops
from dedup.kernels.hashing import expand
from dedup.kernels.text.unicode_words import UnicodeWords, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleCharacters(UnicodeWords):
    """Tokenizer whose tokens are the code points of a text that `UnicodeWords` has normalised.

    Whatever separates tokens there counts as one space between two others, and as nothing at either end (A. Rajaraman,
    J. Leskovec, J. D. Ullman: Mining of Massive Datasets, section 3.2).
    """

    def _hash(self, folded: Bytes, offsets: Integers) -> tuple[Hashes, Integers]:
        starts, ends, bounds = self._cut(folded, offsets)
        hashes = np.empty(starts.size, dtype=np.uint64)
        loops.tokens.hash_spans(folded, starts, ends, expand(self.seed, 1)[0], hashes)
        return hashes, bounds

    def _cut(self, folded: Bytes, offsets: Integers) -> tuple[Integers, Integers, Integers]:
        return cut(loops.tokens.cut_characters, folded, offsets, self)
