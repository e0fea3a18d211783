"""The layer of equal texts, found without signatures."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Engine, Rows, describe
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.copies import KEYS, Choice, remove_copies, to_keys
from dedup.layers.layer import Found, to_edges


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLayer:
    """The layer with its settings."""

    tokenizer: Tokenizer | None
    """Under which texts are compared; None to compare bytes."""
    choice: Choice
    name: str = "exact"

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: one pass over the text, of which digests travel only."""
        documents = describe(engine, "documents", partial(_describe, tokenizer=self.tokenizer), KEYS)
        removals = remove_copies(engine, documents, layer=self.name, kind="equal", jaccard=1.0, choice=self.choice)
        return Found(documents=documents, removals=removals, edges=to_edges(engine, removals))


def _describe(batch: pa.RecordBatch, *, tokenizer: Tokenizer | None) -> dict[str, pa.Array]:
    """Return the keys of texts; null of those without a byte, or without a token."""
    texts = batch["text"]
    if tokenizer is None:
        return to_keys([text or None for text in pc.cast(texts, pa.large_binary()).to_pylist()])
    tokens, bounds = tokenizer.hash(texts)
    content = tokens.tobytes()
    places = (bounds * tokens.itemsize).tolist()
    return to_keys([content[begin:end] or None for begin, end in pairwise(places)])
