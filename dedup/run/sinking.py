"""The output of a run without Spark: a file for each file of the input, and the tables that explain them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.engines.passes import Part
from dedup.engines.values import Found
from dedup.engines.workers import Workers
from dedup.errors import ConfigError, DedupError
from dedup.files import annotation, repack, sink
from dedup.files.records import Rejected
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.files.storage import Storage
from dedup.files.systems import absolute
from dedup.kernels import Integers
from dedup.run.fates import Fates
from dedup.run.merging import check_merge, merge_by_file
from dedup.run.workspace import Workspace
from dedup.settings.keeping import name_merged, parse_merge
from dedup.settings.options import Config
from dedup.tables.counts import Written

NOTES = ("dedup_kept", "dedup_representative_id", "dedup_component_id", "dedup_kind", "dedup_jaccard")
"""Columns of mode annotate."""
NOTED_LENGTH = 200
"""Characters read of an example."""
NO_ROWS = np.empty(0, np.int64)


class Unit(NamedTuple):
    """Work of one task: the counterpart of a file of the input."""

    number: int
    removed: Integers
    rejected: Integers
    notes: pa.Table | None


class Pack(NamedTuple):
    """Work of one task: an output file of its own."""

    splits: Sequence[Split]
    left_out: Mapping[int, Integers]
    path: str


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
        check_merge(self.config, self.kind if self.format else self.source.listing.format)
        if self.config.keep.merge:
            if self.format:
                raise ConfigError("keep.merge: keeps the input's files (got another format or output.files)")
            names = [name_merged(rule) for rule in parse_merge(self.config.keep.merge, "keep")]
            annotation.check_names(self.source, names, "keep.merge")
        if self.config.output.mode == "annotate":
            if self.format:
                raise ConfigError(
                    'output.mode: "annotate" keeps the input\'s files (got another format or output.files)'
                )
            annotation.check_names(self.source, list(NOTES))

    def write(
        self,
        workers: Workers,
        splits: Sequence[Split],
        *,
        part: Part,
        fates: Fates,
        found: Found,
        rejected: Sequence[tuple[int, Rejected]],
        named: pa.Table | None = None,
    ) -> Written:
        """Apply what was found in one pass over the files, and write the tables that explain it.

        Parameters
        ----------
        named
            doc_id and id of the documents that edges name; by default those of the part.

        Raises
        ------
        DedupError
            When the rows kept and removed are not those of the input.
        """
        named = pa.table({"doc_id": part.doc_ids, "id": part.ids}) if named is None else named
        self.write_table("duplicates", fates.removals)
        self.write_table("edges", self._name(named, found.edges, found.identical))
        self.write_table("near_misses", self._name(named, found.near_misses))
        if rejected:
            rows = [{"file": each.file, "reason": each.reason, "record": each.record} for _, each in rejected]
            self.write_table("quarantine", pa.Table.from_pylist(rows))
        aside = _group_rejected(rejected)
        mode = self.config.output.mode
        if mode == "ids" or self.format:
            kept, removed = self._repack(workers, splits, part, fates, aside)
        else:
            kept, removed = self._mirror(workers, part, fates, aside)
        total, goes = part.doc_ids.size, fates.places.size
        if kept != total - goes or removed not in {goes, None}:
            raise DedupError(
                f"output: kept and removed must be the {total - goes:,} and {goes:,} documents found (got {kept:,} and "
                f"{removed:,}); did the input change while it was read?"
            )
        text_bytes = int(part.text_bytes.sum() - part.text_bytes[fates.places].sum())
        return Written(
            kept=kept,
            removed=goes,
            edges=found.edges.num_rows + found.identical.num_rows,
            near_misses=found.near_misses.num_rows,
            quarantined=len(rejected),
            text_bytes_kept=None if mode == "ids" else text_bytes,
        )

    def read_texts(self, part: Part, largest: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        """Return how the examples of the largest components begin, by doc_id."""
        if self.config.output.mode == "ids":
            return {}
        ids = sorted({each["doc_id"] for one in largest for each in one["examples"]})
        places = [int(np.flatnonzero(part.doc_ids == doc_id)[0]) for doc_id in ids]
        return self.begin_texts(ids, part.files[places].tolist(), part.rows[places].tolist())

    def begin_texts(self, doc_ids: Sequence[int], files: Sequence[int], rows: Sequence[int]) -> dict[int, str]:
        """Return how the texts at these places begin, by doc_id."""
        of_place = dict(zip(zip(files, rows, strict=True), doc_ids, strict=True))
        wanted = {file: np.array(sorted(row for other, row in of_place if other == file)) for file in set(files)}
        texts: dict[int, str] = {}
        # Every file once, however many examples it holds.
        for piece in self.source.read(Split(parts=tuple(map(self.source.whole, sorted(wanted)))), wanted):
            for row, text in zip(piece.batch["row"].to_pylist(), piece.batch["text"].to_pylist(), strict=True):
                texts[of_place[piece.file, row]] = " ".join((text or "")[:NOTED_LENGTH].split())
        return texts

    @property
    def format(self) -> str:
        """Format of files of their own; empty where the input's files are mirrored."""
        chosen = self.config.output
        if chosen.format != "input":
            return chosen.format
        if not chosen.files:
            return ""
        return self.source.listing.format if self.source.listing.format in repack.FORMATS else "parquet"

    @property
    def kind(self) -> str:
        """Format of the files that are no mirrors."""
        own = self.source.listing.format
        return self.format or (own if own in repack.FORMATS else "parquet")

    def group(self, splits: Sequence[Split]) -> list[list[Split]]:
        """Return the splits of each file that is no mirror."""
        count = self.config.output.files or max(1, min(len(self.source.listing.files), len(splits)))
        return repack.group(splits, count)

    def name_part(self, folder: str, number: int) -> str:
        """Return the path of a file that is no mirror; compressed as the first of the input, if it is of lines."""
        first = self.source.listing.files[0]
        ending = f".{first.path.rpartition('.')[2]}" if first.compression and self.kind != "parquet" else ""
        return f"{self.folder}/{folder}/part-{number:05}.{self.kind}{ending}"

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a folder of one file."""
        with self.storage.create(f"{self.folder}/{name}/part-00000.parquet") as stream:
            pq.write_table(table, stream, compression="zstd")

    def _name(self, named: pa.Table, edges: pa.Table, identical: pa.Table | None = None) -> pa.Table:
        """Return edges in the user's ids, the lesser on the left; identical documents are edges of Jaccard 1."""
        left, right, exact = (edges[name].to_numpy() for name in ("left_id", "right_id", "jaccard"))
        if identical is not None:
            left = np.concatenate((left, identical["doc_id"].to_numpy()))
            right = np.concatenate((right, identical["set_id"].to_numpy()))
            exact = np.concatenate((exact, np.ones(identical.num_rows)))
        doc_ids, ids = named["doc_id"].to_numpy(), named["id"].combine_chunks()
        order = np.argsort(doc_ids)
        places = (order[np.searchsorted(doc_ids, ends, sorter=order)] if ends.size else ends for ends in (left, right))
        one, other = (ids.take(pa.array(each, pa.int64())) for each in places)
        is_less = pc.less(one, other)
        least, greatest = pc.if_else(is_less, one, other), pc.if_else(is_less, other, one)
        return pa.table({"left_id": least, "right_id": greatest, "jaccard": exact})

    def _mirror(
        self, workers: Workers, part: Part, fates: Fates, aside: Mapping[int, Integers]
    ) -> tuple[int, int | None]:
        """Write a file for each of the input."""
        files = self.source.listing.files
        removed = fates.by_file(part)
        counts = np.bincount(part.files, minlength=len(files))
        annotates = self.config.output.mode == "annotate"
        notes = _annotate(part, fates) if annotates else {}
        if self.config.keep.merge:
            notes = merge_by_file(self.config.keep.merge, part, fates, len(files))
        units = [
            Unit(number, removed.get(number, NO_ROWS), aside.get(number, NO_ROWS), notes.get(number))
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
        self, workers: Workers, splits: Sequence[Split], part: Part, fates: Fates, aside: Mapping[int, Integers]
    ) -> tuple[int, int | None]:
        """Write files of another format or number, or of the ids alone."""
        removed, groups, name = fates.by_file(part), self.group(splits), self.name_part
        kept_packs = [Pack(group, merge(removed, aside), name("kept", n)) for n, group in enumerate(groups)]
        if self.config.output.mode == "ids":
            written = list(workers.map(partial(pack_ids, kind=self.kind), kept_packs))
            return sum(each.kept or 0 for each in written), None
        schema = repack.common_schema(self.source)
        staying = Fates(places=np.setdiff1d(np.arange(part.doc_ids.size), fates.places), removals=fates.removals)
        gone_packs = [
            Pack(group, merge(staying.by_file(part), aside), name("removed", n)) for n, group in enumerate(groups)
        ]
        task = partial(pack, kind=self.kind, schema=schema)
        kept = sum(each.kept or 0 for each in workers.map(task, kept_packs))
        return kept, sum(each.kept or 0 for each in workers.map(task, gone_packs))


def write_unit(source: FileSource, unit: Unit, *, folder: str, annotates: bool, is_first_empty: bool) -> sink.Written:
    """Write the like of a file of the input, or two: of the rows that stay and of those that go.

    Parameters
    ----------
    is_first_empty
        Whether no row of the input goes, so that the first file has an empty like, which can at least be read.
    """
    if annotates:
        notes = unit.notes if unit.notes is not None else no_notes(source)
        return annotation.annotate(source, unit.number, notes, folder=f"{folder}/annotated", rejected=unit.rejected)
    written = sink.write(
        source,
        unit.number,
        unit.removed,
        kept_folder=f"{folder}/kept",
        removed_folder=f"{folder}/removed",
        rejected=unit.rejected,
        with_empty=is_first_empty and unit.number == 0,
    )
    if unit.notes is not None:
        left_out = np.union1d(unit.removed, unit.rejected)
        annotation.annotate(source, unit.number, unit.notes, folder=f"{folder}/kept", rejected=left_out)
    return written


def pack(source: FileSource, pack: Pack, *, kind: str, schema: pa.Schema) -> sink.Written:
    """Write rows of several files into one."""
    return repack.repack(source, pack.splits, pack.left_out, path=pack.path, format=kind, schema=schema)


def pack_ids(source: FileSource, pack: Pack, *, kind: str) -> sink.Written:
    """Write the ids of rows of several files into one."""
    return repack.write_ids(source, pack.splits, pack.left_out, path=pack.path, format=kind)


def _annotate(part: Part, fates: Fates) -> dict[int, pa.Table]:
    """Return what mode annotate says of the rows that go, by file; the others are kept."""
    removals = fates.removals
    files, rows = part.files[fates.places], part.rows[fates.places]
    table = pa.table(
        {"row": rows, "dedup_kept": np.zeros(rows.size, dtype=bool)}
        | {name: removals[name.removeprefix("dedup_")] for name in NOTES[1:]}
    )
    return {int(file): table.filter(pa.array(files == file)) for file in np.unique(files)}


def no_notes(source: FileSource) -> pa.Table:
    """Return the notes of mode annotate on no row."""
    kinds = (pa.bool_(), source.id_type, pa.int64(), pa.string(), pa.float64())
    return pa.schema([("row", pa.int64()), *zip(NOTES, kinds, strict=True)]).empty_table()


def _group_rejected(rejected: Sequence[tuple[int, Rejected]]) -> dict[int, Integers]:
    found: dict[int, list[int]] = {}
    for file, each in rejected:
        found.setdefault(file, []).append(each.row)
    return {file: np.array(sorted(rows)) for file, rows in found.items()}


def merge(one: Mapping[int, Integers], other: Mapping[int, Integers]) -> dict[int, Integers]:
    """Return the rows of both, by file."""
    return {file: np.union1d(one.get(file, NO_ROWS), other.get(file, NO_ROWS)) for file in {*one, *other}}
