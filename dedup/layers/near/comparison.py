"""BUCKETS -> CANDIDATES -> EDGES: pairs whose estimate allows the threshold, and those that exactly reach it."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Compared, Comparison, Engine, Rows, Shuffle, Tally, read_histogram
from dedup.informing import NEAR_MISSES, Inform
from dedup.kernels import Bytes, Hashes, Integers
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import rank_groups
from dedup.kernels.sets import filters
from dedup.kernels.sets.jaccard import BINS, CLOSEST, bin_similarities, find_near_misses, jaccard
from dedup.kernels.sets.pairs import sort_distinct
from dedup.layers.near.signing import to_matrix, to_sets
from dedup.layers.near.tables import ShingleSets, sets_size
from dedup.tables import arrow
from dedup.tables.counts import Paired, Verified

CANDIDATES = pa.schema([*arrow.integers("left_id", "right_id"), ("estimate", pa.float64())])
"""Distinct pairs left_id < right_id that are worth an exact comparison; estimate is null in exact mode."""
PAIRS = arrow.integers("left_id", "right_id")
RANKED = arrow.integers("doc_id", "farness", "left_id", "right_id")
"""Near misses by either document; `farness` are the bits of the Jaccard, negative."""
CHOSEN = arrow.integers("left_id", "right_id", "farness")


class SignedSets(NamedTuple):
    """Sizes and signatures of documents."""

    sizes: Integers
    signatures: Bytes


def estimate(threshold: float, least: float | None, *, cap: int, share: float | None = None) -> Comparison[SignedSets]:
    """Return the comparison that drops pairs whose sizes or estimate rule out the threshold.

    Jaccard is at most the lesser size over the greater. The tally has pairs_distinct and pairs_after_length.

    Parameters
    ----------
    least
        Least estimate of a candidate; None: sizes alone decide.
    """
    return Comparison(
        columns=("doc_id", "size", *(() if least is None else ("signature",))),
        prepare=_read_signatures,
        work=partial(_estimate, threshold=threshold, least=least),
        schema=CANDIDATES,
        cap=cap,
        share=share,
    )


def _read_signatures(documents: pa.Table) -> SignedSets:
    has_signatures = "signature" in documents.schema.names
    signatures = to_matrix(documents["signature"]) if has_signatures else np.empty((0, 0), np.uint8)
    return SignedSets(documents["size"].to_numpy(), signatures)


def _estimate(
    signed: SignedSets, left: Integers, right: Integers, *, threshold: float, least: float | None
) -> Compared:
    possible = filters.select_possible(signed.sizes[left], signed.sizes[right], threshold)
    tally = Tally(pairs_distinct=left.size, pairs_after_length=possible.size)
    if least is None:
        return Compared(possible, {"estimate": pa.nulls(possible.size, pa.float64())}, tally)
    estimates = filters.estimate_pairs(signed.signatures, left[possible], right[possible])
    likely = estimates >= least
    return Compared(possible[likely], {"estimate": pa.array(estimates[likely])}, tally)


def count_candidates(tally: Mapping[str, Any], *, compared: int, uncompared: int, settled: int) -> Paired:
    """Return the counts of CANDIDATES, of so many pairs in buckets that are compared, left out, and not needed."""
    return Paired(
        rows=tally["rows"],
        pairs_in_buckets=compared,
        pairs_uncompared=uncompared,
        pairs_settled=settled,
        pairs_distinct=tally.get("pairs_distinct", 0),
        pairs_after_length=tally.get("pairs_after_length", 0),
    )


def verify(threshold: float, *, near_misses: bool) -> Comparison[tuple[Hashes, Integers]]:
    """Return the comparison that keeps pairs whose exact Jaccard reaches the threshold (0: every pair): EDGES.

    The tally has `edges`, and the histogram `similarities` over bins.

    Parameters
    ----------
    near_misses
        Whether pairs come along that may be near misses; `select_near_misses` tells which are.
    """
    return Comparison(
        columns=("doc_id", "shingles"),
        prepare=read_sets,
        work=partial(_verify, threshold=threshold, near_misses=near_misses),
        schema=arrow.EDGES,
    )


def read_sets(documents: pa.Table) -> tuple[Hashes, Integers]:
    """Return the shingle sets of documents, as from `shingles.shingle`."""
    return to_sets(documents["shingles"])


def _verify(
    sets: tuple[Hashes, Integers], left: Integers, right: Integers, *, threshold: float, near_misses: bool
) -> Compared:
    exact = jaccard(*sets, left, right)
    chosen = exact >= threshold
    tally = Tally(edges=int(np.count_nonzero(chosen))).add_each("similarities", bin_similarities(exact))
    if near_misses:
        chosen |= find_near_misses(left, right, exact, threshold)
    kept = np.flatnonzero(chosen)
    return Compared(kept, {"jaccard": pa.array(exact[kept])}, tally)


def count_edges(tally: Mapping[str, Any], near_misses: int) -> Verified:
    """Return the counts of EDGES that come with near misses, of which so many are told."""
    edges, similarities = tally.get("edges", 0), read_histogram(tally, "similarities")
    listed = [similarities.get(number, 0) for number in range(BINS)]
    return Verified(rows=edges, compared=edges + near_misses, similarities=listed)


class Verification(NamedTuple, Generic[Rows]):
    """Candidates that were compared exactly."""

    edges: Rows
    near_misses: Rows
    """EDGES of pairs below the threshold, the closest of each document."""
    counts: Verified


def find_edges(
    engine: Engine[Rows], candidates: Rows, count: int, sets: ShingleSets[Rows], *, threshold: float, inform: Inform
) -> Verification[Rows]:
    """CANDIDATES, SETS -> EDGES, near misses; so many candidates."""
    compared = engine.compare(
        "edges", candidates, sets.rows, verify(threshold, near_misses=True), sets_size(sets, count)
    )
    near_misses = inform(NEAR_MISSES, select_near_misses, engine, compared, threshold)
    if near_misses is None:
        near_misses = engine.parallelise("no_near_misses", arrow.EDGES.empty_table())
    edges = engine.map(compared, partial(select_edges, threshold=threshold), arrow.EDGES)
    return Verification(edges, near_misses, count_edges(engine.tally(compared), engine.tally(near_misses)["rows"]))


def list_ends(batches: Batches) -> Batches:
    """PAIRS -> the doc_ids of both ends, each once a batch."""
    for batch in batches:
        ends = sort_distinct(np.concatenate([batch[name].to_numpy() for name in PAIRS.names]))
        yield pa.RecordBatch.from_arrays([pa.array(ends)], names=["doc_id"])


def select_edges(batches: Batches, *, threshold: float) -> Batches:
    """EDGES with near misses -> EDGES."""
    for batch in batches:
        yield batch.filter(pa.array(batch["jaccard"].to_numpy() >= threshold))


def _emit_near_misses(batches: Batches, *, threshold: float) -> Batches:
    for batch in batches:
        below = batch.filter(pa.array(batch["jaccard"].to_numpy() < threshold))
        left, right = below["left_id"].to_numpy(), below["right_id"].to_numpy()
        # Positive doubles are ordered as their bits are.
        farness = -below["jaccard"].to_numpy().view(np.int64)
        columns = [np.concatenate((left, right)), *(np.tile(each, 2) for each in (farness, left, right))]
        yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=RANKED)


def _take_closest(batches: Batches) -> Batches:
    for batch, places in rank_groups(batches, "doc_id"):
        yield batch.filter(pa.array(places < CLOSEST)).select(CHOSEN.names)


def _name_distances(batches: Batches) -> Iterator[pa.RecordBatch]:
    last: tuple[int, int] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        left, right, farness = (batch[name].to_numpy() for name in CHOSEN.names)
        firsts = mark_firsts(left, right)
        firsts[0] = (left[0], right[0]) != last
        last = int(left[-1]), int(right[-1])
        columns = [left, right, (-farness).view(np.float64)]
        yield pa.RecordBatch.from_arrays([pa.array(each[firsts]) for each in columns], schema=arrow.EDGES)


def rank_near_misses(threshold: float) -> Shuffle:
    """Return the shuffle EDGES with near misses -> those that are among the closest of either document, twice."""
    return Shuffle(
        emit=partial(_emit_near_misses, threshold=threshold),
        emitted=RANKED,
        by=("doc_id",),
        order=("farness", "left_id", "right_id"),
        work=_take_closest,
        schema=CHOSEN,
    )


NAME_DISTANCES = Shuffle(emitted=CHOSEN, by=("left_id", "right_id"), work=_name_distances, schema=arrow.EDGES)
"""Near misses, each perhaps twice -> once, as EDGES."""


def select_near_misses(engine: Engine[Rows], compared: Rows, threshold: float) -> Rows:
    """EDGES with near misses -> near misses, as EDGES."""
    tally = engine.tally(compared)
    twice = 2 * (tally["rows"] - tally.get("edges", 0))
    ranked = engine.group("near_misses_ranked", compared, rank_near_misses(threshold), expected=twice, once=True)
    return engine.group("near_misses", ranked, NAME_DISTANCES, expected=twice)
