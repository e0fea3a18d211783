"""The engine that layers search with in memory: see `dedup.layers.layer.Engine`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from dedup.engines.workers import Workers
from dedup.files.documents import to_documents
from dedup.files.left import Left
from dedup.files.records import Rejected
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels.runs import find_bounds
from dedup.tables import arrow

Batches: TypeAlias = Iterable[pa.RecordBatch]
Work: TypeAlias = Callable[[Batches], Batches]
BATCH_ROWS = 1 << 16
"""Of a batch of rows that meet."""


class _Scanned(NamedTuple):
    """Result of a scan of a split."""

    rows: pa.Table
    rejected: list[tuple[int, Rejected]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryEngine:
    """The documents of files that are left, and tables of Arrow."""

    workers: Workers
    splits: Sequence[Split]
    id_type: pa.DataType
    left: Left = field(default_factory=Left)
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""
    register: pa.Table | None = None
    """Where documents stand: REGISTER; None before the first scan."""
    rejected: list[tuple[int, Rejected]] = field(default_factory=list)
    """Malformed records that scans have met, with the numbers of their files."""

    def leave(self, left: Left, register: pa.Table, renamed: Mapping[str, int]) -> Self:
        """Return the engine for the layers that follow."""
        return replace(self, left=left, register=register, renamed=renamed)

    def scan(
        self, name: str, describe: Callable[[pa.RecordBatch], Mapping[str, pa.Array]], schema: pa.Schema
    ) -> pa.Table:
        """See `Engine.scan`."""
        del name
        whole = pa.schema([*arrow.register(self.id_type), *schema])
        items = [(number, split, self._narrow(split)) for number, split in enumerate(self.splits)]
        task = partial(_scan_split, describe=describe, schema=whole, renamed=self.renamed)
        found = list(self.workers.map(task, items))
        self.rejected[:] = [each for scanned in found for each in scanned.rejected]
        return pa.concat_tables([whole.empty_table(), *(scanned.rows for scanned in found)])

    def meet(
        self,
        name: str,
        rows: pa.Table,
        emit: Work,
        work: Work,
        *,
        emitted: pa.Schema,
        by: Sequence[str],
        order: Sequence[str],
        schema: pa.Schema,
    ) -> pa.Table:
        """See `Engine.meet`."""
        del name
        every = pa.Table.from_batches(emit(iter(rows.to_batches())), emitted)
        keys = [every[key].to_numpy() for key in (*by, *order)]
        ordered = every.take(pa.array(np.lexsort(keys[::-1])))
        return pa.Table.from_batches(work(iter(ordered.to_batches(BATCH_ROWS))), schema)

    def fetch(self, name: str, wanted: pa.Table, work: Work, schema: pa.Schema) -> pa.Table:
        """See `Engine.fetch`."""
        del name
        assert self.register is not None
        known = self.register["doc_id"].to_numpy()
        order = np.argsort(known, kind="stable")
        # The first of equal rows, which share a document id.
        rows = order[np.searchsorted(known, wanted["doc_id"].to_numpy(), sorter=order)]
        places = self.register.select(["split", "file", "row"]).take(pa.array(rows))
        files, numbers = places["file"].to_numpy(), places["row"].to_numpy()
        splits = places["split"].to_numpy()
        as_read = np.lexsort((numbers, files, splits))
        items = []
        for begin, end in pairwise(find_bounds(splits[as_read]).tolist()):
            chosen = as_read[begin:end]
            split = self.splits[int(splits[chosen[0]])]
            side = wanted.take(pa.array(chosen)).append_column("file", pa.array(files[chosen]))
            side = side.append_column("row", pa.array(numbers[chosen])).combine_chunks()
            items.append((int(splits[chosen[0]]), split, self._narrow(split), side))
        task = partial(_fetch_split, work=work, schema=schema, renamed=self.renamed)
        return pa.concat_tables([schema.empty_table(), *self.workers.map(task, items)])

    def turn(self, rows: pa.Table, work: Work, schema: pa.Schema) -> pa.Table:
        """See `Engine.turn`."""
        return pa.Table.from_batches(work(iter(rows.to_batches())), schema)

    def unite(self, *tables: pa.Table) -> pa.Table:
        """See `Engine.unite`."""
        return pa.concat_tables(tables)

    def spread(self, name: str, table: pa.Table) -> pa.Table:
        """See `Engine.spread`."""
        del name
        return table

    def collect(self, rows: pa.Table) -> pa.Table:
        """See `Engine.collect`."""
        return rows

    def _narrow(self, split: Split) -> Left:
        return self.left.narrow([part.file for part in split.parts])


def _scan_split(
    source: FileSource,
    item: tuple[int, Split, Left],
    *,
    describe: Callable[[pa.RecordBatch], Mapping[str, pa.Array]],
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
    item: tuple[int, Split, Left, pa.Table],
    *,
    work: Work,
    schema: pa.Schema,
    renamed: Mapping[str, int],
) -> pa.Table:
    number, split, left, side = item
    files, rows = side["file"].to_numpy(), side["row"].to_numpy()
    bounds = find_bounds(files).tolist()
    wanted = {int(files[begin]): rows[begin:end] for begin, end in pairwise(bounds)}
    begins = dict(zip(wanted, bounds, strict=False))

    def read() -> Batches:
        for piece in left.read(source, split, wanted):
            if piece.batch.num_rows:
                documents = to_documents(piece, number, renamed)
                here = np.searchsorted(wanted[piece.file], piece.batch["row"].to_numpy()) + begins[piece.file]
                more = side.take(pa.array(here)).combine_chunks()
                for name in side.column_names:
                    if name not in documents.schema.names:
                        documents = documents.append_column(name, more[name].combine_chunks())
                yield documents

    return pa.Table.from_batches(work(read()), schema)
