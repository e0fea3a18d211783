"""The layer of equal texts, found without signatures."""

from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Engine, Rows, describe
from dedup.kernels.digests import digest_runs
from dedup.kernels.text.tokenizer import Tokenizer, read_buffers
from dedup.layers.copies import KEYS, Choice, remove_copies, to_keys
from dedup.layers.layer import CHOOSING, EarlierKeys, Found, Layer, Setup, to_edges
from dedup.settings.rules import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Table):
    """Layer "exact": of documents of one text, one stays; empty texts match no other."""

    compare: Literal["bytes", "text"] = "bytes"
    """Equality: "bytes" of the text in UTF-8, or "text" as [text] normalises it, its tokens in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLayer(Layer):
    """The layer with its settings."""

    name = "exact"
    table = Exact
    reads = CHOOSING
    is_incremental = True
    copies_kind = "equal"
    tokenizer: Tokenizer | None
    """Under which texts are compared; None to compare bytes."""
    choice: Choice

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        by_tokens = setup.config.of(Exact).compare == "text"
        return cls(tokenizer=setup.tokenizer if by_tokens else None, choice=Choice.of(setup.config))

    def find(self, engine: Engine[Rows], past: EarlierKeys | None = None) -> Found[Rows]:
        """Search the documents: one pass over the text, of which digests travel only."""
        documents = describe(engine, "documents", partial(_describe, tokenizer=self.tokenizer), KEYS)
        removals = remove_copies(engine, documents, self, jaccard=1.0, choice=self.choice, past=past)
        return Found(documents=documents, removals=removals, keys=documents, edges=to_edges(engine, removals))

    find_since = find


def _describe(batch: pa.RecordBatch, *, tokenizer: Tokenizer | None) -> dict[str, pa.Array]:
    """Return the keys of texts; null of those without a byte, or without a token."""
    if tokenizer is None:
        raw, bounds = read_buffers(batch["text"])
    else:
        tokens, bounds = tokenizer.hash(batch["text"])
        raw, bounds = tokens.view(np.uint8), bounds * tokens.itemsize
    return to_keys(digest_runs(raw, bounds), np.diff(bounds) == 0)
