"""The output of a run on Spark over files: its tasks write a file for each file of the input."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import DedupError
from dedup.files import repack
from dedup.files.delete_spans import Cuts
from dedup.files.formats.format import NO_ROWS
from dedup.informing import TEXTS
from dedup.kernels import Integers
from dedup.run.applied import Applied
from dedup.run.merging import note_merged
from dedup.run.sinking import NOTES, FileWriter, Pack, Unit, merge, no_notes, pack, pack_ids, write_unit
from dedup.run.writing import Result, TableWriter, count_layers
from dedup.stages.exchange import Batches
from dedup.stages.fates import find_fates, merge_values
from dedup.stages.files import Files, gather, spread
from dedup.stages.table import Keep, Table
from dedup.tables import schemas
from dedup.tables.counts import Written

WRITTEN = T.StructType().add("kept", T.LongType()).add("removed", T.LongType()).add("file", T.IntegerType())
UNREAD = -1
"""Kept rows of a file that was copied without being read."""
LISTED = ("row", "representative_id", "component_id", "kind", "jaccard")
"""Rows to remove, as a task receives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FatesCount:
    """Counts of FATES."""

    rows: int
    text_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpreadWriter:
    """Writes the folders of the result, the likes of the input's files by the tasks of Spark."""

    files: FileWriter
    tables: TableWriter
    corpus: Files
    keep: Keep

    def write(self, applied: Applied) -> Result:
        """Apply what was found in one pass over the files, and write the tables that explain it.

        Raises
        ------
        DedupError
            When the rows kept and removed are not those of the input.
        """
        fates = self._keep_fates(applied)
        aside = self._set_aside()
        goes, total = fates.counts.rows, applied.rows
        # All at once: but for the files they are small, and each has its share of waiting for the driver.
        with ThreadPoolExecutor() as writers:
            duplicates = fates.frame.drop("doc_id", "text_bytes", *schemas.PLACE)
            explained = writers.submit(self.tables.write, "duplicates", duplicates)
            edges = writers.submit(self.tables.write_edges, applied)
            spans = writers.submit(self.tables.write_spans, applied)
            near_misses = writers.submit(self.tables.write_near_misses, applied)
            with self.tables.clock.group("output"):
                kept, removed = self._write_files(applied, fates, aside)
        if kept != total - goes or removed not in {goes, None} or explained.result() != goes:
            raise DedupError(
                f"output: kept and removed must be the {total - goes:,} and {goes:,} documents found (got {kept:,} and "
                f"{removed:,}); did the input change while it was read?"
            )
        is_ids = self.files.config.output.mode == "ids"
        return Result(
            texts={} if is_ids else self.tables.clock.inform(TEXTS, self._read_texts, applied) or {},
            counts=Written(
                kept=kept,
                removed=goes,
                edges=edges.result(),
                near_misses=near_misses.result(),
                removed_by=count_layers(fates.frame, applied, goes),
                spans=spans.result(),
                quarantined=sum(rows.size for rows in aside.values()),
                text_bytes_kept=None if is_ids else self._count_kept(applied, fates),
            ),
        )

    def _keep_fates(self, applied: Applied) -> Table[FatesCount]:
        schema = schemas.fates(self.corpus.id_type)

        def build(_: object) -> DataFrame:
            fates = find_fates(
                applied.removals,
                applied.repeated,
                applied.documents,
                applied.members,
                copies=applied.copies,
                broadcast=applied.few,
            )
            return fates.select(*schema.names)

        return self.keep(
            "fates",
            schema,
            build,
            lambda seen: FatesCount(rows=seen["rows"], text_bytes=seen["bytes"]),
            summed={"bytes": "text_bytes"},
        )

    def _set_aside(self) -> Mapping[int, Integers]:
        """Write the malformed records, and return their rows by file."""
        source = self.corpus.source
        if source.on_bad_record != "quarantine" or not source.listing.format.can_reject:
            return {}
        rejected = self.keep("rejected", self.corpus.rejected_schema, lambda _: self.corpus.list_rejected(), dict)
        rows = rejected.frame.select("number", "row").toArrow()
        if rows.num_rows:
            self.tables.write("quarantine", rejected.frame.select(*schemas.QUARANTINE.names))
        numbers, places = rows["number"].to_numpy(), rows["row"].to_numpy()
        return {int(number): np.sort(places[numbers == number]) for number in np.unique(numbers)}

    def _write_files(
        self, applied: Applied, fates: Table[FatesCount], aside: Mapping[int, Integers]
    ) -> tuple[int, int | None]:
        if self.files.config.output.mode == "ids" or self.files.format:
            return self._repack(applied, fates, aside)
        return self._mirror(applied, fates, aside)

    def _mirror(
        self, applied: Applied, fates: Table[FatesCount], aside: Mapping[int, Integers]
    ) -> tuple[int, int | None]:
        folder, held, count = self.files.folder, self.corpus.held, len(self.corpus.source.listing.files)
        annotates, is_clean = self.files.config.output.mode == "annotate", not fates.counts.rows
        merge = self.files.config.keep.merge

        def write(row: Mapping[str, Any]) -> tuple[int, int]:
            listed = row["listed"] or []
            gone = sorted(listed, key=lambda each: each["row"]) if annotates else []
            rows = np.array([each["row"] for each in gone] if annotates else sorted(listed), np.int64)
            source = held.value[0]
            notes = None
            if merge:
                noted = sorted(row["noted"] or [], key=lambda each: each["row"])
                notes = note_merged(merge, [each["row"] for each in noted], [each["values"] for each in noted])
            elif annotates:
                notes = _note(gone, source.id_type) if gone else no_notes(source)
            cuts = row.get("cuts")
            unit = Unit(row["file"], rows, aside.get(row["file"], NO_ROWS), notes, _to_cuts(cuts) if cuts else None)
            done = write_unit(source, unit, folder=folder, annotates=annotates, is_first_empty=is_clean)
            return UNREAD if done.kept is None else done.kept, done.removed

        # A struct, since a list of its own leaves out the nulls of a column.
        named = fates.frame.withColumn("listed", F.struct(*LISTED) if annotates else F.col("row"))
        listed = gather(named, "file", {"listed": "listed"})
        every = self.corpus.spark.range(count).select(F.col("id").cast("int").alias("file"))
        units = every.join(listed, on="file", how="left")
        if merge:
            noted = merge_values(fates.frame, applied.documents).select(
                "file", F.struct("row", "values").alias("noted")
            )
            units = units.join(gather(noted, "file", {"noted": "noted"}), on="file", how="left")
        if applied.cuts is not None and not annotates:
            places = applied.documents.select("doc_id", "file", "row").join(applied.cuts, on="doc_id", how="inner")
            cuts = places.select("file", F.struct("row", "begin", "end").alias("cuts"))
            units = units.join(gather(cuts, "file", {"cuts": "cuts"}), on="file", how="left")
        written = spread(units, "file", count).mapInArrow(_by_row(write), WRITTEN).toArrow()
        unread = [file for file, kept in zip(written["file"], written["kept"], strict=True) if kept.as_py() == UNREAD]
        kept = sum(each for each in written["kept"].to_pylist() if each != UNREAD)
        if unread:
            copied = applied.documents.filter(F.col("file").isin([file.as_py() for file in unread]))
            kept += copied.count()
        return kept, sum(written["removed"].to_pylist())

    def _repack(
        self, applied: Applied, fates: Table[FatesCount], aside: Mapping[int, Integers]
    ) -> tuple[int, int | None]:
        files, splits, held = self.files, self.corpus.splits, self.corpus.held
        groups = files.group(splits)
        number_of = {id(split): number for number, split in enumerate(splits)}
        group_of = {number_of[id(split)]: number for number, group in enumerate(groups) for split in group}
        is_ids, kind = files.config.output.mode == "ids", files.kind
        numbers = [[number_of[id(split)] for split in group] for group in groups]
        schema = None if is_ids else repack.common_schema(self.corpus.source)

        def run(left_out: DataFrame, folder: str) -> int:
            paths = [files.name_part(folder, number) for number in range(len(groups))]

            def write(row: Mapping[str, Any]) -> tuple[int, int]:
                rows = _by_file(row["files"] or [], row["rows"] or [])
                source, every_split = held.value
                own = [every_split[number] for number in numbers[row["file"]]]
                cuts = {each["file"]: _to_cuts(each["cuts"]) for each in row.get("cuts") or ()}
                packed = Pack(own, merge(rows, aside), paths[row["file"]], cuts)
                if schema is None:
                    done = pack_ids(source, packed, kind=kind)
                else:
                    done = pack(source, packed, kind=kind, schema=schema)
                return done.kept or 0, done.removed

            number = F.create_map(*[F.lit(each) for pair in group_of.items() for each in pair])[F.col("split")]
            placed = left_out.select(number.alias("file"), F.col("file").alias("of"), "row")
            listed = gather(placed, "file", {"files": "of", "rows": "row"})
            every = self.corpus.spark.range(len(groups)).select(F.col("id").cast("int").alias("file"))
            units = every.join(listed, on="file", how="left")
            if applied.cuts is not None and folder == "kept":
                units = units.join(_gather_cuts(applied.documents, applied.cuts, number), on="file", how="left")
            units = spread(units, "file", len(groups))
            return sum(units.mapInArrow(_by_row(write), WRITTEN).toArrow()["kept"].to_pylist())

        kept = run(fates.frame, "kept")
        if is_ids:
            return kept, None
        gone = fates.frame.select(*schemas.PLACE)
        return kept, run(applied.documents.join(gone, on=[*schemas.PLACE], how="left_anti"), "removed")

    def _count_kept(self, applied: Applied, fates: Table[FatesCount]) -> int:
        """Return the bytes of the texts that stay."""
        kept = applied.text_bytes - fates.counts.text_bytes
        if applied.spans is None or self.files.config.output.mode == "annotate":
            return kept
        before = Window.partitionBy("id").orderBy("begin", F.desc("end")).rowsBetween(Window.unboundedPreceding, -1)
        # What an earlier layer has cut can lie in what a later one cuts.
        is_inner = F.coalesce(F.max("end").over(before), F.lit(-1)) >= F.col("end")
        cut = applied.spans.filter(F.col("effect") == "cut").withColumn("inner", is_inner).filter(~F.col("inner"))
        lost = cut.groupBy("id").agg(F.sum(F.octet_length("text")).alias("bytes"))
        places = applied.documents.select("id", *schemas.PLACE)
        staying = places.join(fates.frame.select(*schemas.PLACE), on=[*schemas.PLACE], how="left_anti")
        return kept - int(staying.join(lost, on="id", how="inner").agg(F.sum("bytes")).collect()[0][0] or 0)

    def _read_texts(self, applied: Applied) -> dict[int, str]:
        """Return how the texts begin that the report shows, by doc_id."""
        ids = applied.examples
        if not ids:
            return {}
        rows = applied.documents.filter(F.col("doc_id").isin(ids)).select("doc_id", "file", "row").toArrow()
        return self.files.begin_texts(*(rows[name].to_pylist() for name in rows.column_names))


def _gather_cuts(documents: DataFrame, cuts: DataFrame, number: Column) -> DataFrame:
    """Return the spans of the files of each output file, which is known by this number of a split."""
    places = documents.select("doc_id", *schemas.PLACE).join(cuts, on="doc_id", how="inner")
    listed = F.collect_list(F.struct("row", "begin", "end")).alias("cuts")
    of_file = places.groupBy(number.alias("number"), "file").agg(listed)
    of_number = F.collect_list(F.struct("file", "cuts")).alias("cuts")
    return of_file.groupBy("number").agg(of_number).withColumnRenamed("number", "file")


def _to_cuts(listed: Sequence[Mapping[str, int]]) -> Cuts:
    """Return the spans of a file."""
    rows, begins, ends = (np.array([each[name] for each in listed], np.int64) for name in ("row", "begin", "end"))
    order = np.argsort(rows, kind="stable")
    return Cuts.of(rows[order], begins[order], ends[order])


def _by_row(write: Callable[[Mapping[str, Any]], tuple[int, int]]) -> Callable[[Batches], Batches]:
    """Return a function for mapInArrow that calls `write` with each row, and tells what became of each file."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                kept, removed = write(row)
                yield pa.RecordBatch.from_arrays(
                    [pa.array([kept]), pa.array([removed]), pa.array([row["file"]], pa.int32())], names=WRITTEN.names
                )

    return run


def _by_file(files: Sequence[int], rows: Sequence[int]) -> dict[int, Integers]:
    of, places = np.array(files, np.int64), np.array(rows, np.int64)
    return {int(file): np.sort(places[of == file]) for file in np.unique(of)}


def _note(gone: Sequence[Mapping[str, Any]], id_type: pa.DataType) -> pa.Table:
    """Return what mode annotate says of the rows of a file that go."""
    kinds = (pa.int64(), id_type, id_type, pa.string(), pa.float64())
    columns = [pa.array([row[name] for row in gone], kind) for name, kind in zip(LISTED, kinds, strict=True)]
    rows, *rest = columns
    return pa.Table.from_arrays([rows, pa.array([False] * len(rows)), *rest], names=["row", *NOTES])
