"""Documents taken out of a store."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.memory import open_without_files
from dedup.engine.workers import count_cores
from dedup.errors import DataError
from dedup.informing import Inform
from dedup.kernels import Flags, Integers
from dedup.store.arrays import distinct, is_in, look_up
from dedup.store.election import DISPLACED, decide
from dedup.store.growth import settle
from dedup.store.links import read_links
from dedup.store.numbering import BANDS
from dedup.store.resigning import PAYLOAD, sign
from dedup.store.schemas import NO_SET
from dedup.store.search import Search
from dedup.store.snapshot import Snapshot
from dedup.store.state import Label, State, read_state
from dedup.store.step import Step, read_places
from dedup.store.tables import Tables
from dedup.store.upkeep import repeat
from dedup.store.writing import Writing, write_changes


class Deleted(NamedTuple):
    """Documents that have gone, and the effects on the others."""

    state: State
    documents: int
    """Documents deleted."""
    absent: int
    """Ids that are not in the store."""
    displaced: pa.Table
    """Documents that were removed in favour of one deleted, while nobody else of their component is kept: id, batch,
    and whether they are kept now."""


def delete(
    tables: Tables, state: State, ids: pa.Array, search: Search, *, seed: int, readmit: bool, threads: int = 1
) -> Deleted:
    """Take documents out of every table.

    Parameters
    ----------
    ids
        The user's own, distinct, of the type of the store's.
    seed
        Seed of the signatures.
    readmit
        Whether a document that was removed in favour of them may be kept instead.

    Raises
    ------
    Conflict
        When another writer was first: nothing has changed, and the same call with the new state may succeed.
    """
    writing = Writing(tables, state)
    snapshot = writing.snapshot.send(threads)
    named = snapshot.read("documents", ["doc_id", "id"])
    gone = np.sort(named.filter(pc.is_in(named["id"], ids))["doc_id"].to_numpy())
    if not gone.size:
        none = named.select(["id"]).append_column("batch", pa.nulls(named.num_rows, pa.string())).slice(0, 0)
        return Deleted(state, 0, len(ids), none.append_column("is_kept", pa.array([], pa.bool_())))
    engine = open_without_files(state.kind, threads)
    places = snapshot.places()
    goes = look_up(gone, places.doc_ids) >= 0
    hit = distinct(places.sets[goes & (places.sets != NO_SET)])
    dead = np.setdiff1d(hit, places.sets[~goes])
    _, keys = sign(*snapshot.find_sets(dead), search, seed)
    touched = distinct(keys.view(np.int64))
    around = snapshot.find("bands", touched)
    met = around.filter(pa.array(~is_in(around["set"].to_numpy(), dead)))
    known = read_links(snapshot)
    is_cut = is_in(known.left, dead) | is_in(known.right, dead)
    cut = known.select(is_cut)
    hot = np.sort(snapshot.read("hot")["key"].to_numpy())
    ends = np.concatenate((hit, cut.left, cut.right))
    step = Step(
        snapshot=snapshot,
        search=search,
        seed=seed,
        first=state.sets,
        count=state.sets,
        signatures=PAYLOAD.empty_table(),
        fresh=BANDS.empty_table(),
        bands=BANDS.empty_table(),
        met=met,
        met_count=met.num_rows,
        places=read_places(engine, snapshot, gone),
        documents=snapshot.layout("documents").schema.empty_table(),
        touched=pa.table({"set": np.setdiff1d(ends, dead)}),
        gone=dead,
        cut=cut.encode(),
        hot=hot,
        resting=hot[~is_in(hot, touched)],
        inform=Inform(),
    )
    settled, _ = settle(engine, step)
    decided = decide(engine, step, settled, anew=False, readmit=readmit, has_sources=False)
    _rewrite(writing, gone, dead)
    write_changes(engine, writing, step, settled, decided)
    label = Label(operation="delete", documents=gone.size)
    finished = writing.finish(state, label)
    return Deleted(finished, gone.size, len(ids) - gone.size, _list_displaced(decided.verdicts))


def _rewrite(writing: Writing, gone: Integers, dead: Integers) -> None:
    """Write the segments anew that hold what goes."""

    def keep_set(rows: pa.Table) -> Flags:
        return look_up(dead, rows["set"].to_numpy()) < 0

    def keep_member(rows: pa.Table) -> Flags:
        owners = rows["representative"]
        named = (look_up(gone, pc.fill_null(owners, 0).to_numpy()) >= 0) & owners.is_valid().to_numpy()
        stays: Flags = (look_up(gone, rows["doc_id"].to_numpy()) < 0) & ~named
        return stays

    writing.rewrite("documents", lambda rows: look_up(gone, rows["doc_id"].to_numpy()) < 0, ["doc_id"])
    writing.rewrite("sets", keep_set, ["set"])
    writing.rewrite("bands", keep_set, ["set"])
    writing.rewrite("members", keep_member, ["doc_id", "representative"])


def _list_displaced(verdicts: pa.Table) -> pa.Table:
    """Return the documents whose representative has gone while nobody else of their component was kept."""
    told = pc.and_(pc.invert(verdicts["was_kept"]), pc.or_(verdicts["kept"], pc.equal(verdicts["kind"], DISPLACED)))
    return verdicts.filter(told).select(["id", "batch", "kept"]).rename_columns(["id", "batch", "is_kept"])


def find_spelled(tables: Tables, content: str) -> str | None:
    r"""Return an id of a store that no line can be, though lines spell it; None where there is none.

    A file of the ids "a\nb" and "c\r", written by who thinks of no such ids, reads as "a", "b" and "c".

    Raises
    ------
    StorageError
        When there is no store.
    """
    state = read_state(tables)
    if pa.types.is_integer(state.kind):
        return None
    ids = Snapshot(tables=tables, state=state).read("documents", ["id"])["id"]
    odd = ids.filter(pc.or_(pc.match_substring(ids, "\n"), pc.ends_with(ids, "\r"))).to_pylist()
    forms = [f"\n{each}\n" for each in (content, content.replace("\r\n", "\n"))]
    begins = {line for form in forms for line in form.split("\n")}
    return next(
        (each for each in odd if each.partition("\n")[0] in begins and any(f"\n{each}\n" in form for form in forms)),
        None,
    )


def delete_ids(tables: Tables, ids: Sequence[str], *, readmit: bool) -> Deleted:
    """Take documents out of a store, as its own settings have it, whatever other writers do.

    Raises
    ------
    DataError
        When an id is no integer, though the store's are.
    StorageError
        When there is no store, or others write again and again.
    ConfigError
        When it is empty.
    """
    state = Snapshot.open(tables).state
    try:
        column = pa.array(sorted(set(ids)), pa.string()).cast(state.kind)
    except pa.ArrowInvalid as error:
        raise DataError(f"--ids: must hold integers, as the ids of the store are ({error})") from error
    return repeat(
        tables,
        lambda now: delete(
            tables, now, column, now.search, seed=now.spec["signature_seed"], readmit=readmit, threads=count_cores()
        ),
    )
