"""Batches of a store taken over into another, of other settings: from its shingle sets, without their texts."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Tally, Work
from dedup.engine.memory import MemoryEngine, open_without_files
from dedup.engine.workers import count_cores
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import mark_firsts
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.store.adding import Arrival, grow, to_signatures
from dedup.store.arrays import distinct, is_in, look_up
from dedup.store.folder import narrow
from dedup.store.links import read_links
from dedup.store.numbering import DIGESTS, OWNED
from dedup.store.resigning import SIGNED, Signer
from dedup.store.schemas import NO_SET, SEGMENT
from dedup.store.snapshot import Snapshot
from dedup.store.state import STORED, Label, State, choose_deciding, read_rows, read_state
from dedup.store.supply import HELD
from dedup.store.tables import Tables
from dedup.store.upkeep import repeat
from dedup.store.writing import FILES, Writing

SIGNATURE = ("bands", "rows", "signature_seed")
"""Entries of a hash specification that only decide how shingle sets are signed."""


class Past(NamedTuple):
    """A batch that was added."""

    name: str
    operation: str
    content: str


def list_batches(snapshot: Snapshot) -> list[Past]:
    """Return what was added to a store, oldest first."""
    rows = read_rows(snapshot.tables)[0]
    rows = rows.filter(pc.less_equal(rows["number"], snapshot.state.number)).select(["batch", "operation", "content"])
    return [Past(*row.values()) for row in rows.to_pylist() if row["batch"]]


def find_needs(state: State, config: Config, spec: HashSpec) -> list[str]:
    """Return the settings for whose sake texts must be read again: those that the tables of a store do not answer."""
    needs = [name for name in HashSpec(**state.spec).difference(spec) if name not in SIGNATURE]
    own, held = choose_deciding(config), state.settings
    if _list_columns(own["keep.order"]) != _list_columns(held.get("keep.order", [])):
        needs.append("keep.order")
    if not (state.has_sets and config.shingles.stored):
        needs.append(STORED)
    return needs


def _list_columns(order: list[str]) -> list[str]:
    """Return the rules that ask for columns of the input."""
    return [rule for rule in order if ":" in rule]


def take_over(old: Snapshot, new: Tables, past: Past, config: Config, spec: HashSpec) -> None:
    """Add a batch of a store to another of these settings, unless it is there.

    Raises
    ------
    StorageError
        As `upkeep.repeat`.
    """
    engine = open_without_files(old.state.kind, count_cores())
    arrival = _to_arrival(old, past, config, Signer(config.banding.bands, config.banding.rows, spec.signature_seed))

    def work(state: State) -> None:
        if past.name not in {each.name for each in list_batches(Snapshot(tables=new, state=state))}:
            begun = state.begin(config, spec, old.state.kind)
            begun = begun.note_outputs(past.name, old.state.outputs.get(past.name, ()))
            grown = grow(engine, new, begun, arrival, anew=past.operation == "reelect", threads=engine.threads)
            grown.finish(past.operation)

    repeat(new, work)


def _to_arrival(old: Snapshot, past: Past, config: Config, signer: Signer) -> Arrival[pa.Table]:
    """Return the documents of a batch that are still there, in the order of their sets."""
    documents = old.read("documents")
    documents = documents.filter(pc.equal(documents["batch"], past.name)).sort_by("set").combine_chunks()
    sets = documents["set"].to_numpy()
    own = distinct(sets[sets != NO_SET])
    digests = old.find("sets", own, ["set", "digest_high", "digest_low"]).sort_by("set")
    keys, signatures = (
        np.zeros((own.size + 1, width), np.uint8) for width in (8 * signer.bands, signer.bands * signer.rows)
    )
    for begin, part in _read_sets(old, own):
        low, found = signer.sign(*part)
        end = begin + low.shape[0]
        keys[begin:end], signatures[begin:end] = found.view(np.uint8), low
    # Documents without a token have the row that is left.
    places = look_up(own, sets)
    columns = {
        **{name: documents[name] for name in ("doc_id", "id", "source", "text_bytes", "order_keys")},
        "size": documents["shingle_count"].cast(pa.int64()),
        **{name: np.append(digests[name].to_numpy(), 0)[places] for name in DIGESTS},
    }
    register = to_signatures(pa.table(columns), signatures[places], keys[places])
    return Arrival(
        name=past.name,
        content=past.content,
        register=register,
        documents=register,
        supply=partial(_supply, old=old, sets=documents.select(OWNED.names)),
        id_column=config.input.id_column,
    )


def _supply(engine: MemoryEngine, fresh: pa.Table, work: Work, *, old: Snapshot, sets: pa.Table) -> pa.Table:
    """Give the shingle sets of a batch to some work: see `supply.Supply`."""
    named = engine.join(fresh, engine.select(sets, "doc_id", old="set"), "doc_id").sort_by("set").combine_chunks()
    return engine.map(named, partial(_list_sets, work=work, old=old), FILES)


def _list_sets(batches: Batches, *, work: Work, old: Snapshot) -> Iterator[pa.RecordBatch | Tally]:
    def read() -> Batches:
        for batch in batches:
            for begin, (values, offsets) in _read_sets(old, batch["old"].to_numpy()):
                part = batch.slice(begin, offsets.size - 1)
                yield conform(part, HELD, shingles=blocks.lists(values, offsets))

    return iter(work(read()))


def _read_sets(old: Snapshot, numbers: Integers) -> Iterator[tuple[int, tuple[Hashes, Integers]]]:
    """Yield shingle sets of these numbers, distinct and ascending, part by part, each with the place of its first."""
    for begin in range(0, numbers.size, SIGNED):
        yield begin, old.find_sets(numbers[begin : begin + SIGNED])


def find_strays(old: Snapshot, new: Snapshot) -> tuple[list[str], int]:
    """Return the ids that the new store has of batches of which the old one has them no longer.

    Also return how many documents it lacks of the batches that it has.
    """
    if not new.state.number:
        return [], 0
    before, after = (each.read("documents", ["doc_id", "id", "batch"]) for each in (old, new))
    known = {each.name for each in list_batches(old)} & {each.name for each in list_batches(new)}
    names, pair = pa.array(sorted(known), pa.string()), ["doc_id", "batch"]
    theirs, ours = (rows.filter(pc.is_in(rows["batch"], names)) for rows in (before, after))
    strays = ours.join(before.select(pair), pair, join_type="left anti")
    missing = theirs.join(after.select(pair), pair, join_type="left anti")
    return sorted(strays["id"].cast(pa.string()).to_pylist()), missing.num_rows


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


def find_disagreements(old: Snapshot, new: Snapshot) -> pa.Table:
    """Return the edges that one of two stores of the same documents has alone: left_id, right_id, jaccard, is_new."""
    edges = [_name_edges(each) for each in (old, new)]
    found = [
        mine.join(theirs.select(["left_id", "right_id"]), ["left_id", "right_id"], join_type="left anti")
        for mine, theirs in (edges, edges[::-1])
    ]
    flags = [pa.array(np.full(rows.num_rows, bool(place))) for place, rows in enumerate(found)]
    flagged = [rows.append_column("is_new", each) for rows, each in zip(found, flags, strict=True)]
    return pa.concat_tables(flagged).sort_by([("left_id", "ascending"), ("right_id", "ascending")])


def _name_edges(snapshot: Snapshot) -> pa.Table:
    """Return the edges by documents, identical ones with the first of them, as an output has them."""
    documents = snapshot.read("documents", ["doc_id", "id", "set"])
    documents = documents.filter(pc.not_equal(documents["set"], NO_SET))
    documents = documents.sort_by([("set", "ascending"), ("doc_id", "ascending")])
    sets, doc_ids = documents["set"].to_numpy(), documents["doc_id"].to_numpy()
    firsts = np.flatnonzero(mark_firsts(sets))
    copies = np.setdiff1d(np.arange(sets.size), firsts)
    links = read_links(snapshot)
    ends = [firsts[look_up(sets[firsts], each)] for each in (links.left, links.right)]
    left, right = np.where(doc_ids[ends[0]] > doc_ids[ends[1]], ends[::-1], ends)
    left = np.concatenate((left, firsts[look_up(sets[firsts], sets[copies])]))
    ids = [documents["id"].take(pa.array(each)) for each in (left, np.concatenate((right, copies)))]
    exact = np.concatenate((links.jaccard, np.ones(copies.size)))
    return pa.table({"left_id": ids[0], "right_id": ids[1], "jaccard": exact})


def cut_over(old: Tables, new: Tables, state: State) -> None:
    """Let a store have the tables and settings of another of its batches, in one commit; its history goes on.

    Parameters
    ----------
    state
        Content of the store that the other one was made of.

    Raises
    ------
    Conflict
        When the store has changed since.
    """
    other = Snapshot(tables=new, state=read_state(new))
    # Of a store that holds no shingle sets there is a table more.
    for name in other.state.segments:
        if name not in state.segments:
            old.create(name, other.layout(name).schema)
        # And `sets` has other columns, which readers of Delta Lake know by the log alone.
        old.log.widen(name, other.layout(name).schema)
    every = {**dict.fromkeys(other.state.segments, ()), **state.segments}
    state = replace(state, segments=every, versions={**dict.fromkeys(every, 0), **state.versions})
    # Of two rows of a document the one of the later state counts.
    state = replace(state, number=max(state.number, other.state.number))
    writing = Writing(old, state)
    for name in other.state.segments:
        for file in other.list_files(name):
            path = f"{SEGMENT}={writing.segment}/{file.segment}-{file.path.rpartition('/')[2]}"
            with narrow(old.path):
                old.storage.copy(f"{new.path}/{name}/{file.path}", f"{old.path}/{name}/{path}")
            writing.files.setdefault(name, []).append(replace(file, path=path, segment=writing.segment))
    writing.replaced |= {name: [*segments] for name, segments in state.segments.items()}
    taken = {name: getattr(other.state, name) for name in ("spec", "settings", "searched", "sets")}
    writing.finish(replace(state, **taken), Label(operation="cut over"))


def _list_removed(snapshot: Snapshot) -> Integers:
    members = snapshot.members()
    found: Integers = members.filter(pc.invert(members["kept"]))["doc_id"].to_numpy()
    return found
