"""New segments of a store, before a commit names them."""

import datetime as dt
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.engine.engine import Batches, Engine, Rows, conform_rows
from dedup.kernels import Flags
from dedup.kernels.runs.argsort import argsort
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.runs.groups import drop_repeated
from dedup.kernels.sets.pairs import encode
from dedup.store.arrays import distinct, is_in
from dedup.store.election import Decided
from dedup.store.folder import Conflict, File
from dedup.store.growth import Settled
from dedup.store.schemas import BATCHES, STATES
from dedup.store.snapshot import Snapshot, take_newest
from dedup.store.state import Label, State, read_rows
from dedup.store.step import Step
from dedup.store.tables import Tables

MERGED, MERGED_BYTES = 1 << 22, 1 << 27
"""Rows, and bytes of them, that are merged at a time, about: bounds memory."""
FILES = pa.schema([("path", pa.string()), ("size", pa.int64()), ("rows", pa.int64())])
"""Files that tasks have written."""


class Writing:
    """Files of a segment that takes the place of others, or none."""

    def __init__(self, tables: Tables, state: State) -> None:
        self.tables = tables
        # No other writer takes this name.
        self.segment = f"{state.number + 1:09}-{secrets.token_hex(4)}"
        self.files: dict[str, list[File]] = {}
        self.replaced: dict[str, list[str]] = {}
        self.snapshot = Snapshot(tables=tables, state=state)

    def write(self, name: str, parts: Iterable[pa.Table]) -> None:
        """Write rows of a table, in the order of its key."""
        files = self.tables.write(name, self.segment, self.snapshot.layout(name), parts)
        self.files.setdefault(name, []).extend(files)

    def rewrite(self, name: str, keep: Callable[[pa.Table], Flags]) -> None:
        """Write the segments anew of which rows go.

        Parameters
        ----------
        keep
            Tells of some rows which stay, by their integers alone.
        """
        files, numbers = self.snapshot.list_files(name), list_integers(self.snapshot.choose(name))
        changed = {
            file.segment
            for file in files
            if not all(keep(part).all() for part in self.snapshot.scan(name, numbers, file=file))
        }
        for file in files:
            if file.segment in changed:
                parts = self.snapshot.scan(name, file=file)
                self.write(name, (part.filter(pa.array(keep(part))) for part in parts))
        self.replaced.setdefault(name, []).extend(sorted(changed))

    def merge(self, name: str) -> None:
        """Write few large files in place of those of several segments, or of many small ones."""
        files, most = self.snapshot.list_files(name), self.snapshot.layout(name).file_rows
        if len({file.segment for file in files}) > 1 or len(files) > self.snapshot.count(name) // most + 1:
            for _, parts in itertools.groupby(number_files(self._merge(name, files), most), key=itemgetter(0)):
                self.write(name, (part for _, part in parts))
            self.replaced[name] = list(self.snapshot.state.segments[name])

    def _merge(self, name: str, files: Sequence[File]) -> Iterator[pa.Table]:
        """Yield all rows in the order of their key, newest members alone."""
        key, bounds, groups = self.snapshot.layout(name).key, [], list[pq.RowGroupMetaData]()
        for file in files:
            with self.snapshot.open_file(name, file) as found:
                groups += [found.metadata.row_group(number) for number in range(found.num_row_groups)]
            bounds.append(self.snapshot.read_bounds(name, file))
        firsts = np.concatenate([each[:-1] for each in bounds])
        order = np.argsort(firsts, kind="stable")
        # Groups can differ much, as sets of books do from those of tweets.
        weights = np.array([(group.num_rows, group.total_byte_size) for group in groups])
        rows, sizes = np.cumsum(weights[order], axis=0).T
        lows = firsts[order][find_bounds(rows // MERGED + sizes // MERGED_BYTES)[:-1]]
        for low, high in zip(lows.tolist(), [*lows[1:].tolist(), None], strict=True):
            parts = [self.snapshot.choose(name).empty_table()]
            for file, own in zip(files, bounds, strict=True):
                begin = max(int(np.searchsorted(own[:-1], low)) - 1, 0)
                end = own.size - 1 if high is None else int(np.searchsorted(own[:-1], high))
                if begin < end and own[-1] >= low:
                    with self.snapshot.open_file(name, file) as found:
                        read = found.read_row_groups(list(range(begin, end)), parts[0].schema.names)
                    keys = read[key].to_numpy()
                    parts.append(read.filter(pa.array((keys >= low) & (True if high is None else keys < high))))
            merged = pa.concat_tables(parts)
            yield take_newest(merged) if name == "members" else merged.take(pa.array(argsort([merged[key].to_numpy()])))

    def finish(self, state: State, label: Label, *, merges: bool = False) -> State:
        """Let the new segments be in the store, and the replaced ones not.

        Parameters
        ----------
        state
            After the change, but for its number, segments and versions.
        merges
            Whether the rows of `batches` become one file too.

        Raises
        ------
        Conflict
            When another writer was first; what this one wrote is withdrawn.
        """
        segments, versions = dict(state.segments), dict(state.versions)
        # The first batch decides the columns, whatever an earlier one that failed or another one at work has made.
        columns = {} if state.number else {name: self.snapshot.layout(name).schema for name in segments}
        try:
            if columns:
                state = replace(state, log=self.tables.log.begin(state.log, columns))
            for name in state.segments:
                added, gone = self.files.get(name, []), self.replaced.get(name, [])
                if added or gone:
                    stays = [each for each in segments[name] if each not in gone]
                    segments[name] = [*stays, self.segment] if added else stays
                    versions[name] = self.tables.log.commit(name, added, schema=columns.get(name))
            after = replace(state, number=state.number + 1, segments=segments, versions=versions)
            told = {"number": after.number, "time": dt.datetime.now(dt.UTC), "state": after.to_json()}
            row = pa.Table.from_pylist([asdict(label) | told], STATES)
            replaced = self.tables.list_files(BATCHES, state.log) if merges else []
            earlier = [read_rows(self.tables, state.log)[0]] if merges else []
            self.tables.commit_state(state.log, after.number, pa.concat_tables([*earlier, row]), replaced)
        except Conflict:
            withdraw(self.tables, self.snapshot.state, {name: [self.segment] for name in state.segments})
            raise
        after = replace(after, log=state.log + 1)
        withdraw(self.tables, after, self.replaced)
        return after

    def drop(self) -> None:
        """Delete what was written."""
        for name, files in self.files.items():
            for file in files:
                self.tables.storage.delete(f"{self.tables.path}/{name}/{file.path}")


def number_files(parts: Iterable[pa.Table], most: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield parts of a table with the number of their file, which is full from so many rows on."""
    number, rows = 0, 0
    for part in parts:
        yield number, part
        rows += part.num_rows
        if rows >= most:
            number, rows = number + 1, 0


def save(batches: Batches, *, snapshot: Snapshot, name: str, segment: str) -> Batches:
    """Write rows of a table in the order of its key, a file for each part that ascends; return FILES.

    Files of tasks that are tried again stay unnamed, as those of a crash do, until `vacuum`.
    """
    layout = snapshot.layout(name)
    for _, part in itertools.groupby(_number_parts(batches, layout.key), key=lambda each: each[0]):
        rows = (pa.Table.from_batches([batch]) for _, batch in part)
        files = snapshot.tables.write(name, segment, layout, rows)
        columns = [pa.array([getattr(file, each.name) for file in files], each.type) for each in FILES]
        yield pa.RecordBatch.from_arrays(columns, schema=FILES)


def _number_parts(batches: Batches, key: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches with the number of their part; a number of `sets` stands in one row."""
    number, last = 0, None
    for batch in drop_repeated(batches, [key]) if key == "set" else batches:
        if batch.num_rows:
            keys = batch[key].to_numpy()
            assert (keys[1:] >= keys[:-1]).all(), "rows must be in the order of their key"
            number += last is not None and keys[0] < last
            last = keys[-1]
            yield number, batch


def to_files(rows: pa.Table, segment: str) -> list[File]:
    """Return FILES as files of a segment."""
    return [File(segment=segment, **row) for row in rows.sort_by("path").to_pylist()]


def write_rows(engine: Engine[Rows], writing: Writing, name: str, rows: Rows, count: int) -> None:
    """Write about so many rows of a table, in files by ranges of its key."""
    snapshot = writing.snapshot.send(1)
    layout = snapshot.layout(name)
    work = partial(save, snapshot=snapshot, name=name, segment=writing.segment)
    pieces = -(-max(count, 1) // layout.file_rows)
    files = engine.sort(engine.select(rows, *layout.schema.names), layout.key, work, FILES, pieces=pieces)
    writing.files.setdefault(name, []).extend(to_files(engine.collect(files), writing.segment))


def write_changes(
    engine: Engine[Rows], writing: Writing, step: Step[Rows], settled: Settled[Rows], decided: Decided[Rows]
) -> None:
    """Write what a step makes of edges, hot keys and members."""
    state = writing.snapshot.state
    if (lost := distinct(step.cut, settled.withdrawn)).size:
        writing.rewrite("edges", lambda rows: ~is_in(encode(rows["left"].to_numpy(), rows["right"].to_numpy()), lost))
    write_rows(engine, writing, "edges", settled.found, settled.found_count)
    members = conform_rows(engine, decided.verdicts, writing.snapshot.choose("members"), since=state.number + 1)
    write_rows(engine, writing, "members", members, decided.voters)
    if not np.array_equal(settled.hot, step.hot):
        writing.write("hot", [pa.table({"key": settled.hot})])
        writing.replaced["hot"] = list(state.segments["hot"])


def list_integers(schema: pa.Schema) -> list[str]:
    """Return the columns that hold integers."""
    return [field.name for field in schema if pa.types.is_integer(field.type)]


def withdraw(tables: Tables, state: State, segments: Mapping[str, Sequence[str]]) -> None:
    """Take segments out of their tables that no state names, or only earlier ones do."""
    for name, gone in segments.items():
        live = set(state.segments.get(name, ()))
        files = [file for file in tables.list_files(name) if file.segment in gone and file.segment not in live]
        if files:
            tables.log.commit(name, (), files)
