"""DECISIONS -> files: those of the input without the rows that go, or others of the same rows.

All that becomes of the rows of an output file, EDITS, comes to one call, which makes one pass over what is read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar, Generic, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows
from dedup.errors import ConfigError
from dedup.files import repack, sink
from dedup.files.delete_spans import Cuts
from dedup.files.formats import load_format
from dedup.files.formats.format import FileCounts, Format
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels import Integers
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import find_bounds
from dedup.output.merging import check_merge, list_added, merge_values
from dedup.output.result_tables import WrittenRows
from dedup.output.row_decisions import Findings
from dedup.output.spans import LOST, place_cuts
from dedup.settings.keeping import NOTES, name_merged, parse_merge
from dedup.settings.options import Config
from dedup.tables import arrow

NOTED_LENGTH = 4000
"""Characters noted of a text that the report shows, where its row passes through Spark."""
READ_LENGTH = 100_000
"""Characters read of it from a file."""
EDITS = arrow.integers("unit", "file", "row", "role", "begin", "end")
"""Rows of output files that change, and further columns, which rows gain; null where they are of another role."""
REMOVED, REJECTED, CUT, NOTED = range(4)
"""Roles: rows that go to a file of their own, and nowhere; spans that texts lose; rows that gain values."""


class Unit(NamedTuple):
    """Output file, or two: of the rows that stay and of those that go."""

    splits: Sequence[int]
    """Numbers of the splits with its rows; none where it is the like of a file of the input."""
    size: int
    """Bytes of the input, nearly."""


class Handed(NamedTuple):
    """Work of one call."""

    number: int
    """Number of the unit; that of the file whose like it is."""
    splits: Sequence[Split]
    edits: pa.Table
    """EDITS of the unit, ascending by row."""


WriteUnit: TypeAlias = Callable[[FileSource, Handed], FileCounts]
"""Work that writes a unit; it goes to other processes."""


def check_output(config: Config, source: FileSource) -> pa.Schema | None:
    """Refuse what cannot be written, before work is done.

    Returns
    -------
    Schema of the rows in another format or number of files, where the input tells it ahead of its rows; else None.

    Raises
    ------
    SchemaError
        When the input has a column that the output adds, no columns at all, or some that the output's format lacks.
    ConfigError
        When rows are to gain columns in another format or number of files.
    """
    is_mirrored = _is_mirrored(config)
    check_merge(config, source.listing.format if is_mirrored else _choose_format(config, source))
    if config.keep.merge:
        if not is_mirrored:
            raise ConfigError("keep.merge: keeps the input's files (got another format or output.files)")
        names = [name_merged(rule) for rule in parse_merge(config.keep.merge)]
        sink.check_names(source, names, "keep.merge")
    if config.output.mode == "annotate":
        if not is_mirrored:
            raise ConfigError('output.mode: "annotate" keeps the input\'s files (got another format or output.files)')
        sink.check_names(source, list(NOTES))
    if config.output.mode != "filter" or is_mirrored or not source.listing.format.has_types:
        # Lines of JSON must be read for it, which is left to the end.
        return None
    schema = repack.common_schema(source)
    repack.check_columns(_choose_format(config, source), schema)
    return schema


def _is_mirrored(config: Config) -> bool:
    """Tell whether rows that are written whole stand in files like those of the input."""
    return config.output.format == "input" and not config.output.files


def _choose_format(config: Config, source: FileSource) -> Format:
    """Return the format of files that are no mirrors: the input's where that can hold any rows, else parquet."""
    chosen, own = config.output.format, source.listing.format
    return load_format(chosen) if chosen != "input" else own if own.can_create else load_format("parquet")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileOutput(ABC, Generic[Rows]):
    """Folders of the result of a run over files, which processes of this machine write, or tasks of Spark.

    See `ResultWriter`.
    """

    reads_beside: ClassVar[bool] = True
    config: Config
    source: FileSource
    schema: pa.Schema | None
    """As from `check_output`."""
    folder: str
    """The result's, by a path that serves workers in other folders too."""

    @property
    @abstractmethod
    def splits(self) -> Sequence[Split]:
        """Splits of the input."""

    @abstractmethod
    def save(self, name: str, rows: Rows, /) -> int:
        """See `ResultWriter.save`."""

    @abstractmethod
    def list_rejected(self) -> Rows | None:
        """See `ResultWriter.list_rejected`: QUARANTINE with the numbers `split`, `number` of the file and `row`."""

    @abstractmethod
    def write_units(self, edits: Rows, units: Sequence[Unit], work: WriteUnit) -> Mapping[int, FileCounts]:
        """Return what the work has written of each unit."""

    def write_rows(
        self, engine: Engine[Rows], found: Findings[Rows], decisions: Rows, *, spans: Rows | None, rejected: Rows | None
    ) -> WrittenRows:
        """See `ResultWriter.write_rows`."""
        merge, is_ids = self.config.keep.merge, self.config.output.mode == "ids"
        cuts = None
        if spans is not None and not is_ids and not self.annotates:
            cuts = place_cuts(engine, found.documents, decisions, spans)
        units, of_split = self._list_units()
        schema = pa.schema([*EDITS, *self._list_added()])

        def edit(rows: Rows, role: int) -> Rows:
            return engine.map(rows, partial(_edit, role=role, of_split=of_split, schema=schema), schema)

        edits = [edit(decisions, NOTED if self.annotates else REMOVED)]
        if cuts is not None:
            edits.append(edit(cuts, CUT))
        if merge:
            edits.append(edit(merge_values(engine, found.documents, decisions, merge), NOTED))
        if rejected is not None:
            edits.append(edit(engine.select(rejected, "split", "row", file="number"), REJECTED))
        tally = engine.tally(decisions)
        written = self.write_units(engine.concat(*edits), units, self._choose_work(is_clean=not tally["rows"]))
        unread = [number for number, each in written.items() if each.kept is None]
        kept = sum(each.kept or 0 for each in written.values())
        if unread:
            copied = partial(_count_copied, files=np.array(unread))
            rows = engine.map(engine.select(found.documents, "file"), copied, arrow.integers("copied"))
            kept += engine.measure(rows, "copied")["copied"]
        if is_ids:
            return WrittenRows(kept=kept)
        lost = 0 if cuts is None else engine.tally(cuts).get(LOST, 0)
        return WrittenRows(
            kept=kept,
            removed=sum(each.removed for each in written.values()),
            text_bytes_kept=found.chain.steps[0].text_bytes - tally.get("text_bytes", 0) - lost,
        )

    def _list_units(self) -> tuple[list[Unit], Integers | None]:
        """Return the output files, and the one that each split goes to; None where they are the input's."""
        if not self._packs:
            return [Unit((), file.size) for file in self.source.listing.files], None
        files = len(self.source.listing.files)
        # Those of files that are none of the input come last.
        own = [split for split in self.splits if split.parts[0].file < files]
        count = self.config.output.files or max(1, min(files, len(own)))
        groups = repack.group(own, count)
        of_split = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        units = [
            Unit(np.flatnonzero(of_split == number).tolist(), sum(split.size for split in group))
            for number, group in enumerate(groups)
        ]
        return units, of_split

    def _list_added(self) -> pa.Schema:
        """Return the columns that rows gain."""
        if not self.annotates:
            return list_added(self.config.keep.merge)
        kinds = (pa.bool_(), self.source.id_type, self.source.id_type, pa.string(), pa.float64())
        return pa.schema([*zip(NOTES, kinds, strict=True)])

    def _choose_work(self, *, is_clean: bool) -> WriteUnit:
        if not self._packs:
            return partial(
                write_like,
                folder=self.folder,
                added=self._list_added(),
                annotates=self.annotates,
                is_first_empty=is_clean,
            )
        first, kind = self.source.listing.files[0], _choose_format(self.config, self.source)
        ending = f".{first.path.rpartition('.')[2]}" if first.compression and kind.is_compressible else ""
        schema = self.schema
        if schema is None and self.config.output.mode != "ids":
            schema = repack.common_schema(self.source)
        return partial(pack, folder=self.folder, ending=f"{kind.extensions[0]}{ending}", kind=kind, schema=schema)

    def read_texts(self, engine: Engine[Rows], found: Findings[Rows]) -> dict[int, str]:
        """See `ResultWriter.read_texts`."""
        if not found.shown:
            return {}
        places = engine.select(found.documents, "doc_id", "file", "row")
        rows = engine.lookup(places, pa.array(found.shown, pa.int64())).to_pylist()
        of_place = {(row["file"], row["row"]): row["doc_id"] for row in rows}
        wanted = {file: np.array(sorted(row for of, row in of_place if of == file)) for file, _ in of_place}
        texts: dict[int, str] = {}
        # Every file once, however many examples it holds.
        for piece in self.source.read(Split(parts=tuple(map(self.source.whole, sorted(wanted)))), wanted):
            for row, text in zip(piece.batch["row"].to_pylist(), piece.batch["text"].to_pylist(), strict=True):
                doc_id = of_place[piece.file, row]
                is_next = found.parts is not None and doc_id in texts
                begin = texts[doc_id] + self.config.row_joint if is_next else ""
                texts[doc_id] = (begin + (text or ""))[:READ_LENGTH]
        return texts

    @property
    def annotates(self) -> bool:
        """Whether all rows are written, with NOTES."""
        return self.config.output.mode == "annotate"

    @property
    def _packs(self) -> bool:
        return self.config.output.mode == "ids" or not _is_mirrored(self.config)


def write_like(
    source: FileSource, handed: Handed, *, folder: str, added: pa.Schema, annotates: bool, is_first_empty: bool
) -> FileCounts:
    """Write the like of a file of the input, or two: of the rows that stay and of those that go.

    Parameters
    ----------
    added
        Columns that rows gain.
    is_first_empty
        Whether no row of the input goes, so that the first file has an empty like, which can at least be read.
    """
    roles, notes = _part(handed.edits), None
    if added:
        # Spark has names of its own for what lists hold.
        noted = pa.schema([EDITS.field("row"), *added])
        notes = roles[NOTED].select(noted.names).cast(noted)
    rejected = roles[REJECTED]["row"].to_numpy()
    if annotates:
        assert notes is not None
        return sink.annotate(source, handed.number, notes, folder=f"{folder}/annotated", rejected=rejected)
    return sink.write(
        source,
        handed.number,
        roles[REMOVED]["row"].to_numpy(),
        kept_folder=f"{folder}/kept",
        removed_folder=f"{folder}/removed",
        rejected=rejected,
        cuts=_to_cuts(roles[CUT]),
        notes=notes,
        with_empty=is_first_empty and handed.number == 0,
    )


def pack(
    source: FileSource, handed: Handed, *, folder: str, ending: str, kind: Format, schema: pa.Schema | None
) -> FileCounts:
    """Write rows of several files into one, and those that go into another; without a schema the ids that stay."""
    roles = _part(handed.edits)
    removed, rejected = (
        {file: rows["row"].to_numpy() for file, rows in _by_file(roles[role])} for role in (REMOVED, REJECTED)
    )
    kept, gone = (f"{folder}/{name}/part-{handed.number:05}.{ending}" for name in ("kept", "removed"))
    if schema is None:
        return repack.write_ids(source, handed.splits, removed, path=kept, format=kind, rejected=rejected)
    return repack.repack(
        source,
        handed.splits,
        removed,
        path=kept,
        removed_path=gone,
        format=kind,
        schema=schema,
        rejected=rejected,
        cuts={file: _to_cuts(rows) for file, rows in _by_file(roles[CUT])},
    )


def _part(edits: pa.Table) -> list[pa.Table]:
    """Return the edits of each role; most files have none at all."""
    if not edits.num_rows:
        return [edits] * 4
    roles = edits["role"].to_numpy()
    return [edits.filter(pa.array(roles == role)) for role in (REMOVED, REJECTED, CUT, NOTED)]


def _by_file(edits: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the edits of each file, ascending by row."""
    ordered = edits.sort_by([("file", "ascending"), ("row", "ascending")])
    files = ordered["file"].to_numpy()
    for begin, end in pairwise(find_bounds(files).tolist()):
        yield int(files[begin]), ordered.slice(begin, end - begin)


def _to_cuts(edits: pa.Table) -> Cuts:
    return Cuts.of(*(edits[name].to_numpy() for name in ("row", "begin", "end")))


def _edit(batches: Batches, *, role: int, of_split: Integers | None, schema: pa.Schema) -> Batches:
    """Turn rows with a place into EDITS; notes of mode annotate are columns of DECISIONS."""
    for batch in batches:
        files = batch["file"].cast(pa.int64())
        units = files if of_split is None else of_split[batch["split"].to_numpy()]
        known = dict(zip(batch.schema.names, batch.columns, strict=True)) | {"kept": False}
        noted = {name: known[name.removeprefix("dedup_")] for name in NOTES if role == NOTED and name in schema.names}
        yield conform(batch, schema, unit=units, file=files, role=role, **noted)


def _count_copied(batches: Batches, *, files: Integers) -> Batches:
    """Count the documents of some files."""
    for batch in batches:
        count = int(np.count_nonzero(np.isin(batch["file"].to_numpy(), files)))
        yield pa.RecordBatch.from_arrays([pa.array([count])], schema=arrow.integers("copied"))
