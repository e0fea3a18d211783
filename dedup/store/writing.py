"""New segments of a store, before a commit names them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Flags
from dedup.store.folder import Conflict, File
from dedup.store.schemas import TABLES, list_layouts
from dedup.store.snapshot import Snapshot, read_firsts
from dedup.store.state import Change, Label, State, commit, name_segment, withdraw
from dedup.store.tables import Tables

MERGED = 1 << 22
"""Rows merged at a time, about: bounds memory."""


class Writing:
    """Files of a segment that takes the place of others, or none."""

    def __init__(self, tables: Tables, state: State) -> None:
        self.tables, self.segment = tables, name_segment(state.number + 1)
        self.files: dict[str, list[File]] = {}
        self.replaced: dict[str, list[str]] = {}
        self.snapshot = Snapshot(tables=tables, state=state)
        self._layouts = list_layouts(state.kind)

    def write(self, name: str, parts: Iterable[pa.Table]) -> None:
        """Write rows of a table, in the order of its key."""
        files = self.tables.write(name, self.segment, self._layouts[name], parts)
        self.files.setdefault(name, []).extend(files)

    def rewrite(self, name: str, keep: Callable[[pa.Table], Flags], columns: Sequence[str]) -> None:
        """Write the segments anew of which rows go.

        Parameters
        ----------
        keep
            Tells of some rows which stay, by these columns alone.
        """
        changed = set()
        for file in self.snapshot.list_files(name):
            with self.tables.read(name, file) as found:
                if not all(keep(pa.Table.from_batches([part])).all() for part in found.iter_batches(columns=columns)):
                    changed.add(file.segment)
        for file in self.snapshot.list_files(name):
            if file.segment in changed:
                with self.tables.read(name, file) as found:
                    parts = (pa.Table.from_batches([part]) for part in found.iter_batches(1 << 14))
                    self.write(name, (part.filter(pa.array(keep(part))) for part in parts))
        self.replaced.setdefault(name, []).extend(sorted(changed))

    def merge(self, name: str) -> None:
        """Write one file in place of all of a table."""
        files = self.snapshot.list_files(name)
        if len(files) > 1:
            self.write(name, self._merge(name, files))
            self.replaced[name] = list(self.snapshot.state.segments[name])

    def _merge(self, name: str, files: Sequence[File]) -> Iterator[pa.Table]:
        layout = self._layouts[name]
        firsts = []
        for file in files:
            with self.tables.read(name, file) as found:
                firsts.append(read_firsts(found))
        bounds = np.sort(np.concatenate(firsts))[:: max(MERGED // layout.group, 1)]
        for low, high in zip(bounds, [*bounds[1:], None], strict=True):
            parts = []
            for file, own in zip(files, firsts, strict=True):
                begin = max(int(np.searchsorted(own, low)) - 1, 0)
                end = own.size if high is None else int(np.searchsorted(own, high))
                with self.tables.read(name, file) as found:
                    rows = found.read_row_groups(list(range(begin, end)))
                keys = rows[layout.key].to_numpy()
                within = keys >= low if high is None else (keys >= low) & (keys < high)
                parts.append(rows.filter(pa.array(within)))
            merged = pa.concat_tables(parts)
            yield _drop_earlier(merged) if name == "members" else merged.take(pc.sort_indices(merged[layout.key]))

    def finish(self, state: State, label: Label) -> State:
        """Let the new segments be in the store, and the replaced ones not.

        Parameters
        ----------
        state
            After the change, but for its number, segments and versions.

        Raises
        ------
        Conflict
            When another writer was first; what this one wrote is withdrawn.
        """
        try:
            after = commit(self.tables, state, Change(added=self.files, replaced=self.replaced), label)
        except Conflict:
            withdraw(self.tables, self.snapshot.state, {name: [self.segment] for name in TABLES})
            raise
        withdraw(self.tables, after, self.replaced)
        return after

    def drop(self) -> None:
        """Delete what was written."""
        for name, files in self.files.items():
            for file in files:
                self.tables.storage.delete(f"{self.tables.path}/{name}/{file.path}")


def _drop_earlier(rows: pa.Table) -> pa.Table:
    """Return the newest row of every document."""
    ordered = rows.take(pc.sort_indices(rows, [("doc_id", "ascending"), ("since", "ascending")]))
    doc_ids = ordered["doc_id"].to_numpy()
    return ordered.filter(pa.array(np.append(doc_ids[1:] != doc_ids[:-1], True)[: doc_ids.size]))
