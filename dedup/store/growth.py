"""Which shingle sets of a store resemble which, after some have come or gone.

The edges are those that one search over all sets of the store would find, pair for pair: what a batch can change is
compared anew by the very steps of the memory engine, and what it cannot change stands in the table.

A pair that shares a bucket up to the cap is compared when the later of the two comes. Pairs of buckets over the cap
depend on all that are in such buckets (docs/templates.md), so these are linked anew when one of them has changed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engines.candidates import Buckets, count_pairs, draw_uncompared, select_likely
from dedup.engines.documents import Documents
from dedup.engines.parts import Floats
from dedup.engines.templates import link_templates
from dedup.engines.values import Features, Search
from dedup.engines.verification import Edges, Sets, verify
from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.runs.shared import find_shared
from dedup.kernels.sets import lsh, minhash, pairs
from dedup.store.arrays import distinct, is_in
from dedup.store.snapshot import Snapshot
from dedup.tables.counts import Bucketed, Lost, Paired, Verified

SIGNED = 1 << 15
"""Sets signed at a time: a signature takes eight bytes a value while it is made."""


class Rows(NamedTuple):
    """Band rows, in any order."""

    keys: Integers
    """int64, the bits of a band key."""
    sets: Integers


class Links(NamedTuple):
    """Edges of sets: left < right."""

    left: Integers
    right: Integers
    jaccard: Floats

    def encode(self) -> Integers:
        """Return a number for each pair."""
        return pairs.encode(self.left, self.right)

    def select(self, chosen: Flags) -> "Links":
        """Return those chosen."""
        return Links(self.left[chosen], self.right[chosen], self.jaccard[chosen])


def join(*links: Links) -> Links:
    """Return all of them."""
    return Links(*(np.concatenate(each) for each in zip(*links, strict=True)))


class Step(NamedTuple):
    """What has changed in a store, as far as its buckets tell."""

    rows: Rows
    """Of all sets that share a key with one that has come or gone, itself included if it is there."""
    keys: Integers
    """Keys of those that have come or gone, distinct and ascending."""
    new: Integers
    """Sets that have come, ascending."""
    gone: Integers
    """Sets that have gone, ascending."""
    moved: Integers
    """Sets whose least document is another now, ascending."""


class Settled(NamedTuple):
    """The edges after a step, as far as it could change them."""

    found: Links
    """All that were compared and reach the threshold, those of the table among them."""
    withdrawn: Links
    """Edges of the table that are none any more."""
    near_misses: Links
    hot: Integers
    """Keys of buckets over the cap, ascending."""
    bucketed: Bucketed
    paired: Paired
    verified: Verified
    sample: Links
    """Pairs left uncompared, drawn to be compared all the same."""
    lost: Lost
    """Counts of this sample; which are lost only all edges tell."""


def settle(
    snapshot: Snapshot,
    step: Step,
    known: Links,
    heads_of: Callable[[Integers], Integers],
    search: Search,
    *,
    seed: int,
    threads: int,
) -> Settled:
    """Return the edges that a step changes.

    Parameters
    ----------
    snapshot
        Before the step, but with the sets that have come.
    known
        The edges of the table.
    heads_of
        The least document of every set of these, ascending, after the step.
    seed
        Of the signatures.
    """
    before = np.sort(snapshot.read("hot")["key"].to_numpy())
    # Most keys occur once.
    shared = find_shared(step.rows.keys.view(np.uint64))
    keys, members, offsets = lsh.group(step.rows.keys[shared].view(np.uint64), step.rows.sets[shared])
    sizes = np.diff(offsets)
    over = keys[sizes > search.cap].view(np.int64)
    touched = is_in(before, step.keys)
    hot = distinct(before[~touched], over)
    crowd_before, crowd = _find_crowd(snapshot, before, step), _find_crowd(snapshot, hot, step)
    around = distinct(crowd_before.sets, crowd.sets)
    relinks = bool(over.size or touched.any() or is_in(step.moved, around).any())
    cooled = is_in(keys.view(np.int64), before) & (sizes <= search.cap)
    is_new = is_in(members, step.new)
    fresh = np.add.reduceat(is_new, offsets[:-1]) > 0 if sizes.size else np.zeros(0, dtype=bool)
    chosen = (sizes <= search.cap) & (cooled | fresh)
    involved = distinct(members[np.repeat(chosen, sizes)])
    if relinks:
        involved = distinct(involved, around)
    heads = heads_of(involved)
    order = np.argsort(heads)
    numbers, doc_ids = involved[order], heads[order]
    shingles, bounds = snapshot.find_sets(involved)
    low, band_keys = sign(shingles, bounds, search, seed)
    sets = Sets(np.arange(order.size), shingles, bounds, order, threads)
    documents = Documents(
        doc_ids, np.arange(order.size), np.ones(order.size, np.int64), np.diff(bounds)[order], np.arange(order.size)
    )
    features = _to_features(doc_ids, low[order])
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.arange(order.size)

    def place(rows: Rows) -> Buckets:
        """Return buckets of positions."""
        found = lsh.group(rows.keys.view(np.uint64), places[np.searchsorted(involved, rows.sets)])
        return Buckets(*found, Bucketed(rows=found[0].size))

    def select(flags: Flags) -> Rows:
        return Rows(np.repeat(keys, sizes)[np.repeat(flags, sizes)].view(np.int64), members[np.repeat(flags, sizes)])

    arrived = is_in(numbers, step.new)
    small, cool = place(select(chosen & fresh)), place(select(chosen & cooled))
    met = pairs.join(*small[:3], None, doc_ids=doc_ids)
    left, right = pairs.decode(met)
    pairs_met = distinct(met[arrived[left] | arrived[right]], pairs.join(*cool[:3], None, doc_ids=doc_ids))
    candidates = select_likely(documents, pairs_met, count_pairs(small, None)[0], features, search, threads=threads)
    large = place(crowd if relinks else Rows(*np.empty((2, 0), dtype=np.int64)))
    undecided = large
    if relinks and large.keys.size:
        linked = link_templates(
            documents, large, candidates=candidates, sets=sets, features=features, search=search, threads=threads
        )
        candidates, undecided = linked
    drawn = draw_uncompared(documents, undecided, features, search, threads=threads)
    chosen = lsh.thin(doc_ids[drawn.left], doc_ids[drawn.right], lsh.verified_share(drawn.left.size))
    sample = drawn.left[chosen], drawn.right[chosen]
    edges, near_misses, verified = verify(candidates.left, candidates.right, sets, search.threshold)
    found = _name(edges, numbers)
    counts, frequencies = np.unique(sizes[fresh | cooled], return_counts=True)
    return Settled(
        found=found,
        withdrawn=_find_withdrawn(known, found, around if relinks else around[:0], involved, (band_keys, hot)),
        near_misses=_name(near_misses, numbers),
        hot=hot,
        bucketed=Bucketed(
            rows=int(counts @ frequencies) and int(frequencies.sum()),
            members=int(counts @ frequencies),
            band_rows=step.rows.keys.size,
            sizes=dict(zip(counts.tolist(), frequencies.tolist(), strict=True)),
        ),
        paired=candidates.counts,
        verified=verified,
        sample=_name(Edges(*sample, sets.compare(*sample)), numbers),
        lost=Lost(
            documents=np.unique(undecided.members).size,
            drawn=drawn.distinct.size,
            possible=drawn.left.size,
            verified=sample[0].size,
        ),
    )


def sign(shingles: Hashes, offsets: Integers, search: Search, seed: int) -> tuple[Bytes, Hashes]:
    """Return the low bytes of the signatures of sets, uint8 [sets, bands x rows], and their band keys."""
    count = offsets.size - 1
    low = np.empty((count, search.bands * search.rows), dtype=np.uint8)
    keys = np.empty((count, search.bands), dtype=np.uint64)
    for begin in range(0, count, SIGNED):
        end = min(begin + SIGNED, count)
        part = shingles[offsets[begin] : offsets[end]], offsets[begin : end + 1] - offsets[begin]
        signatures = minhash.sign(*part, search.bands * search.rows, seed)
        low[begin:end] = minhash.low_bytes(signatures)
        keys[begin:end] = lsh.band_keys(signatures, search.bands, search.rows)
    return low, keys


def _find_crowd(snapshot: Snapshot, keys: Integers, step: Step) -> Rows:
    """Return the rows of these keys after the step."""
    if not keys.size:
        return Rows(keys, keys)
    found = snapshot.find("bands", keys)
    own, sets = found["key"].to_numpy(), found["set"].to_numpy()
    stays = ~is_in(sets, step.gone)
    arrived = is_in(step.rows.sets, step.new) & is_in(step.rows.keys, keys)
    return Rows(
        np.concatenate((own[stays], step.rows.keys[arrived])), np.concatenate((sets[stays], step.rows.sets[arrived]))
    )


def _find_withdrawn(
    known: Links, found: Links, around: Integers, involved: Integers, bands: tuple[Hashes, Integers]
) -> Links:
    """Return the edges of the table within buckets over the cap that one search would not find any more."""
    within = known.select(is_in(known.left, around) & is_in(known.right, around))
    within = within.select(~is_in(within.encode(), distinct(found.encode())))
    left, right = (np.searchsorted(involved, each) for each in within[:2])
    band_keys, hot = bands
    is_small = ~is_in(band_keys.view(np.int64), hot)
    shares = ((band_keys[left] == band_keys[right]) & is_small[left]).any(axis=1)
    return within.select(~shares)


def _name(edges: Edges, numbers: Integers) -> Links:
    """Return edges of positions as those of sets."""
    left, right = numbers[edges.left], numbers[edges.right]
    return Links(np.minimum(left, right), np.maximum(left, right), edges.jaccard)


def _to_features(doc_ids: Integers, low: Bytes) -> Features:
    """Return what the filter of estimates asks for."""
    none = np.zeros(doc_ids.size, dtype=np.int64)
    return Features(
        doc_ids=doc_ids,
        ids=pa.array(doc_ids),
        shingle_counts=none.astype(np.int32),
        digest_high=none,
        digest_low=none,
        signature=low,
    )
