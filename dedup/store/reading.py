"""Tables of a store as rows of an engine: whole, or the rows of some keys."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally, Work
from dedup.kernels import Integers
from dedup.kernels.runs.batches import conform
from dedup.layers.near.signing import SETS
from dedup.layers.near.tables import ShingleSets, count_sets
from dedup.store.arrays import distinct
from dedup.store.folder import File
from dedup.store.snapshot import Snapshot, count_together
from dedup.tables import arrow

SCANNED = 1 << 21
"""Rows that a task reads of a whole table."""
SET_ROWS = 100
"""Numbers in a shuffle that weigh as much as the shingle set of one does where it arrives."""
RANGES = 1 << 12
"""Ranges of keys that travel together, so that a task reads few groups of rows."""
Place: TypeAlias = Callable[[Integers], Integers]
"""Gives the range of each key, in the order of the keys."""
WANTED = arrow.integers("range", "wanted")
NAMED = arrow.integers("range", "set", "doc_id")


class StoredPart(NamedTuple):
    """Share of the groups of rows of a file."""

    file: File
    number: int
    shares: int


def read(engine: Engine[Rows], snapshot: Snapshot, name: str, columns: Sequence[str]) -> Rows:
    """Return all rows of some columns of a table."""
    parts = _cut(snapshot.list_files(name))
    work = partial(_read, snapshot=snapshot, name=name, columns=columns, parts=parts)
    return engine.range(len(parts), work, snapshot.choose(name, columns))


def select(
    engine: Engine[Rows], snapshot: Snapshot, name: str, columns: Sequence[str], *, wanted: Rows, count: int
) -> Rows:
    """Return the rows of a table by doc_id, of so many documents wanted at most; few go to every task."""
    if 8 * SET_ROWS * count > engine.collectable_bytes:
        return engine.join(read(engine, snapshot, name, columns), wanted, "doc_id", how="semi")
    listed = distinct(engine.collect(engine.select(wanted, "doc_id"))["doc_id"].to_numpy())
    work = partial(_select, snapshot=snapshot, name=name, columns=columns, wanted=listed)
    return engine.range(len(snapshot.list_files(name)), work, snapshot.choose(name, columns))


def find_keys(
    engine: Engine[Rows],
    snapshot: Snapshot,
    table: str,
    wanted: Rows,
    columns: Sequence[str] | None = None,
    *,
    name: str,
    expected: float,
) -> Rows:
    """Return, under a name, the rows of a table by key whose keys are `wanted`, which may be repeated."""
    expected = max(expected, snapshot.count(table) / 8)
    return engine.group(name, wanted, _find_rows(snapshot, table, columns, _place_key), expected=expected)


def find_digests(engine: Engine[Rows], snapshot: Snapshot, name: str, wanted: Rows, expected: float) -> Rows:
    """Return, under a name, set and digest of the sets `wanted`, perhaps with repetitions."""
    columns, place = ["set", "digest_high", "digest_low"], partial(_place_set, count=snapshot.state.sets)
    return engine.group(name, wanted, _find_rows(snapshot, "sets", columns, place), expected=expected)


def find_sets(
    engine: Engine[Rows], snapshot: Snapshot, name: str, wanted: Rows, *, count: int, expected: float
) -> ShingleSets[Rows]:
    """Return, under a name, SETS of documents.

    Parameters
    ----------
    wanted
        doc_id and set of each, the sets distinct.
    count
        Number above those of all sets.
    """
    shuffle = _find(NAMED, partial(_place_set, count=count), partial(_read_sets, snapshot=snapshot), SETS)
    return count_sets(engine, engine.group(name, wanted, shuffle, expected=SET_ROWS * expected))


def _find_rows(snapshot: Snapshot, name: str, columns: Sequence[str] | None, place: Place) -> Shuffle:
    work = partial(_read_rows, snapshot=snapshot, name=name, columns=columns)
    return _find(WANTED, place, work, snapshot.choose(name, columns))


def _find(emitted: pa.Schema, place: Place, work: Work, schema: pa.Schema) -> Shuffle:
    """Return the shuffle keys, the second of the columns emitted -> what the work finds of those of a range."""
    emit = partial(_emit, schema=emitted, place=place)
    return Shuffle(emit=emit, emitted=emitted, by=("range",), work=work, schema=schema, in_order=False)


def _place_key(keys: Integers) -> Integers:
    # The upper half of a key as signed numbers are ordered.
    found: Integers = ((keys >> 32) + (1 << 31)) * RANGES >> 32
    return found


def _place_set(numbers: Integers, *, count: int) -> Integers:
    found: Integers = numbers * RANGES // max(count, 1)
    return found


def _emit(batches: Batches, *, schema: pa.Schema, place: Place) -> Batches:
    for batch in batches:
        yield conform(batch, schema, range=place(batch[schema.names[1]].to_numpy()))


def _read_rows(batches: Batches, *, snapshot: Snapshot, name: str, columns: Sequence[str] | None) -> Batches:
    keys = [batch["wanted"].to_numpy() for batch in batches]
    if keys:
        yield from _send(snapshot.find(name, distinct(*keys), columns), snapshot.choose(name, columns))


def _read_sets(batches: Batches, *, snapshot: Snapshot) -> Iterator[pa.RecordBatch | Tally]:
    named = pa.Table.from_batches(batches, NAMED)
    if not named.num_rows:
        return
    numbers, doc_ids = named["set"].to_numpy(), named["doc_id"].to_numpy()
    order = np.argsort(numbers)
    numbers, doc_ids = numbers[order], doc_ids[order]
    found = snapshot.read_sets(numbers)
    assert found.num_rows == numbers.size, "sets: must hold every set of the store"
    for batch in found.to_batches():
        own = doc_ids[np.searchsorted(numbers, batch["set"].to_numpy())]
        yield Tally(bytes=pc.sum(pc.binary_length(batch["shingles"])).as_py() or 0)
        yield conform(batch, SETS, doc_id=own)


def _read(
    batches: Batches, *, snapshot: Snapshot, name: str, columns: Sequence[str], parts: Sequence[Sequence[StoredPart]]
) -> Batches:
    schema = snapshot.choose(name, columns)
    for batch in batches:
        for number in batch["number"].to_pylist():
            for file, share, shares in parts[number]:
                with snapshot.open_file(name, file) as found:
                    begin, end = (found.num_row_groups * each // shares for each in (share, share + 1))
                    together = count_together(found, snapshot.layout(name), schema.names)
                    for first in range(begin, end, together):
                        groups = list(range(first, min(first + together, end)))
                        # Threads that share out the columns of small groups spend more than they save.
                        rows = found.read_row_groups(groups, schema.names, use_threads=False)
                        yield from _send(snapshot.pick(name, rows), schema)


def _select(batches: Batches, *, snapshot: Snapshot, name: str, columns: Sequence[str], wanted: Integers) -> Batches:
    every = snapshot.list_files(name)
    if files := [every[number] for batch in batches for number in batch["number"].to_pylist()]:
        yield from _send(snapshot.find(name, wanted, columns, files=files), snapshot.choose(name, columns))


def _send(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    yield from rows.select(schema.names).cast(schema).to_batches()


def _cut(files: Sequence[File]) -> list[list[StoredPart]]:
    """Share the groups of files out to tasks."""
    parts, before = defaultdict[int, list[StoredPart]](list), 0
    for file in files:
        shares = -(-file.rows // SCANNED)
        for number in range(shares):
            parts[before // SCANNED].append(StoredPart(file, number, shares))
            before += file.rows // shares
    return [*parts.values()]
