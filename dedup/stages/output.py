"""Input rows, REMOVALS, EDGES -> what the user gets, in the user's ids."""

import json
from collections.abc import Collection, Sequence

import numpy as np
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import SchemaError
from dedup.files.delete_spans import delete_spans
from dedup.kernels.runs.span_offsets import unite_spans
from dedup.stages.documents import column

ANNOTATIONS = ("dedup_kept", "dedup_representative_id", "dedup_component_id", "dedup_kind", "dedup_jaccard")
SOURCES = 50
"""Sources counted on their own."""
NOTED_LENGTH = 4000
"""Characters noted of a text that the report shows."""
FATE = ("representative_id", "component_id", "kind", "jaccard")


def note_texts(
    corpus: DataFrame, doc_id: Column, wanted: Collection[int], text_column: str, observation: Observation
) -> DataFrame:
    """Let what writes the input note how some texts begin, which pass by anyhow, instead of reading them again.

    `read_notes` returns them once the rows are written. They pass as JSON, since Spark 4.0 converts no list that an
    observation holds.
    """
    text = F.substring(column(text_column).cast("string"), 1, NOTED_LENGTH)
    noted = F.when(doc_id.isin(*wanted), F.struct(doc_id.alias("doc_id"), text.alias("text")))
    return corpus.observe(observation, F.to_json(F.collect_list(noted)).alias("texts"))


def read_notes(observation: Observation) -> dict[int, str]:
    """Return how the texts that `note_texts` noted begin, by document id; a null text as an empty one."""
    # JSON leaves null fields out.
    return {row["doc_id"]: row.get("text", "") for row in json.loads(observation.get["texts"])}


def list_copies(
    repeated: DataFrame, documents: DataFrame, removals: DataFrame, members: DataFrame, copies: tuple[str, str]
) -> DataFrame:
    """REPEATED, REGISTER, REMOVALS, members that stay -> REMOVALS: the second and further of wholly equal rows.

    They share the fate of the first if that is a duplicate, and are copies of it, by this layer and of this kind, if it
    is kept.
    """
    ids = documents.select("doc_id", "id").join(F.broadcast(repeated), on="doc_id", how="inner").distinct()
    fates = removals.select("doc_id", "layer", *FATE)
    named = members.select("doc_id", F.col("component_id").alias("own"))
    others = ids.join(fates, on="doc_id", how="left").join(named, on="doc_id", how="left")
    stays = F.col("layer").isNull()
    return others.withColumn("number", F.explode(F.sequence(F.lit(2), "copies"))).select(
        "doc_id",
        "id",
        F.coalesce("layer", F.lit(copies[0])).alias("layer"),
        F.coalesce("kind", F.lit(copies[1])).alias("kind"),
        F.when(stays, F.col("id")).otherwise(F.col("representative_id")).alias("representative_id"),
        F.coalesce("component_id", "own", "id").alias("component_id"),
        F.when(stays, F.lit(1.0)).otherwise(F.col("jaccard")).alias("jaccard"),
    )


def mark(
    corpus: DataFrame,
    doc_id: Column,
    removals: DataFrame,
    repeated: DataFrame | None,
    *,
    broadcast: bool,
) -> tuple[DataFrame, str]:
    """Input, REMOVALS, REPEATED -> the input with a column that is true in rows to remove; no shuffle if broadcast.

    Parameters
    ----------
    doc_id
        The expression of a row's document id.
    repeated
        Ids of equal rows, of which one is kept; None if there are none.
    broadcast
        Whether the ids of REMOVALS fit into every executor's memory.

    Returns
    -------
    rows, name
        The name is that of the further column, which is the last.
    """
    name = _free_name(corpus)
    flag = f"{name}_removed"
    # An outer join repeats no row, as there is each id once on its right.
    listed = removals.select(F.col("doc_id").alias(name), F.lit(True).alias(flag))  # noqa: FBT003 - Spark's
    marked = corpus.withColumn(name, doc_id)
    is_removed = F.col(flag).isNotNull()
    if repeated is not None:
        marked = _number_copies(marked, name, repeated)
        is_removed |= F.col(_number(name)) > 1
    joined = marked.join(F.broadcast(listed) if broadcast else listed, on=name, how="left")
    return _columns(joined.withColumn(flag, is_removed), corpus, flag), flag


def check_annotations(corpus: DataFrame) -> None:
    """Make sure that the input has no column of ANNOTATIONS, in whatever case.

    Raises
    ------
    SchemaError
        When it has.
    """
    check_free(corpus, ANNOTATIONS, "output.mode: annotate")


def check_free(corpus: DataFrame, names: Collection[str], setting: str) -> None:
    """Make sure that the input has no column of these names, in whatever case.

    Raises
    ------
    SchemaError
        When it has; names the setting that adds it.
    """
    lowered = {name.lower() for name in names}
    taken = [name for name in corpus.columns if name.lower() in lowered]
    if taken:
        raise SchemaError(f"{setting} adds the column {taken[0]!r}, which the input must not have")


def merge_values(removals: DataFrame, signatures: DataFrame) -> DataFrame:
    """Turn REMOVALS, SIGNATURES into (doc_id, values) of documents that stay for others; see `fates.merge_values`."""
    merged = signatures.select("doc_id", "id", F.coalesce("merged", F.array().cast("array<string>")).alias("merged"))
    single = merged.dropDuplicates(["doc_id"])
    named = removals.select("doc_id", "representative_id").filter(F.col("representative_id").isNotNull())
    gone = named.join(single.drop("id"), on="doc_id", how="inner")
    passed = gone.groupBy("representative_id").agg(F.collect_list("merged").alias("passed"))
    staying = single.join(passed, on=single["id"] == passed["representative_id"], how="inner")
    return staying.select("doc_id", F.concat(F.array("merged"), "passed").alias("values"))


def add_merged(corpus: DataFrame, doc_id: Column, merged: DataFrame) -> DataFrame:
    """Add columns (doc_id, ...) of documents that stay for others to the input; the others stand for themselves."""
    name = _free_name(corpus)
    joined = corpus.withColumn(name, doc_id).join(merged.withColumnRenamed("doc_id", name), on=name, how="left")
    more = [each for each in merged.columns if each != "doc_id"]
    if "dedup_count" in more:
        joined = joined.withColumn("dedup_count", F.coalesce("dedup_count", F.lit(1)))
    return _columns(joined, corpus, *more)


def cut_texts(corpus: DataFrame, doc_id: Column, cuts: DataFrame, text_column: str) -> DataFrame:
    """Input, spans (doc_id, begin, end) in characters -> the input, with texts that have lost them."""
    name, listed = _free_name(corpus), f"{_free_name(corpus)}_cuts"
    spans = F.collect_list(F.struct("begin", "end")).alias(listed)
    of_document = cuts.withColumnRenamed("doc_id", name).groupBy(name).agg(spans)
    joined = corpus.withColumn(name, doc_id).join(of_document, on=name, how="left")
    is_cut = F.col(listed).isNotNull()
    # In Python, which finds a character of a text in no time: by substrings the spans of a document took the square.
    delete = F.udf(_delete_spans, "string", useArrow=False)
    begins, ends = (F.col(listed)[side] for side in ("begin", "end"))
    kind = corpus.schema[text_column].dataType
    shorter = delete(F.when(is_cut, column(text_column).cast("string")), begins, ends).cast(kind)
    whole = joined.withColumn(text_column, F.when(is_cut, shorter).otherwise(column(text_column)))
    return _columns(whole, corpus)


def _delete_spans(text: str | None, begins: Sequence[int] | None, ends: Sequence[int] | None) -> str | None:
    """Return a text without spans in any order; None of None."""
    if text is None or begins is None or ends is None:
        return None
    united = unite_spans(np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))
    return delete_spans(text, *(side.tolist() for side in united))


def annotate(
    corpus: DataFrame,
    doc_id: Column,
    removals: DataFrame,
    copies: DataFrame,
    repeated: DataFrame | None,
) -> DataFrame:
    """Input, REMOVALS, further copies of equal rows -> every input row with ANNOTATIONS.

    Raises
    ------
    SchemaError
        As `check_annotations`.
    """
    check_annotations(corpus)
    name = _free_name(corpus)
    number = _number(name)
    marked = corpus.withColumn(name, doc_id)
    marked = marked.withColumn(number, F.lit(1)) if repeated is None else _number_copies(marked, name, repeated)
    fates = removals.withColumn(number, F.lit(1)).unionByName(copies.distinct().withColumn(number, F.lit(2)))
    fates = fates.select(
        F.col("doc_id").alias(name),
        number,
        F.expr("false").alias("dedup_kept"),
        *[F.col(name).alias(f"dedup_{name}") for name in FATE],
    )
    annotated = marked.join(fates, on=[name, number], how="left")
    annotated = annotated.withColumn("dedup_kept", F.expr("dedup_kept IS NULL"))
    return _columns(annotated, corpus, *ANNOTATIONS)


def count_sources(signatures: DataFrame, removals: DataFrame) -> dict[str, dict[str, int]]:
    """Count documents and those kept of the SOURCES largest sources, and of all others together."""
    sources = signatures.select("doc_id", "source")
    removed = removals.select("doc_id").join(sources.distinct(), on="doc_id", how="inner")
    counted = sources.withColumn("part", F.lit(1)).unionByName(removed.withColumn("part", F.lit(-1)))
    sums = counted.groupBy("source").agg(F.count_if(F.col("part") == 1).alias("documents"), F.sum("part").alias("kept"))
    rank = F.row_number().over(Window.orderBy(F.desc("documents"), "source"))
    name = F.when(rank > SOURCES, "(others)").otherwise(F.coalesce("source", F.lit("(none)")))
    found = sums.withColumn("name", name).groupBy("name").agg(F.sum("documents"), F.sum("kept"))
    rows = sorted(found.collect(), key=lambda row: (row[0] == "(others)", -row[1], row[0]))
    return {row[0]: {"documents": row[1], "kept": row[2]} for row in rows}


def name_edges(edges: DataFrame, ids: DataFrame, *, broadcast: bool) -> DataFrame:
    """EDGES, ids (doc_id, id) of all documents -> (left_id, right_id, jaccard) in the user's, left_id < right_id.

    `broadcast`: whether EDGES fits into every executor's memory; then no shuffle.
    """
    named = edges
    if _are_doc_ids(ids):
        return _order(named, ids)
    # The pairs go to the names and not the names to the pairs: of all documents, few are in one.
    for end in ("left", "right"):
        names = ids.select(F.col("doc_id").alias(f"{end}_id"), F.col("id").alias(end))
        named = names.join(F.broadcast(named) if broadcast else named, on=f"{end}_id", how="inner")
    return _order(named.select(F.col("left").alias("left_id"), F.col("right").alias("right_id"), "jaccard"), ids)


def _are_doc_ids(ids: DataFrame) -> bool:
    """Tell whether the user's ids are the document ids, as integers are; see `documents.identify`."""
    return isinstance(ids.schema["id"].dataType, T.IntegralType)


def _order(pairs: DataFrame, ids: DataFrame) -> DataFrame:
    """Put the lesser id of each pair on the left, both in the type of the user's ids."""
    left, right = (F.col(name).cast(ids.schema["id"].dataType) for name in ("left_id", "right_id"))
    return pairs.select(F.least(left, right).alias("left_id"), F.greatest(left, right).alias("right_id"), "jaccard")


def _number_copies(marked: DataFrame, name: str, repeated: DataFrame) -> DataFrame:
    """Mark one of equal rows as 1, the others as 2; which one does not matter, as nothing tells them apart."""
    ids = F.broadcast(repeated.select(F.col("doc_id").alias(name)))
    order = Window.partitionBy(name).orderBy(F.lit(0))
    number = _number(name)
    single = marked.join(ids, on=name, how="left_anti").withColumn(number, F.lit(1))
    several = marked.join(ids, on=name, how="left_semi")
    return single.unionByName(several.withColumn(number, F.least(F.row_number().over(order), F.lit(2))))


def _free_name(corpus: DataFrame) -> str:
    """Return a column name that the input does not use, nor any that starts with it."""
    name = "_dedup"
    while any(column.lower().startswith(name) for column in corpus.columns):
        name = f"_{name}"
    return name


def _number(name: str) -> str:
    return f"{name}_number"


def _columns(rows: DataFrame, corpus: DataFrame, *more: str) -> DataFrame:
    """Select the input's columns in their order, and more."""
    return rows.select(*[column(name) for name in corpus.columns], *more)
