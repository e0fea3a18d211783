"""Content of a store at one moment, read as far as it is asked for."""

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.engine.workers import count_cores
from dedup.errors import ConfigError
from dedup.files.systems import absolute, redact
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.sets.exact import take
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.near.signing import to_sets
from dedup.store.arrays import distinct, is_in, list_ranges
from dedup.store.extents import Extents
from dedup.store.folder import File
from dedup.store.rereading import SHINGLED, Rereader, load_contract
from dedup.store.schemas import WORDS, Layout, list_layouts
from dedup.store.state import State, read_state
from dedup.store.tables import FIRSTS, Tables

WHOLE = 4
"""Part of the groups between the first and the last wanted, as a divisor, from which on all of them are read."""
SCANNED = 1 << 14
"""Rows of a file that are read at a time: bounds memory."""
SHARE = 512
"""Keys that one thread looks for at least."""


class Chosen(NamedTuple):
    """Documents of a store that count, and their shingle sets; ascending."""

    doc_ids: Integers
    sets: Integers
    first: int
    """Number of the first set that the store has not, and that counts."""

    def select(self, name: str, rows: pa.Table) -> pa.Table:
        """Return the rows of a table that belong to them."""
        columns = {"sets": ("set",), "bands": ("set",), "edges": ("left", "right"), "hot": ()}
        for column in columns.get(name, ("doc_id",)):
            values = rows[column].to_numpy()
            is_document = column == "doc_id"
            held = is_in(values, self.doc_ids) if is_document else is_in(values, self.sets) | (values >= self.first)
            rows = rows.filter(pa.array(held))
        return rows


class Places(NamedTuple):
    """Distinct documents of a store, by doc_id."""

    doc_ids: Integers
    """Ascending."""
    sets: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The files of a state."""

    tables: Tables
    state: State
    extra: dict[str, list[File]] = field(default_factory=dict)
    """Files that are not committed yet, to be read with the others."""
    threads: int = field(default_factory=count_cores)
    """Threads that look for keys."""
    chosen: Chosen | None = None
    """Documents that are read, with what belongs to them; None for all."""
    tokenizer: Tokenizer | None = None
    """Tokenizer of texts that are read again; None: as the state names it."""
    _listed: dict[str, list[File]] = field(default_factory=dict)
    _footers: dict[str, pq.FileMetaData] = field(default_factory=dict)
    """Footers of files that were open before, by their paths."""
    _bounds: dict[str, Integers] = field(default_factory=dict)
    """First key of each group and last key of files that were looked into before, by their paths."""
    _extents: dict[str, Extents | None] = field(default_factory=dict)
    """Values that are read apart, of files that were looked into before, by their paths."""

    @classmethod
    def open(cls, tables: Tables) -> Self:
        """Return what is in a store now.

        Raises
        ------
        StorageError
            When there is no store.
        ConfigError
            When it is empty.
        """
        state = read_state(tables)
        if not state.number:
            raise ConfigError(f"{redact(tables.path)}: must hold a batch (it has none yet)")
        return cls(tables=tables, state=state)

    def send(self, threads: int) -> Self:
        """Return the snapshot for tasks anywhere, each of so many threads: all files are listed."""
        for name in self.state.segments:
            self.list_files(name)
        tokenizer = self.tokenizer if self.state.has_sets else self._rereader.tokenizer
        tables = replace(self.tables, path=absolute(self.tables.path))
        return replace(self, tables=tables, threads=threads, tokenizer=tokenizer)

    def choose_batches(self, batches: Sequence[str]) -> Self:
        """Return the snapshot of the documents of some batches.

        Raises
        ------
        ConfigError
            When a batch has none.
        """
        rows = self.read("documents", ["doc_id", "set", "batch"])
        for batch in batches:
            if not pc.any(pc.equal(rows["batch"], batch)).as_py():
                known = ", ".join(sorted(rows["batch"].unique().to_pylist()))
                raise ConfigError(
                    f"input.without_batches: must be batches of the store (got {batch!r}, it has {known})"
                )
        found = rows.filter(pc.is_in(rows["batch"], pa.array(batches)))
        doc_ids, sets = (distinct(found[name].to_numpy()) for name in ("doc_id", "set"))
        return replace(self, chosen=Chosen(doc_ids, sets, self.state.sets))

    def pick(self, name: str, rows: pa.Table) -> pa.Table:
        """Return the rows of a table that belong to documents that are read."""
        return rows if self.chosen is None else self.chosen.select(name, rows)

    def layout(self, name: str) -> Layout:
        """Return how a table lies in its files."""
        return list_layouts(self.state.kind, has_sets=self.state.has_sets)[name]

    def choose(self, name: str, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the schema of some columns of a table."""
        schema = self.layout(name).schema
        return schema if columns is None else pa.schema([schema.field(each) for each in columns])

    def count(self, name: str) -> int:
        """Return the rows of a table."""
        return sum(file.rows for file in self.list_files(name))

    def list_files(self, name: str) -> list[File]:
        """Return the files of a table."""
        if name not in self._listed:
            live = set(self.state.segments[name])
            files = self.tables.list_files(name, self.state.versions[name]) if live else []
            self._listed[name] = [file for file in files if file.segment in live]
        return [*self._listed[name], *self.extra.get(name, [])]

    def read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows of some columns."""
        schema = self.choose(name, columns)
        parts = [schema.empty_table()]
        for file in self.list_files(name):
            with self.open_file(name, file) as found:
                # Threads that share out the columns of small groups spend more than they save.
                parts.append(self.pick(name, found.read(schema.names, use_threads=False).cast(schema)))
        return pa.concat_tables(parts)

    def scan(
        self, name: str, columns: Sequence[str] | None = None, rows: int = SCANNED, *, file: File | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of a table, or of one of its files, so many at a time."""
        for each in self.list_files(name) if file is None else [file]:
            with self.open_file(name, each) as found:
                for batch in found.iter_batches(rows, columns=columns):
                    yield pa.Table.from_batches([batch])

    @contextlib.contextmanager
    def open_file(self, name: str, file: File, *, as_dictionary: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """Open a file, whose footer is read once."""
        path = f"{name}/{file.path}"
        with self.tables.read(name, file, self._footers.get(path), as_dictionary) as found:
            self._footers[path] = found.metadata
            yield found

    def find(
        self,
        name: str,
        wanted: Integers,
        columns: Sequence[str] | None = None,
        *,
        files: Sequence[File] | None = None,
    ) -> pa.Table:
        """Return the rows whose key is one of those wanted, file by file in the order of their keys.

        Only the groups of rows that can hold one are read.

        Parameters
        ----------
        wanted
            Distinct, ascending.
        files
            Files of the table; by default all.
        """
        schema, key = self.choose(name, columns), self.layout(name).key
        names = [*dict.fromkeys([*schema.names, key])]
        files = self.list_files(name) if files is None else files

        def read(own: Integers) -> list[list[pa.Table]]:
            parts = []
            for file, keys in zip(files, bounds, strict=True):
                groups = choose_groups(keys, own)
                parts.append(self._find_rows(name, file, groups, own, names) if groups.size else [])
            return parts

        if not wanted.size:
            return schema.empty_table()
        # Once, and not by every thread.
        bounds = [self.read_bounds(name, file) for file in files]
        shares = np.array_split(wanted, min(self.threads, -(-wanted.size // SHARE)))
        if len(shares) == 1:
            found = [read(wanted)]
        else:
            with ThreadPoolExecutor(len(shares)) as readers:
                found = [*readers.map(read, shares)]
        of_files = (part for parts in zip(*found, strict=True) for each in parts for part in each)
        return self.pick(name, pa.concat_tables([schema.empty_table(), *of_files]))

    def read_bounds(self, name: str, file: File) -> Integers:
        """Return the first key of each group of a file, and the last key of all."""
        path = f"{name}/{file.path}"
        if path not in self._bounds:
            with self.open_file(name, file) as opened:
                last = opened.read_row_group(opened.num_row_groups - 1, [self.layout(name).key])
                firsts = np.frombuffer(bytes.fromhex(opened.metadata.metadata[FIRSTS].decode()), dtype=np.int64)
                self._bounds[path] = np.append(firsts, last[0][-1].as_py())
        return self._bounds[path]

    def _find_rows(self, name: str, file: File, groups: Integers, wanted: Integers, names: list[str]) -> list[pa.Table]:
        """Return the rows of groups of a file whose key is one of those wanted, in parts."""
        layout, path, extents = self.layout(name), f"{name}/{file.path}", None
        # Of the many rows of a group few are wanted: no word is made of the others.
        with self.open_file(name, file, as_dictionary=[each for each in WORDS if each in names]) as found:
            if layout.apart in names:
                if path not in self._extents:
                    self._extents[path] = Extents.of(found.metadata, layout.apart)
                extents = self._extents[path]
            if extents is None:
                schema = self.choose(name, names)
                return [rows.cast(schema) for rows, _, _ in find_rows(found, layout, groups, wanted, names)]
            read, parts = [each for each in names if each != layout.apart], []
            for rows, own, taken in find_rows(found, layout, groups, wanted, read):
                values = self.tables.read_values(name, file, *extents.locate(own, taken))
                parts.append(rows.append_column(layout.apart, values).select(names))
        return parts

    @property
    def _rereader(self) -> Rereader:
        tokenizer = self.tokenizer or load_contract(self.state, redact(self.tables.path))
        spec = self.state.spec
        return Rereader(
            tokenizer=tokenizer,
            shingle_size=spec["shingle_size"],
            has_sets=spec.get("unit") == "set",
            columns=spec.get("columns", ""),
            threads=self.threads,
        )

    def read_sets(self, numbers: Integers) -> pa.Table:
        """Return `set` and `shingles` of these numbers, distinct and ascending; in any order.

        Raises
        ------
        StorageError
            When the store holds no shingle sets, and a text is not what or where it was.
        """
        if self.state.has_sets:
            return self.find("sets", numbers, SHINGLED.names)
        return self._rereader.shingle(self.find("sets", numbers), self.read("files"))

    def scan_sets(self, rows: int = SCANNED) -> Iterator[pa.Table]:
        """Yield `set` and `shingles` of all sets, about so many rows at a time; raises as `read_sets`."""
        if self.state.has_sets:
            yield from self.scan("sets", SHINGLED.names, rows)
        else:
            yield from (self._rereader.shingle(part, self.read("files")) for part in self.scan("sets", rows=rows))

    def find_sets(self, numbers: Integers) -> tuple[Hashes, Integers]:
        """Return the shingle sets of these numbers, distinct and ascending, as from `shingles.shingle`."""
        found = self.read_sets(numbers)
        order: Integers = np.argsort(found["set"].to_numpy(), kind="stable")
        held: Integers = found["set"].to_numpy()[order]
        assert np.array_equal(held, numbers), "sets: must hold every set of the store"
        return take(*to_sets(found["shingles"]), order)

    def places(self) -> Places:
        """Return all documents."""
        found = self.read("documents", ["doc_id", "set"])
        doc_ids, sets = found["doc_id"].to_numpy(), found["set"].to_numpy()
        order = np.argsort(doc_ids, kind="stable")
        return Places(doc_ids[order], sets[order])

    def members(self) -> pa.Table:
        """Return the newest row of every document that has one, by doc_id."""
        return take_newest(self.read("members"))


def take_newest(rows: pa.Table) -> pa.Table:
    """Return of rows of `members` the newest of every document, by doc_id."""
    doc_ids, since = (rows[name].to_numpy() for name in ("doc_id", "since"))
    order = np.lexsort((since, doc_ids))
    return rows.take(pa.array(order[find_bounds(doc_ids[order])[1:] - 1]))


def choose_groups(keys: Integers, wanted: Integers) -> Integers:
    """Return the groups of a file that can hold keys wanted, and those between if these are most of them.

    Parameters
    ----------
    keys
        First key of each group, and the last of all.
    wanted
        Distinct, ascending.
    """
    # Equal keys can begin at the end of the group before.
    begins, ends = np.searchsorted(wanted, keys[:-1]), np.searchsorted(wanted, keys[1:], side="right")
    groups = np.flatnonzero(ends > begins)
    if groups.size and groups.size * WHOLE > groups[-1] - groups[0]:
        groups = np.arange(groups[0], groups[-1] + 1)
    return groups


def count_together(found: pq.ParquetFile, layout: Layout, names: Sequence[str]) -> int:
    """Return how many groups of a file are read at a time, of these columns."""
    rows: int = found.metadata.num_rows
    together = layout.group if layout.apart in names else layout.together
    return max(together * int(found.num_row_groups) // max(rows, 1), 1)


def find_rows(
    found: pq.ParquetFile, layout: Layout, groups: Integers, wanted: Integers, names: Sequence[str]
) -> Iterator[tuple[pa.Table, Integers, Integers]]:
    """Yield the rows of groups of a file whose key is one of those wanted, their groups, and their places in these.

    Parameters
    ----------
    names
        Columns, the key among them.
    """
    together = count_together(found, layout, names)
    for begin in range(0, groups.size, together):
        own_groups = groups[begin : begin + together]
        # As in `Snapshot.read`.
        rows = found.read_row_groups(own_groups.tolist(), names, use_threads=False)
        held = rows[layout.key].to_numpy()
        own = wanted[np.searchsorted(wanted, held[0]) : np.searchsorted(wanted, held[-1], side="right")]
        first = np.searchsorted(held, own)
        hits = np.flatnonzero(held[first] == own)
        if hits.size:
            taken = list_ranges(first[hits], np.searchsorted(held, own[hits], side="right") - first[hits])
            yield rows.take(pa.array(taken)), own_groups, taken
