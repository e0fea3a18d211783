"""Documents taken out of a store."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.memory import open_without_files
from dedup.engine.workers import count_cores
from dedup.errors import ConfigError, DataError, suggest
from dedup.kernels import Flags, Integers
from dedup.kernels.ids import parse_ids
from dedup.store.arrays import NONE, distinct, is_in
from dedup.store.election import DISPLACED, decide, verdicts
from dedup.store.growth import settle
from dedup.store.links import read_links
from dedup.store.lookup import to_strings
from dedup.store.numbering import BANDS, OWNED, Numbered
from dedup.store.reading import read
from dedup.store.resigning import SIGNED_SETS
from dedup.store.schemas import LATER, NO_SET, OF_LAYERS
from dedup.store.snapshot import Snapshot
from dedup.store.state import Label, State, read_state
from dedup.store.step import Step, place_stored
from dedup.store.tables import Tables
from dedup.store.upkeep import list_history, repeat
from dedup.store.writing import Writing, write_changes


class Deleted(NamedTuple):
    """Documents that have gone, and the effects on the others."""

    documents: int
    """Documents deleted."""
    absent: int
    """Ids that are not in the store."""
    displaced: pa.Table
    """Documents that were removed in favour of one deleted, while nobody else of their component is kept: id, batch,
    and whether they are kept now."""


def delete(tables: Tables, state: State, ids: pa.Array, *, readmit: bool) -> Deleted:
    """Take documents out of every table.

    Parameters
    ----------
    ids
        The user's own, distinct, of the type of the store's.
    readmit
        Whether a document that was removed in favour of them may be kept instead.

    Raises
    ------
    ConfigError
        As `State.check_kept`.
    Conflict
        When another writer was first: nothing has changed, and the same call with the new state may succeed.
    """
    state.check_kept()
    writing = Writing(tables, state)
    snapshot = writing.snapshot
    named = snapshot.read("documents", ["doc_id", "id"])
    asked = np.sort(named.filter(pc.is_in(named["id"], ids))["doc_id"].to_numpy())
    if not asked.size:
        return Deleted(0, len(ids), _list_displaced(verdicts(state.kind).empty_table()))
    aside = _list_aside(snapshot, asked)
    gone = distinct(asked, aside["doc_id"].to_numpy())
    engine = open_without_files(state.kind, count_cores())
    places = snapshot.places()
    goes = is_in(places.doc_ids, gone)
    hit = distinct(places.sets[goes & (places.sets != NO_SET)])
    dead = np.setdiff1d(hit, places.sets[~goes])
    bands = ((part["key"].to_numpy(), part["set"].to_numpy()) for part in snapshot.scan("bands"))
    touched = distinct(NONE, *(keys[is_in(sets, dead)] for keys, sets in bands))
    around = snapshot.find("bands", touched)
    met = around.filter(pa.array(~is_in(around["set"].to_numpy(), dead)))
    known = read_links(snapshot)
    cut = known.select(is_in(known.left, dead) | is_in(known.right, dead))
    hot = np.sort(snapshot.read("hot")["key"].to_numpy())
    ends = np.concatenate((hit, cut.left, cut.right))
    none = BANDS.empty_table()
    step = Step(
        snapshot=snapshot,
        numbered=Numbered(
            owned=none, repeated=0, fresh=none, fresh_count=0, bands=none, met=met, met_count=met.num_rows
        ),
        signatures=SIGNED_SETS.empty_table(),
        documents=snapshot.choose("documents").empty_table(),
        places=place_stored(engine, read(engine, snapshot, "documents", OWNED.names), gone),
        touched=pa.table({"set": np.setdiff1d(ends, dead)}),
        hot=hot,
        resting=hot[~is_in(hot, touched)],
        gone=dead,
        cut=cut.encode(),
    )
    settled, _ = settle(engine, step)
    decided = decide(engine, step, settled, anew=False, readmit=readmit, has_sources=False)
    _rewrite(writing, gone, dead)
    write_changes(engine, writing, step, settled, decided)
    writing.finish(state, Label(operation="delete", documents=gone.size))
    told = pa.concat_tables([_list_displaced(decided.verdicts), aside.drop_columns(["doc_id"])])
    return Deleted(asked.size, len(ids) - asked.size, told)


def _list_aside(snapshot: Snapshot, asked: Integers) -> pa.Table:
    """Return the documents that other layers than near have removed for some that go: nothing else tells why."""
    places, members = snapshot.places(), snapshot.members()
    is_later = np.zeros(members.num_rows, dtype=bool)
    if LATER in snapshot.state.segments:
        members = pa.concat_tables([members, snapshot.read(LATER)])
        is_later = np.arange(members.num_rows) >= is_later.size
    owners, removed = members["representative"].fill_null(0).to_numpy(), ~members["kept"].to_numpy()
    doc_ids = members["doc_id"].to_numpy()
    removed &= is_in(doc_ids, places.doc_ids[places.sets == NO_SET]) | is_later
    removed &= members["representative"].is_valid().to_numpy()
    gone, count = asked, 0
    # One that goes may have been kept for others.
    while gone.size > count:
        count = gone.size
        gone = distinct(asked, doc_ids[removed & is_in(owners, gone)])
    rows = snapshot.find("documents", np.setdiff1d(gone, asked), ["doc_id", "id", "batch"])
    return rows.append_column("is_kept", pa.array(np.zeros(rows.num_rows, dtype=bool)))


def _rewrite(writing: Writing, gone: Integers, dead: Integers) -> None:
    """Write the segments anew that hold what goes."""

    def keep_set(rows: pa.Table) -> Flags:
        return ~is_in(rows["set"].to_numpy(), dead)

    def keep_member(rows: pa.Table) -> Flags:
        owners = rows["representative"]
        named = is_in(owners.fill_null(0).to_numpy(), gone) & owners.is_valid().to_numpy()
        stays: Flags = ~is_in(rows["doc_id"].to_numpy(), gone) & ~named
        return stays

    for name in ("documents", *OF_LAYERS):
        if name in writing.snapshot.state.segments:
            writing.rewrite(name, lambda rows: ~is_in(rows["doc_id"].to_numpy(), gone))
    writing.rewrite("sets", keep_set)
    writing.rewrite("bands", keep_set)
    writing.rewrite("members", keep_member)


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


def find_where(snapshot: Snapshot, where: Mapping[str, str]) -> list[int | str]:
    """Return the ids of the documents with these values in `source` and `batch`.

    Raises
    ------
    ConfigError
        When it asks for another column, a value is no text, or the store never had the batch.
    """
    if not where or not {*where} <= {"source", "batch"}:
        raise ConfigError(f"where: must ask for source or batch (got {', '.join(where) or 'nothing'})")
    for name, value in where.items():
        if not isinstance(value, str):
            raise ConfigError(f"where: {name} must be a string (got {value!r})")
    batches = {each.batch for each in list_history(snapshot.tables)} - {""}
    if where.get("batch", "") not in batches | {""}:
        hint = suggest(where["batch"], batches) or f"; it has {', '.join(sorted(batches))}"
        raise ConfigError(f"where: batch must be one of the store (got {where['batch']!r}{hint})")
    rows = snapshot.read("documents", ["id", *where])
    for name, value in where.items():
        rows = rows.filter(pc.equal(rows[name], value))
    found: list[int | str] = rows["id"].to_pylist()
    return found


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
    column = to_ids(ids, Snapshot.open(tables).state.kind)
    return repeat(tables, lambda now: delete(tables, now, column, readmit=readmit))


def to_ids(ids: Iterable[str], kind: pa.DataType) -> pa.Array:
    """Return distinct ids in the type of a store's.

    Raises
    ------
    DataError
        When an id is no integer, though the store's are.
    """
    column = to_strings(sorted(set(ids)))
    try:
        # 7 and 07 are one.
        return parse_ids(column, kind).unique()
    except pa.ArrowInvalid as error:
        raise DataError(f"--ids: must hold integers, as the ids of the store are ({error})") from error
