"""The output of a run on Spark, in the user's ids and format."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.errors import ConfigError, DedupError
from dedup.files.formats import load_format
from dedup.informing import NEAR_MISSES, TEXTS
from dedup.run.applied import Applied
from dedup.run.clock import Clock
from dedup.run.input import SparkInput
from dedup.run.merging import check_merge, note_merged
from dedup.run.workspace import Workspace
from dedup.settings.keeping import name_merged, parse_merge
from dedup.settings.options import Config
from dedup.stages import documents, output
from dedup.stages.exchange import Batches
from dedup.tables.counts import Written
from dedup.tables.schemas import EDGES

STAGE = "output"
WRITABLE = ("parquet", "jsonl", "csv")
"""Formats of files that Spark writes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """Counts of what was written, and the beginnings of examples."""

    texts: dict[int, str]
    """Beginnings of the texts that the report shows, by doc_id."""
    counts: Written


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Rows of the input that were written; None where none were."""

    kept: int
    removed: int | None = None
    text_bytes_kept: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableWriter:
    """Writes the tables that explain a result."""

    workspace: Workspace
    clock: Clock

    def write(self, name: str, rows: DataFrame, kind: str = "parquet") -> int:
        """Write rows of the result and return how many there are."""
        observation = Observation()
        with self.clock.group(STAGE):
            counted = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
            save(counted.write, f"{self.workspace.result}/{name}", kind)
        return int(observation.get["rows"])

    def write_edges(self, applied: Applied) -> int:
        """Write the edges in the user's ids."""
        return self._write_pairs("edges", applied.edges, applied)

    def write_near_misses(self, applied: Applied) -> int:
        """Write the near misses in the user's ids; none where that fails."""
        written = self.clock.inform(NEAR_MISSES, self._write_near_misses, applied)
        return self._write_pairs("near_misses", None, applied) if written is None else written

    def _write_near_misses(self, applied: Applied) -> int:
        return self._write_pairs("near_misses", applied.near_misses, applied)

    def _write_pairs(self, name: str, pairs: DataFrame | None, applied: Applied) -> int:
        if pairs is None:
            pairs = applied.documents.sparkSession.createDataFrame([], EDGES)
        ids = applied.named
        if ids is None:
            ids = applied.documents.select("doc_id", "id")
            ids = ids if applied.repeated is None else ids.dropDuplicates(["doc_id"])
        return self.write(name, output.name_edges(pairs, ids, broadcast=applied.few_edges))

    def write_spans(self, applied: Applied) -> int:
        """Write what layers have cut or marked, if any does."""
        return 0 if applied.spans is None else self.write("spans", applied.spans)


def count_layers(removals: DataFrame, applied: Applied, removed: int) -> dict[str, int]:
    """Return the documents removed by layer, without a job where there is one layer."""
    if len(applied.layers) == 1:
        return {applied.layers[0]: removed}
    return {row["layer"]: row["count"] for row in removals.groupBy("layer").count().collect()}


def list_copies(applied: Applied) -> DataFrame | None:
    """Return the second and further of wholly equal rows; None where there are none."""
    if applied.repeated is None:
        return None
    return output.list_copies(applied.repeated, applied.documents, applied.removals, applied.members, applied.copies)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowWriter:
    """Writes the folders of the result of a table, as Spark does."""

    config: Config
    read: SparkInput
    tables: TableWriter

    def check(self) -> None:
        """Refuse what cannot be written, before work is done.

        Raises
        ------
        SchemaError
            When the input has a column that the output adds.
        ConfigError
            When the output's format takes no columns.
        """
        kind = self._target_format()
        if kind not in WRITABLE:
            raise ConfigError(f"output.format: must be {', '.join(WRITABLE)} where Spark writes the rows (got {kind})")
        check_merge(self.config, load_format(kind))
        names = [name_merged(rule) for rule in parse_merge(self.config.keep.merge, "keep")]
        output.check_free(self.read.corpus.rows, names, "keep.merge")
        if self.config.output.mode == "annotate":
            output.check_annotations(self.read.corpus.rows)

    def list_removals(self, applied: Applied) -> DataFrame:
        """Return REMOVALS with the second and further of wholly equal rows."""
        copies = list_copies(applied)
        return applied.removals if copies is None else applied.removals.unionByName(copies)

    def write(self, applied: Applied) -> Result:
        """Apply what was found in one pass over the input, and write the tables that explain it.

        Raises
        ------
        DedupError
            When the rows kept and removed are not those of the input.
        """
        shown = applied.examples
        noted = Observation()
        rejected = self.read.corpus.rejected
        # All writes at once: but for the first they are small, and each has its share of waiting for the driver.
        with ThreadPoolExecutor() as writers:
            corpus = writers.submit(self._write_corpus, applied, shown=shown, noted=noted)
            duplicates = writers.submit(self.tables.write, "duplicates", self.list_removals(applied).drop("doc_id"))
            named = writers.submit(self.tables.write_edges, applied)
            near_misses = writers.submit(self.tables.write_near_misses, applied)
            spans = writers.submit(self.tables.write_spans, applied)
            quarantine = writers.submit(self.tables.write, "quarantine", rejected) if rejected is not None else None
        written = Written(
            kept=corpus.result().kept,
            removed=duplicates.result(),
            edges=named.result(),
            near_misses=near_misses.result(),
            quarantined=quarantine.result() if quarantine else 0,
            removed_by=count_layers(self.list_removals(applied), applied, duplicates.result()),
            spans=spans.result(),
            text_bytes_kept=corpus.result().text_bytes_kept,
        )
        self._check_complete(applied, written, corpus.result().removed)
        texts = None
        if shown and self.config.output.mode != "ids":
            texts = self.tables.clock.inform(TEXTS, output.read_notes, noted)
        return Result(texts=texts or {}, counts=written)

    def _check_complete(self, applied: Applied, written: Written, removed: int | None) -> None:
        total = applied.rows
        removed = written.removed if removed is None else removed
        if written.kept + removed != total or removed != written.removed:
            raise DedupError(
                f"output: kept and removed must add up to the {total:,} documents of the input, and removed must be "
                f"the duplicates (got {written.kept:,} kept, {removed:,} removed, {written.removed:,} duplicates); "
                "did the input change while it was read?"
            )

    def _write_corpus(self, applied: Applied, *, shown: Collection[int], noted: Observation) -> _Counted:
        """Write the input as the mode wants it."""
        rows = self.read.corpus.rows
        user_id, doc_id = documents.identify(rows, id_column=self.read.id_column)
        mode, kind, text_column = self.config.output.mode, self._target_format(), self.config.input.text_column
        text_bytes = F.octet_length(documents.column(text_column))
        if shown and mode != "ids":
            rows = output.note_texts(rows, doc_id, shown, text_column, noted)
        if mode == "annotate":
            copies = list_copies(applied)
            copies = applied.removals.limit(0) if copies is None else copies
            marked = output.annotate(rows, doc_id, applied.removals, copies, applied.repeated)
            is_kept = F.col("dedup_kept")
        else:
            if self.config.keep.merge:
                rows = self._merge(rows, doc_id, applied)
            marked, flag = output.mark(rows, doc_id, applied.removals, applied.repeated, broadcast=applied.few)
            is_kept = ~F.col(flag)
            if applied.cuts is not None:
                cuts = applied.cuts.join(applied.removals.select("doc_id"), on="doc_id", how="left_anti")
                # Last, as without an id column the text is part of what the id is a digest of.
                marked = output.cut_texts(marked, doc_id, cuts, text_column)
        if mode == "ids":
            ids = marked.filter(is_kept).select(user_id.alias(self.read.id_column or "id"))
            return _Counted(kept=self.tables.write("kept", ids, kind))
        observation = Observation()
        sums = {"rows": F.count(F.lit(1)), "kept": F.count_if(is_kept), "bytes": F.sum(F.when(is_kept, text_bytes))}
        observed = marked.observe(observation, *[value.alias(name) for name, value in sums.items()])
        with self.tables.clock.group(STAGE):
            if mode == "annotate":
                self._save("annotated", observed, kind)
            elif not applied.removes:
                # One of the two folders would be missing; an empty table can at least be read.
                self._save("removed", self.read.corpus.rows.limit(0), kind)
                self._save("kept", observed.drop(flag), kind)
            else:
                self._save_parts(observed, flag, {"false": "kept", "true": "removed"}, kind)
        seen = observation.get
        removed = None if mode == "annotate" else seen["rows"] - seen["kept"]
        return _Counted(kept=seen["kept"], removed=removed, text_bytes_kept=seen["bytes"] or 0)

    def _merge(self, rows: DataFrame, doc_id: Column, applied: Applied) -> DataFrame:
        """Return the input with the columns that `keep.merge` asks for."""
        entries = self.config.keep.merge
        values = output.merge_values(self.list_removals(applied), applied.documents)
        empty = note_merged(entries, [], []).drop(["row"]).schema
        schema = from_arrow_schema(pa.schema([("doc_id", pa.int64()), *empty]))

        def note(batches: Batches) -> Batches:
            for batch in batches:
                noted = note_merged(entries, batch["doc_id"].to_pylist(), batch["values"].to_pylist())
                yield from noted.rename_columns(schema.names).combine_chunks().to_batches()

        return output.add_merged(rows, doc_id, values.mapInArrow(note, schema))

    def _target_format(self) -> str:
        if self.config.output.format != "input":
            return self.config.output.format
        return "parquet" if self.read.format in {"text", "table"} else self.read.format

    def _save(self, name: str, rows: DataFrame, kind: str) -> None:
        """Write rows beside the output, in a format of WRITABLE."""
        save(rows.write, f"{self.tables.workspace.result}/{name}", kind)

    def _save_parts(self, rows: DataFrame, part: str, names: Mapping[str, str], kind: str) -> None:
        """Write rows beside the output in one pass, those of each value of the column `part` to a folder of their own.

        Parameters
        ----------
        names
            The folder for every value of that column, which itself is not written.
        """
        parts = self.tables.workspace.parts
        save(rows.write.partitionBy(part), parts, kind)
        for value, name in names.items():
            self.tables.workspace.move_part(f"{parts}/{part}={value}", name)


def save(writer: DataFrameWriter, path: str, kind: str) -> None:
    """Write rows to a folder, in a format of WRITABLE."""
    writer = writer.mode("overwrite")
    if kind == "jsonl":
        writer.json(path)
    elif kind == "csv":
        # Spark's own defaults take white space off and turn quotes into backslashed ones.
        exact = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
        writer.options(header=True, escape='"', **exact).csv(path)
    else:
        writer.parquet(path)
