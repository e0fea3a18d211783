"""A change of a store, as far as the search for its edges and the election look at it."""

from dataclasses import dataclass, field
from functools import partial
from typing import Generic

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.informing import Inform
from dedup.kernels import Integers
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import join_groups
from dedup.layers.near.search import Search
from dedup.store.arrays import NONE, is_in, look_up
from dedup.store.numbering import Numbered
from dedup.store.resigning import Signer
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot
from dedup.tables import arrow

STAYS, COMES, GOES = range(3)
"""States of documents: there before and after a step, only after it, only before it."""
PLACES = arrow.integers("doc_id", "set", "state")
"""Documents that have a token, with their shingle sets."""
PAIRED = arrow.integers("left", "right")
"""Pairs of sets, left < right."""
LINKS = pa.schema([*PAIRED, ("jaccard", pa.float64())])
"""Edges of sets."""
HEADS = arrow.integers("set", "doc_id", "moved")
"""The least document of sets after a step, and 1 where the set was there and had another."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step(Generic[Rows]):
    """Sets and documents that come to a store, or go."""

    snapshot: Snapshot
    """Before the step, but with the sets that have come."""
    numbered: Numbered[Rows]
    """Sets that have come; those met share a key with one that has come or gone, and stay."""
    signatures: Rows
    """Documents that have come, with PAYLOAD."""
    is_held: bool = False
    """Whether these hold shingle sets."""
    documents: Rows
    """Rows of `documents` that have come."""
    places: Rows
    """PLACES."""
    touched: Rows
    """Sets of documents that have come or gone, in a column `set`, NO_SET among them perhaps."""
    hot: Integers
    """Keys of buckets over the cap before the step, ascending."""
    resting: Integers
    """Keys of these buckets that are over the cap after it too, unless a document that has come is in them."""
    gone: Integers = field(default_factory=lambda: NONE)
    """Sets that have gone, ascending."""
    cut: Integers = field(default_factory=lambda: NONE)
    """Edges of these, as `pairs.encode` has them; ascending."""
    all_lead: bool = False
    """Whether all documents that were there lead those that have come, kept or not, and stay."""
    for_led: bool = False
    """Whether such go for those that lead alone."""
    inform: Inform = field(default_factory=Inform)

    @property
    def search(self) -> Search:
        """Parameters of the search."""
        return self.snapshot.state.search

    @property
    def signer(self) -> Signer:
        """Parameters by which sets are signed again."""
        return self.snapshot.state.signer

    @property
    def first(self) -> int:
        """Number of the first set that has come."""
        return self.snapshot.state.sets

    @property
    def count(self) -> int:
        """Number that the next set gets."""
        return self.first + self.numbered.fresh_count


def place_stored(engine: Engine[Rows], stored: Rows, gone: Integers) -> Rows:
    """Return PLACES of OWNED of a store, of which some documents go."""
    return engine.map(stored, partial(to_places, state=STAYS, gone=gone), PLACES)


def to_places(batches: Batches, *, state: int, gone: Integers, kept: Integers = NONE, first: int = 0) -> Batches:
    """OWNED -> PLACES; documents kept before they come, whose sets are numbered from `first` on, count as there."""
    for batch in batches:
        is_full = batch["set"].to_numpy() != NO_SET
        full = batch if is_full.all() else batch.filter(pa.array(is_full))
        doc_ids, sets = full["doc_id"].to_numpy(), full["set"].to_numpy()
        states = np.full(full.num_rows, state)
        states[is_in(doc_ids, kept) & (sets >= first)] = STAYS
        states[is_in(doc_ids, gone)] = GOES
        yield conform(full, PLACES, state=states)


def _lead(batches: Batches) -> Batches:
    for batch in join_groups(batches, ["set"]):
        sets, doc_ids, states = (batch[name].to_numpy() for name in ("set", "doc_id", "state"))
        stays, was = states != GOES, states != COMES
        own, earlier = (np.flatnonzero(each)[mark_firsts(sets[each])] for each in (stays, was))
        places = look_up(sets[earlier], sets[own])
        moved = (places >= 0) & (np.append(doc_ids[earlier], 0)[places] != doc_ids[own])
        yield conform(batch.take(pa.array(own)), HEADS, moved=moved.astype(np.int64))


LEAD = Shuffle(emitted=PLACES, by=("set",), order=("doc_id",), work=_lead, schema=HEADS)
"""PLACES -> HEADS."""
