"""The engine that layers search with on Spark: see `dedup.engine.engine.Engine`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.engine import Describe, Shuffle, Work
from dedup.files.chosen import Chosen
from dedup.stages import documents
from dedup.stages.components import Connecting, connect_documents
from dedup.stages.documents import Corpus
from dedup.stages.exchange import Batches, Counters
from dedup.stages.sorting import bring_together
from dedup.stages.table import Counts, Keep, Seen, Table, count_rows
from dedup.tables import arrow
from dedup.tables.schemas import PAIRS, REPEATED


@dataclass(slots=True, kw_only=True, eq=False)
class Known:
    """What the first pass over the documents has found, and those that follow need."""

    register: DataFrame | None = None
    """REGISTER, with further columns perhaps; None before."""
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""
    repeated: DataFrame | None = None
    """REPEATED; None where every document id is of one row."""

    def note(self, register: DataFrame, renamed: Mapping[str, int], repeated: DataFrame | None) -> None:
        """Take note of the first pass."""
        self.register, self.renamed, self.repeated = register, renamed, repeated

    @property
    def documents(self) -> DataFrame:
        """REGISTER, with further columns perhaps."""
        assert self.register is not None
        return self.register


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkEngine:
    """The documents that are left, and tables that stay once they are made."""

    corpus: Corpus
    keep: Keep
    id_column: str
    """Empty where an id is the digest of its row."""
    connecting: Connecting
    layer: str = ""
    """Whose tables they are."""
    known: Known = field(default_factory=Known)

    @property
    def id_type(self) -> pa.DataType:
        """See `Engine.id_type`."""
        return pa.string() if isinstance(self.corpus.id_type, T.StringType) else pa.int64()

    def scan(self, name: str, describe: Describe, schema: pa.Schema) -> DataFrame:
        """See `Engine.scan`."""
        whole = pa.schema([*arrow.register(self.id_type), *schema])
        work = partial(_describe, describe=describe, schema=whole)
        schema_of_spark = from_arrow_schema(whole)
        table = self.keep(
            f"{self.layer}_{name}",
            schema_of_spark,
            lambda _: self.corpus.scan(work, schema_of_spark),
            lambda seen: int(seen["nulls"]),
            summed={"nulls": "int(doc_id IS NULL)"},
        )
        if self.known.register is not None:
            return table.frame
        documents.check_null(self.corpus, table.counts, id_column=self.id_column)
        return self._begin(table.frame, whole)

    def _begin(self, rows: DataFrame, schema: pa.Schema) -> DataFrame:
        """Take note of all documents, once their ids are known to be of one row each."""
        counted = rows.groupBy("doc_id").agg(F.count(F.lit(1)).alias("copies")).filter("copies > 1")
        repeated = self.keep(f"{self.layer}_repeated", REPEATED, lambda _: counted, count_rows)
        renamed: Mapping[str, int] = {}
        if repeated.counts:
            renamed = documents.find_renamed(rows, repeated.frame)
            if renamed:
                rows = self._keep("renamed", schema, partial(documents.exchange_ids, rows, renamed))
                counted = rows.groupBy("doc_id").agg(F.count(F.lit(1)).alias("copies")).filter("copies > 1")
                repeated = self.keep(f"{self.layer}_repeated_renamed", REPEATED, lambda _: counted, count_rows)
            documents.check_repeated(rows, repeated.frame, id_column=self.id_column)
        self.known.note(rows, renamed, repeated.frame if repeated.counts else None)
        return rows

    def group(self, name: str, rows: DataFrame, shuffle: Shuffle, *, once: bool = False) -> DataFrame:
        """See `Engine.group`; unique hashes are dropped where they arrive."""

        def build() -> DataFrame:
            emit, emitted = shuffle.emit, shuffle.emitted
            given = rows.select(*emitted.names) if emit is None else rows
            if all(field.type == pa.int64() for field in emitted):
                return bring_together(given, shuffle)
            sent = given if emit is None else given.mapInArrow(emit, from_arrow_schema(emitted))
            sorted_rows = sent.repartition(*shuffle.by).sortWithinPartitions(*shuffle.by, *shuffle.order)
            return sorted_rows.mapInArrow(shuffle.work, from_arrow_schema(shuffle.schema))

        return build() if once else self._keep(name, shuffle.schema, build)

    def fetch(self, name: str, wanted: DataFrame, work: Work, schema: pa.Schema, *, once: bool = False) -> DataFrame:
        """See `Engine.fetch`."""
        register = self.known.documents
        if self.known.repeated is not None:
            place = F.min(F.struct(*(name for name, _ in arrow.PLACE))).alias("place")
            register = register.groupBy("doc_id").agg(place).select("doc_id", "place.*")
        build = partial(self.corpus.fetch, register, wanted, work, from_arrow_schema(schema), broadcast=False)
        return build() if once else self._keep(name, schema, build)

    def name_documents(self, name: str, rows: DataFrame, *, of: str, to: str, schema: pa.Schema) -> DataFrame:
        """See `Engine.name_documents`."""
        ids = self.known.documents.select(F.col("doc_id").alias(of), F.col("id").alias(to))
        if self.known.repeated is not None:
            ids = ids.dropDuplicates([of])
        named = rows.drop(to).join(ids, on=of, how="left").select(*schema.names)
        return self._keep(name, schema, lambda: named)

    def connect(self, name: str, rows: DataFrame, ends: tuple[str, str]) -> DataFrame:
        """See `Engine.connect`; of the edges of a forest alone the driver has more than counts."""
        own = f"{self.layer}_{name}"

        def keep(
            name: str,
            schema: T.StructType,
            build: Callable[[Counters], DataFrame],
            measure: Callable[[Seen], Counts],
            *,
            summed: Mapping[str, str] | None = None,
        ) -> Table[Counts]:
            del name
            return self.keep(own, schema, build, measure, summed=summed)

        links = rows.select(*(F.col(end).alias(side) for end, side in zip(ends, PAIRS.names, strict=True)))
        found = connect_documents(keep, links, links.count(), **self.connecting._asdict())
        components = found.frame.select(F.col("doc_id").alias(ends[0]), F.col("component_id").alias("component"))
        return rows.join(components, on=ends[0], how="inner").select(*rows.columns, "component")

    def map(self, rows: DataFrame, work: Work, schema: pa.Schema) -> DataFrame:
        """See `Engine.map`."""
        return rows.mapInArrow(work, from_arrow_schema(schema))

    def select(self, rows: DataFrame, *columns: str) -> DataFrame:
        """See `Engine.select`."""
        return rows.select(*columns)

    def concat(self, *tables: DataFrame) -> DataFrame:
        """See `Engine.concat`."""
        first, *others = tables
        for table in others:
            first = first.unionByName(table)
        return first

    def parallelise(self, name: str, table: pa.Table) -> DataFrame:
        """See `Engine.parallelise`."""
        return self._keep(name, table.schema, lambda: self.known.documents.sparkSession.createDataFrame(table))

    def measure(self, rows: DataFrame, *columns: str) -> Mapping[str, int]:
        """See `Engine.measure`."""
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in columns]
        return rows.agg(F.count(F.lit(1)).alias("rows"), *sums).collect()[0].asDict()

    def collect(self, rows: DataFrame) -> pa.Table:
        """See `Engine.collect`."""
        return rows.toArrow()

    def without(self, removals: DataFrame | None, spans: DataFrame | None, layer: str) -> Self:
        """See `Engine.without`."""
        corpus = self.corpus.rename(self.known.renamed) if self.known.renamed else self.corpus
        if removals is None and spans is None:
            return replace(self, corpus=corpus, layer=layer)
        left = corpus.leave(self.known.documents, removals, spans)
        kept = self.keep(f"{layer}_left", left.schema, lambda _: left, count_rows)
        return replace(self, corpus=corpus.without(kept.frame), layer=layer)

    def choose(self, chosen: Chosen, keep: Keep) -> Self:
        """Return the engine for the documents of a profile, which has tables of its own."""
        return replace(self, corpus=self.corpus.choose(chosen), keep=keep)

    def _keep(self, name: str, schema: pa.Schema, build: Callable[[], DataFrame]) -> DataFrame:
        table = self.keep(f"{self.layer}_{name}".strip("_"), from_arrow_schema(schema), lambda _: build(), count_rows)
        return table.frame


def _describe(batches: Batches, *, describe: Describe, schema: pa.Schema) -> Batches:
    """Describe documents, a piece at a time."""
    for batch in batches:
        columns = {name: batch[name] for name in batch.schema.names} | dict(describe(batch))
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
