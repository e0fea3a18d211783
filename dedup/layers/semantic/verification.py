"""PAIRS -> EDGES: pairs whose cosine reaches the threshold, and whose texts share the facts that guards ask for."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Compared, Comparison, Engine, Rows, Shuffle, Tally, once
from dedup.kernels import Bytes, Flags, Floats, Hashes, Integers
from dedup.kernels.digests import digest_each
from dedup.kernels.runs import blocks
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.kernels.sets.jaccard import bin_similarities
from dedup.kernels.text.facts import (
    FACT_BYTES,
    KINDS,
    NAMES,
    WORDING,
    are_exchanged,
    are_reordered,
    digest_facts,
    find_overlap,
    share_names,
)
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.products import Matrix, find_cosines, to_matrix
from dedup.layers.layer import Fetch
from dedup.layers.near import buckets, comparison, templates
from dedup.layers.semantic.vectors import VECTORS
from dedup.tables import arrow

GUARDS = (*KINDS, NAMES, WORDING)
OVERLAP = "overlap"
PARTED = 4.0
"""Distance that a guard puts between two vectors: a cosine less that is below every other."""
HASHED = ("names", "openers", "tokens")
DIGESTS = buckets.DIGESTS.names
"""Columns of a document that tell its text and vector."""
COMPARED = (*VECTORS.names, "facts", *HASHED)
READ = pa.schema(
    [
        *VECTORS,
        *((name, pa.binary()) for name in ("facts", *HASHED)),
        ("begin", pa.large_string()),
        *((name, pa.int64()) for name in DIGESTS if name != "doc_id"),
    ]
)
"""Documents of candidates: the vector, digests of the facts of the text, hashes of its names and tokens, its begin, and
the digest of text and vector."""
BEGIN_CHARACTERS = 200

SEEN = arrow.integers("doc_id", "other_id", "farness", "role")
"""Pairs by either document; `farness` is what the cosine lacks of 1, in units of 1 / PRECISION."""
ROLES = EDGE, RIVALS, CONTRADICTION = range(3)
"""Roles of pairs: edges; those that contradict each other by the same words in another order; others that do."""
WEDGES = arrow.integers("left_id", "right_id", "is_wedge", "doc_id", "other_id", "farness")
"""Pairs that are edges or RIVALS, and wedges, which contest the edge of doc_id and other_id if their pair is one."""
PRECISION = 1e9
"""Cosines that differ by less are equal."""
NEARER = 0.75
"""Most of a neighbour's farness that one has which is clearly nearer. By rules that no label knows (`python -m
tests.paraphrases --measure`) 2 of 1,000 contradictions go, and 624 paraphrases are found; with .85, 8 and 672; with 1,
32 and 733."""


PairGuard: TypeAlias = Callable[[Sequence[Hashes], Sequence[Hashes]], bool]
"""Guard that compares the HASHED of two documents; others ask for equality, so what is equal to one is to another."""


def _differ_in_names(one: Sequence[Hashes], other: Sequence[Hashes]) -> bool:
    return not share_names(one[:2], other[:2])


def _differ_in_wording(one: Sequence[Hashes], other: Sequence[Hashes]) -> bool:
    return are_exchanged(one[2], other[2])


def _share_few(one: Sequence[Hashes], other: Sequence[Hashes], *, least: float) -> bool:
    return find_overlap(one[2], other[2]) < least


class Guards(NamedTuple):
    """Facts in which two texts must be equal, and how they must resemble each other."""

    names: Sequence[str]
    contradicting: Mapping[str, PairGuard]
    """Guards of pairs that tell whether one text contradicts the other."""
    of_pairs: Mapping[str, PairGuard]
    """These, and OVERLAP if it is asked for."""

    @classmethod
    def of(cls, names: Sequence[str], overlap: float) -> Self:
        """Return those of some names, and the least share of words if it is above 0."""
        known: dict[str, PairGuard] = {NAMES: _differ_in_names, WORDING: _differ_in_wording}
        contradicting = {name: known[name] for name in names if name in known}
        asked: dict[str, PairGuard] = {OVERLAP: partial(_share_few, least=overlap)} if overlap else {}
        return cls((*names, *asked), contradicting, contradicting | asked)


class ReadDocuments(NamedTuple):
    """Vectors and facts of documents."""

    vectors: Matrix
    facts: Bytes
    """uint8 [n, KINDS, FACT_BYTES]."""
    hashes: Mapping[str, Sequence[Hashes]]
    """Hashes of the names, openers and tokens of each."""
    contents: Integers
    """Number of each that those of equal hashes share."""


def read_texts(
    engine: Engine[Rows],
    candidates: Rows,
    vectors: Rows,
    count: int,
    tokenizer: Tokenizer,
    *,
    name: str = "edges",
    fetch: Fetch[Rows] | None = None,
) -> Rows:
    """Return READ of the documents of so many candidates; the texts of others are not read again.

    Parameters
    ----------
    fetch
        Reads documents again; None: those of the engine.
    """
    named = engine.map(candidates, comparison.list_ends, templates.MEMBERS)
    ends = engine.group(f"{name}_ends", named, templates.DISTINCT, expected=2 * count)
    held = engine.join(vectors, ends, "doc_id", how="semi")
    # Equal rows share a document id.
    wanted = engine.group(f"{name}_wanted", held, once(VECTORS))
    return (fetch or engine.fetch)(f"{name}_texts", wanted, partial(_read, tokenizer=tokenizer), READ)


def _read(batches: Batches, *, tokenizer: Tokenizer) -> Batches:
    for batch in batches:
        texts = [text or "" for text in batch["text"].to_pylist()]
        facts = [pa.array(each, pa.binary()) for each in zip(*map(digest_facts, texts), strict=True)]
        tokens = blocks.lists(*tokenizer.hash(batch["text"]))
        begins = pa.array([text[:BEGIN_CHARACTERS] for text in texts], pa.large_string())
        columns = [batch["doc_id"], batch["values"], *facts, tokens, begins, *_digest(batch)]
        yield pa.RecordBatch.from_arrays(columns, schema=READ)


def _digest(batch: pa.RecordBatch) -> list[pa.Array]:
    """Return the halves of the digest of each document's text and vector."""
    texts = pc.fill_null(batch["text"].cast(pa.large_binary()), b"")
    # Vectors are of one length, so that both are known from what they make together.
    whole = pc.binary_join_element_wise(
        texts, batch["values"].cast(pa.large_binary()), pa.scalar(b"", pa.large_binary())
    )
    return [pa.array(half.copy()) for half in digest_each(whole).T]


def verify(threshold: float, guards: Guards, *, every: bool = False) -> Comparison[ReadDocuments]:
    """Return the comparison that keeps pairs whose cosine reaches the threshold and which no guard parts: EDGES.

    Their column `jaccard` is the cosine. Pairs that share all facts but contradict each other are kept as well, with
    PARTED less, and those of the same words in another order, of which one may be the other said anew, with twice
    that. The tally has `near`, pairs that reach the threshold; `parted`, those of them that a guard parts; each guard
    by its name; and the histogram `cosines` over bins.

    Parameters
    ----------
    every
        Whether all pairs are kept, with PARTED less than the cosine of those that a guard parts.
    """
    return Comparison(
        columns=COMPARED,
        prepare=_prepare,
        work=partial(_verify, threshold=threshold, guards=guards, every=every),
        schema=arrow.EDGES,
    )


def _prepare(documents: pa.Table) -> ReadDocuments:
    vectors, facts = to_matrix(documents["values"]), to_matrix(documents["facts"], "u1")
    hashes = {name: [np.frombuffer(each.as_buffer(), "<u8") for each in documents[name]] for name in HASHED}
    known: dict[tuple[bytes, ...], int] = {}
    numbers = [known.setdefault((*map(bytes, each),), len(known)) for each in zip(*hashes.values(), strict=True)]
    contents = np.array(numbers, dtype=np.int64)
    return ReadDocuments(vectors, facts.reshape(len(facts), len(KINDS), FACT_BYTES), hashes, contents)


def _verify(
    read: ReadDocuments, left: Integers, right: Integers, *, threshold: float, guards: Guards, every: bool
) -> Compared:
    cosines = find_cosines(read.vectors, left, right)
    near = cosines >= threshold
    tally = Tally(near=int(near.sum())).add_each("cosines", bin_similarities(cosines))
    parted, apart = np.zeros(left.size, dtype=bool), np.zeros(left.size, dtype=bool)
    for guard in guards.names:
        differing = np.zeros(left.size, dtype=bool)
        differing[near] = _differ(read, left[near], right[near], guard, guards.of_pairs)
        tally[guard] += int(differing.sum())
        parted |= differing
        if guard not in guards.contradicting:
            apart |= differing
    tally["parted"] += int(parted.sum())
    told = np.where(parted, cosines - PARTED, cosines)
    if every:
        kept = np.arange(left.size)
    else:
        tokens, contradicting = read.hashes["tokens"], np.flatnonzero(parted & ~apart)
        told[[at for at in contradicting.tolist() if are_reordered(tokens[left[at]], tokens[right[at]])]] -= PARTED
        kept = np.flatnonzero(near & ~apart)
    return Compared(kept, {"jaccard": pa.array(told[kept])}, Tally() if every else tally)


def read_cosines(told: Floats) -> tuple[Floats, Flags]:
    """Return the cosines of pairs that were compared, and which a guard parts."""
    return told + PARTED * (told < -1) + PARTED * (told < -1 - PARTED), told < -1


def _differ(
    read: ReadDocuments, left: Integers, right: Integers, guard: str, of_pairs: Mapping[str, PairGuard]
) -> Flags:
    if guard in of_pairs:
        hashed = [*zip(*(read.hashes[name] for name in HASHED), strict=True)]
        # Copies of two texts make many pairs, of which a guard says the same.
        pairs = read.contents[left] * read.contents.size + read.contents[right]
        _, first, again = np.unique(pairs, return_index=True, return_inverse=True)
        ends = zip(left[first].tolist(), right[first].tolist(), strict=True)
        return np.array([of_pairs[guard](hashed[a], hashed[b]) for a, b in ends], dtype=bool)[again]
    kind = KINDS.index(guard)
    found: Flags = (read.facts[left, kind] != read.facts[right, kind]).any(axis=1)
    return found


def settle(engine: Engine[Rows], compared: Rows, count: int) -> Rows:
    """Return the edges of which neither end has a neighbour, not clearly farther, that contradicts the other end.

    A text said anew is near the text, and near its contradiction as well: it is the same as the nearer one at most,
    since these two are not the same, and as neither where no vector tells which.

    Parameters
    ----------
    compared
        Pairs as from `verify`.
    count
        Pairs.
    """
    wedges = engine.group("wedges", compared, WEDGE, expected=2 * count)
    contested = engine.group("contested", wedges, CONTEST)
    edges = engine.map(compared, partial(comparison.select_edges, threshold=-1.0), arrow.EDGES)
    return engine.group("settled", engine.concat(edges, contested), SETTLE, expected=count)


def _list_seen(batches: Batches) -> Batches:
    """EDGES as from `verify` -> SEEN."""
    for batch in batches:
        told = batch["jaccard"].to_numpy()
        cosines, _ = read_cosines(told)
        farness = np.rint((1 - cosines) * PRECISION).astype(np.int64)
        role = np.select([told >= -1, told < -1 - PARTED], [EDGE, RIVALS], CONTRADICTION)
        ends = [batch[name].to_numpy() for name in ("left_id", "right_id")]
        for own, other in (ends, ends[::-1]):
            yield pa.RecordBatch.from_arrays([*map(pa.array, (own, other, farness, role))], schema=SEEN)


def _wedge(batches: Batches) -> Batches:
    """SEEN -> WEDGES: for each edge of a document, the pairs of its other end and what contradicts the document."""
    for batch in join_groups(batches, ["doc_id"]):
        doc_ids, others, farness, role = (batch[name].to_numpy() for name in SEEN.names)
        known = np.flatnonzero((role != CONTRADICTION) & (doc_ids < others))
        found = [np.stack((doc_ids, others, np.zeros_like(role), doc_ids, others, farness))[:, known]]
        for begin, end in pairwise(bound_groups(batch, ["doc_id"]).tolist()):
            edges = begin + np.flatnonzero(role[begin:end] == EDGE)
            against = others[begin:end][role[begin:end] != EDGE]
            if edges.size and against.size:
                ends, rivals = np.repeat(edges, against.size), np.tile(against, edges.size)
                pair = np.minimum(others[ends], rivals), np.maximum(others[ends], rivals)
                found.append(np.stack((*pair, np.ones_like(ends), doc_ids[ends], others[ends], farness[ends])))
        columns = np.concatenate(found, axis=1)
        yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=WEDGES)


WEDGE = Shuffle(emit=_list_seen, emitted=SEEN, by=("doc_id",), work=_wedge, schema=WEDGES)
"""EDGES as from `verify` -> WEDGES."""


def _contest(batches: Batches) -> Batches:
    """WEDGES -> the edges that another neighbour of an end contests, without a cosine."""
    for batch in join_groups(batches, ("left_id", "right_id")):
        bounds = bound_groups(batch, ("left_id", "right_id"))
        firsts = np.repeat(bounds[:-1], np.diff(bounds))
        is_wedge, farness = batch["is_wedge"].to_numpy(), batch["farness"].to_numpy()
        holds = (is_wedge == 1) & (is_wedge[firsts] == 0) & (farness[firsts] * NEARER <= farness)
        one, other = (batch[name].to_numpy()[holds] for name in ("doc_id", "other_id"))
        columns = [pa.array(np.minimum(one, other)), pa.array(np.maximum(one, other)), pa.nulls(one.size, pa.float64())]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow.EDGES)


CONTEST = Shuffle(emitted=WEDGES, by=("left_id", "right_id"), order=("is_wedge",), work=_contest, schema=arrow.EDGES)
"""WEDGES -> EDGES without a cosine."""


def _settle(batches: Batches) -> Batches:
    """Yield the edges that nothing contests."""
    for batch in join_groups(batches, ("left_id", "right_id")):
        bounds = bound_groups(batch, ("left_id", "right_id"))
        yield batch.take(pa.array(bounds[:-1][np.diff(bounds) == 1]))


SETTLE = Shuffle(emitted=arrow.EDGES, by=("left_id", "right_id"), work=_settle, schema=arrow.EDGES)
"""EDGES, and those contested once more -> those that nothing contests."""


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
