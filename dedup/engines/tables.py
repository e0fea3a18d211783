"""The engine that layers search with in memory: see `dedup.engine.engine.Engine`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Describe, Shuffle, Work
from dedup.engines.capacity import check_fits
from dedup.engines.documents import check_repeated, find_renamed
from dedup.engines.machine import free_bytes
from dedup.engines.workers import Workers
from dedup.files.chosen import Chosen
from dedup.files.documents import read_with, to_documents
from dedup.files.formats.format import Rejected
from dedup.files.left import Left
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels import Integers
from dedup.kernels.components import connect, take_component
from dedup.kernels.ids import apply_renamed
from dedup.kernels.runs.bounds import find_bounds, rank
from dedup.kernels.runs.shared import find_shared
from dedup.tables import arrow
from dedup.tables.ids import refuse_null

BATCH_ROWS = 1 << 16
"""Rows of a batch that `group` hands over."""
GROUP_MEMORY = 3
"""Peak memory of `group` as a multiple of its input: emitted rows, sort order, output."""


class _Scanned(NamedTuple):
    """Result of a scan of a split."""

    rows: pa.Table
    rejected: list[tuple[int, Rejected]]


@dataclass(slots=True, kw_only=True, eq=False)
class Known:
    """What the first pass over the files has found, and those that follow need."""

    register: pa.Table | None = None
    """REGISTER; None before."""
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""
    rejected: list[tuple[int, Rejected]] = field(default_factory=list)
    """Malformed records, with the numbers of their files."""

    @property
    def documents(self) -> pa.Table:
        """REGISTER."""
        assert self.register is not None
        return self.register


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryEngine:
    """The documents of files that are left, and tables of Arrow."""

    workers: Workers
    splits: Sequence[Split]
    id_type: pa.DataType
    id_column: str
    """Empty where an id is the digest of its row."""
    left: Left = field(default_factory=Left)
    known: Known = field(default_factory=Known)

    def scan(self, name: str, describe: Describe, schema: pa.Schema) -> pa.Table:
        """See `Engine.scan`."""
        del name
        whole = pa.schema([*arrow.register(self.id_type), *schema])
        items = [(number, split, self.narrow(split)) for number, split in enumerate(self.splits)]
        task = partial(_scan_split, describe=describe, schema=whole, renamed=self.known.renamed)
        found = list(self.workers.map(task, items))
        rows = pa.concat_tables([whole.empty_table(), *(scanned.rows for scanned in found)])
        if self.known.register is None:
            self.known.rejected = [each for scanned in found for each in scanned.rejected]
            rows = self._begin(rows)
        return rows

    def group(self, name: str, rows: pa.Table, shuffle: Shuffle, *, once: bool = False) -> pa.Table:
        """See `Engine.group`."""
        del name, once
        check_fits(GROUP_MEMORY * rows.nbytes, free_bytes())
        if shuffle.emit is None:
            every = rows.select(shuffle.emitted.names)
        else:
            every = pa.Table.from_batches(shuffle.emit(iter(rows.to_batches())), shuffle.emitted)
        if shuffle.repeated:
            every = every.take(pa.array(find_shared(every[shuffle.by[0]].to_numpy().view(np.uint64))))
        check_fits(GROUP_MEMORY * every.nbytes, free_bytes())
        # As `np.lexsort` has it, in a third of the time.
        keys = [(key, "ascending") for key in (*shuffle.by, *shuffle.order)]
        ordered = every.take(pc.sort_indices(every, sort_keys=keys))
        return pa.Table.from_batches(shuffle.work(iter(ordered.to_batches(BATCH_ROWS))), shuffle.schema)

    def fetch(self, name: str, wanted: pa.Table, work: Work, schema: pa.Schema, *, once: bool = False) -> pa.Table:
        """See `Engine.fetch`."""
        del name, once
        register = self.known.documents
        known = register["doc_id"].to_numpy()
        order = np.argsort(known, kind="stable")
        # The first of equal rows, which share a document id.
        rows = order[np.searchsorted(known, wanted["doc_id"].to_numpy(), sorter=order)]
        places = register.select(["split", "file", "row"]).take(pa.array(rows)).combine_chunks()
        splits = places["split"].to_numpy()
        order = np.argsort(splits, kind="stable")
        items = []
        for begin, end in pairwise(find_bounds(splits[order]).tolist()):
            chosen = pa.array(order[begin:end])
            number = int(splits[order[begin]])
            side = wanted.take(chosen)
            for name in ("file", "row"):
                side = side.append_column(name, places[name].take(chosen))
            [batch] = side.combine_chunks().to_batches()
            items.append((number, self.splits[number], self.narrow(self.splits[number]), batch))
        task = partial(_fetch_split, work=work, schema=schema, renamed=self.known.renamed)
        return pa.concat_tables([schema.empty_table(), *self.workers.map(task, items)])

    def _begin(self, rows: pa.Table) -> pa.Table:
        """Take note of all documents, once their ids are known to be some."""
        ids = rows["id"].combine_chunks()
        if ids.null_count:
            raise refuse_null(ids.null_count, [], id_column=self.id_column)
        doc_ids = rows["doc_id"].to_numpy()
        self.known.renamed = find_renamed(doc_ids, ids)
        doc_ids = apply_renamed(doc_ids, ids, self.known.renamed)
        check_repeated(doc_ids, ids, id_column=self.id_column)
        rows = rows.set_column(0, "doc_id", pa.array(doc_ids))
        self.known.register = rows.select(arrow.register(self.id_type).names)
        return rows

    def connect(self, name: str, rows: pa.Table, ends: tuple[str, str]) -> pa.Table:
        """See `Engine.connect`."""
        del name
        left, right = (rows[end].to_numpy() for end in ends)
        return rows.append_column("component", pa.array(take_component(left, *connect(left, right))))

    def name_documents(self, name: str, rows: pa.Table, *, of: str, to: str, schema: pa.Schema) -> pa.Table:
        """See `Engine.name_documents`."""
        del name
        places = pc.index_in(rows[of], self.known.documents["doc_id"])
        ids = self.known.documents["id"].take(places)
        return rows.set_column(rows.schema.get_field_index(to), to, ids).select(schema.names)

    def map(self, rows: pa.Table, work: Work, schema: pa.Schema) -> pa.Table:
        """See `Engine.map`."""
        return pa.Table.from_batches(work(iter(rows.to_batches())), schema)

    def select(self, rows: pa.Table, *columns: str) -> pa.Table:
        """See `Engine.select`."""
        return rows.select(list(columns))

    def concat(self, *tables: pa.Table) -> pa.Table:
        """See `Engine.concat`."""
        return pa.concat_tables(tables)

    def parallelise(self, name: str, table: pa.Table) -> pa.Table:
        """See `Engine.parallelise`."""
        del name
        return table

    def measure(self, rows: pa.Table, *columns: str) -> Mapping[str, int]:
        """See `Engine.measure`."""
        return {"rows": rows.num_rows} | {name: pc.sum(rows[name]).as_py() or 0 for name in columns}

    def collect(self, rows: pa.Table) -> pa.Table:
        """See `Engine.collect`."""
        return rows

    def without(self, removals: pa.Table | None, spans: pa.Table | None, layer: str) -> Self:
        """See `Engine.without`."""
        del layer
        if removals is None and spans is None:
            return self
        none = pa.chunked_array([], pa.int64())
        *removed, _ = self._place(none if removals is None else removals["doc_id"])
        files, rows, numbers = self._place(none if spans is None else spans["doc_id"])
        begins, ends = (numbers if spans is None else spans[name].to_numpy()[numbers] for name in ("begin", "end"))
        return replace(self, left=Left.of((removed[0], removed[1]), (files, rows, begins, ends), self.left.chosen))

    def choose(self, chosen: Chosen) -> Self:
        """Return the engine for the documents of a profile."""
        return replace(self, left=Left(chosen=chosen))

    def _place(self, doc_ids: pa.ChunkedArray) -> tuple[Integers, Integers, Integers]:
        """Return where documents stand, file and row of each of equal rows, and which of those asked for each is."""
        register, wanted = self.known.documents, doc_ids.to_numpy()
        known = register["doc_id"].to_numpy()
        order = np.argsort(known, kind="stable")
        begins, ends = (np.searchsorted(known, wanted, side=side, sorter=order) for side in ("left", "right"))
        numbers = np.repeat(np.arange(wanted.size), ends - begins)
        places = order[np.repeat(begins, ends - begins) + rank(numbers)]
        files, rows = (register[name].to_numpy()[places].astype(np.int64) for name in ("file", "row"))
        return files, rows, numbers

    def narrow(self, split: Split) -> Left:
        """Return what is left of the files of a split."""
        return self.left.narrow([part.file for part in split.parts])


def _scan_split(
    source: FileSource,
    item: tuple[int, Split, Left],
    *,
    describe: Describe,
    schema: pa.Schema,
    renamed: Mapping[str, int],
) -> _Scanned:
    number, split, left = item
    found = _Scanned(schema.empty_table(), [])
    batches = []
    for piece in left.read(source, split):
        found.rejected.extend((piece.file, each) for each in piece.rejected)
        if piece.batch.num_rows:
            documents = to_documents(piece, number, renamed)
            columns = {name: documents[name] for name in documents.schema.names if name != "text"}
            columns |= describe(documents)
            batches.append(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))
    return found._replace(rows=pa.Table.from_batches(batches, schema))


def _fetch_split(
    source: FileSource,
    item: tuple[int, Split, Left, pa.RecordBatch],
    *,
    work: Work,
    schema: pa.Schema,
    renamed: Mapping[str, int],
) -> pa.Table:
    number, split, left, side = item
    return pa.Table.from_batches(work(read_with(source, split, left, side, number=number, renamed=renamed)), schema)
