"""The engine that layers search with on Spark: see `dedup.engine.engine.Engine`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dedup.engine import corpus, sessions
from dedup.engine.components import Connecting, connect_links
from dedup.engine.corpus import Corpus
from dedup.engine.engine import Batches, Comparison, How, Shuffle, Size, Tally, Work
from dedup.engine.exchange import Pairs, drop_repeated, list_cells, meet
from dedup.engine.memory import take_documents
from dedup.engine.pairing import ADDRESSED, PAIRED, list_pairs
from dedup.engine.placement import COLLECTABLE_BYTES, fits_broadcast, fits_worker, place_cells
from dedup.engine.relations import Join, Map, NotNull, Projection, Relation, Union, WorkerRows
from dedup.engine.sorting import shuffle_rows
from dedup.engine.table import Build, Ending, TableWriter, Uncounted, end
from dedup.files.profile_filter import ProfileFilter
from dedup.tables import arrow

TALLY = "tally"
REPEATED = arrow.integers("doc_id", "copies")
"""Document ids of more than one row."""


def _count_copies(batches: Batches) -> Batches:
    doc_ids = [batch["doc_id"].to_numpy() for batch in batches]
    if doc_ids:
        found, counts = np.unique(np.concatenate(doc_ids), return_counts=True)
        yield pa.RecordBatch.from_arrays([pa.array(each[counts > 1]) for each in (found, counts)], schema=REPEATED)


FIND_REPEATED = Shuffle(
    emitted=arrow.integers("doc_id"), by=("doc_id",), work=_count_copies, schema=REPEATED, in_order=False
)
"""REGISTER -> REPEATED; 8 bytes a document travel."""
PLACED = [*(name for name, _ in arrow.PLACE), "text_bytes"]
"""Columns of REGISTER by which a document is read again."""
ADDRESS = Shuffle(emitted=ADDRESSED, by=("doc_id", "target"), work=drop_repeated, schema=ADDRESSED, in_order=False)
"""Pairs -> the cells of their documents, each once; `emit` lists them."""


@dataclass(slots=True, kw_only=True, eq=False)
class FirstPass:
    """Results of the first pass over the documents, which later ones need."""

    register: DataFrame | None = None
    """REGISTER, with further columns perhaps; None before."""
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Document ids of ids whose hash is that of another."""
    repeated: DataFrame | None = None
    """REPEATED; None where every document id is of one row."""
    relations: WeakKeyDictionary[DataFrame, Relation] = field(default_factory=WeakKeyDictionary)
    """The same rows as those of some DataFrames, as workers read them by themselves."""

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

    def scan(self, name: str, work: Work, schema: pa.Schema) -> DataFrame:
        """See `Engine.scan`."""
        rows = self._keep(name, schema, partial(self._documents.scan, partial(_count_nulls, work)))
        if self.known.register is not None:
            return rows
        corpus.check_null(self.corpus, self.tally(rows).get("nulls", 0), id_column=self.id_column)
        return self._begin(rows, schema)

    def _begin(self, rows: DataFrame, schema: pa.Schema) -> DataFrame:
        """Take note of all documents, once their ids are known to be of one row each."""
        repeated = self._find_repeated("repeated", rows)
        renamed: Mapping[str, int] = {}
        if self.tally(repeated)["rows"]:
            renamed = corpus.find_renamed(rows, repeated)
            if renamed:
                tally, before = self.tally(rows), rows
                exchanged = corpus.exchange_ids(before, renamed)
                rows = self._keep("renamed", schema, partial(end, exchanged), tally=tally)
                repeated = self._find_repeated("repeated_renamed", rows)
        if self.tally(repeated)["rows"]:
            corpus.check_repeated(rows, repeated, id_column=self.id_column)
        self.known.note(rows, renamed, repeated if self.tally(repeated)["rows"] else None)
        return rows

    def _find_repeated(self, name: str, rows: DataFrame) -> DataFrame:
        return self.group(name, rows, FIND_REPEATED, expected=self.tally(rows)["rows"])

    def group(
        self, name: str, rows: DataFrame, shuffle: Shuffle, *, expected: float | None = None, once: bool = False
    ) -> DataFrame:
        """See `Engine.group`; unique hashes are dropped where they arrive."""
        counted = replace(shuffle, work=partial(_count_emitted, shuffle.work))

        def build(ending: Ending) -> DataFrame:
            return shuffle_rows(self._read(rows), counted, ending, expected, self.cores)

        return self._make(name, shuffle.schema, build, once=once)

    def compare(
        self,
        name: str,
        pairs: DataFrame,
        documents: DataFrame,
        comparison: Comparison[Any],
        size: Size,
        *,
        once: bool = False,
    ) -> DataFrame:
        """See `Engine.compare`: `dedup.engine.exchange.meet` in cells of two groups of documents."""
        source = self.select(pairs, *(PAIRED if PAIRED[0] in pairs.columns else ["key", "doc_ids"]))
        pairs_of = partial(list_pairs, comparison=comparison)
        meeting = place_cells(*size, self.cores)
        payload = self.select(documents, *comparison.columns)
        if not meeting.whole:
            address = replace(ADDRESS, emit=partial(list_cells, pairs_of=pairs_of, meeting=meeting))
            cells = self.group(f"{name}_cells", source, address, expected=size.ends)
            # The count, which an estimate often far exceeds, decides whether the payload is shuffled to find them.
            listed = F.broadcast(cells) if fits_broadcast(self.tally(cells)["rows"]) else cells
            of_cells = self._relate(payload, cells, "doc_id", "doc_id", "inner")
            payload = self._note(payload.join(listed, on="doc_id"), of_cells)

        def build(ending: Ending) -> DataFrame:
            compare = partial(_compare_cell, comparison)
            return meet(self._read(source), pairs_of, self._read(payload), compare, ending, meeting=meeting)

        return self._make(name, comparison.schema, build, once=once)

    def join(
        self, rows: DataFrame, others: DataFrame, on: str, *, key: str = "doc_id", how: How = "inner"
    ) -> DataFrame:
        """See `Engine.join`; the fewer rows go to every executor, if they are few."""
        return self._note(self._join(rows, others, on, key, how), self._relate(rows, others, on, key, how))

    def _join(self, rows: DataFrame, others: DataFrame, on: str, key: str, how: How) -> DataFrame:
        named = others.withColumnRenamed(key, on)
        if how in {"semi", "anti"}:
            named, how_of_spark = named.select(on), f"left_{how}"
        else:
            how_of_spark = how
        own, few = _read_rows(rows), _read_rows(others)
        if how == "inner" and own is not None and fits_broadcast(own) and (few is None or own < few):
            return F.broadcast(rows).join(named, on=on)
        return rows.join(
            F.broadcast(named) if few is not None and fits_broadcast(few) else named, on=on, how=how_of_spark
        )

    def _relate(self, rows: DataFrame, others: DataFrame, on: str, key: str, how: How) -> Relation | None:
        """Return a join that workers make by themselves, who read others whole; None where these are many."""
        of, whole = self._find(rows), self._find(others)
        if of is None or whole is None or not fits_worker(sum(fragment.size for fragment in whole.fragments)):
            return None
        added = [] if how in {"semi", "anti"} else [each for each in others.schema.fields if each.name != key]
        return Join(of, whole, on, key, to_arrow_schema(T.StructType(added)), how)

    def _find(self, rows: DataFrame) -> Relation | None:
        return self.known.relations.get(rows)

    def _read(self, rows: DataFrame) -> DataFrame | WorkerRows:
        """Return rows as workers read them by themselves, if they can."""
        relation = self._find(rows)
        return rows if relation is None else WorkerRows.of(rows, relation, self.cores)

    def _note(self, rows: DataFrame, relation: Relation | None) -> DataFrame:
        """Return rows, which a relation has too."""
        if relation is not None:
            self.known.relations[rows] = relation
        return rows

    def lookup(self, rows: DataFrame, keys: pa.Array, on: str = "doc_id") -> pa.Table:
        """See `Engine.lookup`."""
        wanted = sessions.to_frame(rows.sparkSession, pa.table({on: keys.unique()}))
        return rows.join(F.broadcast(wanted), on=on, how="left_semi").toArrow()

    def tally(self, rows: DataFrame) -> Mapping[str, Any]:
        """See `Engine.tally`: it stands in the metadata of the table's first column."""
        told: Mapping[str, Any] = json.loads(rows.schema.fields[0].metadata[TALLY])
        return told

    @property
    def collectable_bytes(self) -> int:
        """See `Engine.collectable_bytes`."""
        return COLLECTABLE_BYTES

    def fetch(self, name: str, wanted: DataFrame, work: Work, schema: pa.Schema, *, once: bool = False) -> DataFrame:
        """See `Engine.fetch`."""
        more = [column for column in wanted.columns if column not in {"doc_id", *PLACED}]
        # Ids alone may come several times, as those of equal rows do.
        others = self.select(wanted, "doc_id", *more)
        found = self.join(self._locate(), others, "doc_id", how="inner" if more else "semi")
        return self._make(
            name, schema, lambda ending: self._documents.fetch(self._read(found), work, ending), once=once
        )

    def _locate(self) -> DataFrame:
        """Return the documents or, where workers read them, the place of each."""
        rows, register = self._documents.rows, self.known.documents
        if rows is not None:
            return rows
        if self.known.repeated is None:
            return self.select(register, "doc_id", *PLACED)
        place = F.min(F.struct(*PLACED)).alias("place")
        return register.groupBy("doc_id").agg(place).select("doc_id", "place.*")

    def name_documents(self, name: str, rows: DataFrame, *, of: str, to: str, schema: pa.Schema) -> DataFrame:
        """See `Engine.name_documents`."""
        ids = self.known.documents.select(F.col("doc_id").alias(of), F.col("id").alias(to))
        if self.known.repeated is not None:
            ids = ids.dropDuplicates([of])
        named = rows.drop(to).join(ids, on=of, how="left").select(*schema.names)
        return self._keep(name, schema, partial(end, named))

    def connect(self, name: str, links: DataFrame, count: int) -> DataFrame:
        """See `Engine.connect`; of the edges of a forest alone the driver has more than counts."""
        return connect_links(name, links, count, self._keep, self.connecting)

    def map(self, rows: DataFrame, work: Work, schema: pa.Schema, *, name: str = "") -> DataFrame:
        """See `Engine.map`."""
        of = self._find(rows)
        made = self._make(
            name, schema, lambda ending: self._read(rows).mapInArrow(ending(work), ending.schema), once=not name
        )
        return made if name or of is None else self._note(made, Map(of, rows.columns, work))

    def select(self, rows: DataFrame, *columns: str, **renamed: str) -> DataFrame:
        """See `Engine.select`."""
        of, chosen = self._find(rows), rows.select(*columns, *(F.col(old).alias(new) for new, old in renamed.items()))
        names = dict(zip(columns, columns, strict=True)) | renamed
        return chosen if of is None else self._note(chosen, Projection(of, names))

    def drop_null(self, rows: DataFrame, column: str) -> DataFrame:
        """See `Engine.drop_null`."""
        of = self._find(rows)
        return self._note(
            _tell(rows.filter(F.col(column).isNotNull()), None), None if of is None else NotNull(of, column)
        )

    def expect(self, rows: DataFrame, count: int) -> DataFrame:
        """See `Engine.expect`."""
        return self._note(_tell(rows, {"rows": count}), self._find(rows))

    def concat(self, *tables: DataFrame) -> DataFrame:
        """See `Engine.concat`."""
        first, *others = tables
        for table in others:
            first = first.unionByName(table)
        counts = [_read_rows(table) for table in tables]
        known = [count for count in counts if count is not None]
        # A union says of its columns what the first table does.
        united = _tell(first, {"rows": sum(known)} if len(known) == len(counts) else None)
        parts = [part for part in map(self._find, tables) if part is not None]
        return self._note(united, Union(parts) if len(parts) == len(tables) else None)

    def range(self, count: int) -> DataFrame:
        """See `Engine.range`."""
        spark = self.known.documents.sparkSession
        return spark.range(0, count, 1, max(count, 1)).withColumnRenamed("id", "number")

    def sort(self, rows: DataFrame, by: str, work: Work, schema: pa.Schema, *, pieces: int = 1) -> DataFrame:
        """See `Engine.sort`."""
        ranged = rows.repartitionByRange(pieces, by) if pieces > 1 else rows.coalesce(1)
        ending = Uncounted(schema=from_arrow_schema(schema))
        return ranged.sortWithinPartitions(by).mapInArrow(ending(work), ending.schema)

    def parallelise(self, name: str, table: pa.Table) -> DataFrame:
        """See `Engine.parallelise`."""
        if not table.num_rows:
            none = self.known.documents.sparkSession.createDataFrame([], _to_spark(table.schema))
            return self.expect(none, 0)
        rows = sessions.to_frame(self.known.documents.sparkSession, table)
        return self._keep(name, table.schema, partial(end, rows))

    def measure(self, rows: DataFrame, *columns: str) -> Mapping[str, int]:
        """See `Engine.measure`."""
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in columns]
        return rows.agg(F.count(F.lit(1)).alias("rows"), *sums).collect()[0].asDict()

    def collect(self, rows: DataFrame) -> pa.Table:
        """See `Engine.collect`."""
        return rows.toArrow()

    def without(self, removals: DataFrame | None, spans: DataFrame | None, layer: str) -> Self:
        """See `Engine.without`."""
        documents = self._documents
        if removals is None and spans is None:
            return replace(self, corpus=documents, layer=layer)
        left = documents.leave(self.known.documents, removals, spans)
        kept = self.keep(f"{layer}_left", left.schema, partial(end, left))
        return replace(self, corpus=documents.without(kept.frame), layer=layer)

    def choose(self, chosen: ProfileFilter | None, part: str) -> Self:
        """See `Engine.choose`."""
        return replace(self, corpus=self.corpus.choose(chosen), keep=self.keep.of(part))

    def _make(self, name: str, schema: pa.Schema, build: Build, *, once: bool) -> DataFrame:
        """Keep a table, or make it for the one step that reads it."""
        return build(Uncounted(schema=from_arrow_schema(schema))) if once else self._keep(name, schema, build)

    def _keep(self, name: str, schema: pa.Schema, build: Build, *, tally: Mapping[str, Any] | None = None) -> DataFrame:
        """Keep a table, with what its work has counted, or a tally that is known."""
        table = self.keep(f"{self.layer}_{name}".strip("_"), _to_spark(schema), build)
        return self._note(_tell(table.frame, {"emitted": 0, **table.counts, **(tally or {})}), table.stored)


def _tell(rows: DataFrame, tally: Mapping[str, Any] | None) -> DataFrame:
    """Return rows with what is known of them, or with nothing that was known of others."""
    first, *others = rows.columns
    told = {} if tally is None else {TALLY: json.dumps(tally)}
    return rows.select(F.col(first).alias(first, metadata=told), *others)


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


def _read_rows(table: DataFrame) -> int | None:
    """Return the rows of a table that is kept, or of which this is a selection; None of others."""
    told = table.schema.fields[0].metadata.get(TALLY)
    return None if told is None else int(json.loads(told)["rows"])


def _compare_cell(
    comparison: Comparison[Any], documents: pa.Table, pairs: Pairs, _: Pairs
) -> Iterator[pa.RecordBatch | Tally]:
    """Compare the pairs of a cell."""
    wanted = np.unique(np.concatenate(pairs))
    prepared = comparison.prepare(take_documents(documents, wanted))
    left, right = (np.searchsorted(wanted, side) for side in pairs)
    found = comparison.work(prepared, left, right)
    yield found.tally
    ends = [pa.array(side[found.chosen]) for side in pairs]
    yield pa.RecordBatch.from_arrays([*ends, *found.columns.values()], schema=comparison.schema)
