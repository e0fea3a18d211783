"""PAIRS -> EDGES: pairs whose cosine reaches the threshold, and whose texts share the facts that guards ask for."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Compared, Comparison, Engine, Rows, Tally, once
from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.runs import blocks
from dedup.kernels.sets.jaccard import bin_similarities
from dedup.kernels.text.facts import FACT_BYTES, KINDS, WORDING, digest_facts, find_exchanged
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.products import Matrix, find_cosines, to_matrix
from dedup.layers.near import comparison, templates
from dedup.layers.semantic.vectors import VECTORS
from dedup.tables import arrow

GUARDS = (*KINDS, WORDING)
READ = pa.schema([*VECTORS, ("facts", pa.binary()), ("tokens", pa.binary())])
"""Documents of candidates: the vector, digests of the facts of the text, and hashes of its tokens."""


class ReadDocuments(NamedTuple):
    """Vectors and facts of documents."""

    vectors: Matrix
    facts: Bytes
    """uint8 [n, KINDS, FACT_BYTES]."""
    tokens: Sequence[Hashes]


def read_texts(engine: Engine[Rows], candidates: Rows, vectors: Rows, count: int, tokenizer: Tokenizer) -> Rows:
    """Return READ of the documents of so many candidates; the texts of others are not read again."""
    named = engine.map(candidates, comparison.list_ends, templates.MEMBERS)
    ends = engine.expect(engine.group("ends", named, templates.DISTINCT), 2 * count)
    held = engine.join(vectors, ends, "doc_id", how="semi")
    # Equal rows share a document id.
    wanted = engine.group("wanted", held, once(VECTORS))
    return engine.fetch("texts", wanted, partial(_read, tokenizer=tokenizer), READ)


def _read(batches: Batches, *, tokenizer: Tokenizer) -> Batches:
    for batch in batches:
        texts = [text or "" for text in batch["text"].to_pylist()]
        facts = pa.array([digest_facts(text) for text in texts], pa.binary())
        tokens = blocks.lists(*tokenizer.hash(batch["text"]))
        yield pa.RecordBatch.from_arrays([batch["doc_id"], batch["values"], facts, tokens], schema=READ)


def verify(threshold: float, guards: Sequence[str], *, every: bool = False) -> Comparison[ReadDocuments]:
    """Return the comparison that keeps pairs whose cosine reaches the threshold and which no guard parts: EDGES.

    Their column `jaccard` is the cosine. The tally has `near`, pairs that reach the threshold; `parted`, those of them
    that a guard parts; each guard by its name; and the histogram `cosines` over bins.

    Parameters
    ----------
    every
        Whether all pairs are kept, with the cosine 0 of those that a guard parts.
    """
    return Comparison(
        columns=READ.names,
        prepare=_prepare,
        work=partial(_verify, threshold=threshold, guards=tuple(guards), every=every),
        schema=arrow.EDGES,
    )


def _prepare(documents: pa.Table) -> ReadDocuments:
    vectors, facts = to_matrix(documents["values"]), to_matrix(documents["facts"], "u1")
    tokens = [np.frombuffer(each.as_buffer(), "<u8") for each in documents["tokens"]]
    return ReadDocuments(vectors, facts.reshape(len(facts), len(KINDS), FACT_BYTES), tokens)


def _verify(
    read: ReadDocuments, left: Integers, right: Integers, *, threshold: float, guards: Sequence[str], every: bool
) -> Compared:
    cosines = find_cosines(read.vectors, left, right)
    near = cosines >= threshold
    tally = Tally(near=int(near.sum())).add_each("cosines", bin_similarities(cosines))
    parted = np.zeros(left.size, dtype=bool)
    for guard in guards:
        differing = np.zeros(left.size, dtype=bool)
        differing[near] = _differ(read, left[near], right[near], guard)
        tally[guard] += int(differing.sum())
        parted |= differing
    tally["parted"] += int(parted.sum())
    kept = np.arange(left.size) if every else np.flatnonzero(near & ~parted)
    told = np.where(parted, 0.0, cosines)[kept]
    return Compared(kept, {"jaccard": pa.array(told)}, Tally() if every else tally)


def _differ(read: ReadDocuments, left: Integers, right: Integers, guard: str) -> Flags:
    if guard == WORDING:
        return find_exchanged(read.tokens, left.tolist(), right.tolist())
    kind = KINDS.index(guard)
    found: Flags = (read.facts[left, kind] != read.facts[right, kind]).any(axis=1)
    return found
