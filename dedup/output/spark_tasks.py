"""Files and tables that Spark writes: see `dedup.output.file_output.FileOutput`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.engine import Batches
from dedup.engine.exchange import spread
from dedup.engine.expressions import TIMES
from dedup.engine.file_corpus import REJECTED, Files
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import TableWriter, Uncounted, WrittenFiles
from dedup.files.formats.format import FileCounts
from dedup.files.splits import Split
from dedup.output.file_output import FileOutput, Handed, Unit, WriteUnit
from dedup.tables import arrow

WRITTEN = arrow.integers("unit", "kept", "removed")


def save(writer: DataFrameWriter, path: str, kind: str) -> None:
    """Write rows to a folder, in parquet, jsonl or csv."""
    writer = writer.mode("overwrite")
    if kind == "jsonl":
        writer.options(**TIMES).json(path)
    elif kind == "csv":
        # Spark's own defaults take white space off and turn quotes into backslashed ones.
        exact: dict[str, bool | str] = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False, **TIMES}
        writer.options(header=True, escape='"', **exact).csv(path)
    else:
        writer.parquet(path)


def save_counted(rows: DataFrame, path: str, kind: str = "parquet") -> int:
    """Do so, and return how many rows there are."""
    observation = Observation()
    save(rows.observe(observation, F.count(F.lit(1)).alias("rows")).write, path, kind)
    return int(observation.get["rows"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkOutput(FileOutput[SparkRows]):
    """Files that tasks of Spark write."""

    corpus: Files
    keep: TableWriter

    @property
    def splits(self) -> Sequence[Split]:
        """See `FileOutput.splits`."""
        return self.corpus.splits

    def save(self, name: str, rows: SparkRows, /) -> int:
        """See `FileOutput.save`."""
        ending = WrittenFiles(folder=f"{self.folder}/{name}", rows=from_arrow_schema(rows.schema), is_published=True)
        for each in (rows, SparkRows.empty(rows.session, rows.schema)):
            written = each.mapInArrow(ending(iter), ending.schema).toArrow()
            # Spark makes no task of what it knows to be empty.
            if written.num_rows:
                break
        count: int = pc.sum(written["rows"]).as_py()
        return count

    def list_rejected(self) -> SparkRows | None:
        """See `FileOutput.list_rejected`; one more pass over files that may have some."""
        if self.source.on_bad_record != "quarantine" or not self.source.listing.format.can_reject:
            return None
        rejected = self.keep("rejected", from_arrow_schema(REJECTED), self.corpus.list_rejected)
        return rejected if rejected.count else None

    def write_units(self, edits: SparkRows, units: Sequence[Unit], work: WriteUnit) -> Mapping[int, FileCounts]:
        """See `FileOutput.write_units`."""
        held, numbers = self.corpus.held, {number: unit.splits for number, unit in enumerate(units) if unit.splits}

        none = edits.schema.empty_table()

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

        every = edits.session.range(len(units)).select(F.col("id").alias("unit"))
        ending = Uncounted(schema=from_arrow_schema(WRITTEN))
        written = spread(edits.session, [every, edits], "unit", run, ending, numbers=len(units))
        return {
            row["unit"]: FileCounts(kept=row["kept"], removed=row["removed"]) for row in written.toArrow().to_pylist()
        }
