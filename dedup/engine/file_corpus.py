"""Documents of files, whose texts the workers read themselves, so that the JVM sees numbers only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine import sessions
from dedup.engine.engine import Batches, Work
from dedup.engine.table import Ending
from dedup.engine.tasks import Held
from dedup.files.documents import read_with, to_documents
from dedup.files.profile_filter import ProfileFilter
from dedup.files.remaining import Remaining
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels.runs.blocks import routes
from dedup.tables import arrow

WAVES = 8
"""Tasks for each core, so that cores end together."""
PLACE = [name for name, _ in arrow.PLACE]
_ROW = (("file", pa.int32()), ("row", pa.int64()))
LEFT = from_arrow_schema(
    pa.schema(
        {
            "split": pa.int32(),
            "removed": pa.list_(pa.struct(_ROW)),
            "cuts": pa.list_(pa.struct([*_ROW, ("begin", pa.int64()), ("end", pa.int64())])),
        }
    )
)
"""Removals of earlier layers from a split: rows, and spans of texts."""
REJECTED = pa.schema(
    {
        **dict.fromkeys(("file", "reason", "record"), pa.string()),
        "split": pa.int32(),
        "number": pa.int32(),
        "row": pa.int64(),
    }
)
"""Malformed records, as they stand in the input files, with the place of each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Files:
    """Documents of files; see `documents.Corpus`."""

    spark: SparkSession
    source: FileSource
    splits: Sequence[Split]
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""
    left: DataFrame | None = None
    """LEFT; None where all is."""
    chosen: ProfileFilter | None = None
    """The profile whose documents these are; None for all."""

    def rename(self, renamed: Mapping[str, int]) -> "Files":
        """See `Corpus.rename`."""
        return replace(self, renamed=renamed)

    @cached_property
    def held(self) -> Held[tuple[FileSource, Sequence[Split]]]:
        """Source and splits as workers have them."""
        return Held((self.source, self.splits))

    @property
    def id_type(self) -> T.DataType:
        """Type of the user's own ids."""
        return T.LongType() if pa.types.is_integer(self.source.id_type) else T.StringType()

    def scan(self, work: Work, ending: Ending) -> DataFrame:
        """See `Corpus.scan`."""
        held, renamed, chosen, count = self.held, self.renamed, self.chosen, max(len(self.splits), 1)

        def read(batches: Batches) -> Iterator[pa.RecordBatch]:
            source, splits = held.value
            for batch in batches:
                for row in batch.to_pylist():
                    for piece in replace(_to_remaining(row), profile=chosen).read(source, splits[row["split"]]):
                        if piece.batch.num_rows:
                            yield to_documents(source, piece, row["split"], renamed)

        # A task for each split, as the order of numbers has them.
        numbers = self.spark.range(0, len(self.splits), 1, count).select(F.col("id").cast("int").alias("split"))
        if self.left is not None:
            numbers = spread(numbers.join(self.left, on="split", how="left"), "split", count)
        return numbers.mapInArrow(ending(lambda batches: work(read(batches))), ending.schema)

    def fetch(
        self,
        signatures: DataFrame,
        wanted: DataFrame,
        work: Work,
        ending: Ending,
        *,
        broadcast: bool,
    ) -> DataFrame:
        """See `Corpus.fetch`."""
        held, renamed = self.held, self.renamed
        ids = F.broadcast(wanted) if broadcast else wanted
        more = [name for name in wanted.columns if name not in {*PLACE, "text_bytes"}]
        # Ids alone may come several times, as those of equal rows do.
        places = signatures.select("doc_id", *PLACE, "text_bytes").join(
            ids, on="doc_id", how="inner" if more[1:] else "left_semi"
        )

        def read(batches: Batches) -> Iterator[pa.RecordBatch]:
            source, splits = held.value
            for batch in batches:
                lefts = batch.drop_columns(["wanted"]).to_pylist()
                for row, listed in zip(lefts, batch["wanted"], strict=True):
                    side = pa.RecordBatch.from_struct_array(listed.values)
                    split = row["split"]
                    yield from read_with(source, splits[split], _to_remaining(row), side, number=split, renamed=renamed)

        listed = F.collect_list(F.struct("file", "row", "text_bytes", *more)).alias("wanted")
        gathered = places.groupBy("split").agg(listed)
        if self.left is not None:
            gathered = gathered.join(self.left, on="split", how="left")
        spreaded = spread(gathered, "split", len(self.splits))
        return spreaded.mapInArrow(ending(lambda batches: work(read(batches))), ending.schema)

    def leave(self, documents: DataFrame, removals: DataFrame | None, spans: DataFrame | None) -> DataFrame:
        """See `Corpus.leave`: LEFT, by the splits that lose something."""
        places = documents.select("doc_id", *PLACE)
        none = [F.lit(None).cast(LEFT[name].dataType).alias(name) for name in ("removed", "cuts")]
        found = self.spark.createDataFrame([], LEFT)
        if removals is not None:
            gone = places.join(removals.select("doc_id"), on="doc_id", how="left_semi")
            listed = F.collect_list(F.struct("file", "row")).alias("removed")
            found = found.unionByName(gone.groupBy("split").agg(listed).select("split", "removed", none[1]))
        if spans is not None:
            cut = places.join(spans, on="doc_id", how="inner")
            listed = F.collect_list(F.struct("file", "row", "begin", "end")).alias("cuts")
            found = found.unionByName(cut.groupBy("split").agg(listed).select("split", none[0], "cuts"))
        lists = [F.flatten(F.collect_list(name)).alias(name) for name in ("removed", "cuts")]
        return found.groupBy("split").agg(*lists)

    def without(self, left: DataFrame) -> "Files":
        """See `Corpus.without`."""
        return replace(self, left=left)

    def choose(self, chosen: ProfileFilter | None) -> "Files":
        """See `Corpus.choose`."""
        return replace(self, chosen=chosen)

    def list_rejected(self, ending: Ending) -> DataFrame:
        """Return the malformed records: REJECTED; one more pass over the files."""
        held, count = self.held, max(len(self.splits), 1)

        def read(batches: Batches) -> Batches:
            source, splits = held.value
            for batch in batches:
                for number in batch["id"].to_pylist():
                    for piece in source.read(splits[number]):
                        rows = [
                            {"file": each.file, "reason": each.reason, "record": each.record}
                            | {"split": number, "number": piece.file, "row": each.row}
                            for each in piece.rejected
                        ]
                        if rows:
                            yield pa.RecordBatch.from_pylist(rows, schema=REJECTED)

        return self.spark.range(0, len(self.splits), 1, count).mapInArrow(ending(read), ending.schema)


def spread(rows: DataFrame, key: str, count: int) -> DataFrame:
    """Bring the keys from 0 to `count - 1` to tasks, as many to each."""
    tasks = max(min(count, WAVES * sessions.count_cores(rows.sparkSession)), 1)
    targets = F.array(*[F.lit(int(target)) for target in routes(tasks)])
    placed = rows.withColumn("target", targets[(F.col(key) % tasks).cast("int")])
    return placed.repartition(tasks, "target").drop("target")


def _to_remaining(row: Mapping[str, Any]) -> Remaining:
    """Return what LEFT says of a split; nothing is gone where it says nothing."""
    removed, cuts = row.get("removed") or [], row.get("cuts") or []
    if not removed and not cuts:
        return Remaining()
    one, other = (
        [np.array([each[name] for each in listed], np.int64) for name in names]
        for listed, names in ((removed, ("file", "row")), (cuts, ("file", "row", "begin", "end")))
    )
    return Remaining.of((one[0], one[1]), (other[0], other[1], other[2], other[3]))
