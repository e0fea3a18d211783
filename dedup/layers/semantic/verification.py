"""PAIRS -> EDGES: pairs whose cosine reaches the threshold, and whose texts share the facts that guards ask for."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Compared, Comparison, Engine, Rows, Shuffle, Tally, once
from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.kernels.sets.jaccard import bin_similarities
from dedup.kernels.text.facts import (
    FACT_BYTES,
    KINDS,
    NAMES,
    WORDING,
    are_exchanged,
    digest_facts,
    share_names,
)
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.products import Matrix, find_cosines, to_matrix
from dedup.layers.near import comparison, templates
from dedup.layers.semantic.vectors import VECTORS
from dedup.tables import arrow

GUARDS = (*KINDS, NAMES, WORDING)
PARTED = 4.0
"""Distance that a guard puts between two vectors: a cosine less that is below every other."""
HASHED = ("names", "openers", "tokens")
READ = pa.schema([*VECTORS, *((name, pa.binary()) for name in ("facts", *HASHED))])
"""Documents of candidates: the vector, digests of the facts of the text, and hashes of its names and tokens."""

SEEN = pa.schema(
    [
        *arrow.integers("doc_id", "other_id", "farness"),
        arrow.EDGES.field("jaccard"),
        *((name, pa.binary()) for name in HASHED),
    ]
)
"""Neighbours of documents, by edges; `farness` is the cosine, negative, in units of 1 / PRECISION."""
PRECISION = 1e9
"""Cosines that differ by less are equal."""


def _differ_in_names(one: Sequence[Hashes], other: Sequence[Hashes]) -> bool:
    return not share_names(one[:2], other[:2])


def _differ_in_wording(one: Sequence[Hashes], other: Sequence[Hashes]) -> bool:
    return are_exchanged(one[2], other[2])


OF_PAIRS = {NAMES: _differ_in_names, WORDING: _differ_in_wording}
"""Guards that compare the HASHED of two documents; others ask for equality, so what is equal to one is to another."""


class ReadDocuments(NamedTuple):
    """Vectors and facts of documents."""

    vectors: Matrix
    facts: Bytes
    """uint8 [n, KINDS, FACT_BYTES]."""
    hashes: Mapping[str, Sequence[Hashes]]
    """Hashes of the names, openers and tokens of each."""


def read_texts(
    engine: Engine[Rows], candidates: Rows, vectors: Rows, count: int, tokenizer: Tokenizer, *, name: str = "edges"
) -> Rows:
    """Return READ of the documents of so many candidates; the texts of others are not read again."""
    named = engine.map(candidates, comparison.list_ends, templates.MEMBERS)
    ends = engine.expect(engine.group(f"{name}_ends", named, templates.DISTINCT), 2 * count)
    held = engine.join(vectors, ends, "doc_id", how="semi")
    # Equal rows share a document id.
    wanted = engine.group(f"{name}_wanted", held, once(VECTORS))
    return engine.fetch(f"{name}_texts", wanted, partial(_read, tokenizer=tokenizer), READ)


def _read(batches: Batches, *, tokenizer: Tokenizer) -> Batches:
    for batch in batches:
        texts = [text or "" for text in batch["text"].to_pylist()]
        facts = [pa.array(each, pa.binary()) for each in zip(*map(digest_facts, texts), strict=True)]
        tokens = blocks.lists(*tokenizer.hash(batch["text"]))
        yield pa.RecordBatch.from_arrays([batch["doc_id"], batch["values"], *facts, tokens], schema=READ)


def verify(threshold: float, guards: Sequence[str], *, every: bool = False) -> Comparison[ReadDocuments]:
    """Return the comparison that keeps pairs whose cosine reaches the threshold and which no guard parts: EDGES.

    Their column `jaccard` is the cosine. The tally has `near`, pairs that reach the threshold; `parted`, those of them
    that a guard parts; each guard by its name; and the histogram `cosines` over bins.

    Parameters
    ----------
    every
        Whether all pairs are kept, with PARTED less than the cosine of those that a guard parts.
    """
    return Comparison(
        columns=READ.names,
        prepare=_prepare,
        work=partial(_verify, threshold=threshold, guards=tuple(guards), every=every),
        schema=arrow.EDGES,
    )


def _prepare(documents: pa.Table) -> ReadDocuments:
    vectors, facts = to_matrix(documents["values"]), to_matrix(documents["facts"], "u1")
    hashes = {name: [np.frombuffer(each.as_buffer(), "<u8") for each in documents[name]] for name in HASHED}
    return ReadDocuments(vectors, facts.reshape(len(facts), len(KINDS), FACT_BYTES), hashes)


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
    told = np.where(parted, cosines - PARTED, cosines)[kept]
    return Compared(kept, {"jaccard": pa.array(told)}, Tally() if every else tally)


def _differ(read: ReadDocuments, left: Integers, right: Integers, guard: str) -> Flags:
    if guard in OF_PAIRS:
        hashed = [*zip(*(read.hashes[name] for name in HASHED), strict=True)]
        ends = zip(left.tolist(), right.tolist(), strict=True)
        return np.array([OF_PAIRS[guard](hashed[a], hashed[b]) for a, b in ends], dtype=bool)
    kind = KINDS.index(guard)
    found: Flags = (read.facts[left, kind] != read.facts[right, kind]).any(axis=1)
    return found


def settle(engine: Engine[Rows], edges: Rows, read: Rows, guards: Sequence[str], count: int) -> Rows:
    """Return the edges of which neither end has a neighbour, as near or nearer, that a guard parts from the other end.

    A text said anew is near the text, and near its contradiction as well: it is the same as the nearer one at most,
    since these two are not the same.

    Parameters
    ----------
    read
        READ of all ends.
    count
        Edges.
    """
    asked = tuple(guard for guard in guards if guard in OF_PAIRS)
    hashed = engine.select(read, "doc_id", *HASHED)
    sides = [
        engine.join(engine.select(edges, "jaccard", doc_id=own, other_id=other), hashed, "other_id", key="doc_id")
        for own, other in (("left_id", "right_id"), ("right_id", "left_id"))
    ]
    seen = engine.concat(*(engine.map(side, _note_nearness, SEEN) for side in sides))
    vote = Shuffle(
        emitted=SEEN,
        by=("doc_id",),
        order=("farness", "other_id"),
        work=partial(_vote, guards=asked),
        schema=arrow.EDGES,
    )
    votes = engine.group("votes", seen, vote, expected=2 * count)
    return engine.group("settled", votes, AGREE, expected=2 * count)


def _note_nearness(batches: Batches) -> Batches:
    for batch in batches:
        yield conform(batch, SEEN, farness=-np.rint(batch["jaccard"].to_numpy() * PRECISION).astype(np.int64))


def _vote(batches: Batches, *, guards: Sequence[str]) -> Batches:
    """Yield the neighbours of each document that no other, as near or nearer, contradicts."""
    for batch in join_groups(batches, ["doc_id"]):
        taken = np.ones(batch.num_rows, dtype=bool)
        far = batch["farness"].to_numpy()
        for begin, end in pairwise(bound_groups(batch, ["doc_id"]).tolist()):
            if end - begin > 1:
                taken[begin:end] = _select_settled(batch.slice(begin, end - begin), far[begin:end], guards)
        doc_ids, others, cosines = (batch[name].to_numpy()[taken] for name in ("doc_id", "other_id", "jaccard"))
        ends = np.minimum(doc_ids, others), np.maximum(doc_ids, others), cosines
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in ends], schema=arrow.EDGES)


def _select_settled(neighbours: pa.RecordBatch, far: Integers, guards: Sequence[str]) -> Flags:
    """Flag the neighbours of a document, the nearest first, that no other as near or nearer contradicts."""
    # Copies are one.
    held = [*zip(*(neighbours[name].to_pylist() for name in HASHED), strict=True)]
    numbers = {each: number for number, each in enumerate(dict.fromkeys(held))}
    hashed = [[np.frombuffer(part, "<u8") for part in each] for each in numbers]
    of = np.array([numbers[each] for each in held])
    contradict = np.zeros((len(hashed), len(hashed)), dtype=bool)
    for one, other in combinations(range(len(hashed)), 2):
        found = any(OF_PAIRS[guard](hashed[one], hashed[other]) for guard in guards)
        contradict[one, other] = contradict[other, one] = found
    nearer = far[None, :] <= far[:, None]
    settled: Flags = ~(contradict[of][:, of] & nearer).any(axis=1)
    return settled


def _agree(batches: Batches) -> Batches:
    """Yield the edges that both ends have voted for."""
    for batch in join_groups(batches, ("left_id", "right_id")):
        bounds = bound_groups(batch, ("left_id", "right_id"))
        yield batch.take(pa.array(bounds[:-1][np.diff(bounds) > 1]))


AGREE = Shuffle(emitted=arrow.EDGES, by=("left_id", "right_id"), work=_agree, schema=arrow.EDGES)
"""EDGES, each by one end or by both -> those by both."""


def list_pairs(batches: Batches) -> Batches:
    """Pair the documents removed with those kept for them."""
    for batch in batches:
        named = batch.filter(batch["representative_id"].is_valid())
        own, others = named["doc_id"].to_numpy(), to_doc_ids(named["representative_id"])
        ends = [pa.array(each[own != others]) for each in (np.minimum(own, others), np.maximum(own, others))]
        yield pa.RecordBatch.from_arrays(ends, schema=comparison.PAIRS)


def select_held(engine: Engine[Rows], pairs: Rows, vectors: Rows) -> Rows:
    """Return the pairs whose documents both have a vector."""
    for end in ("left_id", "right_id"):
        pairs = engine.join(pairs, engine.select(vectors, **{end: "doc_id"}), end, key=end, how="semi")
    return pairs


def disagree(threshold: float) -> Comparison[Matrix]:
    """Return the comparison that keeps pairs whose cosine is below the threshold: EDGES; the tally has `compared`."""
    work = partial(_disagree, threshold=threshold)
    return Comparison(columns=VECTORS.names, prepare=_read_vectors, work=work, schema=arrow.EDGES)


def _read_vectors(documents: pa.Table) -> Matrix:
    return to_matrix(documents["values"])


def _disagree(vectors: Matrix, left: Integers, right: Integers, *, threshold: float) -> Compared:
    cosines = find_cosines(vectors, left, right)
    far = np.flatnonzero(cosines < threshold)
    return Compared(far, {"jaccard": pa.array(cosines[far])}, Tally(compared=left.size))
