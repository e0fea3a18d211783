"""A store in memory, as far as single documents are compared with it: its band keys, and a document of each set."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.machine import free_bytes
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.bounds import mark_firsts
from dedup.store.arrays import NONE, is_in, list_ranges
from dedup.store.election import DISPLACED
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot

HELD_SHARE = 4
"""Part of the free memory that shingle sets may take, as a divisor."""


class Keyed(NamedTuple):
    """Shingle sets by their band keys."""

    keys: Integers
    """Ascending."""
    sets: Integers
    """Ascending within a key."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resident:
    """A store, 360 bytes a document with 21 bands and 1.6 kB of sets; left out is what no other is removed for."""

    snapshot: Snapshot
    bands: Keyed
    sets: Integers
    """Ascending."""
    ids: pa.ChunkedArray
    """The user's id of a document of each: the one kept, or else the least by doc_id."""
    doc_ids: Integers
    """All documents, ascending."""
    held: tuple[Integers, Integers, pa.ChunkedArray] | None
    """Numbers of sets, ascending, their rows, and these; None where memory is too little for them."""

    @classmethod
    def load(cls, snapshot: Snapshot) -> Self:
        """Read what is needed, shingle sets too unless they take more than a part of the memory that is free."""
        rows, members = snapshot.read("documents", ["doc_id", "id", "set"]), snapshot.members()
        doc_ids, sets = rows["doc_id"].to_numpy(), rows["set"].to_numpy()
        removed = pc.invert(members["kept"])
        closed = removed if snapshot.state.search.by_representative else pc.equal(members["kind"], DISPLACED)
        is_removed, is_closed = (
            is_in(doc_ids, members.filter(each)["doc_id"].to_numpy()) for each in (removed, closed)
        )
        chosen = np.flatnonzero((sets != NO_SET) & ~is_closed)
        chosen = chosen[np.lexsort((doc_ids[chosen], is_removed[chosen], sets[chosen]))]
        chosen = chosen[mark_firsts(sets[chosen])]
        return cls(
            snapshot=snapshot,
            bands=_read_bands(snapshot, sets[chosen]),
            sets=sets[chosen],
            ids=rows["id"].take(pa.array(chosen)),
            doc_ids=np.sort(doc_ids),
            held=_read_sets(snapshot),
        )

    def list_sets(self, numbers: Integers) -> list[Hashes]:
        """Return the shingle sets of these numbers, distinct and ascending."""
        if self.held is None:
            values, offsets = self.snapshot.find_sets(numbers)
            return [values[begin:end] for begin, end in pairwise(offsets.tolist())]
        known, rows, shingles = self.held
        chosen = rows[np.searchsorted(known, numbers)].tolist()
        return [np.frombuffer(shingles[row].as_buffer(), "<u8") for row in chosen]

    def name(self, number: int) -> int | str:
        """Return the user's id of a document of a set."""
        found: int | str = self.ids[int(np.searchsorted(self.sets, number))].as_py()
        return found


def _read_sets(snapshot: Snapshot) -> tuple[Integers, Integers, pa.ChunkedArray] | None:
    if HELD_SHARE * sum(file.size for file in snapshot.list_files("sets")) > free_bytes():
        return None
    rows = snapshot.read("sets", ["set", "shingles"])
    numbers = rows["set"].to_numpy()
    order = np.argsort(numbers)
    return numbers[order], order, rows["shingles"]


def _read_bands(snapshot: Snapshot, chosen: Integers) -> Keyed:
    rows = snapshot.read("bands")
    keys, sets = rows["key"].to_numpy(), rows["set"].to_numpy()
    is_chosen = np.zeros(snapshot.state.sets, dtype=bool)
    is_chosen[chosen] = True
    if not (stays := is_chosen[sets]).all():
        keys, sets = keys[stays], sets[stays]
    ascends = (keys[1:] > keys[:-1]) | (keys[1:] == keys[:-1]) & (sets[1:] > sets[:-1])
    if ascends.all():
        return Keyed(keys, sets)
    order = np.lexsort((sets, keys))
    return Keyed(keys[order], sets[order])


def insert(runs: Sequence[Keyed], keys: Hashes, first: int) -> list[Keyed]:
    """Return runs with further sets, numbered from `first` on, above all others.

    Each run has more than twice the keys of the next, so a key is moved as often as the count doubles, and a search
    looks into few.

    Parameters
    ----------
    keys : uint64 [sets, bands]
    """
    flat, numbers = keys.reshape(-1).view(np.int64), np.repeat(np.arange(keys.shape[0]) + first, keys.shape[1])
    found = [*runs, _order(flat, numbers)]
    while len(found) > 1 and found[-2].keys.size <= 2 * found[-1].keys.size:
        *found, one, other = found
        found.append(_order(*(np.concatenate(each) for each in zip(one, other, strict=True))))
    return found


def _order(keys: Integers, sets: Integers) -> Keyed:
    # It merges two runs in a pass, and leaves the sets of a key in their order.
    order = np.argsort(keys, kind="stable")
    return Keyed(keys[order], sets[order])


def find_met(runs: Sequence[Keyed], keys: Hashes, first: int, cap: int) -> tuple[Integers, Integers, Integers]:
    """Return the sets that share a key with others and have a lower number.

    Parameters
    ----------
    keys : uint64 [sets, bands]
        Keys of sets that are numbered from `first` on.
    cap
        Sets of a bucket up to which all are met; of a larger one as many, the first.

    Returns
    -------
    places
        Places of the sets, perhaps repeated.
    numbers
        Set that each has met.
    doubtful
        Places of sets in a bucket over the cap.
    """
    flat = keys.reshape(-1).view(np.int64)
    order = np.argsort(flat)
    wanted, owners, left = flat[order], order // keys.shape[1], np.full(flat.size, cap)
    places, numbers = [NONE], [NONE]
    for run in (each for each in runs if each.keys.size):
        begin = np.searchsorted(run.keys, wanted)
        hits = np.flatnonzero(run.keys[np.minimum(begin, run.keys.size - 1)] == wanted)
        counts = np.searchsorted(run.keys, wanted[hits], side="right") - begin[hits]
        counts = np.minimum(counts, left[hits])
        left[hits] -= counts
        places.append(np.repeat(hits, counts))
        numbers.append(run.sets[list_ranges(begin[hits], counts)])
    at, met = np.concatenate(places), np.concatenate(numbers)
    earlier = met < owners[at] + first
    at, met = at[earlier], met[earlier]
    doubtful = owners[np.bincount(at, minlength=flat.size) >= cap]
    return owners[at], met, doubtful
