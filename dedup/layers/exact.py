"""The layer of equal texts, found without signatures."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Engine, Rows, describe
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.copies import KEYS, Choice, remove_copies, to_keys
from dedup.layers.layer import Found, Layer, Setup, to_edges
from dedup.settings.rules import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Table):
    """Layer "exact": of documents of one text, one stays; empty ones are like no other."""

    compare: Literal["bytes", "text"] = "bytes"
    """Equality: "bytes" of the text in UTF-8, or "text" as [text] normalises it, its tokens in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLayer(Layer):
    """The layer with its settings."""

    name = "exact"
    table = Exact
    copies_kind = "equal"
    tokenizer: Tokenizer | None
    """Under which texts are compared; None to compare bytes."""
    choice: Choice

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        by_tokens = setup.config.of(Exact).compare == "text"
        return cls(tokenizer=setup.tokenizer if by_tokens else None, choice=Choice.of(setup.config))

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: one pass over the text, of which digests travel only."""
        documents = describe(engine, "documents", partial(_describe, tokenizer=self.tokenizer), KEYS)
        removals = remove_copies(engine, documents, self, jaccard=1.0, choice=self.choice)
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
