"""Shingle sets of a store that resemble each other, after some have come or gone.

    BANDS -> BUCKETS -> pairs of which one has come -> CANDIDATES -> EDGES -> LINKS

The edges are those that one search over all sets of the store would find, pair for pair: what a step can change is
compared anew by the work of the layer near, and what it cannot change stands in the table.

A pair that shares a bucket up to the cap is compared when the later of the two comes. Pairs of buckets over the cap
depend on all that are in such buckets (docs/internals/templates.md), so these are linked anew when one has changed.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Generic, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Size, Tally, read_histogram
from dedup.kernels import Integers
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform
from dedup.kernels.sets import filters, lsh
from dedup.kernels.sets.pairs import decode, encode, select_distinct
from dedup.layers.near import comparison, templates
from dedup.layers.near.buckets import BUCKET_KEYED
from dedup.layers.near.signing import gather_sets
from dedup.layers.near.tables import ShingleSets, join_sets
from dedup.store.arrays import NONE, distinct, is_in
from dedup.store.crowd import Crowd, differ, find_crowd, link_anew, moves
from dedup.store.numbering import KEYS, OWNED
from dedup.store.reading import find_sets, read
from dedup.store.resigning import PAYLOAD, SIGNED_SETS, sign_sets
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
    cap, threshold, numbered = step.search.cap, step.search.threshold, step.numbered
    rows = engine.select(engine.concat(numbered.met, numbered.bands), "key", doc_id="set")
    expected = numbered.met_count + numbered.fresh_count * step.search.bands
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
    pairs = name_ends(engine, paired_sets, heads, comparison.PAIRS)
    sets, payload = _read_compared(engine, step, pairs, heads)
    small = {size: count for size, count in sizes.items() if size <= cap}
    compared, uncompared, connected = templates.count_pairs(small, None)[0], 0, 0
    if crowd is not None:
        compared, uncompared, connected = compared + crowd.compared, crowd.uncompared, crowd.settled
        payload = engine.concat(payload, engine.select(crowd.signed, *PAYLOAD))
        sets = join_sets(engine, sets, crowd.sets)
        pairs = engine.concat(engine.map(pairs, _wrap, arrow.BUCKETS), crowd.linked)
    estimate = comparison.estimate(threshold, step.search.least_estimate, cap=cap)
    candidates = engine.compare("candidates", pairs, payload, estimate, size_pairs(step, compared, sets.documents))
    counts = {"compared": compared, "uncompared": uncompared, "settled": connected}
    paired = comparison.count_candidates(engine.tally(candidates), **counts)
    sets = join_sets(engine, sets, _read_fresh(engine, step, candidates, heads, crowd))
    edges, near_misses, verified = comparison.find_edges(
        engine, candidates, paired.rows, sets, threshold=threshold, inform=step.inform
    )
    found, withdrawn = name_ends(engine, edges, heads, LINKS, name="found"), NONE
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
        verified=verified,
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
    documents += step.numbered.fresh_count
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
    numbered = step.numbered
    wanted = engine.concat(engine.select(numbered.met, "set"), engine.select(numbered.fresh, "set"))
    if bands is not None:
        wanted = engine.concat(wanted, engine.select(bands, "set"))
    rows = engine.join(step.places, wanted, "set", key="set", how="semi")
    return engine.group("heads", rows, LEAD, expected=numbered.met_count + numbered.fresh_count)


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


def _wrap(batches: Batches) -> Batches:
    """Turn pairs into BUCKETS of two."""
    for batch in batches:
        ends = np.stack([batch[name].to_numpy() for name in comparison.PAIRS.names], axis=1).reshape(-1)
        count = batch.num_rows
        cells = blocks.lists(ends, 2 * np.arange(count + 1))
        columns = [pa.array(np.arange(count)), pa.array(np.full(count, 2)), cells]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow.BUCKETS)


def _read_compared(engine: Engine[Rows], step: Step[Rows], pairs: Rows, heads: Rows) -> tuple[ShingleSets[Rows], Rows]:
    """Return SETS of the documents of pairs whose sets were there, and PAYLOAD of all of them."""
    ends, count = list_ends(engine, "ends", pairs)
    old, new = (_number(engine, step, ends, heads, is_new=is_new) for is_new in (False, True))
    sets = find_sets(engine, step.snapshot, "earlier_sets", old, count=step.count, expected=count)
    signed = engine.map(sets.rows, partial(sign_sets, signer=step.signer), SIGNED_SETS)
    own = engine.join(engine.select(step.signatures, *PAYLOAD), new, "doc_id", how="semi")
    return sets, engine.concat(engine.select(signed, *PAYLOAD), own)


def _read_fresh(
    engine: Engine[Rows], step: Step[Rows], candidates: Rows, heads: Rows, crowd: Crowd[Rows] | None
) -> ShingleSets[Rows]:
    """Return SETS of candidates whose sets have come."""
    ends, count = list_ends(engine, "candidate_ends", engine.select(candidates, *comparison.PAIRS.names))
    wanted = ends if crowd is None else engine.join(ends, crowd.sets.rows, "doc_id", how="anti")
    new = _number(engine, step, wanted, heads, is_new=True)
    read = partial(find_sets, engine, step.snapshot, "fresh_sets", count=step.count, expected=count)
    if not step.is_held:
        return read(new)
    asked = engine.measure(new)["rows"]
    return gather_sets(engine, step.signatures, new, count=asked, name="fresh_sets", read=read)


def list_ends(engine: Engine[Rows], name: str, pairs: Rows) -> tuple[Rows, int]:
    """Return the documents of pairs, and how many they are."""
    ends = engine.group(name, engine.map(pairs, comparison.list_ends, templates.MEMBERS), templates.DISTINCT)
    return ends, engine.tally(ends)["rows"]


def _number(engine: Engine[Rows], step: Step[Rows], ends: Rows, heads: Rows, *, is_new: bool) -> Rows:
    """Return OWNED of the documents whose sets have come, or of those whose sets were there."""
    numbered = engine.join(ends, engine.select(heads, "doc_id", "set"), "doc_id")
    return engine.map(numbered, partial(_select_sets, first=step.first, is_new=is_new), OWNED)


def _select_sets(batches: Batches, *, first: int, is_new: bool) -> Batches:
    for batch in batches:
        yield batch.filter(pa.array((batch["set"].to_numpy() >= first) == is_new)).select(OWNED.names)


def name_ends(
    engine: Engine[Rows], pairs: Rows, heads: Rows, schema: pa.Schema = arrow.EDGES, *, name: str = ""
) -> Rows:
    """Return pairs of sets as pairs of the least documents of these, or those as pairs of sets, of a schema."""
    is_numbered = schema == LINKS
    known, wanted = ("doc_id", "set") if is_numbered else ("set", "doc_id")
    ends = comparison.PAIRS.names if is_numbered else PAIRED.names
    for end in ends:
        pairs = engine.join(pairs, engine.select(heads, known, **{f"{end}_named": wanted}), end, key=known)
    return engine.map(pairs, partial(_order_ends, ends=ends, schema=schema), schema, name=name)


def _order_ends(batches: Batches, *, ends: Sequence[str], schema: pa.Schema) -> Batches:
    for batch in batches:
        named = [batch[f"{end}_named"].to_numpy() for end in ends]
        yield conform(batch, schema, **dict(zip(schema.names, (np.minimum(*named), np.maximum(*named)), strict=False)))
