"""The engine that layers search with on Spark: see `dedup.engine.engine.Engine`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine import corpus, sessions
from dedup.engine.components import Connecting, connect_links
from dedup.engine.corpus import Corpus
from dedup.engine.engine import Batches, Comparison, How, Shuffle, Size, Tally, Work, once
from dedup.engine.exchange import Pairs, list_cells, meet
from dedup.engine.pairing import ADDRESSED, PAIRED, list_pairs, take_documents
from dedup.engine.placement import COLLECTABLE_BYTES, READ_BYTES, fits_broadcast, fits_worker, place_cells
from dedup.engine.relations import Join, Map, NotNull, Union
from dedup.engine.sorting import shuffle_rows
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Build, Ending, TableWriter, Uncounted, end
from dedup.files.profile_filter import ProfileFilter
from dedup.kernels.runs.batches import gather_tables
from dedup.kernels.sets.identical import find_repeated
from dedup.tables import arrow

REPEATED = arrow.integers("doc_id")
"""Document ids of more than one row."""


def _take_repeated(batches: Batches) -> Batches:
    doc_ids = [batch["doc_id"].to_numpy() for batch in batches]
    if doc_ids:
        yield pa.record_batch({"doc_id": find_repeated(np.concatenate(doc_ids))})


FIND_REPEATED = Shuffle(emitted=REPEATED, by=("doc_id",), work=_take_repeated, schema=REPEATED, in_order=False)
"""REGISTER -> REPEATED; 8 bytes a document travel."""
PLACED = [*(name for name, _ in arrow.PLACE), "text_bytes"]
"""Columns of REGISTER by which a document is read again."""
ADDRESS = once(ADDRESSED, by=("doc_id", "target"))
"""Pairs -> the cells of their documents, each once; `emit` lists them."""


@dataclass(slots=True, kw_only=True, eq=False)
class FirstPass:
    """Results of the first pass over the documents, which later ones need."""

    register: SparkRows | None = None
    """REGISTER, with further columns perhaps; None before."""
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""
    repeated: SparkRows | None = None
    """REPEATED; None where every document id is of one row."""

    @property
    def documents(self) -> SparkRows:
        """REGISTER, with further columns perhaps."""
        assert self.register is not None
        return self.register


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkEngine:
    """The documents that are left, and tables that stay once they are made."""

    corpus: Corpus
    keep: TableWriter
    id_column: str
    """Empty where rows may share an id: where it is the digest of its row, or of a document of several rows."""
    connecting: Connecting
    cores: int
    layer: str = ""
    """Layer whose tables are made; their names begin with it."""
    known: FirstPass = field(default_factory=FirstPass)

    @property
    def id_type(self) -> pa.DataType:
        """See `Engine.id_type`."""
        return pa.string() if isinstance(self.corpus.id_type, T.StringType) else pa.int64()

    @property
    def _documents(self) -> Corpus:
        """The documents, with the ids of their own that those of one hash have been given."""
        return self.corpus.rename(self.known.renamed) if self.known.renamed else self.corpus

    def scan(self, name: str, work: Work, schema: pa.Schema) -> SparkRows:
        """See `Engine.scan`."""
        rows = self._keep(name, schema, partial(self._documents.scan, partial(_count_nulls, work)))
        if self.known.register is not None:
            return rows
        corpus.check_null(self.corpus, self.tally(rows).get("nulls", 0), id_column=self.id_column)
        return self._begin(rows, schema)

    def _begin(self, rows: SparkRows, schema: pa.Schema) -> SparkRows:
        """Take note of all documents, once their ids are known to be of one row each."""
        repeated = self._find_repeated("repeated", rows)
        renamed: Mapping[str, int] = {}
        if repeated.count:
            renamed = corpus.find_renamed(rows.frame, repeated.frame)
            if renamed:
                tally, before = self.tally(rows), rows.frame
                exchanged = corpus.exchange_ids(before, renamed)
                rows = self._keep("renamed", schema, partial(end, exchanged), tally=tally)
                repeated = self._find_repeated("repeated_renamed", rows)
        if repeated.count:
            corpus.check_repeated(rows.frame, repeated.frame, id_column=self.id_column)
            self.known.repeated = repeated
        self.known.register, self.known.renamed = rows, renamed
        return rows

    def _find_repeated(self, name: str, rows: SparkRows) -> SparkRows:
        return self.group(name, rows, FIND_REPEATED, expected=self.tally(rows)["rows"])

    def group(
        self, name: str, rows: SparkRows, shuffle: Shuffle, *, expected: float | None = None, once: bool = False
    ) -> SparkRows:
        """See `Engine.group`; unique hashes are dropped where they arrive."""
        counted = replace(shuffle, work=partial(_count_emitted, shuffle.work))

        def build(ending: Ending) -> DataFrame:
            return shuffle_rows(rows, counted, ending, expected, self.cores)

        return self._make(name, shuffle.schema, build, once=once)

    def compare(
        self,
        name: str,
        pairs: SparkRows,
        documents: SparkRows,
        comparison: Comparison[Any],
        size: Size,
    ) -> SparkRows:
        """See `Engine.compare`: `dedup.engine.exchange.meet` in cells of two groups of documents."""
        source = pairs.select(*(PAIRED if PAIRED[0] in pairs.columns else ["key", "doc_ids"]))
        pairs_of = partial(list_pairs, comparison=comparison)
        meeting = place_cells(*size, self.cores)
        payload = documents.select(*comparison.columns)
        if not meeting.whole:
            address = replace(ADDRESS, emit=partial(list_cells, pairs_of=pairs_of, meeting=meeting))
            cells = self.group(f"{name}_cells", source, address, expected=size.ends)
            # The count, which an estimate often far exceeds, decides whether the payload is shuffled to find them.
            payload = self.join(replace(payload, tally=None), cells, "doc_id")

        def build(ending: Ending) -> DataFrame:
            compare = partial(_compare_cell, comparison)
            return meet(source, pairs_of, payload, compare, ending, meeting=meeting)

        return self._keep(name, comparison.schema, build)

    def join(
        self, rows: SparkRows, others: SparkRows, on: str, *, key: str = "doc_id", how: How = "inner"
    ) -> SparkRows:
        """See `Engine.join`; the fewer rows go to every executor, if they are few."""
        added = [] if how in {"semi", "anti"} else [name for name in others.columns if name != key]
        of, whole, relation = rows.relation, others.relation, None
        # Workers make it by themselves, who read others whole, unless these are many.
        if of is not None and whole is not None and fits_worker(sum(fragment.size for fragment in whole.fragments)):
            relation = Join(of, whole, on, key, pa.schema([whole.schema.field(name) for name in added]), how)
        return SparkRows(
            session=rows.session,
            columns=[on, *(name for name in rows.columns if name != on), *added],
            plan=partial(_join, rows, others, on, key, how),
            relation=relation,
            tally=rows.tally,
        )

    def lookup(self, rows: SparkRows, doc_ids: pa.Array) -> pa.Table:
        """See `Engine.lookup`."""
        if rows.relation is not None:
            chosen = Map(rows.relation, rows.columns, partial(_choose, doc_ids=doc_ids.unique()), rows.schema)
            return replace(rows, relation=chosen).collect()
        wanted = sessions.to_frame(rows.session, pa.table({"doc_id": doc_ids.unique()}))
        return rows.frame.join(F.broadcast(wanted), on="doc_id", how="left_semi").toArrow()

    def tally(self, rows: SparkRows) -> Mapping[str, Any]:
        """See `Engine.tally`."""
        assert rows.tally is not None
        return rows.tally

    @property
    def collectable_bytes(self) -> int:
        """See `Engine.collectable_bytes`."""
        return COLLECTABLE_BYTES

    def fetch(self, name: str, wanted: SparkRows, work: Work, schema: pa.Schema, *, once: bool = False) -> SparkRows:
        """See `Engine.fetch`."""
        more = [column for column in wanted.columns if column not in {"doc_id", *PLACED}]
        # Ids alone may come several times, as those of equal rows do.
        others = wanted.select("doc_id", *more)
        found = self.join(self._locate(), others, "doc_id", how="inner" if more else "semi")
        return self._make(name, schema, partial(self._documents.fetch, found, work), once=once)

    def _locate(self) -> SparkRows:
        """Return the documents or, where workers read them, the place of each."""
        rows, register = self._documents.rows, self.known.documents
        if rows is not None:
            return SparkRows.of(rows)
        if self.known.repeated is None:
            return register.select("doc_id", *PLACED)
        place = F.min(F.struct(*PLACED)).alias("place")
        return SparkRows.of(register.frame.groupBy("doc_id").agg(place).select("doc_id", "place.*"))

    def connect(self, name: str, links: SparkRows, count: int) -> SparkRows:
        """See `Engine.connect`; of the edges of a forest alone the driver has more than counts."""
        return connect_links(name, links, count, self._keep, self.connecting)

    def map(self, rows: SparkRows, work: Work, schema: pa.Schema, *, name: str = "") -> SparkRows:
        """See `Engine.map`."""
        made = self._make(name, schema, lambda ending: rows.mapInArrow(ending(work), ending.schema), once=not name)
        of = rows.relation
        return made if name or of is None else replace(made, relation=Map(of, rows.columns, work, schema))

    def select(self, rows: SparkRows, *columns: str, **renamed: str) -> SparkRows:
        """See `Engine.select`."""
        return rows.select(*columns, **renamed)

    def drop_null(self, rows: SparkRows, column: str) -> SparkRows:
        """See `Engine.drop_null`."""
        return SparkRows(
            session=rows.session,
            columns=rows.columns,
            plan=lambda: rows.frame.filter(F.col(column).isNotNull()),
            relation=None if rows.relation is None else NotNull(rows.relation, column),
        )

    def expect(self, rows: SparkRows, count: int) -> SparkRows:
        """See `Engine.expect`."""
        return replace(rows, plan=lambda: rows.frame, tally={"rows": count})

    def concat(self, *tables: SparkRows) -> SparkRows:
        """See `Engine.concat`."""
        counts = [table.count for table in tables]
        known = [count for count in counts if count is not None]
        parts = [table.relation for table in tables if table.relation is not None]
        return SparkRows(
            session=tables[0].session,
            columns=tables[0].columns,
            plan=lambda: reduce(DataFrame.unionByName, [table.frame for table in tables]),
            relation=Union(parts) if len(parts) == len(tables) else None,
            tally={"rows": sum(known)} if len(known) == len(counts) else None,
            parts=[table.select(*tables[0].columns) for table in tables],
        )

    def range(self, count: int, work: Work, schema: pa.Schema) -> SparkRows:
        """See `Engine.range`."""
        spark = self.known.documents.session
        numbers = spark.range(0, count, 1, max(count, 1)).withColumnRenamed("id", "number")
        return self.map(SparkRows.of(numbers), work, schema)

    def sort(self, rows: SparkRows, by: str, work: Work, schema: pa.Schema, *, pieces: int = 1) -> SparkRows:
        """See `Engine.sort`."""
        ranged = rows.frame.repartitionByRange(pieces, by) if pieces > 1 else rows.frame.coalesce(1)
        ending = Uncounted(schema=from_arrow_schema(schema))
        return SparkRows.of(ranged.sortWithinPartitions(by).mapInArrow(ending(work), ending.schema))

    def parallelise(self, name: str, table: pa.Table) -> SparkRows:
        """See `Engine.parallelise`."""
        spark = self.known.documents.session
        if table.num_rows:
            return self._keep(name, table.schema, partial(end, sessions.to_frame(spark, table)))
        return SparkRows.empty(spark, table.schema)

    def measure(self, rows: SparkRows, *columns: str) -> Mapping[str, int]:
        """See `Engine.measure`."""
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in columns]
        return rows.frame.agg(F.count(F.lit(1)).alias("rows"), *sums).collect()[0].asDict()

    def collect(self, rows: SparkRows) -> pa.Table:
        """See `Engine.collect`."""
        return rows.collect()

    def without(self, removals: SparkRows | None, spans: SparkRows | None, layer: str) -> Self:
        """See `Engine.without`."""
        documents = self._documents
        if removals is None and spans is None:
            return replace(self, corpus=documents, layer=layer)
        gone, cut = (None if each is None else each.frame for each in (removals, spans))
        left = documents.leave(self.known.documents.frame, gone, cut)
        kept = self.keep(f"{layer}_left", left.schema, partial(end, left))
        return replace(self, corpus=documents.without(kept.frame), layer=layer)

    def choose(self, chosen: ProfileFilter | None, part: str) -> Self:
        """See `Engine.choose`."""
        return replace(self, corpus=self.corpus.choose(chosen), keep=self.keep.of(part))

    def _make(self, name: str, schema: pa.Schema, build: Build, *, once: bool) -> SparkRows:
        """Keep a table, or make it for the one step that reads it."""
        if not once:
            return self._keep(name, schema, build)
        ending = Uncounted(schema=from_arrow_schema(schema))
        return SparkRows(session=self.known.documents.session, columns=schema.names, plan=partial(build, ending))

    def _keep(self, name: str, schema: pa.Schema, build: Build, *, tally: Mapping[str, Any] | None = None) -> SparkRows:
        """Keep a table, with what its work has counted, or a tally that is known."""
        table = self.keep(f"{self.layer}_{name}".strip("_"), _to_spark(schema), build)
        return replace(table, tally={"emitted": 0, **(table.tally or {}), **(tally or {})})


def _join(rows: SparkRows, others: SparkRows, on: str, key: str, how: How) -> DataFrame:
    """Plan a join; the fewer rows go to every executor, if they are few."""
    named, own, few = others.frame.withColumnRenamed(key, on), rows.count, others.count
    if how == "inner" and own is not None and fits_broadcast(own) and (few is None or own < few):
        return F.broadcast(rows.frame).join(named, on=on)
    named = named.select(on) if how in {"semi", "anti"} else named
    how_of_spark = {"semi": "left_semi", "anti": "left_anti"}.get(how, how)
    return rows.frame.join(
        F.broadcast(named) if few is not None and fits_broadcast(few) else named, on=on, how=how_of_spark
    )


def _choose(batches: Batches, *, doc_ids: pa.Array) -> Batches:
    # Each call hashes the keys anew.
    for table in gather_tables(batches, READ_BYTES):
        yield from table.filter(pc.is_in(table["doc_id"], doc_ids)).to_batches()


def _to_spark(schema: pa.Schema) -> T.StructType:
    """Return a schema of Arrow as Spark has it, with the metadata of its columns, values of JSON."""
    converted = from_arrow_schema(schema)
    for own, column in zip(schema, converted.fields, strict=True):
        column.metadata = {key.decode(): json.loads(value) for key, value in (own.metadata or {}).items()}
    return converted


def _count_nulls(work: Work, batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    """Do the work of a scan, and count the documents without an id."""
    for found in work(batches):
        if not isinstance(found, Tally) and found["doc_id"].null_count:
            yield Tally(nulls=found["doc_id"].null_count)
        yield found


def _count_emitted(work: Work, batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    """Do the work of a shuffle, and count the rows that it is given."""
    tally = Tally(emitted=0)

    def count() -> Batches:
        for batch in batches:
            tally["emitted"] += batch.num_rows
            yield batch

    yield from work(count())
    yield tally


def _compare_cell(comparison: Comparison[Any], documents: pa.Table, pairs: Pairs) -> Iterator[pa.RecordBatch | Tally]:
    """Compare the pairs of a cell."""
    wanted = np.unique(np.concatenate(pairs))
    prepared = comparison.prepare(take_documents(documents, wanted))
    left, right = (np.searchsorted(wanted, side) for side in pairs)
    found = comparison.work(prepared, left, right)
    yield found.tally
    ends = [pa.array(side[found.chosen]) for side in pairs]
    yield pa.RecordBatch.from_arrays([*ends, *found.columns.values()], schema=comparison.schema)
