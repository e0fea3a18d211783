"""Batches of a store taken over into another, of other settings: from its shingle sets, without their texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.values import Features, Search
from dedup.kernels import Hashes, Integers
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.store.adding import Batch, grow
from dedup.store.arrays import distinct, is_in, look_up
from dedup.store.growth import SIGNED, sign
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot
from dedup.store.state import State, choose_deciding, read_rows
from dedup.store.tables import Tables
from dedup.store.upkeep import repeat

SIGNATURE = ("bands", "rows", "signature_seed")
"""What of a hash specification only decides how shingle sets are signed."""


class Past(NamedTuple):
    """A batch that was added."""

    name: str
    operation: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a store is to become."""

    search: Search
    spec: HashSpec
    settings: Mapping[str, Any]
    """For the first batch to be noted."""
    threads: int


def list_batches(tables: Tables) -> list[Past]:
    """Return what was added to a store, oldest first."""
    rows = read_rows(tables)[0].select(["batch", "operation", "content"]).to_pylist()
    return [Past(*row.values()) for row in rows if row["batch"]]


def find_needs(state: State, config: Config, spec: HashSpec) -> list[str]:
    """Return the settings for whose sake texts must be read again: those that the tables of a store do not answer."""
    needs = [name for name in HashSpec(**state.spec).difference(spec) if name not in SIGNATURE]
    own, held = choose_deciding(config), state.settings
    if _list_columns(own["keep.order"]) != _list_columns(held.get("keep.order", [])):
        needs.append("keep.order")
    if own["keep.copies_per_source"] and not held.get("keep.copies_per_source"):
        needs.append("keep.copies_per_source")
    return needs


def _list_columns(order: list[str]) -> list[str]:
    """Return the rules that ask for columns of the input."""
    return [rule for rule in order if ":" in rule]


def take_over(old: Snapshot, new: Tables, past: Past, aim: Aim) -> None:
    """Add a batch of a store to another, unless it is there.

    Raises
    ------
    StorageError
        As `upkeep.repeat`.
    """
    batch = _to_batch(old, past, aim)

    def work(state: State) -> None:
        if past.name in {each.name for each in list_batches(new)}:
            return
        begun = state.begin(id_type=old.state.kind, spec=aim.spec, settings=aim.settings, search=aim.search)
        grown = grow(new, begun, batch, anew=past.operation == "reelect", threads=aim.threads)
        grown.finish(batch, past.operation)

    repeat(new, work)


def _to_batch(old: Snapshot, past: Past, aim: Aim) -> Batch:
    """Return the documents of a batch that are still there."""
    documents = old.read("documents")
    documents = documents.filter(pc.equal(documents["batch"], past.name)).sort_by("set").combine_chunks()
    sets = documents["set"].to_numpy()
    own = distinct(sets[sets != NO_SET])
    places = look_up(own, sets)
    digests = old.find("sets", own, ["set", "digest_high", "digest_low"]).sort_by("set")
    keys = [np.empty((0, aim.search.bands), dtype=np.uint64)]
    keys += [sign(*part, aim.search, aim.spec.signature_seed)[1] for part in _read_sets(old, own)]
    # Documents without a token have the row that is appended.
    high, low = (np.append(digests[name].to_numpy(), 0)[places] for name in ("digest_high", "digest_low"))
    lists = documents["order_keys"].combine_chunks()
    features = Features(
        doc_ids=documents["doc_id"].to_numpy(),
        ids=_join(documents["id"]),
        shingle_counts=documents["shingle_count"].to_numpy(),
        digest_high=high,
        digest_low=low,
        band_keys=np.concatenate([*keys, np.zeros((1, aim.search.bands), dtype=np.uint64)])[places],
        sources=_join(documents["source"]),
        text_bytes=documents["text_bytes"].to_numpy(),
        order_keys=lists.flatten().to_numpy(zero_copy_only=False).reshape(sets.size, -1) if sets.size else None,
    )
    return Batch(
        name=past.name,
        content=past.content,
        features=features,
        sets_of=lambda rows: _read_sets(old, sets[rows]),
        id_column=aim.settings["input.id_column"],
    )


def _join(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _read_sets(old: Snapshot, numbers: Integers) -> Iterator[tuple[Hashes, Integers]]:
    """Yield shingle sets of these numbers, distinct and ascending, part by part."""
    for begin in range(0, numbers.size, SIGNED):
        yield old.find_sets(numbers[begin : begin + SIGNED])


def find_strays(old: Snapshot, new: Snapshot) -> tuple[list[str], int]:
    """Return the ids that batches of both have in the new store alone, and how many it lacks."""
    before, after = (each.read("documents", ["doc_id", "id", "batch"]) for each in (old, new))
    mine = after.filter(pc.is_in(after["batch"], pc.unique(pa.array([each.name for each in list_batches(old.tables)]))))
    known, held = (np.sort(rows["doc_id"].to_numpy()) for rows in (before, after))
    stray = mine.filter(pa.array(~is_in(mine["doc_id"].to_numpy(), known)))
    return stray["id"].cast(pa.string()).to_pylist(), int(np.count_nonzero(~is_in(known, held)))


def find_changes(old: Snapshot, new: Snapshot) -> pa.Table:
    """Return the documents whose lot is another in the new store: id, batch, was_kept, is_kept."""
    rows = old.read("documents", ["doc_id", "id", "batch"])
    lots = [~is_in(rows["doc_id"].to_numpy(), _list_removed(each)) for each in (old, new)]
    found = (
        rows.select(["id", "batch"])
        .append_column("was_kept", pa.array(lots[0]))
        .append_column("is_kept", pa.array(lots[1]))
    )
    return found.filter(pa.array(lots[0] != lots[1]))


def _list_removed(snapshot: Snapshot) -> Integers:
    members = snapshot.members()
    found: Integers = members.filter(pc.invert(members["kept"]))["doc_id"].to_numpy()
    return found
