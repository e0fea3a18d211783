"""Upkeep of a store: its history, a check, fewer and larger files, and the deletion of what is no longer used."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from dedup.errors import StorageError
from dedup.files.systems import is_local, redact, resolve
from dedup.kernels import Flags, Integers
from dedup.kernels.sets.shingles import digest_halves
from dedup.layers.near.signing import to_sets
from dedup.store.arrays import distinct, is_in
from dedup.store.folder import TRIES, Conflict, Damaged, File
from dedup.store.schemas import BATCHES, NO_SET, OF_LAYERS, SEGMENT
from dedup.store.snapshot import Snapshot
from dedup.store.state import Label, State, read_rows, read_state
from dedup.store.tables import Tables
from dedup.store.writing import Writing, list_integers, withdraw

Value = TypeVar("Value")


def repeat(tables: Tables, work: Callable[[State], Value]) -> Value:
    """Return what the work makes of the newest state, once no other writer is first.

    Raises
    ------
    StorageError
        When others are first again and again.
    """
    for _ in range(TRIES):
        try:
            return work(read_state(tables))
        except Conflict:
            continue
    raise StorageError(f"{redact(tables.path)}: {TRIES} other writers were first; repeat the command")


def note_outputs(tables: Tables, batch: str, outputs: Sequence[str]) -> State:
    """Note that what became of a batch was written to these folders too.

    Raises
    ------
    StorageError
        As `repeat`.
    """

    def work(state: State) -> State:
        noted = state.note_outputs(batch, outputs)
        return state if noted == state else Writing(tables, state).finish(noted, Label(operation="output"))

    return repeat(tables, work)


class Commit(NamedTuple):
    """Change of a store."""

    number: int
    operation: str
    """Change: add, reelect, delete, compact, check, output, or migrate's copy of one."""
    batch: str
    """Name of the batch that was added; empty where none was."""
    time: datetime
    documents: int
    """Documents of the batch, or those deleted."""
    kept: int
    """Documents of the batch that were kept."""


def list_history(tables: Tables) -> list[Commit]:
    """Return what was done, oldest first."""
    return [Commit(**row) for row in read_rows(tables)[0].select(Commit._fields).to_pylist()]


def count_files(tables: Tables) -> int:
    """Return the files that a reader of everything opens."""
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    return len(tables.list_files(BATCHES)) + sum(len(snapshot.list_files(name)) for name in snapshot.state.segments)


class Compacted(NamedTuple):
    """Files that a reader of everything opens."""

    files_before: int
    files: int


def compact(tables: Tables) -> Compacted:
    """Write the files of every table as one, in which the newest row of a document is the only one of `members`.

    Raises
    ------
    StorageError
        As `repeat`.
    """

    def work(state: State) -> State:
        writing = Writing(tables, state)
        for name in state.segments:
            writing.merge(name)
        if not writing.replaced and len(tables.list_files(BATCHES)) <= 1:
            return state
        return writing.finish(state, Label(operation="compact"), merges=True)

    before = count_files(tables)
    repeat(tables, work)
    return Compacted(before, count_files(tables))


def vacuum(tables: Tables, hours: int) -> int:
    """Delete files that no state has named for so many hours, and those that no commit names; return their number.

    A writer at work has such files: the hours must be more than the longest takes.

    Raises
    ------
    StorageError
        When the log of a table has lost its end: files that it named pass for files that no commit names.
    """
    state, count = read_state(tables), 0
    for name in state.segments:
        Snapshot(tables=tables, state=state).list_files(name)
    withdraw(tables, state, find_orphans(tables, hours))
    for name in (*state.segments, BATCHES):
        # Delta Lake names all that the log tells of as taken out, also what earlier calls have deleted.
        before = _list_stored(tables, name)
        tables.log.vacuum(name, hours)
        count += len(before - _list_stored(tables, name))
        if is_local(tables.path):
            for folder in Path(resolve(tables.path)[1], name).glob(f"{SEGMENT}=*"):
                # A writer may be about to fill it.
                if time.time() - folder.stat().st_mtime >= hours * 3600 and not any(folder.iterdir()):
                    folder.rmdir()
    return count


def _list_stored(tables: Tables, name: str) -> set[str]:
    entries = tables.storage.list(f"{tables.path}/{name}", recursive=True)
    return {entry.path for entry in entries if not entry.is_folder}


def is_whole(tables: Tables, state: State) -> bool:
    """Tell whether all files of a state are there, which `vacuum` may have deleted since.

    Raises
    ------
    StorageError
        When the storage does not tell.
    """
    snapshot = Snapshot(tables=tables, state=state)
    return all(
        {file.path for file in snapshot.list_files(name)} <= _list_stored(tables, name) for name in state.segments
    )


def find_orphans(tables: Tables, hours: float) -> dict[str, list[str]]:
    """Return the segments of every table that no state names, and that are older than so many hours."""
    state, before = read_state(tables), (time.time() - hours * 3600) * 1000
    return {
        name: sorted(
            {
                file.segment
                for file in tables.list_files(name)
                if file.segment not in state.segments[name] and file.changed <= before
            }
        )
        for name in state.segments
    }


class Finding(NamedTuple):
    """Faults of a store."""

    table: str
    what: str
    rows: int
    mended: bool


def check(tables: Tables, *, mend: bool, hours: float = 24) -> list[Finding]:
    """Read a store to the end, and hold its tables against each other.

    Parameters
    ----------
    mend
        Whether rows that nothing belongs to are taken away. What is missing cannot be made again without the texts:
        delete its documents, and add them anew.
    hours
        Age from which on a segment that no state names is told: a younger one may be a writer's at work.
    """
    orphans = find_orphans(tables, hours)
    found = [Finding(name, "segments that no commit names", len(each), mend) for name, each in orphans.items() if each]
    if mend:
        withdraw(tables, read_state(tables), orphans)
    return found + repeat(tables, lambda state: _check_rows(tables, state, mend=mend))


def _check_rows(tables: Tables, state: State, *, mend: bool) -> list[Finding]:
    writing = Writing(tables, state)
    snapshot = writing.snapshot
    missing = [
        Finding(name, f"file {file.path} is missing or damaged", file.rows, mended=False)
        for name in state.segments
        for file in snapshot.list_files(name)
        if not _is_whole(tables, name, file)
    ]
    if missing:
        return missing
    places = snapshot.places()
    sets = np.sort(snapshot.read("sets", ["set"])["set"].to_numpy())
    bands = distinct(snapshot.read("bands", ["set"])["set"].to_numpy())
    used = distinct(places.sets[places.sets != NO_SET])
    found = [
        Finding("sets", "shingle sets of documents are missing", int(np.setdiff1d(used, sets).size), mended=False),
        Finding("bands", "band rows of shingle sets are missing", int(np.setdiff1d(sets, bands).size), mended=False),
        # A text that is read again is held against the digest each time.
        Finding(
            "sets",
            "shingle sets whose digest is another",
            _count_damaged(snapshot) if state.has_sets else 0,
            mended=False,
        ),
        Finding("documents", "documents are there twice", int(_count_repeated(places.doc_ids)), mended=False),
        Finding("sets", "shingle sets are there twice", int(_count_repeated(sets)), mended=False),
    ]
    stray: dict[str, Callable[[pa.Table], Flags]] = {
        "sets": lambda rows: is_in(rows["set"].to_numpy(), used),
        "bands": lambda rows: is_in(rows["set"].to_numpy(), used),
        "edges": lambda rows: is_in(rows["left"].to_numpy(), used) & is_in(rows["right"].to_numpy(), used),
    } | {
        name: lambda rows: is_in(rows["doc_id"].to_numpy(), places.doc_ids)
        for name in ("members", *OF_LAYERS)
        if name in state.segments
    }
    for name, keep in stray.items():
        count = sum(
            int(np.count_nonzero(~keep(part))) for part in snapshot.scan(name, list_integers(snapshot.choose(name)))
        )
        found.append(Finding(name, "rows that belong to no document", count, mend))
        if count and mend:
            writing.rewrite(name, keep)
    if writing.replaced:
        writing.finish(state, Label(operation="check"))
    return [each for each in found if each.rows]


def _is_whole(tables: Tables, name: str, file: File) -> bool:
    """Tell whether a file is there, of its size, and can be read to the end, checksums included."""
    entry = tables.storage.look(f"{tables.path}/{name}/{file.path}")
    if entry is None or entry.size != file.size:
        return False
    try:
        with tables.read(name, file, verifies=True) as found:
            groups = range(found.metadata.num_row_groups)
            rows: int = sum(found.read_row_group(group, use_threads=False).num_rows for group in groups)
            return rows == file.rows
    except Damaged:
        return False


def _count_damaged(snapshot: Snapshot) -> int:
    count = 0
    for rows in snapshot.scan("sets"):
        own = digest_halves(*to_sets(rows["shingles"]))
        high, low = rows["digest_high"].to_numpy(), rows["digest_low"].to_numpy()
        count += int(np.count_nonzero((own[0] != high) | (own[1] != low)))
    return count


def _count_repeated(ordered: Integers) -> int:
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))
