"""Shingle sets of a store that resemble each other, after some have come or gone.

    BANDS -> BUCKETS -> pairs of which one has come -> CANDIDATES -> EDGES -> LINKS

The edges are those that one search over all sets of the store would find, pair for pair: what a step can change is
compared anew by the work of the layer near, and what it cannot change stands in the table.

A pair that shares a bucket up to the cap is compared when the later of the two comes. Pairs of buckets over the cap
depend on all that are in such buckets (docs/templates.md), so these are linked anew when one of them has changed.
"""

from collections.abc import Iterator
from functools import partial
from typing import Generic, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Compared, Engine, Rows, Size, Tally, read_histogram
from dedup.informing import NEAR_MISSES
from dedup.kernels import Integers
from dedup.kernels.runs import blocks
from dedup.kernels.sets import filters, lsh
from dedup.kernels.sets.jaccard import BINS
from dedup.kernels.sets.pairs import decode, encode, select_distinct
from dedup.layers.near import comparison, templates
from dedup.layers.near.buckets import BUCKET_KEYED
from dedup.layers.near.tables import ShingleSets, join_sets, sets_size
from dedup.store.arrays import distinct, is_in
from dedup.store.crowd import Crowd, differ, find_crowd, link_anew, moves
from dedup.store.numbering import KEYS, OWNED
from dedup.store.reading import find_sets, read
from dedup.store.resigning import PAYLOAD, sign_sets
from dedup.store.step import LEAD, LINKS, PAIRED, Step
from dedup.tables import arrow
from dedup.tables.counts import Bucketed, Paired, Verified


class Settled(NamedTuple, Generic[Rows]):
    """The edges after a step, as far as it could change them."""

    found: Rows
    """LINKS that the store has not."""
    found_count: int
    withdrawn: Integers
    """Edges of the store that are none any more, as `pairs.encode` has them; ascending."""
    near_misses: Rows
    """EDGES by document."""
    heads: Rows
    """HEADS of all sets compared."""
    hot: Integers
    """Keys of buckets over the cap, ascending."""
    bucketed: Bucketed
    paired: Paired
    verified: Verified


class SearchedSets(NamedTuple, Generic[Rows]):
    """Documents of a search for edges."""

    payload: Rows
    """PAYLOAD of all that were compared."""
    sets: ShingleSets[Rows]
    """SETS of all candidates."""
    crowd: Crowd[Rows] | None
    """None where nothing was linked anew."""


def settle(engine: Engine[Rows], step: Step[Rows]) -> tuple[Settled[Rows], SearchedSets[Rows]]:
    """Return the edges that a step changes, and what was compared for them."""
    cap, threshold = step.search.cap, step.search.threshold
    rows = engine.select(engine.concat(step.met, step.bands), "key", doc_id="set")
    expected = step.met_count + (step.count - step.first) * step.search.bands
    buckets = engine.group("buckets", rows, BUCKET_KEYED, expected=expected)
    over = engine.map(buckets, partial(_list_over, cap=cap, first=step.first if not step.gone.size else 0), KEYS)
    large = engine.collect(over)["wanted"].to_numpy()
    hot = distinct(step.resting, large)
    cooled = np.setdiff1d(step.hot, hot)
    bands = find_crowd(engine, step, distinct(hot, cooled))
    heads = _find_heads(engine, step, bands)
    changes = large.size or step.resting.size < step.hot.size
    crowd = None
    if bands is not None and (changes or moves(engine, bands, heads)):
        crowd = link_anew(engine, step, bands, heads, hot)
    listing = partial(_list_fresh, first=step.first, cap=cap, cooled=cooled)
    paired_sets = engine.map(buckets, listing, PAIRED, name="pairs")
    sizes = read_histogram(engine.tally(paired_sets), "sizes")
    fresh = _name_pairs(engine, paired_sets, heads)
    sets, payload = _read_compared(engine, step, fresh, heads)
    small = {size: count for size, count in sizes.items() if size <= cap}
    compared, pairing, uncompared, settled = templates.count_pairs(small, None)[0], fresh, 0, 0
    if crowd is not None:
        compared, uncompared, settled = compared + crowd.compared, crowd.uncompared, crowd.settled
        payload = engine.concat(payload, engine.map(crowd.sets.rows, partial(sign_sets, signer=step.signer), PAYLOAD))
        sets = join_sets(engine, sets, crowd.sets)
        pairing = engine.concat(engine.map(fresh, _wrap, arrow.BUCKETS), crowd.linked)
    estimate = comparison.estimate(threshold, step.search.least_estimate, cap=cap)
    candidates = engine.compare("candidates", pairing, payload, estimate, size_pairs(step, compared, sets.documents))
    told = engine.tally(candidates)
    paired = Paired(
        rows=told["rows"],
        pairs_in_buckets=compared,
        pairs_uncompared=uncompared,
        pairs_settled=settled,
        pairs_distinct=told.get("pairs_distinct", 0),
        pairs_after_length=told.get("pairs_after_length", 0),
    )
    sets = join_sets(engine, sets, _read_fresh(engine, step, candidates, heads, crowd))
    verify = comparison.verify(threshold, near_misses=True)
    verified = engine.compare("edges", candidates, sets.rows, verify, sets_size(sets, paired.rows))
    told = engine.tally(verified)
    similarities = read_histogram(told, "similarities")
    edges = engine.map(verified, partial(comparison.select_edges, threshold=threshold), arrow.EDGES)
    near_misses = step.inform(NEAR_MISSES, comparison.select_near_misses, engine, verified, threshold)
    if near_misses is None:
        near_misses = engine.parallelise("no_near_misses", arrow.EDGES.empty_table())
    found = engine.map(_number_ends(engine, edges, heads), _to_links, LINKS, name="found")
    withdrawn = np.empty(0, np.int64)
    if crowd is not None:
        found, withdrawn = differ(engine, step, found, crowd, heads=heads, hot=hot)
    changed = Settled(
        found=found,
        found_count=engine.tally(found)["rows"],
        withdrawn=withdrawn,
        near_misses=near_misses,
        heads=heads,
        hot=hot,
        bucketed=Bucketed(
            rows=sum(sizes.values()),
            members=sum(size * count for size, count in sizes.items()),
            band_rows=engine.tally(buckets)["emitted"],
            sizes=sizes,
        ),
        paired=paired,
        verified=Verified(
            rows=told.get("edges", 0),
            compared=told.get("edges", 0) + engine.tally(near_misses)["rows"],
            similarities=[similarities.get(number, 0) for number in range(BINS)],
        ),
    )
    return changed, SearchedSets(payload, sets, crowd)


def list_links(engine: Engine[Rows], step: Step[Rows], settled: Settled[Rows]) -> tuple[Rows, int]:
    """Return LINKS of a store after a step, and how many they are at most."""
    known = read(engine, step.snapshot, "edges", LINKS.names)
    if (lost := distinct(step.cut, settled.withdrawn)).size:
        known = engine.map(known, partial(_drop, lost=lost), LINKS)
    return engine.concat(known, settled.found), step.snapshot.count("edges") + settled.found_count


def _drop(batches: Batches, *, lost: Integers) -> Batches:
    for batch in batches:
        yield batch.filter(pa.array(~is_in(encode(batch["left"].to_numpy(), batch["right"].to_numpy()), lost)))


def size_pairs(step: Step[Rows], compared: float, documents: int) -> Size:
    """Return what a comparison of so many pairs of signatures moves."""
    documents += step.count - step.first
    return Size(compared, 2 * compared, documents, documents * (8 + step.search.values))


def _list_over(batches: Batches, *, cap: int, first: int) -> Batches:
    """BUCKETS of sets -> the keys of those over the cap that have a set from the first on."""
    for batch in batches:
        over = batch.filter(pa.array(batch["size"].to_numpy() > cap))
        members, offsets = blocks.unlists(over["doc_ids"], "<i8")
        changed = members[offsets[1:] - 1] >= first
        yield pa.RecordBatch.from_arrays([over["key"].filter(pa.array(changed))], schema=KEYS)


def _find_heads(engine: Engine[Rows], step: Step[Rows], bands: Rows | None) -> Rows:
    """Return HEADS of all sets that may be compared."""
    wanted = engine.concat(engine.select(step.met, "set"), engine.select(step.fresh, "set"))
    if bands is not None:
        wanted = engine.concat(wanted, engine.select(bands, "set"))
    rows = engine.join(step.places, wanted, "set", key="set", how="semi")
    return engine.group("heads", rows, LEAD, expected=step.met_count + step.count - step.first)


def _name_pairs(engine: Engine[Rows], named: Rows, heads: Rows) -> Rows:
    """Return pairs of sets as pairs of their least documents."""
    for end in PAIRED.names:
        named = engine.join(named, engine.select(heads, "set", **{f"{end}_head": "doc_id"}), end, key="set")
    return engine.map(named, _order_ends, comparison.PAIRS)


def _list_fresh(batches: Batches, *, first: int, cap: int, cooled: Integers) -> Iterator[pa.RecordBatch | Tally]:
    """BUCKETS of sets -> the pairs of buckets up to the cap of which one has come, and all of cooled buckets.

    The tally has the histogram `sizes` of the buckets with a set that has come.
    """
    for batch in batches:
        every, bounds = blocks.unlists(batch["doc_ids"], "<i8")
        yield Tally().add_each("sizes", batch["size"].to_numpy()[every[bounds[1:] - 1] >= first])
        small = batch.filter(pa.array(batch["size"].to_numpy() <= cap))
        members, offsets = blocks.unlists(small["doc_ids"], "<i8")
        keys = small["key"].to_numpy().view(np.uint64)
        is_cooled = is_in(keys.view(np.int64), cooled)

        def pair() -> Iterator[tuple[Integers, Integers]]:
            for left, right in lsh.pairs(keys, members, offsets, None, filters.PAIRS_AT_A_TIME):  # noqa: B023 - at once
                is_new = right >= first
                yield left[is_new], right[is_new]
            chosen = lsh.select_buckets(keys, members, offsets, is_cooled)  # noqa: B023 - at once
            yield from lsh.pairs(*chosen, None, filters.PAIRS_AT_A_TIME)

        left, right = decode(select_distinct(pair()))
        yield pa.RecordBatch.from_arrays([pa.array(left), pa.array(right)], schema=PAIRED)


def _order_ends(batches: Batches) -> Batches:
    for batch in batches:
        ends = [batch[f"{end}_head"].to_numpy() for end in PAIRED.names]
        columns = [pa.array(np.minimum(*ends)), pa.array(np.maximum(*ends))]
        yield pa.RecordBatch.from_arrays(columns, schema=comparison.PAIRS)


def _wrap(batches: Batches) -> Batches:
    """Turn pairs into BUCKETS of two."""
    for batch in batches:
        ends = np.stack([batch[name].to_numpy() for name in comparison.PAIRS.names], axis=1).reshape(-1)
        count = batch.num_rows
        cells = blocks.lists(ends, 2 * np.arange(count + 1))
        columns = [pa.array(np.arange(count)), pa.array(np.full(count, 2)), cells]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow.BUCKETS)


def _read_compared(engine: Engine[Rows], step: Step[Rows], fresh: Rows, heads: Rows) -> tuple[ShingleSets[Rows], Rows]:
    """Return SETS of the documents of pairs whose sets were there, and PAYLOAD of all of them."""
    named = engine.map(fresh, comparison.list_ends, templates.MEMBERS)
    ends = engine.group("ends", named, templates.DISTINCT)
    numbered = engine.join(ends, engine.select(heads, "doc_id", "set"), "doc_id")
    old = engine.map(numbered, partial(_select_sets, first=step.first, is_new=False), OWNED)
    new = engine.map(numbered, partial(_select_sets, first=step.first, is_new=True), OWNED)
    count = engine.tally(ends)["rows"]
    sets = find_sets(engine, step.snapshot, "earlier_sets", old, count=step.count, expected=count)
    signed = engine.map(sets.rows, partial(sign_sets, signer=step.signer), PAYLOAD)
    own = engine.join(engine.select(step.signatures, *PAYLOAD.names), new, "doc_id", how="semi")
    return sets, engine.concat(signed, own)


def _select_sets(batches: Batches, *, first: int, is_new: bool) -> Batches:
    for batch in batches:
        yield batch.filter(pa.array((batch["set"].to_numpy() >= first) == is_new)).select(OWNED.names)


def _read_fresh(
    engine: Engine[Rows], step: Step[Rows], candidates: Rows, heads: Rows, crowd: Crowd[Rows] | None
) -> ShingleSets[Rows]:
    """Return SETS of candidates whose sets have come."""
    pairs = engine.select(candidates, *comparison.PAIRS.names)
    ends = engine.group(
        "candidate_ends", engine.map(pairs, comparison.list_ends, templates.MEMBERS), templates.DISTINCT
    )
    count = engine.tally(ends)["rows"]
    wanted = ends if crowd is None else engine.join(ends, crowd.sets.rows, "doc_id", how="anti")
    numbered = engine.join(wanted, engine.select(heads, "doc_id", "set"), "doc_id")
    new = engine.map(numbered, partial(_select_sets, first=step.first, is_new=True), OWNED)
    return find_sets(engine, step.snapshot, "fresh_sets", new, count=step.count, expected=count)


def _number_ends(engine: Engine[Rows], edges: Rows, heads: Rows) -> Rows:
    """Return EDGES with the sets of both documents."""
    for end in ("left", "right"):
        edges = engine.join(edges, engine.select(heads, "doc_id", **{f"{end}_set": "set"}), f"{end}_id")
    return edges


def _to_links(batches: Batches) -> Batches:
    for batch in batches:
        ends = [batch[f"{end}_set"].to_numpy() for end in ("left", "right")]
        columns = [pa.array(np.minimum(*ends)), pa.array(np.maximum(*ends)), batch["jaccard"]]
        yield pa.RecordBatch.from_arrays(columns, schema=LINKS)


def name_ends(engine: Engine[Rows], links: Rows, heads: Rows, *, name: str = "") -> Rows:
    """LINKS -> EDGES of the least documents of sets."""
    for end in ("left", "right"):
        links = engine.join(links, engine.select(heads, "set", **{f"{end}_head": "doc_id"}), end, key="set")
    return engine.map(links, _to_edges, arrow.EDGES, name=name)


def _to_edges(batches: Batches) -> Batches:
    for batch in batches:
        ends = [batch[f"{end}_head"].to_numpy() for end in ("left", "right")]
        columns = [pa.array(np.minimum(*ends)), pa.array(np.maximum(*ends)), batch["jaccard"]]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow.EDGES)


def _part(keys: Integers, left: Integers, right: Integers, *, hot: Integers) -> Compared:
    """Choose the pairs that share no bucket up to the cap."""
    shares = ((keys[left] == keys[right]) & ~is_in(keys[left], hot)).any(axis=1)
    return Compared(np.flatnonzero(~shares), {}, Tally())
