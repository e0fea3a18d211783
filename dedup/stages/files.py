"""Documents of files, whose texts the workers read themselves, so that the JVM sees numbers only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels import Integers
from dedup.kernels.blocks import routes
from dedup.kernels.ids import apply_renamed, to_doc_ids
from dedup.kernels.runs import find_bounds
from dedup.stages.exchange import Batches
from dedup.tables.schemas import QUARANTINE

WAVES = 8
"""Tasks for each core, so that cores end together."""
REJECTED = T.StructType([*QUARANTINE.fields]).add("number", T.IntegerType()).add("row", T.LongType())
"""QUARANTINE with the place of each record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Files:
    """Documents of files; see `documents.Corpus`."""

    spark: SparkSession
    source: FileSource
    splits: Sequence[Split]
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""

    def rename(self, renamed: Mapping[str, int]) -> "Files":
        """See `Corpus.rename`."""
        return replace(self, renamed=renamed)

    @cached_property
    def held(self) -> Broadcast[tuple[FileSource, Sequence[Split]]]:
        """Source and splits as workers have them: sent to each once, since of a million files they are large."""
        return self.spark.sparkContext.broadcast((self.source, self.splits))

    @property
    def id_type(self) -> T.DataType:
        """Type of the user's own ids."""
        return T.LongType() if pa.types.is_integer(self.source.id_type) else T.StringType()

    def scan(self, work: Callable[[Batches], Batches], schema: T.StructType) -> DataFrame:
        """See `Corpus.scan`."""
        held, renamed, count = self.held, self.renamed, max(len(self.splits), 1)

        def read(batches: Batches) -> Iterator[pa.RecordBatch]:
            source, splits = held.value
            for batch in batches:
                for number in batch["id"].to_pylist():
                    yield from _read(source, splits[number], number, None, renamed)

        # A task for each split, as the order of numbers has them.
        numbers = self.spark.range(0, len(self.splits), 1, count)
        return numbers.mapInArrow(lambda batches: work(read(batches)), schema)

    def fetch(
        self,
        signatures: DataFrame,
        wanted: DataFrame,
        work: Callable[[Batches], Batches],
        schema: T.StructType,
        *,
        broadcast: bool,
    ) -> DataFrame:
        """See `Corpus.fetch`."""
        held, renamed = self.held, self.renamed
        ids = F.broadcast(wanted) if broadcast else wanted
        places = signatures.select("doc_id", "split", "file", "row").join(ids, on="doc_id", how="left_semi")

        def read(batches: Batches) -> Iterator[pa.RecordBatch]:
            source, splits = held.value
            for batch in batches:
                columns = (batch[name].to_pylist() for name in ("split", "files", "rows"))
                for number, files, rows in zip(*columns, strict=True):
                    yield from _read(source, splits[number], number, (np.array(files), np.array(rows)), renamed)

        gathered = gather(places, "split", {"files": "file", "rows": "row"})
        return spread(gathered, "split", len(self.splits)).mapInArrow(lambda batches: work(read(batches)), schema)

    @property
    def rejected_schema(self) -> T.StructType:
        """Schema of REJECTED."""
        return REJECTED

    def list_rejected(self) -> DataFrame:
        """Return the malformed records: REJECTED; one more pass over the files."""
        held, count = self.held, max(len(self.splits), 1)

        def read(batches: Batches) -> Batches:
            source, splits = held.value
            for batch in batches:
                for number in batch["id"].to_pylist():
                    for piece in source.read(splits[number]):
                        rows = [
                            {"file": each.file, "reason": each.reason, "record": each.record}
                            | {"number": piece.file, "row": each.row}
                            for each in piece.rejected
                        ]
                        if rows:
                            yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_REJECTED)

        return self.spark.range(0, len(self.splits), 1, count).mapInArrow(read, REJECTED)


_ARROW_REJECTED = pa.schema(
    [(name, pa.string()) for name in QUARANTINE.names] + [("number", pa.int32()), ("row", pa.int64())]
)


def gather(rows: DataFrame, key: str, columns: dict[str, str]) -> DataFrame:
    """Return one row for each key, with the values of these columns as lists of one order."""
    lists = [F.collect_list(F.col(column)).alias(name) for name, column in columns.items()]
    return rows.groupBy(key).agg(*lists)


def spread(rows: DataFrame, key: str, count: int) -> DataFrame:
    """Bring the keys from 0 to `count - 1` to tasks, as many to each."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    tasks = max(min(count, WAVES * cores), 1)
    targets = F.array(*[F.lit(int(target)) for target in routes(tasks)])
    placed = rows.withColumn("target", targets[(F.col(key) % tasks).cast("int")])
    return placed.repartition(tasks, "target").drop("target")


def _read(
    source: FileSource,
    split: Split,
    number: int,
    places: tuple[Integers, Integers] | None,
    renamed: Mapping[str, int],
) -> Iterator[pa.RecordBatch]:
    """Read a split, or only these places (files and rows) of it."""
    wanted = None
    if places is not None:
        order = np.lexsort((places[1], places[0]))
        files, rows = places[0][order], places[1][order]
        bounds = find_bounds(files).tolist()
        wanted = {int(files[begin]): rows[begin:end] for begin, end in pairwise(bounds)}
    for piece in source.read(split, wanted):
        batch = piece.batch
        count = batch.num_rows
        if count:
            nameless = batch["id"].is_null()
            doc_ids = apply_renamed(to_doc_ids(batch["id"]), batch["id"], renamed)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(doc_ids, mask=nameless.to_numpy(zero_copy_only=False)),
                    batch["id"],
                    batch["text"],
                    batch["source"],
                    pa.array(np.full(count, number, np.int32)),
                    pa.array(np.full(count, piece.file, np.int32)),
                    batch["row"],
                    batch["order_keys"],
                    batch["merged"],
                ],
                names=["doc_id", "id", "text", "source", "split", "file", "row", "order_keys", "merged"],
            )
