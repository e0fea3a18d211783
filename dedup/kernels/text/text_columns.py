"""Texts of several columns, each cut into tokens by itself."""

from dataclasses import dataclass

import pyarrow as pa

from dedup.kernels import Hashes, Integers
from dedup.kernels.text.joining import SEPARATOR
from dedup.kernels.text.tokenizer import TokenPlaces, WrappedTokenizer, read_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumns(WrappedTokenizer):
    """Tokenizer of documents whose texts are those of several columns, see `joining`."""

    weights: tuple[int, ...]
    """Integers of at least 1, a column each: so many elements of the set of a document is one of its shingles."""

    def part(self, texts: pa.Array) -> pa.Array:
        """Return the texts of all columns, those of a document one after another; large_string [n * columns]."""
        count = len(self.weights)
        parts = (text.split(SEPARATOR, count - 1) for text in read_texts(texts))
        # Columns that are missing at the end of a text given by hand are empty.
        return pa.array([each for part in parts for each in (*part, *[""] * (count - len(part)))], pa.large_string())

    def hash(self, texts: pa.Array) -> tuple[Hashes, Integers]:
        """Hash the tokens of all columns, one after another; see `Tokenizer.hash`."""
        hashes, offsets = self.tokenizer.hash(self.part(texts))
        return hashes, offsets[:: len(self.weights)]

    def locate(self, texts: pa.Array) -> TokenPlaces:
        """Refuse, as spans are of one column; layers that ask refuse the setting."""
        raise ValueError(f"input.columns: must be empty where places are asked for (got {len(texts)} texts)")
