"""Files and tables that Spark writes: see `dedup.output.file_output.FileOutput`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dedup.engine.engine import Batches
from dedup.engine.exchange import spread
from dedup.engine.file_corpus import REJECTED, Files
from dedup.engine.table import TableWriter, Uncounted
from dedup.files.formats.format import FileCounts
from dedup.files.splits import Split
from dedup.output.file_output import FileOutput, Handed, Unit, WriteUnit
from dedup.tables import arrow

WRITTEN = arrow.integers("unit", "kept", "removed")


def save(writer: DataFrameWriter, path: str, kind: str) -> None:
    """Write rows to a folder, in parquet, jsonl or csv."""
    writer = writer.mode("overwrite")
    if kind == "jsonl":
        writer.json(path)
    elif kind == "csv":
        # Spark's own defaults take white space off and turn quotes into backslashed ones.
        exact = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
        writer.options(header=True, escape='"', **exact).csv(path)
    else:
        writer.parquet(path)


def save_counted(rows: DataFrame, path: str, kind: str = "parquet") -> int:
    """Do so, and return how many rows there are."""
    observation = Observation()
    save(rows.observe(observation, F.count(F.lit(1)).alias("rows")).write, path, kind)
    return int(observation.get["rows"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkOutput(FileOutput[DataFrame]):
    """Files that tasks of Spark write."""

    corpus: Files
    keep: TableWriter

    @property
    def splits(self) -> Sequence[Split]:
        """See `FileOutput.splits`."""
        return self.corpus.splits

    def save(self, name: str, rows: DataFrame, /) -> int:
        """See `FileOutput.save`."""
        return save_counted(rows, f"{self.folder}/{name}")

    def list_rejected(self) -> DataFrame | None:
        """See `FileOutput.list_rejected`; one more pass over files that may have some."""
        if self.source.on_bad_record != "quarantine" or not self.source.listing.format.can_reject:
            return None
        rejected = self.keep("rejected", from_arrow_schema(REJECTED), self.corpus.list_rejected)
        return rejected.frame if rejected.counts["rows"] else None

    def write_units(self, edits: DataFrame, units: Sequence[Unit], work: WriteUnit) -> Mapping[int, FileCounts]:
        """See `FileOutput.write_units`."""
        held, numbers = self.corpus.held, {number: unit.splits for number, unit in enumerate(units) if unit.splits}

        none = to_arrow_schema(edits.schema).empty_table()

        def run(parts: Sequence[pa.Table | None]) -> Batches:
            source, splits = held.value
            every, changes = (none if part is None else part for part in parts)
            changes = changes.sort_by([("unit", "ascending"), ("row", "ascending")])
            for unit in every["unit"].to_pylist():
                begin, end = (np.searchsorted(changes["unit"].to_numpy(), unit, side) for side in ("left", "right"))
                own = changes.slice(begin, end - begin)
                done = work(source, Handed(unit, [splits[number] for number in numbers.get(unit, ())], own))
                counts = {"unit": unit, "kept": done.kept, "removed": done.removed}
                yield pa.RecordBatch.from_pylist([counts], WRITTEN)

        every = edits.sparkSession.range(len(units)).select(F.col("id").alias("unit"))
        written = spread([every, edits], "unit", len(units), run, Uncounted(schema=from_arrow_schema(WRITTEN)))
        return {
            row["unit"]: FileCounts(kept=row["kept"], removed=row["removed"]) for row in written.toArrow().to_pylist()
        }
