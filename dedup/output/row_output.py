"""DECISIONS -> rows of a table, joined to their reasons by Spark."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from dedup.engine.corpus import identify
from dedup.engine.engine import Engine
from dedup.engine.expressions import column, write_text
from dedup.engine.placement import fits_broadcast
from dedup.engine.spark_rows import SparkRows
from dedup.errors import ConfigError, SchemaError
from dedup.files.columns import require_free
from dedup.files.delete_spans import delete_spans
from dedup.files.formats import load_format
from dedup.kernels.runs.span_offsets import unite_spans
from dedup.output.file_output import NOTED_LENGTH
from dedup.output.merging import check_merge, list_added, merge_values
from dedup.output.result_tables import WrittenRows
from dedup.output.row_decisions import Findings
from dedup.output.spark_tasks import save, save_counted
from dedup.settings.keeping import NOTES, name_merged, parse_merge
from dedup.settings.options import Config

WRITABLE = ("parquet", "jsonl", "csv")
"""Formats of files that Spark writes."""
NO_CELLS = ("array", "map", "struct", "variant", "interval", "void")
"""Spark's types of which CSV has no cells."""
ANNOTATED = "output.mode: annotate"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowOutput:
    """Folders of the result of a run over a table: see `ResultWriter`."""

    reads_beside: ClassVar[bool] = False
    config: Config
    rows: DataFrame
    """Input."""
    id_column: str
    """Empty where an id is the digest of its row."""
    folder: str
    parts: str
    """Folder of rows that still are to be moved."""
    move_part: Callable[[str, str], None]
    """Makes a folder the one of the result that has this name."""
    noted: Observation = field(default_factory=Observation)
    """Texts that the report shows."""

    def check(self) -> None:
        """Refuse what cannot be written, before work is done.

        Raises
        ------
        SchemaError
            When the input has a column that the output adds, or one that the output's format lacks.
        ConfigError
            When the output's format takes no columns.
        """
        if self.kind not in WRITABLE:
            raise ConfigError(
                f"output.format: must be {', '.join(WRITABLE)} where Spark writes the rows (got {self.kind})"
            )
        for each in self.rows.schema if self.kind == "csv" and self.config.output.mode != "ids" else ():
            if (kind := each.dataType.typeName()) in NO_CELLS:
                rule = f"csv must have no columns of the types {', '.join(NO_CELLS)} (got {kind} of {each.name!r})"
                raise SchemaError(f"output.format: {rule}")
        check_merge(self.config, load_format(self.kind))
        names = [name_merged(rule) for rule in parse_merge(self.config.keep.merge)]
        require_free(self.rows.columns, names, "keep.merge")
        if self.config.output.mode == "annotate":
            require_free(self.rows.columns, NOTES, ANNOTATED)

    def save(self, name: str, rows: SparkRows, /) -> int:
        """See `ResultWriter.save`."""
        return save_counted(rows.frame, f"{self.folder}/{name}")

    def list_rejected(self) -> None:
        """See `ResultWriter.list_rejected`."""

    def read_texts(self, engine: Engine[SparkRows], found: Findings[SparkRows]) -> Mapping[int, str]:
        """See `ResultWriter.read_texts`: they are noted as the rows pass."""
        del engine
        return read_notes(self.noted) if found.shown else {}

    def write_rows(
        self,
        engine: Engine[SparkRows],
        found: Findings[SparkRows],
        decisions: SparkRows,
        *,
        spans: SparkRows | None,
        rejected: SparkRows | None,
    ) -> WrittenRows:
        """See `ResultWriter.write_rows`."""
        del spans, rejected
        rows, mode, text_column = self.rows, self.config.output.mode, self.config.input.text_column
        user_id, doc_id = identify(rows, id_column=self.id_column)
        text = write_text(rows, self.config.text_columns)
        # Of the text as it was compared.
        text_bytes = F.octet_length(F.make_valid_utf8(text.cast("string")))
        added = list_added(self.config.keep.merge).names
        if added:
            merged = merge_values(engine, found.documents, decisions, self.config.keep.merge)
            rows = add_merged(rows, doc_id, merged.frame, added)
        gone = engine.tally(decisions)["rows"]
        repeated = found.repeated.frame if found.repeated is not None and found.copies[0] else None
        notes = NOTES if mode == "annotate" else NOTES[:1]
        marked, names = decide_rows(rows, doc_id, decisions.frame, repeated, notes, broadcast=fits_broadcast(gone))
        if found.shown:
            # Once each row is there once: a client of Spark Connect takes no observation of both sides of a union.
            marked = note_texts(marked, doc_id, found.shown, text, self.noted)
        is_kept = F.col(names[0])
        if mode == "ids":
            ids = marked.filter(is_kept).select(user_id.alias(self.id_column or "id"))
            return WrittenRows(kept=save_counted(ids, f"{self.folder}/kept", self.kind))
        if mode == "filter" and found.chain.spans is not None:
            cuts = found.chain.spans.frame.filter(F.col("effect") == "cut").select("doc_id", "begin", "end")
            whole = decisions.frame.filter(F.col("number") == 1).select("doc_id")
            # Last, as without an id column the text is part of what the id is a digest of.
            marked = cut_texts(marked, doc_id, cuts.join(whole, on="doc_id", how="left_anti"), text_column)
        if self.kind == "csv" and mode == "filter" and len(self.rows.columns) == 1:
            # A null that is all of a record would be a blank line, which is none.
            marked = marked.withColumn(text_column, F.coalesce(column(text_column), F.lit("")))
        observation = Observation()
        sums = {"rows": F.count(F.lit(1)), "kept": F.count_if(is_kept), "bytes": F.sum(F.when(is_kept, text_bytes))}
        observed = marked.observe(observation, *[value.alias(name) for name, value in sums.items()])
        if mode == "annotate":
            self._save("annotated", observed)
        elif gone in {0, found.rows}:
            # One of the two folders would be missing; an empty table can at least be read.
            empty, other = ("kept", "removed") if gone else ("removed", "kept")
            self._save(empty, (rows if gone else self.rows).limit(0))
            self._save(other, observed.drop(names[0], *(added if gone else ())))
        elif added:
            # Files of one write have the same columns, and the rows removed are to be as they were.
            self._save("kept", observed.filter(is_kept).drop(names[0]))
            self._save("removed", marked.filter(~is_kept).drop(names[0], *added))
        else:
            self._save_parts(observed, observation, names[0])
        seen = observation.get
        removed = None if mode == "annotate" else seen["rows"] - seen["kept"]
        return WrittenRows(kept=seen["kept"], removed=removed, text_bytes_kept=seen["bytes"] or 0)

    def _save_parts(self, observed: DataFrame, observation: Observation, mark: str) -> None:
        """Save the rows kept and those removed at once."""
        save(observed.write.partitionBy(mark), self.parts, self.kind)
        kept = observation.get["kept"]
        for value, name, count in (("true", "kept", kept), ("false", "removed", observation.get["rows"] - kept)):
            # Of rows that have changed none may be left, which whoever compares the counts tells.
            if count:
                self.move_part(f"{self.parts}/{mark}={value}", name)

    def _save(self, name: str, rows: DataFrame) -> None:
        save(rows.write, f"{self.folder}/{name}", self.kind)

    @property
    def kind(self) -> str:
        """Format of the files written."""
        chosen = self.config.output.format
        return "parquet" if chosen == "input" else chosen


def note_texts(
    corpus: DataFrame, doc_id: Column, wanted: Collection[int], text: Column, observation: Observation
) -> DataFrame:
    """Let what writes the input note how some texts begin, which pass by anyhow, instead of reading them again.

    `read_notes` returns them once the rows are written. They pass as JSON, since Spark 4.0 converts no list that an
    observation holds.
    """
    begin = F.substring(text.cast("string"), 1, NOTED_LENGTH)
    noted = F.when(doc_id.isin(*wanted), F.struct(doc_id.alias("doc_id"), begin.alias("text")))
    name = _free_name(corpus)
    # Apart, as Spark sends the expressions that it observes back with each task: where it interprets them, they hold
    # the last row by its place in memory, which other rows may have by then, and a map read from there ends the JVM.
    rows = corpus.withColumn(name, noted)
    return _columns(rows.observe(observation, F.to_json(F.collect_list(name)).alias("texts")), corpus)


def read_notes(observation: Observation) -> dict[int, str]:
    """Return how the texts that `note_texts` noted begin, by document id; a null text as an empty one."""
    # JSON leaves null fields out.
    return {row["doc_id"]: row.get("text", "") for row in json.loads(observation.get["texts"])}


def decide_rows(
    corpus: DataFrame,
    doc_id: Column,
    decisions: DataFrame,
    repeated: DataFrame | None,
    notes: Sequence[str],
    *,
    broadcast: bool,
) -> tuple[DataFrame, list[str]]:
    """Input, DECISIONS, REPEATED -> the input with columns of NOTES, of which the first tells whether a row stays.

    Parameters
    ----------
    doc_id
        The expression of a row's document id.
    repeated
        Ids of equal rows, of which one is kept; None if there are none.
    notes
        As they are named in the output; the first alone gets a free name.
    broadcast
        Whether DECISIONS fit into every executor's memory; then nothing is shuffled.

    Returns
    -------
    rows, names
        The names are those of the further columns, which are the last.
    """
    name = _free_name(corpus)
    own = [f"{name}_{note}" for note in notes]
    columns = [F.col(note.removeprefix("dedup_")).alias(each) for note, each in zip(notes[1:], own[1:], strict=True)]
    listed = decisions.select(F.col("doc_id").alias(name), F.col("number").alias(f"{name}_from"), *columns)
    marked = corpus.withColumn(name, doc_id)
    if repeated is None:
        marked = marked.withColumn(f"{name}_number", F.lit(1))
    else:
        # Decisions of equal rows are equal.
        marked, listed = _number_copies(marked, name, repeated), listed.dropDuplicates([name])
    # An outer join repeats no row, as there is each id once on its right.
    joined = marked.join(F.broadcast(listed) if broadcast else listed, on=name, how="left")
    goes = F.coalesce(F.col(f"{name}_number") >= F.col(f"{name}_from"), F.expr("false"))
    values = {own[0]: ~goes} | {each: F.when(goes, F.col(each)) for each in own[1:]}
    names = list(notes) if len(notes) > 1 else own
    named = [values[each].alias(final) for each, final in zip(own, names, strict=True)]
    return joined.select(*[column(each) for each in corpus.columns], *named), names


def add_merged(corpus: DataFrame, doc_id: Column, merged: DataFrame, added: Sequence[str]) -> DataFrame:
    """Add columns of documents that stay for others to the input; the others stand for themselves."""
    name = _free_name(corpus)
    # Of equal rows, of which one stays.
    listed = merged.dropDuplicates(["doc_id"]).select(F.col("doc_id").alias(name), *added)
    joined = corpus.withColumn(name, doc_id).join(listed, on=name, how="left")
    if "dedup_count" in added:
        joined = joined.withColumn("dedup_count", F.coalesce("dedup_count", F.lit(1)))
    return _columns(joined, corpus, *added)


def cut_texts(corpus: DataFrame, doc_id: Column, cuts: DataFrame, text_column: str) -> DataFrame:
    """Input, spans (doc_id, begin, end) in characters -> the input, with texts that have lost them."""
    name, listed = _free_name(corpus), f"{_free_name(corpus)}_cuts"
    spans = F.collect_list(F.struct("begin", "end")).alias(listed)
    of_document = cuts.withColumnRenamed("doc_id", name).groupBy(name).agg(spans)
    joined = corpus.withColumn(name, doc_id).join(of_document, on=name, how="left")
    is_cut = F.col(listed).isNotNull()
    # In Python, which finds a character of a text in no time: by substrings the spans of a document took the square.
    delete = F.udf(_delete_spans, "string", useArrow=False)
    begins, ends = (F.col(listed)[side] for side in ("begin", "end"))
    kind = corpus.schema[text_column].dataType
    shorter = delete(F.when(is_cut, column(text_column).cast("string")), begins, ends).cast(kind)
    whole = joined.withColumn(text_column, F.when(is_cut, shorter).otherwise(column(text_column)))
    return _columns(whole, corpus)


def _delete_spans(text: str | None, begins: Sequence[int] | None, ends: Sequence[int] | None) -> str | None:
    """Return a text without spans in any order; None of None."""
    if text is None or begins is None or ends is None:
        return None
    united = unite_spans(np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))
    return delete_spans(text, *(side.tolist() for side in united))


def _number_copies(marked: DataFrame, name: str, repeated: DataFrame) -> DataFrame:
    """Mark one of equal rows as 1, the others as 2; which one does not matter, as nothing tells them apart."""
    ids = F.broadcast(repeated.select(F.col("doc_id").alias(name)))
    order = Window.partitionBy(name).orderBy(F.lit(0))
    number = f"{name}_number"
    single = marked.join(ids, on=name, how="left_anti").withColumn(number, F.lit(1))
    several = marked.join(ids, on=name, how="left_semi")
    return single.unionByName(several.withColumn(number, F.least(F.row_number().over(order), F.lit(2))))


def _free_name(corpus: DataFrame) -> str:
    """Return a column name that the input does not use, nor any that starts with it."""
    name = "_dedup"
    while any(column.lower().startswith(name) for column in corpus.columns):
        name = f"_{name}"
    return name


def _columns(rows: DataFrame, corpus: DataFrame, *more: str) -> DataFrame:
    """Select the input's columns in their order, and more."""
    return rows.select(*[column(name) for name in corpus.columns], *more)
