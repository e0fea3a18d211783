"""Buckets over the cap: all members are linked anew once one of them has changed; see docs/internals/templates.md."""

from functools import partial
from typing import Generic, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Compared, Comparison, Engine, Rows, Size, Tally, once, pass_on, read_histogram
from dedup.kernels import Integers
from dedup.kernels.runs.batches import conform, take_equal
from dedup.kernels.sets.pairs import encode
from dedup.layers.near import comparison, templates
from dedup.layers.near.buckets import BUCKET_KEYED
from dedup.layers.near.signing import to_matrix
from dedup.layers.near.tables import ShingleSets
from dedup.store.arrays import distinct, is_in
from dedup.store.numbering import BANDS, KEYS, OWNED
from dedup.store.reading import find_keys, find_sets, read
from dedup.store.resigning import SIGNED_SETS, sign_sets
from dedup.store.step import LINKS, PAIRED, Step

ENCODED = pa.schema([*LINKS, ("pair", pa.int64())])
"""LINKS with a number for each pair."""


class Crowd(NamedTuple, Generic[Rows]):
    """Buckets over the cap that are linked anew."""

    bands: Rows
    """BANDS of the members of all buckets that are over the cap, or were before."""
    sets: ShingleSets[Rows]
    """SETS of their members, by the least document of each."""
    signed: Rows
    """SIGNED_SETS of these."""
    linked: Rows
    """BUCKETS in place of those over the cap."""
    compared: int
    """Pairs of these, each as often as it shares one; those left out, and those that need no comparison."""
    uncompared: int
    settled: int
    undecided: int


def find_crowd(engine: Engine[Rows], step: Step[Rows], keys: Integers) -> Rows | None:
    """Return BANDS of these keys after the step; None without any."""
    if not keys.size:
        return None
    wanted = engine.parallelise("hot_keys", pa.table({"wanted": keys}, schema=KEYS))
    there = find_keys(engine, step.snapshot, "bands", wanted, name="crowd", expected=step.search.cap * keys.size)
    stays = engine.map(there, partial(take_among, name="set", numbers=step.gone, among=False), BANDS)
    return engine.concat(stays, engine.join(step.numbered.bands, wanted, "key", key="wanted", how="semi"))


def take_among(batches: Batches, *, name: str, numbers: Integers, among: bool) -> Batches:
    """Take the rows whose value of a column is among ascending numbers, or those of which it is not."""
    for batch in batches:
        yield batch.filter(pa.array(is_in(batch[name].to_numpy(), numbers) == among))


def moves(engine: Engine[Rows], bands: Rows, heads: Rows) -> bool:
    """Tell whether the least document of a set of the crowd is another now."""
    moved = engine.map(heads, partial(take_equal, schema=OWNED, moved=1), OWNED)
    return engine.measure(engine.join(engine.select(bands, "set"), moved, "set", key="set", how="semi"))["rows"] > 0


def link_anew(engine: Engine[Rows], step: Step[Rows], bands: Rows, heads: Rows, hot: Integers) -> Crowd[Rows]:
    """Return what takes the place of buckets over the cap."""
    named = engine.join(bands, engine.select(heads, "set", "doc_id"), "set", key="set")
    wanted = engine.group("crowd_members", engine.select(named, *OWNED.names), once(OWNED, OWNED.names))
    count = engine.tally(wanted)["rows"]
    sets = find_sets(engine, step.snapshot, "crowd_sets", wanted, count=step.count, expected=count)
    keyed = engine.map(
        engine.select(named, "key", "doc_id"),
        partial(take_among, name="key", numbers=hot, among=True),
        BUCKET_KEYED.emitted,
    )
    large = engine.group("crowd_buckets", keyed, BUCKET_KEYED)
    tally = engine.tally(large)
    policy = templates.Policy(threshold=step.search.threshold, cap=step.search.cap, exhaust=False)
    own = engine.group("crowd_large", engine.select(keyed, "doc_id"), templates.DISTINCT)
    rows = engine.join(sets.rows, own, "doc_id", how="semi")
    linked, circled, undecided = templates.link_templates(engine, large, rows, policy, sets.bytes)
    within, uncompared = templates.count_pairs(circled, step.search.cap)
    every, _ = templates.count_pairs(read_histogram(tally, "sizes"), None)
    return Crowd(
        bands=bands,
        sets=sets,
        signed=engine.map(sets.rows, partial(sign_sets, signer=step.signer), SIGNED_SETS),
        linked=linked,
        compared=within,
        uncompared=uncompared,
        settled=every - within - uncompared,
        undecided=undecided,
    )


def differ(
    engine: Engine[Rows], step: Step[Rows], found: Rows, crowd: Crowd[Rows], *, heads: Rows, hot: Integers
) -> tuple[Rows, Integers]:
    """Return those found that the store has not, and the edges of the store that one search would not find any more.

    Only pairs within the crowd can be either; others have an end that has come.
    """
    known = read(engine, step.snapshot, "edges", LINKS.names)
    for end in PAIRED.names:
        known = engine.join(known, engine.select(crowd.bands, "set"), end, key="set", how="semi")
    before, after = (
        engine.map(rows, _encode, ENCODED, name=name) for rows, name in ((known, "crowd_edges"), (found, "crowd_found"))
    )
    fresh = engine.join(after, before, "pair", key="pair", how="anti")
    added = engine.map(engine.select(fresh, *LINKS.names), pass_on, LINKS, name="added")
    lost = engine.join(before, after, "pair", key="pair", how="anti")
    keyed = engine.join(
        engine.select(crowd.signed, "doc_id", "band_keys"), engine.select(heads, "doc_id", "set"), "doc_id"
    )
    parting = Comparison(
        columns=("doc_id", "band_keys"),
        prepare=_read_keys,
        work=partial(_part, hot=hot),
        schema=comparison.PAIRS,
    )
    count = engine.measure(lost)["rows"]
    size = Size(count, 2 * count, crowd.sets.documents, 8 * step.search.bands * crowd.sets.documents)
    pairs = engine.select(lost, left_id="left", right_id="right")
    gone = engine.collect(
        engine.compare("withdrawn", pairs, engine.select(keyed, "band_keys", doc_id="set"), parting, size)
    )
    return added, distinct(encode(*(gone[name].to_numpy() for name in comparison.PAIRS.names)))


def _encode(batches: Batches) -> Batches:
    for batch in batches:
        yield conform(batch, ENCODED, pair=encode(batch["left"].to_numpy(), batch["right"].to_numpy()))


def _read_keys(documents: pa.Table) -> Integers:
    return to_matrix(documents["band_keys"]).view(np.int64)


def _part(keys: Integers, left: Integers, right: Integers, *, hot: Integers) -> Compared:
    """Choose the pairs that share no bucket up to the cap."""
    shares = ((keys[left] == keys[right]) & ~is_in(keys[left], hot)).any(axis=1)
    return Compared(np.flatnonzero(~shares), {}, Tally())
