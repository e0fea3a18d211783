"""Input rows -> DOCUMENTS, and the check of their ids."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.document_ids import BEGINS, begin_nameless
from dedup.engine.engine import Batches, Work
from dedup.engine.expressions import TIMES, column, list_entries, write_text
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Ending, Uncounted
from dedup.errors import SchemaError, suggest
from dedup.files.columns import FOREIGN_PREFIX, SET_RULE, VECTOR_RULE, VECTOR_SETTING
from dedup.files.conversion import to_source, to_text, to_vectors
from dedup.files.delete_spans import Cuts, delete_from_texts
from dedup.files.orders import add_keys, join_keys, join_texts, list_asking, to_keys
from dedup.files.profile_filter import ProfileFilter
from dedup.kernels.ids import rename
from dedup.tables.arrow import PLACE
from dedup.tables.ids import SHOWN, refuse_collision, refuse_null, refuse_repeated

TOO_LONG = "take it out, or raise the limit and the memory of Spark: 8 bytes for each byte of a text"
LEADS = "leads"
"""Column of the rank before the keys of the order, where some documents are none of the input."""
INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
AS_JSON = {"ignoreNullFields": "false", "timeZone": "UTC", **TIMES}
"""Options by which a row becomes the text whose digest is its id: unlike rows, unlike texts."""


class Corpus(Protocol):
    """The documents of a run, wherever they come from.

    Each batch of them has the columns doc_id, id, text and source, and of files also split, file and row.
    """

    @property
    def id_type(self) -> T.DataType:
        """Type of the user's own ids, an integer or a string."""

    @property
    def rows(self) -> DataFrame | None:
        """The documents, by `doc_id`, where Spark reads them; None where its workers do."""

    def rename(self, renamed: Mapping[str, int]) -> "Corpus":
        """Return the same documents, some with other document ids, given by their own ids.

        Raises
        ------
        DataError
            When that is not possible.
        """

    def scan(self, work: Work, ending: Ending) -> DataFrame:
        """Return what the work makes of all documents, in one pass over the text."""

    def fetch(self, wanted: SparkRows, work: Work, ending: Ending) -> DataFrame:
        """Return what the work makes of some documents, as often as each is there.

        Parameters
        ----------
        wanted
            Rows of `rows` or, without these, of REGISTER: PLACE and text_bytes; and columns that the batches have
            besides.
        """

    def leave(self, documents: DataFrame, removals: DataFrame | None, spans: DataFrame | None) -> DataFrame:
        """Return the table by which `without` leaves documents out, and spans (doc_id, begin, end) of texts.

        Parameters
        ----------
        documents
            REGISTER of this corpus.
        """

    def without(self, left: DataFrame) -> "Corpus":
        """Return the documents without what `leave` has noted."""

    def choose(self, chosen: ProfileFilter | None) -> "Corpus":
        """Return the documents of a profile."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Documents that Spark reads: DOCUMENTS, with a column for each of the rules of `keep.order` that ask for one."""

    documents: DataFrame
    rules: tuple[tuple[str, str], ...] = ()
    """Rules of `keep.order`, each with its column or expression."""
    noted: tuple[tuple[str, str], ...] = ()
    """Columns of which the values are read along, each after the setting that names it."""
    left: DataFrame | None = None
    """Table that `leave` has made; None where all is left."""
    chosen: ProfileFilter | None = None
    """The profile whose documents these are; None for all."""

    @property
    def id_type(self) -> T.DataType:
        """Type of the user's own ids."""
        return self.documents.schema["id"].dataType

    @property
    def rows(self) -> DataFrame:
        """See `Corpus.rows`."""
        if self.left is None:
            return self.documents
        gone = F.coalesce("gone", F.expr("false"))
        return self.documents.join(self.left, on="doc_id", how="left").filter(~gone).drop("gone")

    def rename(self, renamed: Mapping[str, int]) -> "Rows":
        """See `Corpus.rename`; the ids of rows are hashed again by who writes them, so it is not possible."""
        raise refuse_collision(min(renamed))

    def scan(self, work: Work, ending: Ending) -> DataFrame:
        """See `Corpus.scan`."""
        rules, noted, chosen = self.rules, len(self.noted), self.chosen
        read = ending(lambda batches: work(read_rows(batches, rules, noted, chosen)))
        return self.rows.mapInArrow(read, ending.schema)

    def fetch(self, wanted: SparkRows, work: Work, ending: Ending) -> DataFrame:
        """See `Corpus.fetch`."""
        rules, noted = self.rules, len(self.noted)
        return wanted.mapInArrow(ending(lambda batches: work(read_rows(batches, rules, noted))), ending.schema)

    def leave(
        self,
        documents: DataFrame,  # noqa: ARG002 - as above
        removals: DataFrame | None,
        spans: DataFrame | None,
    ) -> DataFrame:
        """See `Corpus.leave`: doc_id, whether it is gone, and its spans."""
        # Quoted, as ANSI reserves "end".
        cuts = "array<struct<`begin`:bigint,`end`:bigint>>"
        found = self.documents.sparkSession.createDataFrame([], f"doc_id long, gone boolean, cuts {cuts}")
        if removals is not None:
            gone = removals.select(
                "doc_id", F.expr("true").alias("gone"), F.expr(f"cast(null as {cuts})").alias("cuts")
            )
            found = found.unionByName(gone)
        if spans is not None:
            listed = F.collect_list(F.struct("begin", "end")).alias("cuts")
            cut = spans.groupBy("doc_id").agg(listed).select("doc_id", F.expr("false").alias("gone"), "cuts")
            found = found.unionByName(cut)
        return found.groupBy("doc_id").agg(F.max("gone").alias("gone"), F.flatten(F.collect_list("cuts")).alias("cuts"))

    def without(self, left: DataFrame) -> "Rows":
        """See `Corpus.without`."""
        return replace(self, left=left)

    def choose(self, chosen: ProfileFilter | None) -> "Rows":
        """See `Corpus.choose`."""
        return replace(self, chosen=chosen)


def read_rows(
    batches: Batches, rules: Sequence[tuple[str, str]], noted: int, chosen: ProfileFilter | None = None
) -> Batches:
    """Give batches of rows the columns that those of files have, and take those of a profile."""
    order = list_asking(rules)
    for batch in batches:
        keys = to_keys((batch[f"order{number}"] for number, _ in enumerate(order)), order)
        keys = [batch[LEADS], *keys] if LEADS in batch.schema.names else keys
        merged = [_read_noted(batch, f"merge{number}") for number in range(noted)]
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns.pop(LEADS, None)
        columns["text"] = to_text(batch["text"])
        if "cuts" in columns:
            lists = columns.pop("cuts")
            spans = lists.flatten()
            sizes = pc.list_value_length(lists).fill_null(0).to_numpy()
            rows = np.repeat(np.arange(batch.num_rows), sizes)
            cuts = Cuts.of(rows, *(pc.struct_field(spans, name).to_numpy() for name in ("begin", "end")))
            columns["text"] = delete_from_texts(columns["text"], np.arange(batch.num_rows), cuts.by_row())
        count = batch.num_rows
        columns |= {name: pa.nulls(count, kind) for name, kind in PLACE}
        columns["text_bytes"] = pc.binary_length(columns["text"]).fill_null(0).cast(pa.int64())
        columns["order_keys"] = join_keys(keys, count)
        columns["merged"] = join_texts(merged, count)
        vectors = [to_vectors(columns.pop(name)) for name in _list_named(batch, "vector")]
        columns["vector"] = pc.coalesce(*vectors) if vectors else pa.nulls(count, pa.binary())
        found = add_keys(pa.RecordBatch.from_arrays([*columns.values()], names=[*columns]), rules)
        found = found if chosen is None else chosen.apply(found)
        if found.num_rows:
            yield found


def _read_noted(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return the texts of a column that is read along."""
    return pc.coalesce(*(to_source(_to_utc(batch[each])) for each in _list_named(batch, name)))


def _list_named(batch: pa.RecordBatch, name: str) -> list[str]:
    """Return the names of a column that each corpus has with a type of its own, as `add_foreign` has named them."""
    return [each for each in batch.schema.names if each.partition("_")[0] == name]


def _to_utc(values: pa.Array) -> pa.Array:
    """Return times in UTC, which Spark gives in the zone of its session, so that their texts do not tell that."""
    kind = values.type
    return values.cast(pa.timestamp(kind.unit, "UTC")) if pa.types.is_timestamp(kind) and kind.tz else values


def identify(corpus: DataFrame, *, id_column: str) -> tuple[Column, Column]:
    """Return the expressions of a row's own id and of its 64-bit document id; null where the id is.

    An integer id is its own document id; a string is hashed (XXH64, seed 42). Without an id column the id is the
    MD5 of the row as JSON with its nulls, so wholly equal rows, and practically only those, are one document.

    Raises
    ------
    SchemaError
        When the column is missing, named twice, or neither an integer nor a string.
    """
    if not id_column:
        # Keys that are bytes would be told by their place in memory.
        kinds = corpus.schema.json().replace('"keyType":"binary"', '"keyType":"string"')
        fields = T.StructType.fromJson(json.loads(kinds)).fields
        told = [list_entries(column(field.name).cast(field.dataType), field.dataType) for field in fields]
        whole = F.to_json(F.struct(*[each.alias(f"c{number}") for number, each in enumerate(told)]), AS_JSON)
        raw = [
            _tell_bytes(each, number) for number, each in enumerate(told) if "string" in fields[number].simpleString()
        ]
        # JSON has this sign for all bytes that are no UTF-8.
        user_id = F.md5(F.when(F.contains(whole, F.lit("\ufffd")), F.concat(whole, *raw)).otherwise(whole))
        return user_id, to_doc_id(user_id, T.StringType())
    kind = _kind(corpus, id_column, "input.id_column", (*INTEGRAL, T.StringType), "an integer or a string")
    user_id = column(id_column)
    return user_id, to_doc_id(user_id, kind)


def _tell_bytes(value: Column, number: int) -> Column:
    """Return the bytes of a column, nested or not, and its number, where they are no UTF-8; else nothing."""
    text = value.cast("string")
    return F.when(~F.is_valid_utf8(text), F.concat(F.lit(f"c{number}"), F.hex(text.cast("binary")))).otherwise("")


def to_doc_id(user_id: Column, kind: T.DataType) -> Column:
    """Return the document id of a user's own id of this type; null where that is."""
    if isinstance(kind, T.StringType):
        return F.when(user_id.isNotNull(), F.xxhash64(user_id))
    return user_id.cast("long")


def _kind(corpus: DataFrame, name: str, setting: str, kinds: tuple[type[T.DataType], ...], rule: str) -> T.DataType:
    found = [field for field in corpus.schema.fields if field.name == name]
    if len(found) != 1:
        message = f"{setting}: must be the name of one column of the input (got {name!r}, the input has"
        raise SchemaError(f"{message} {', '.join(corpus.columns)}{suggest(name, corpus.columns)})")
    if not isinstance(found[0].dataType, kinds):
        raise SchemaError(f"{setting}: column {name!r} must be {rule} (got {found[0].dataType.simpleString()})")
    return found[0].dataType


def read_documents(
    corpus: DataFrame,
    *,
    id_column: str,
    text_columns: Sequence[str],
    source_column: str = "",
    max_text_bytes: int | None = None,
    order: tuple[tuple[str, str], ...] = (),
    noted: tuple[tuple[str, str], ...] = (),
    vector: str = "",
    has_sets: bool = False,
) -> DataFrame:
    """Input -> DOCUMENTS (doc_id, id, text, source, order0, ..., merge0, ..., vector); no shuffle.

    It has one row per input row, and a vector where a column is named.

    The text is as it is, a string or bytes, null or not, but of lists: a cast would copy the whole corpus twice more.

    Raises
    ------
    SchemaError
        When a column is missing, named twice, or of a type that cannot serve.
    """
    user_id, doc_id = identify(corpus, id_column=id_column)
    for name in text_columns:
        _check_text(corpus, name, "input.columns" if text_columns[1:] else "input.text_column", has_sets=has_sets)
    source = F.lit(None)
    if source_column:
        kind = (T.BooleanType, T.DateType, *INTEGRAL, T.StringType)
        _kind(corpus, source_column, "input.source_column", kind, "an integer, a string, a date or a boolean")
        source = column(source_column)
    text = write_text(corpus, text_columns)
    if max_text_bytes is not None:
        size = F.octet_length(text)
        rule = f"input.max_text_bytes: a text must be of at most {max_text_bytes:,} bytes (got %s of id %s); {TOO_LONG}"
        said = F.format_string(rule, size.cast("string"), user_id.cast("string"))
        # Before it is copied to a worker, which would take the memory of both.
        text = F.when(size > max_text_bytes, F.raise_error(said)).otherwise(text)
    columns = {"doc_id": doc_id, "id": user_id, "text": text, "source": source.cast("string")}
    columns |= {f"order{number}": _order(corpus, *rule) for number, rule in enumerate(order)}
    columns |= {f"merge{number}": _note(corpus, *each) for number, each in enumerate(noted)}
    if vector:
        held = _kind(corpus, vector, VECTOR_SETTING, (T.ArrayType, T.BinaryType), VECTOR_RULE)
        if isinstance(held, T.ArrayType) and not isinstance(held.elementType, T.NumericType):
            raise SchemaError(f"{VECTOR_SETTING}: column {vector!r} must be {VECTOR_RULE} (got {held.simpleString()})")
        columns["vector"] = column(vector)
    return corpus.select(*[expression.alias(name) for name, expression in columns.items()])


def _check_text(corpus: DataFrame, name: str, setting: str, *, has_sets: bool) -> None:
    """Refuse a column that holds no texts, or no sets."""
    if not has_sets:
        _kind(corpus, name, setting, (T.StringType, T.BinaryType), "a string")
        return
    found = _kind(corpus, name, setting, (T.ArrayType,), SET_RULE)
    if not isinstance(found, T.ArrayType) or not isinstance(found.elementType, (*INTEGRAL, T.StringType)):
        raise SchemaError(f"{setting}: column {name!r} must be {SET_RULE} (got {found.simpleString()})")


def add_foreign(documents: DataFrame, others: Sequence[DataFrame]) -> DataFrame:
    """Add DOCUMENTS that are none of the input, as those of files are: see `dedup.files.columns.to_ranked`.

    Raises
    ------
    SchemaError
        When their ids are of another kind.
    """
    kind = documents.schema["id"].dataType
    whole = documents.withColumn(LEADS, F.lit(1.0))
    for number, rows in enumerate(others):
        found = rows.schema["id"].dataType
        if isinstance(found, T.StringType) != isinstance(kind, T.StringType):
            raise SchemaError(
                f"input.without: ids must be of the kind of the input's (got {found.simpleString()}, "
                f"{kind.simpleString()} in the input)"
            )
        is_text = isinstance(kind, T.StringType)
        named = F.concat(F.lit(FOREIGN_PREFIX), "id") if is_text else F.bitwise_not(F.col("id").cast("long"))
        renamed = rows.withColumn("id", named).withColumn("doc_id", to_doc_id(F.col("id"), kind))
        # A union would give values of both the type that holds either, in which 1 is 1.0 as a text, or take none.
        own = {name: f"{name}_{number}" for name in rows.columns if name.startswith(("merge", "vector"))}
        renamed = renamed.withColumnsRenamed(own)
        whole = whole.unionByName(renamed.withColumn(LEADS, F.lit(0.0)), allowMissingColumns=True)
    return whole


def _order(corpus: DataFrame, rule: str, of: str) -> Column:
    """Return the expression of what a rule of `keep.order` asks for."""
    return F.expr(of).cast("double") if rule == "sql" else _note(corpus, f"keep.order {rule}", of)


def _note(corpus: DataFrame, setting: str, name: str) -> Column:
    """Return a column of which the values are read along, once it is known to be one."""
    kinds = (T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.StringType, T.NullType)
    _kind(corpus, name, setting, kinds, "a number, a date, a time or a string")
    return column(name)


def check_null(corpus: Corpus, nulls: int, *, id_column: str) -> None:
    """Refuse ids that are null.

    Parameters
    ----------
    nulls
        Number of them.

    Raises
    ------
    DataError
        Shows the texts of some.
    """
    if nulls:
        begins = corpus.scan(begin_nameless, Uncounted(schema=from_arrow_schema(BEGINS))).limit(SHOWN)
        raise refuse_null(nulls, [row.text for row in begins.collect()], id_column=id_column)


def find_renamed(signatures: DataFrame, repeated: DataFrame) -> dict[str, int]:
    """Return other document ids for ids whose hash is that of another; empty where there are none, as nearly always.

    Parameters
    ----------
    repeated
        Not empty.
    """
    if not isinstance(signatures.schema["id"].dataType, T.StringType):
        return {}
    ids = signatures.select("doc_id", "id").join(repeated, on="doc_id", how="left_semi")
    listed = ids.groupBy("doc_id").agg(F.collect_set("id").alias("ids")).filter(F.size("ids") > 1)

    def find_taken(wanted: list[int]) -> set[int]:
        return {row.doc_id for row in signatures.select("doc_id").filter(F.col("doc_id").isin(wanted)).collect()}

    return rename([row.ids for row in listed.collect()], find_taken)


def exchange_ids(signatures: DataFrame, renamed: Mapping[str, int]) -> DataFrame:
    """SIGNATURES -> SIGNATURES with the document ids of renamed ids exchanged."""
    columns = signatures.columns
    other = signatures.sparkSession.createDataFrame([*renamed.items()], "id string, other long")
    joined = signatures.join(F.broadcast(other), on="id", how="left")
    return joined.withColumn("doc_id", F.coalesce("other", "doc_id")).select(*columns)


def check_repeated(signatures: DataFrame, repeated: DataFrame, *, id_column: str) -> None:
    """Refuse ids of more than one row.

    Parameters
    ----------
    repeated
        Not empty.
    id_column
        Empty where an id is the digest of its row: then repeated ids are equal rows, and no fault.

    Raises
    ------
    DataError
        Names some of the ids.
    """
    ids = (
        signatures.select("doc_id", "id")
        .join(repeated, on="doc_id", how="left_semi")
        .groupBy("doc_id", "id")
        .agg(F.count(F.lit(1)).alias("copies"))
    )
    if id_column:
        shown = [(row.id, row.copies) for row in ids.orderBy("id").limit(SHOWN).collect()]
        raise refuse_repeated(repeated.count(), shown, id_column=id_column)
