"""The engine that layers search with in memory: see `dedup.engine.engine.Engine`."""

import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.capacity import PAIR_BYTES, check_fits
from dedup.engine.document_ids import BEGINS, begin_nameless, check_repeated, find_renamed
from dedup.engine.engine import Batches, Comparison, How, Shuffle, Size, Tally, Work
from dedup.engine.machine import free_bytes
from dedup.engine.pairing import join_pairs, list_ends, take_documents
from dedup.engine.workers import Processes, Workers
from dedup.files.documents import read_with, to_documents
from dedup.files.formats.format import Rejected
from dedup.files.profile_filter import ProfileFilter
from dedup.files.remaining import Remaining
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels import Hashes, Integers
from dedup.kernels.components import connect
from dedup.kernels.ids import apply_renamed
from dedup.kernels.runs.argsort import argsort
from dedup.kernels.runs.blocks import divide
from dedup.kernels.runs.bounds import rank
from dedup.kernels.runs.membership import FEWER, mark_wanted
from dedup.kernels.runs.shared import make_marks
from dedup.kernels.sets.pairs import decode, sort_distinct
from dedup.tables import arrow
from dedup.tables.ids import SHOWN, refuse_null

TALLY = b"tally"
CHECKED = ("file", "row", "text_bytes")
"""Columns of REGISTER by which a document is found again, and known to be the same."""
NO_ROWS = np.empty(0, np.int64)
PART_PAIRS = 1 << 14
"""Pairs that a thread compares at a time: enough to pay for it, and few enough that all end together."""
BATCH_ROWS = 1 << 16
"""Rows of a batch that `group` hands over, and from which on threads share the work of `map`."""
GROUP_MEMORY = 3
"""Peak memory of `group` as a multiple of its input: emitted rows, sort order, output."""


def _run(work: Work, batches: Batches, schema: pa.Schema, tally: Tally | None = None) -> pa.Table:
    """Return what work makes of batches, with its tally added to one."""
    rows, tally = list[pa.RecordBatch](), Tally() if tally is None else tally
    for found in work(batches):
        if isinstance(found, Tally):
            tally.update(found)
        else:
            rows.append(found)
    return _note(pa.Table.from_batches(rows, schema), tally)


def _note(table: pa.Table, tally: Tally, **more: str) -> pa.Table:
    """Return a table that says what was counted."""
    if not tally and not more:
        return table
    return table.replace_schema_metadata({TALLY: pickle.dumps((tally, more))})


def read_tally(table: pa.Table) -> dict[str, Any]:
    """Return what was counted as a table was made; see `Engine.tally`."""
    known = (table.schema.metadata or {}).get(TALLY)
    tally, more = pickle.loads(known) if known else (Tally(), {})  # noqa: S301 - of this run
    told: dict[str, Any] = tally.to_dict() | more | {"rows": table.num_rows}
    return told


def _concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of tables, and the sums of their tallies."""
    tally = Tally()
    for table in tables:
        if known := (table.schema.metadata or {}).get(TALLY):
            tally.update(pickle.loads(known)[0])  # noqa: S301 - of this run
    return _note(
        pa.concat_tables([schema.empty_table(), *(table.replace_schema_metadata() for table in tables)]), tally
    )


def _emit(rows: pa.Table, shuffle: Shuffle) -> Batches:
    """Yield the rows that come together."""
    if shuffle.emit is not None:
        return shuffle.emit(iter(rows.to_batches()))
    batches: Batches = iter(rows.select(shuffle.emitted.names).to_batches())
    return batches


def _emit_repeated(rows: pa.Table, shuffle: Shuffle, expected: float | None) -> tuple[pa.Table, int]:
    """Return those whose hash is not unique, and the number of all, which never lie in memory together."""

    def hash_rows(batch: pa.RecordBatch) -> Hashes:
        hashes: Hashes = batch[shuffle.by[0]].to_numpy().view(np.uint64)
        return hashes

    marks = make_marks(int(expected or sum(batch.num_rows for batch in _emit(rows, shuffle))))
    count = held = 0
    for batch in _emit(rows, shuffle):
        marks.add(hash_rows(batch))
        count += batch.num_rows
    found = list[pa.RecordBatch]()
    for batch in _emit(rows, shuffle):
        found.append(batch.take(pa.array(marks.select(hash_rows(batch)))))
        held += found[-1].nbytes
        check_fits((GROUP_MEMORY - 1) * held, free_bytes())
    return pa.Table.from_batches(found, shuffle.emitted), count


class _Scanned(NamedTuple):
    """Result of a scan of a split."""

    rows: pa.Table
    rejected: list[tuple[int, Rejected]]


@dataclass(slots=True, kw_only=True, eq=False)
class Known:
    """Results of the first pass over the files, which later ones need."""

    register: pa.Table | None = None
    """REGISTER; None before."""
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""
    rejected: list[tuple[int, int, Rejected]] = field(default_factory=list)
    """Malformed records, with the numbers of their splits and files."""

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
    """Empty where rows may share an id: where it is the digest of its row, or of a document of several rows."""
    left: Remaining = field(default_factory=Remaining)
    known: Known = field(default_factory=Known)
    threads: int = 1
    """Threads that compare pairs."""

    def scan(self, name: str, work: Work, schema: pa.Schema) -> pa.Table:
        """See `Engine.scan`."""
        del name
        items = [(number, split, self.narrow(split)) for number, split in enumerate(self.splits)]
        task = partial(_scan_split, work=work, schema=schema, renamed=self.known.renamed)
        found = list(self.workers.map(task, items))
        rows = _concat([scanned.rows for scanned in found], schema)
        if self.known.register is None and schema != BEGINS:
            self.known.rejected = [
                (split, file, each) for split, scanned in enumerate(found) for file, each in scanned.rejected
            ]
            rows = self._begin(rows)
        return rows

    def group(
        self, name: str, rows: pa.Table, shuffle: Shuffle, *, expected: float | None = None, once: bool = False
    ) -> pa.Table:
        """See `Engine.group`."""
        del name, once
        if shuffle.repeated:
            every, emitted = _emit_repeated(rows, shuffle, expected)
        else:
            check_fits(GROUP_MEMORY * rows.nbytes, free_bytes())
            every = pa.Table.from_batches(_emit(rows, shuffle), shuffle.emitted)
            emitted = every.num_rows
        check_fits(GROUP_MEMORY * every.nbytes, free_bytes())
        if shuffle.in_order:
            every = every.take(pa.array(argsort(every[key].to_numpy() for key in (*shuffle.by, *shuffle.order))))
        batches = iter(every.to_batches(BATCH_ROWS if shuffle.in_order else None))
        return _run(shuffle.work, batches, shuffle.schema, Tally(emitted=emitted))

    def compare(
        self,
        name: str,
        pairs: pa.Table,
        documents: pa.Table,
        comparison: Comparison[Any],
        size: Size,
    ) -> pa.Table:
        """See `Engine.compare`; documents are known by their places, so that pairs are small numbers."""
        del name, size
        free = free_bytes()

        def check(count: int) -> None:
            check_fits(count * PAIR_BYTES, free)

        wanted = sort_distinct(np.concatenate([NO_ROWS, *(ends for ends, _ in list_ends(pairs))]))
        chosen = take_documents(documents.select(list(comparison.columns)), wanted)
        distinct = join_pairs(pairs, wanted, comparison, check)
        left, right = decode(distinct)
        prepared = comparison.prepare(chosen)
        parts = [slice(begin, begin + PART_PAIRS) for begin in range(0, left.size, PART_PAIRS)]
        with ThreadPoolExecutor(self.threads) as pool:
            found = [*pool.map(lambda part: comparison.work(prepared, left[part], right[part]), parts)]
        tally, rows = Tally(), []
        for part, each in zip(parts, found, strict=True):
            tally.update(each.tally)
            ends = (wanted[side[part][each.chosen]] for side in (left, right))
            rows.append(
                pa.RecordBatch.from_arrays([*map(pa.array, ends), *each.columns.values()], schema=comparison.schema)
            )
        return _note(pa.Table.from_batches(rows, comparison.schema), tally)

    def join(self, rows: pa.Table, others: pa.Table, on: str, *, key: str = "doc_id", how: How = "inner") -> pa.Table:
        """See `Engine.join`."""
        if others.num_rows > FEWER * rows.num_rows:
            others = others.filter(mark_wanted(others[key], rows[on]))
        if how != "left" and (how != "inner" or rows.num_rows > FEWER * others.num_rows):
            held = mark_wanted(rows[on], others[key])
            chosen = pc.invert(held) if how == "anti" else held
            rows = rows if pc.all(chosen, min_count=0).as_py() else rows.filter(chosen)
        if how in {"semi", "anti"}:
            return rows
        # A hash, which for millions in no order takes a twentieth of the time of a search among sorted ones.
        places = pc.index_in(rows[on], others[key])
        if how == "inner" and places.null_count:
            rows, places = rows.filter(places.is_valid()), places.drop_null()
        taken = others.drop_columns([key]).take(places)
        for each in taken.schema:
            rows = rows.append_column(each, taken[each.name])
        return rows

    def lookup(self, rows: pa.Table, doc_ids: pa.Array) -> pa.Table:
        """See `Engine.lookup`."""
        return rows.filter(mark_wanted(rows["doc_id"], pa.chunked_array([doc_ids])))

    def tally(self, rows: pa.Table) -> Mapping[str, Any]:
        """See `Engine.tally`."""
        return read_tally(rows)

    @property
    def collectable_bytes(self) -> int:
        """See `Engine.collectable_bytes`: a table is in memory already."""
        return 1 << 62

    def fetch(self, name: str, wanted: pa.Table, work: Work, schema: pa.Schema, *, once: bool = False) -> pa.Table:
        """See `Engine.fetch`."""
        del name, once
        # The first of equal rows, which share a document id.
        placed = self.join(wanted, self.known.documents.select(["doc_id", "split", *CHECKED]), "doc_id")
        items = []
        for number, chosen in divide(placed["split"].to_numpy()):
            [batch] = placed.drop_columns(["split"]).take(pa.array(chosen)).combine_chunks().to_batches()
            items.append((number, self.splits[number], self.narrow(self.splits[number]), batch))
        task = partial(_fetch_split, work=work, schema=schema, renamed=self.known.renamed)
        found, held = list[pa.Table](), 0
        for table in self.workers.map(task, items):
            found.append(table)
            held += table.nbytes
            # What is still to come is like what has come.
            check_fits(held * (len(items) - len(found)) // len(found), free_bytes())
        return _concat(found, schema)

    def _cut(self, count: int) -> list[int]:
        """Return where the parts of so many rows begin but the first, one a thread; of no rows there is one."""
        return [count * number // self.threads for number in range(1, self.threads)] if count else []

    def _share(self, rows: pa.Table, begins: Sequence[int], work: Work, schema: pa.Schema) -> pa.Table:
        """Return what the work makes of each part, one after another; threads share the parts."""
        parts = [rows.slice(begin, end - begin).to_batches() for begin, end in pairwise([0, *begins, rows.num_rows])]
        if len(parts) == 1:
            return _run(work, iter(parts[0]), schema)
        with ThreadPoolExecutor(self.threads) as pool:
            return _concat([*pool.map(lambda part: _run(work, iter(part), schema), parts)], schema)

    def _begin(self, rows: pa.Table) -> pa.Table:
        """Take note of all documents, once their ids are known to be some."""
        ids = rows["id"].combine_chunks()
        if ids.null_count:
            begins = self.scan("nameless", begin_nameless, BEGINS).slice(0, SHOWN)["text"].to_pylist()
            raise refuse_null(ids.null_count, begins, id_column=self.id_column)
        doc_ids = rows["doc_id"].to_numpy()
        self.known.renamed = find_renamed(doc_ids, ids)
        doc_ids = apply_renamed(doc_ids, ids, self.known.renamed)
        check_repeated(doc_ids, ids, id_column=self.id_column)
        rows = rows.set_column(0, "doc_id", pa.array(doc_ids))
        self.known.register = rows.select(arrow.register(self.id_type).names)
        return rows

    def connect(self, name: str, links: pa.Table, count: int) -> pa.Table:
        """See `Engine.connect`."""
        del name, count
        ids, least = connect(*(links[end].to_numpy() for end in ("left_id", "right_id")))
        return _note(pa.Table.from_arrays([ids, least], schema=arrow.COMPONENTS), Tally(), engine="memory")

    def map(self, rows: pa.Table, work: Work, schema: pa.Schema, *, name: str = "") -> pa.Table:
        """See `Engine.map`."""
        del name
        return self._share(rows, self._cut(rows.num_rows if rows.num_rows > BATCH_ROWS else 0), work, schema)

    def select(self, rows: pa.Table, *columns: str, **renamed: str) -> pa.Table:
        """See `Engine.select`."""
        chosen = rows.select([*columns, *renamed.values()])
        return chosen.rename_columns([*columns, *renamed]) if renamed else chosen

    def drop_null(self, rows: pa.Table, column: str) -> pa.Table:
        """See `Engine.drop_null`."""
        return rows.filter(rows[column].is_valid())

    def expect(self, rows: pa.Table, count: int) -> pa.Table:
        """See `Engine.expect`."""
        del count
        return rows

    def concat(self, *tables: pa.Table) -> pa.Table:
        """See `Engine.concat`."""
        return pa.concat_tables(tables)

    def range(self, count: int, work: Work, schema: pa.Schema) -> pa.Table:
        """See `Engine.range`."""
        return self._share(pa.table({"number": np.arange(count)}), self._cut(count), work, schema)

    def sort(self, rows: pa.Table, by: str, work: Work, schema: pa.Schema, *, pieces: int = 1) -> pa.Table:
        """See `Engine.sort`."""
        keys = rows[by].to_numpy()
        if (keys[1:] < keys[:-1]).any():
            rows = rows.take(pa.array(argsort([keys])))
            keys = rows[by].to_numpy()
        # All threads end together, and equal keys are in one range.
        count = -(-pieces // self.threads) * self.threads if 1 < pieces <= keys.size else 1
        begins = np.searchsorted(keys, keys[np.arange(1, count) * keys.size // count]).tolist()
        return self._share(rows, begins, work, schema)

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
        return replace(
            self, left=Remaining.of((removed[0], removed[1]), (files, rows, begins, ends), self.left.profile)
        )

    def choose(self, chosen: ProfileFilter | None, part: str) -> Self:
        """See `Engine.choose`."""
        del part
        return replace(self, left=Remaining(profile=chosen))

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

    def narrow(self, split: Split) -> Remaining:
        """Return what is left of the files of a split."""
        return self.left.select([part.file for part in split.parts])


def open_without_files(id_type: pa.DataType, threads: int) -> MemoryEngine:
    """Return the engine of tables alone."""
    return MemoryEngine(workers=Processes(1, None), splits=(), id_type=id_type, id_column="", threads=threads)


def _scan_split(
    source: FileSource, item: tuple[int, Split, Remaining], *, work: Work, schema: pa.Schema, renamed: Mapping[str, int]
) -> _Scanned:
    number, split, left = item
    rejected: list[tuple[int, Rejected]] = []

    def read() -> Batches:
        for piece in left.read(source, split):
            rejected.extend((piece.file, each) for each in piece.rejected)
            if piece.batch.num_rows:
                yield to_documents(source, piece, number, renamed)

    # Whole: each buffer goes its own way to another process, and each of hundreds of chunks costs every step there.
    return _Scanned(_run(work, read(), schema).combine_chunks(), rejected)


def _fetch_split(
    source: FileSource,
    item: tuple[int, Split, Remaining, pa.RecordBatch],
    *,
    work: Work,
    schema: pa.Schema,
    renamed: Mapping[str, int],
) -> pa.Table:
    number, split, left, side = item
    return _run(work, read_with(source, split, left, side, number=number, renamed=renamed), schema)
