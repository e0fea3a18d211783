"""The output of a run without Spark: a file for each file of the input, and the tables that explain them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.engines.values import Register
from dedup.engines.workers import Workers
from dedup.errors import ConfigError, DedupError
from dedup.files import repack, sink
from dedup.files.delete_spans import Cuts
from dedup.files.formats import load_format
from dedup.files.formats.format import NO_ROWS, FileCounts, Format, Rejected
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.files.storage import Storage
from dedup.files.systems import absolute
from dedup.informing import NEAR_MISSES, Inform
from dedup.kernels import Integers
from dedup.run.fates import Fates
from dedup.run.merging import check_merge, merge_by_file
from dedup.run.workspace import Workspace
from dedup.settings.keeping import name_merged, parse_merge
from dedup.settings.options import Config
from dedup.tables.counts import Written

NOTES = ("dedup_kept", "dedup_representative_id", "dedup_component_id", "dedup_kind", "dedup_jaccard")
"""Columns of mode annotate."""
NOTED_LENGTH = 4000
"""Characters read of a text that the report shows."""


class Unit(NamedTuple):
    """Work of one task: the counterpart of a file of the input."""

    number: int
    removed: Integers
    rejected: Integers
    notes: pa.Table | None
    cuts: Cuts | None = None


class Pack(NamedTuple):
    """Work of one task: an output file of its own."""

    splits: Sequence[Split]
    left_out: Mapping[int, Integers]
    path: str
    cuts: Mapping[int, Cuts] | None = None


class Changes(NamedTuple):
    """What becomes of the rows of the input; malformed records, to be set aside, and cuts by file."""

    register: Register
    fates: Fates
    aside: Mapping[int, Integers]
    cuts: Mapping[int, Cuts]


class Explained(NamedTuple):
    """Tables that explain a result, in document ids: EDGES, identical documents among them, and EDGES of near misses.

    `spans` are as `arrow.spans_written`; None where no layer gives any.
    """

    edges: pa.Table
    near_misses: pa.Table
    spans: pa.Table | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileWriter:
    """Writes the folders of the result."""

    config: Config
    source: FileSource
    workspace: Workspace
    storage: Storage

    @property
    def folder(self) -> str:
        """The result's folder, by a path that serves workers in other folders too."""
        return absolute(self.workspace.result)

    def check(self) -> None:
        """Refuse what cannot be written, before work is done.

        Raises
        ------
        SchemaError
            When the input has a column that mode annotate adds, or no columns at all.
        ConfigError
            When mode annotate is to change format or number of files.
        """
        check_merge(self.config, self.format or self.source.listing.format)
        if self.config.keep.merge:
            if self.format:
                raise ConfigError("keep.merge: keeps the input's files (got another format or output.files)")
            names = [name_merged(rule) for rule in parse_merge(self.config.keep.merge, "keep")]
            sink.check_names(self.source, names, "keep.merge")
        if self.config.output.mode == "annotate":
            if self.format:
                raise ConfigError(
                    'output.mode: "annotate" keeps the input\'s files (got another format or output.files)'
                )
            sink.check_names(self.source, list(NOTES))

    def write(
        self,
        workers: Workers,
        splits: Sequence[Split],
        *,
        inform: Inform,
        register: Register,
        fates: Fates,
        explained: Explained,
        cuts: Mapping[int, Cuts],
        rejected: Sequence[tuple[int, Rejected]],
        named: pa.Table | None = None,
    ) -> Written:
        """Apply what was found in one pass over the files, and write the tables that explain it.

        Parameters
        ----------
        inform
            Runs what no row depends on.
        named
            doc_id and id of the documents that edges name; by default those of the part.

        Raises
        ------
        DedupError
            When the rows kept and removed are not those of the input.
        """
        named = pa.table({"doc_id": register.doc_ids, "id": register.ids}) if named is None else named
        self.write_table("duplicates", fates.removals)
        self.write_table("edges", _name(named, explained.edges))
        near_misses = inform(NEAR_MISSES, _name, named, explained.near_misses)
        near_misses = _name(named, explained.near_misses.slice(0, 0)) if near_misses is None else near_misses
        self.write_table("near_misses", near_misses)
        if explained.spans is not None:
            self.write_table("spans", explained.spans)
        if rejected:
            rows = [{"file": each.file, "reason": each.reason, "record": each.record} for _, each in rejected]
            self.write_table("quarantine", pa.Table.from_pylist(rows))
        changes = Changes(register, fates, _group_rejected(rejected), cuts)
        mode = self.config.output.mode
        if mode == "ids" or self.format:
            kept, removed = self._repack(workers, splits, changes)
        else:
            kept, removed = self._mirror(workers, changes)
        total, goes = register.doc_ids.size, fates.places.size
        if kept != total - goes or removed not in {goes, None}:
            raise DedupError(
                f"output: kept and removed must be the {total - goes:,} and {goes:,} documents found (got {kept:,} and "
                f"{removed:,}); did the input change while it was read?"
            )
        text_bytes = int(register.text_bytes.sum() - register.text_bytes[fates.places].sum())
        if cuts and mode != "annotate":
            text_bytes -= self._count_cut(register, fates, explained.spans)
        return Written(
            kept=kept,
            removed=goes,
            edges=explained.edges.num_rows,
            near_misses=near_misses.num_rows,
            quarantined=len(rejected),
            spans=0 if explained.spans is None else explained.spans.num_rows,
            removed_by=dict(Counter(fates.removals["layer"].to_pylist())),
            text_bytes_kept=None if mode == "ids" else text_bytes,
        )

    def _count_cut(self, register: Register, fates: Fates, spans: pa.Table | None) -> int:
        """Return the bytes that documents lose which stay."""
        assert spans is not None
        cut = spans.filter(pc.equal(spans["effect"], "cut"))
        ids = cut["id"].combine_chunks().dictionary_encode()
        numbers, begins, ends = ids.indices.to_numpy(), cut["begin"].to_numpy(), cut["end"].to_numpy()
        order = np.lexsort((-ends, begins, numbers))
        stride = int(ends.max(initial=0)) + 1
        reach = np.maximum.accumulate(numbers[order] * np.int64(stride) + ends[order])
        # What an earlier layer has cut can lie in what a later one cuts.
        outer = order[np.append(True, reach[1:] > reach[:-1])[: order.size]]
        lost = np.zeros(len(ids.dictionary) + 1, dtype=np.int64)
        np.add.at(lost, numbers[outer], pc.binary_length(cut["text"]).to_numpy()[outer])
        found = pc.index_in(register.ids, ids.dictionary).fill_null(-1).to_numpy()
        return int(lost[found[~fates.flag(found.size)]].sum())

    def read_texts(self, register: Register, ids: Sequence[int]) -> dict[int, str]:
        """Return how the texts of these documents begin, by doc_id."""
        if self.config.output.mode == "ids":
            return {}
        places = [int(np.flatnonzero(register.doc_ids == doc_id)[0]) for doc_id in ids]
        return self.begin_texts(ids, register.files[places].tolist(), register.rows[places].tolist())

    def begin_texts(self, doc_ids: Sequence[int], files: Sequence[int], rows: Sequence[int]) -> dict[int, str]:
        """Return how the texts at these places begin, by doc_id."""
        of_place = dict(zip(zip(files, rows, strict=True), doc_ids, strict=True))
        wanted = {file: np.array(sorted(row for other, row in of_place if other == file)) for file in set(files)}
        texts: dict[int, str] = {}
        # Every file once, however many examples it holds.
        for piece in self.source.read(Split(parts=tuple(map(self.source.whole, sorted(wanted)))), wanted):
            for row, text in zip(piece.batch["row"].to_pylist(), piece.batch["text"].to_pylist(), strict=True):
                texts[of_place[piece.file, row]] = (text or "")[:NOTED_LENGTH]
        return texts

    @property
    def format(self) -> Format | None:
        """Format of files of their own; None where the input's files are mirrored."""
        chosen = self.config.output
        return self.kind if chosen.format != "input" or chosen.files else None

    @property
    def kind(self) -> Format:
        """Format of files that are no mirrors: the input's where that can hold any rows, else parquet."""
        chosen, own = self.config.output.format, self.source.listing.format
        return load_format(chosen) if chosen != "input" else own if own.can_create else load_format("parquet")

    def group(self, splits: Sequence[Split]) -> list[list[Split]]:
        """Return the splits of each file that is no mirror."""
        count = self.config.output.files or max(1, min(len(self.source.listing.files), len(splits)))
        return repack.group(splits, count)

    def name_part(self, folder: str, number: int) -> str:
        """Return the path of a file that is no mirror; compressed as the first of the input, if it is of lines."""
        first = self.source.listing.files[0]
        ending = f".{first.path.rpartition('.')[2]}" if first.compression and self.kind.is_compressible else ""
        return f"{self.folder}/{folder}/part-{number:05}.{self.kind.extensions[0]}{ending}"

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a folder of one file."""
        with self.storage.create(f"{self.folder}/{name}/part-00000.parquet") as stream:
            pq.write_table(table, stream, compression="zstd")

    def _mirror(
        self,
        workers: Workers,
        changes: Changes,
    ) -> tuple[int, int | None]:
        """Write a file for each of the input."""
        register, fates, aside, cuts = changes
        files = self.source.listing.files
        removed = fates.by_file(register)
        counts = np.bincount(register.files, minlength=len(files))
        annotates = self.config.output.mode == "annotate"
        notes = _annotate(register, fates) if annotates else {}
        if self.config.keep.merge:
            notes = merge_by_file(self.config.keep.merge, register, fates, len(files))
        units = [
            Unit(
                number,
                removed.get(number, NO_ROWS),
                aside.get(number, NO_ROWS),
                notes.get(number),
                cuts.get(number),
            )
            for number in range(len(files))
        ]
        task = partial(write_unit, folder=self.folder, annotates=annotates, is_first_empty=not removed)
        # The largest first, so that no core is left with one at the end.
        order = sorted(units, key=lambda unit: -files[unit.number].size)
        written = list(workers.map(task, order))
        kept = sum(
            int(counts[unit.number]) if each.kept is None else each.kept
            for unit, each in zip(order, written, strict=True)
        )
        return kept, sum(each.removed for each in written)

    def _repack(
        self,
        workers: Workers,
        splits: Sequence[Split],
        changes: Changes,
    ) -> tuple[int, int | None]:
        """Write files of another format or number, or of the ids alone."""
        register, fates, aside, cuts = changes
        removed, groups, name = fates.by_file(register), self.group(splits), self.name_part
        kept_packs = [Pack(group, merge(removed, aside), name("kept", n), cuts) for n, group in enumerate(groups)]
        if self.config.output.mode == "ids":
            written = list(workers.map(partial(pack_ids, kind=self.kind), kept_packs))
            return sum(each.kept or 0 for each in written), None
        schema = repack.common_schema(self.source)
        staying = Fates(places=np.setdiff1d(np.arange(register.doc_ids.size), fates.places), removals=fates.removals)
        gone_packs = [
            Pack(group, merge(staying.by_file(register), aside), name("removed", n)) for n, group in enumerate(groups)
        ]
        task = partial(pack, kind=self.kind, schema=schema)
        kept = sum(each.kept or 0 for each in workers.map(task, kept_packs))
        return kept, sum(each.kept or 0 for each in workers.map(task, gone_packs))


def _name(named: pa.Table, edges: pa.Table) -> pa.Table:
    """Return edges in the user's ids, the lesser on the left."""
    doc_ids, ids = named["doc_id"].to_numpy(), named["id"].combine_chunks()
    order = np.argsort(doc_ids)
    places = (
        order[np.searchsorted(doc_ids, ends, sorter=order)] if ends.size else ends
        for ends in (edges[name].to_numpy() for name in ("left_id", "right_id"))
    )
    one, other = (ids.take(pa.array(each, pa.int64())) for each in places)
    is_less = pc.less(one, other)
    least, greatest = pc.if_else(is_less, one, other), pc.if_else(is_less, other, one)
    return pa.table({"left_id": least, "right_id": greatest, "jaccard": edges["jaccard"]})


def write_unit(source: FileSource, unit: Unit, *, folder: str, annotates: bool, is_first_empty: bool) -> FileCounts:
    """Write the like of a file of the input, or two: of the rows that stay and of those that go.

    Parameters
    ----------
    is_first_empty
        Whether no row of the input goes, so that the first file has an empty like, which can at least be read.
    """
    if annotates:
        notes = unit.notes if unit.notes is not None else no_notes(source)
        return sink.annotate(source, unit.number, notes, folder=f"{folder}/annotated", rejected=unit.rejected)
    return sink.write(
        source,
        unit.number,
        unit.removed,
        kept_folder=f"{folder}/kept",
        removed_folder=f"{folder}/removed",
        rejected=unit.rejected,
        cuts=unit.cuts,
        notes=unit.notes,
        with_empty=is_first_empty and unit.number == 0,
    )


def pack(source: FileSource, pack: Pack, *, kind: Format, schema: pa.Schema) -> FileCounts:
    """Write rows of several files into one."""
    return repack.repack(source, pack.splits, pack.left_out, path=pack.path, format=kind, schema=schema, cuts=pack.cuts)


def pack_ids(source: FileSource, pack: Pack, *, kind: Format) -> FileCounts:
    """Write the ids of rows of several files into one."""
    return repack.write_ids(source, pack.splits, pack.left_out, path=pack.path, format=kind)


def _annotate(register: Register, fates: Fates) -> dict[int, pa.Table]:
    """Return what mode annotate says of the rows that go, by file; the others are kept."""
    removals = fates.removals
    files, rows = register.files[fates.places], register.rows[fates.places]
    table = pa.table(
        {"row": rows, "dedup_kept": np.zeros(rows.size, dtype=bool)}
        | {name: removals[name.removeprefix("dedup_")] for name in NOTES[1:]}
    )
    return {int(file): table.filter(pa.array(files == file)) for file in np.unique(files)}


def no_notes(source: FileSource) -> pa.Table:
    """Return the notes of mode annotate on no row."""
    kinds = (pa.bool_(), source.id_type, source.id_type, pa.string(), pa.float64())
    return pa.schema([("row", pa.int64()), *zip(NOTES, kinds, strict=True)]).empty_table()


def _group_rejected(rejected: Sequence[tuple[int, Rejected]]) -> dict[int, Integers]:
    found: dict[int, list[int]] = {}
    for file, each in rejected:
        found.setdefault(file, []).append(each.row)
    return {file: np.array(sorted(rows)) for file, rows in found.items()}


def merge(one: Mapping[int, Integers], other: Mapping[int, Integers]) -> dict[int, Integers]:
    """Return the rows of both, by file."""
    return {file: np.union1d(one.get(file, NO_ROWS), other.get(file, NO_ROWS)) for file in {*one, *other}}
