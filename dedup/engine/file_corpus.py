"""Documents of files, whose texts the workers read themselves, so that the JVM sees numbers only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.engine import Batches, Tally, Work
from dedup.engine.exchange import spread
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Ending
from dedup.engine.tasks import Held
from dedup.files.documents import read_with, to_documents
from dedup.files.profile_filter import ProfileFilter
from dedup.files.remaining import Remaining
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels.runs.blocks import divide
from dedup.tables import arrow

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

    @property
    def rows(self) -> None:
        """See `Corpus.rows`."""

    def scan(self, work: Work, ending: Ending) -> DataFrame:
        """See `Corpus.scan`."""
        held, renamed, chosen, count = self.held, self.renamed, self.chosen, max(len(self.splits), 1)

        def read(numbers: Iterable[int], lefts: Mapping[int, Remaining]) -> Batches:
            source, splits = held.value
            for number in numbers:
                left = replace(lefts.get(number, Remaining()), profile=chosen)
                for piece in left.read(source, splits[number]):
                    if piece.batch.num_rows:
                        yield to_documents(source, piece, number, renamed)

        def read_all(batches: Batches) -> Batches:
            yield from read(chain.from_iterable(batch["split"].to_pylist() for batch in batches), {})

        def read_left(parts: Sequence[pa.Table | None]) -> Iterable[pa.RecordBatch | Tally]:
            numbers, left = parts
            return work(read([] if numbers is None else numbers["split"].to_pylist(), _list_remaining(left)))

        # A task for each split, as the order of numbers has them.
        numbers = self.spark.range(0, len(self.splits), 1, count).select(F.col("id").cast("int").alias("split"))
        if self.left is None:
            return numbers.mapInArrow(ending(lambda batches: work(read_all(batches))), ending.schema)
        return spread(self.spark, [numbers, self.left], "split", read_left, ending, numbers=len(self.splits))

    def fetch(self, wanted: SparkRows, work: Work, ending: Ending) -> DataFrame:
        """See `Corpus.fetch`."""
        held, renamed = self.held, self.renamed

        def read(places: pa.Table, lefts: Mapping[int, Remaining]) -> Batches:
            source, splits = held.value
            of = places["split"].to_numpy()
            for number, rows in divide(of):
                [side] = places.take(rows).combine_chunks().to_batches()
                left = lefts.get(number, Remaining())
                yield from read_with(source, splits[number], left, side, number=number, renamed=renamed)

        def read_left(parts: Sequence[pa.Table | None]) -> Iterable[pa.RecordBatch | Tally]:
            places, *left = parts
            return [] if places is None else work(read(places, _list_remaining(*left)))

        wanted = wanted.select(*(name for name in wanted.columns if name != "doc_id"))
        parts: list[DataFrame | SparkRows] = [wanted, *([] if self.left is None else [self.left])]
        return spread(self.spark, parts, "split", read_left, ending, numbers=len(self.splits))

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


def _list_remaining(left: pa.Table | None = None) -> dict[int, Remaining]:
    """Return by split what LEFT says; of the others all is left."""
    return {row["split"]: _to_remaining(row) for row in ([] if left is None else left.to_pylist())}


def _to_remaining(row: Mapping[str, Any]) -> Remaining:
    removed, cuts = row["removed"] or [], row["cuts"] or []
    one, other = (
        [np.array([each[name] for each in listed], np.int64) for name in names]
        for listed, names in ((removed, ("file", "row")), (cuts, ("file", "row", "begin", "end")))
    )
    return Remaining.of((one[0], one[1]), (other[0], other[1], other[2], other[3]))
