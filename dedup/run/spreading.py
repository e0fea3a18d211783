"""The output of a run on Spark over files: its tasks write a file for each file of the input."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import DedupError
from dedup.files import repack
from dedup.kernels import Integers
from dedup.layers.near import NAME, NearFound
from dedup.run.merging import note_merged
from dedup.run.sinking import NO_ROWS, NOTES, FileWriter, Pack, Unit, merge, no_notes, pack, pack_ids, write_unit
from dedup.run.tables import Tables
from dedup.run.writing import Result, TableWriter
from dedup.stages.exchange import Batches
from dedup.stages.fates import find_fates, merge_values
from dedup.stages.files import Files, gather, spread
from dedup.stages.placement import fits_broadcast
from dedup.stages.table import Table
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
    keep: Tables

    def write(self, found: NearFound) -> Result:
        """Apply what was found in one pass over the files, and write the tables that explain it.

        Raises
        ------
        DedupError
            When the rows kept and removed are not those of the input.
        """
        fates = self._keep_fates(found)
        aside = self._set_aside()
        goes, total = fates.counts.rows, found.counts.signed.rows
        # All at once: but for the files they are small, and each has its share of waiting for the driver.
        with ThreadPoolExecutor() as writers:
            duplicates = fates.frame.drop("doc_id", "text_bytes", *schemas.PLACE)
            explained = writers.submit(self.tables.write, "duplicates", duplicates)
            edges = writers.submit(self.tables.write_edges, found)
            near_misses = writers.submit(self.tables.write_near_misses, found)
            with self.tables.clock.group("output"):
                kept, removed = self._write_files(found, fates, aside)
        if kept != total - goes or removed not in {goes, None} or explained.result() != goes:
            raise DedupError(
                f"output: kept and removed must be the {total - goes:,} and {goes:,} documents found (got {kept:,} and "
                f"{removed:,}); did the input change while it was read?"
            )
        is_ids = self.files.config.output.mode == "ids"
        return Result(
            texts={} if is_ids else self._read_texts(found),
            counts=Written(
                kept=kept,
                removed=goes,
                edges=edges.result(),
                near_misses=near_misses.result(),
                quarantined=sum(rows.size for rows in aside.values()),
                text_bytes_kept=None if is_ids else found.counts.signed.text_bytes - fates.counts.text_bytes,
            ),
        )

    def _keep_fates(self, found: NearFound) -> Table[FatesCount]:
        schema = schemas.fates(self.corpus.id_type)

        def build(_: object) -> DataFrame:
            fates = find_fates(
                found.removals,
                found.repeated,
                found.signatures,
                found.members,
                layer=NAME,
                broadcast=fits_broadcast(found.counts.elected.rows),
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
        if source.on_bad_record != "quarantine" or source.listing.format not in {"jsonl", "csv"}:
            return {}
        rejected = self.keep("rejected", self.corpus.rejected_schema, lambda _: self.corpus.list_rejected(), dict)
        rows = rejected.frame.select("number", "row").toArrow()
        if rows.num_rows:
            self.tables.write("quarantine", rejected.frame.select(*schemas.QUARANTINE.names))
        numbers, places = rows["number"].to_numpy(), rows["row"].to_numpy()
        return {int(number): np.sort(places[numbers == number]) for number in np.unique(numbers)}

    def _write_files(
        self, found: NearFound, fates: Table[FatesCount], aside: Mapping[int, Integers]
    ) -> tuple[int, int | None]:
        if self.files.config.output.mode == "ids" or self.files.format:
            return self._repack(found, fates, aside)
        return self._mirror(found, fates, aside)

    def _mirror(
        self, found: NearFound, fates: Table[FatesCount], aside: Mapping[int, Integers]
    ) -> tuple[int, int | None]:
        folder, held, count = self.files.folder, self.corpus.held, len(self.corpus.source.listing.files)
        annotates, is_clean = self.files.config.output.mode == "annotate", not fates.counts.rows
        names = LISTED if annotates else LISTED[:1]
        merge = self.files.config.keep.merge

        def write(row: Mapping[str, Any]) -> tuple[int, int]:
            order = np.argsort(np.array(row["row"] or [], np.int64))
            rows = np.array(row["row"] or [], np.int64)[order]
            source = held.value[0]
            notes = None
            if merge:
                noted = sorted(row["noted"] or [], key=lambda each: each["row"])
                notes = note_merged(merge, [each["row"] for each in noted], [each["values"] for each in noted])
            elif annotates:
                notes = _note(row, order, source.id_type) if rows.size else no_notes(source)
            unit = Unit(row["file"], rows, aside.get(row["file"], NO_ROWS), notes)
            done = write_unit(source, unit, folder=folder, annotates=annotates, is_first_empty=is_clean)
            return UNREAD if done.kept is None else done.kept, done.removed

        listed = gather(fates.frame, "file", {name: name for name in names})
        every = self.corpus.spark.range(count).select(F.col("id").cast("int").alias("file"))
        units = every.join(listed, on="file", how="left")
        if merge:
            noted = merge_values(fates.frame, found.signatures).select("file", F.struct("row", "values").alias("noted"))
            units = units.join(gather(noted, "file", {"noted": "noted"}), on="file", how="left")
        written = spread(units, "file", count).mapInArrow(_by_row(write), WRITTEN).toArrow()
        unread = [file for file, kept in zip(written["file"], written["kept"], strict=True) if kept.as_py() == UNREAD]
        kept = sum(each for each in written["kept"].to_pylist() if each != UNREAD)
        if unread:
            copied = found.signatures.filter(F.col("file").isin([file.as_py() for file in unread]))
            kept += copied.count()
        return kept, sum(written["removed"].to_pylist())

    def _repack(
        self, found: NearFound, fates: Table[FatesCount], aside: Mapping[int, Integers]
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
                packed = Pack(own, merge(rows, aside), paths[row["file"]])
                if schema is None:
                    done = pack_ids(source, packed, kind=kind)
                else:
                    done = pack(source, packed, kind=kind, schema=schema)
                return done.kept or 0, done.removed

            number = F.create_map(*[F.lit(each) for pair in group_of.items() for each in pair])[F.col("split")]
            placed = left_out.select(number.alias("file"), F.col("file").alias("of"), "row")
            listed = gather(placed, "file", {"files": "of", "rows": "row"})
            every = self.corpus.spark.range(len(groups)).select(F.col("id").cast("int").alias("file"))
            units = spread(every.join(listed, on="file", how="left"), "file", len(groups))
            return sum(units.mapInArrow(_by_row(write), WRITTEN).toArrow()["kept"].to_pylist())

        kept = run(fates.frame, "kept")
        if is_ids:
            return kept, None
        gone = fates.frame.select(*schemas.PLACE)
        return kept, run(found.signatures.join(gone, on=[*schemas.PLACE], how="left_anti"), "removed")

    def _read_texts(self, found: NearFound) -> dict[int, str]:
        """Return how the texts begin that the report shows, by doc_id."""
        ids = found.counts.elected.shown
        if not ids:
            return {}
        rows = found.signatures.filter(F.col("doc_id").isin(ids)).select("doc_id", "file", "row").toArrow()
        return self.files.begin_texts(*(rows[name].to_pylist() for name in rows.column_names))


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


def _note(row: Mapping[str, Any], order: Integers, id_type: pa.DataType) -> pa.Table:
    """Return what mode annotate says of the rows of a file that go."""
    kinds = (pa.int64(), id_type, pa.int64(), pa.string(), pa.float64())
    columns = [pa.array(row[name], kind).take(pa.array(order)) for name, kind in zip(LISTED, kinds, strict=True)]
    rows, *rest = columns
    gone = pa.array([False] * len(rows))
    return pa.Table.from_arrays([rows, gone, *rest], names=["row", *NOTES])
