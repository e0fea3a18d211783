"""Input rows, DUPLICATES, EDGES -> what the user gets, in the user's ids."""

from collections.abc import Callable, Collection
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from dedup.errors import SchemaError

ANNOTATIONS = ("dedup_kept", "dedup_representative_id", "dedup_component_id", "dedup_kind", "dedup_jaccard")
NOTED_LENGTH = 200
"""Characters noted of a text."""
Note: TypeAlias = Callable[[DataFrame, str], DataFrame]
FATE = ("representative_id", "component_id", "kind", "jaccard")


def note_texts(observation: Observation, wanted: Collection[int], text_column: str) -> Note:
    """Return what makes a write note the beginnings of some texts, which pass by anyhow, instead of reading them again.

    The observation takes `texts`, rows of (doc_id, text).
    """

    def note(rows: DataFrame, doc_id: str) -> DataFrame:
        text = F.substring(F.col(_quote(text_column)).cast("string"), 1, NOTED_LENGTH)
        noted = F.when(F.col(doc_id).isin(*wanted), F.struct(F.col(doc_id).alias("doc_id"), text.alias("text")))
        return rows.observe(observation, F.collect_list(noted).alias("texts"))

    return note


def list_copies(repeated: DataFrame, signatures: DataFrame, members: DataFrame) -> DataFrame:
    """REPEATED, SIGNATURES, MEMBERS -> DUPLICATES: the second and further of wholly equal rows.

    They share the fate of the first if that is a duplicate, and are identical to it if it is kept.
    """
    ids = signatures.select("doc_id", "id").join(F.broadcast(repeated), on="doc_id", how="inner").distinct()
    others = ids.join(members.select("doc_id", *FATE), on="doc_id", how="left")
    is_duplicate = F.col("kind") != "kept"
    return others.withColumn("number", F.explode(F.sequence(F.lit(2), "copies"))).select(
        "doc_id",
        "id",
        F.coalesce("representative_id", "id").alias("representative_id"),
        F.coalesce("component_id", "doc_id").alias("component_id"),
        F.when(is_duplicate, F.col("kind")).otherwise("identical").alias("kind"),
        F.coalesce("jaccard", F.lit(1.0)).alias("jaccard"),
    )


def keep(
    corpus: DataFrame,
    doc_id: Column,
    duplicates: DataFrame,
    repeated: DataFrame | None,
    *,
    broadcast: bool,
    note: Note | None = None,
) -> DataFrame:
    """Input, DUPLICATES, REPEATED -> the rows to keep, every column as it was; no shuffle if broadcast.

    Parameters
    ----------
    doc_id
        The expression of a row's document id.
    repeated
        Ids of equal rows, of which one is kept; None if there are none.
    broadcast
        Whether the ids of DUPLICATES fit into every executor's memory.
    note
        As from `note_texts`.
    """
    name = _free_name(corpus)
    marked = _mark(corpus, doc_id, name, note)
    removed = duplicates.select(F.col("doc_id").alias(name))
    kept = marked.join(F.broadcast(removed) if broadcast else removed, on=name, how="left_anti")
    if repeated is not None:
        kept = _number_copies(kept, name, repeated).filter(F.col(_number(name)) == 1)
    return _columns(kept, corpus)


def check_annotations(corpus: DataFrame) -> None:
    """Make sure that the input has no column of ANNOTATIONS, in whatever case.

    Raises
    ------
    SchemaError
        When it has.
    """
    taken = [name for name in corpus.columns if name.lower() in ANNOTATIONS]
    if taken:
        raise SchemaError(f"output.mode: annotate adds the column {taken[0]!r}, which the input must not have")


def annotate(
    corpus: DataFrame,
    doc_id: Column,
    duplicates: DataFrame,
    copies: DataFrame,
    repeated: DataFrame | None,
    *,
    note: Note | None = None,
) -> DataFrame:
    """Input, DUPLICATES, further copies of equal rows -> every input row with ANNOTATIONS.

    Raises
    ------
    SchemaError
        As `check_annotations`.
    """
    check_annotations(corpus)
    name = _free_name(corpus)
    number = _number(name)
    marked = _mark(corpus, doc_id, name, note)
    marked = marked.withColumn(number, F.lit(1)) if repeated is None else _number_copies(marked, name, repeated)
    fates = duplicates.withColumn(number, F.lit(1)).unionByName(copies.distinct().withColumn(number, F.lit(2)))
    fates = fates.select(
        F.col("doc_id").alias(name),
        number,
        F.expr("false").alias("dedup_kept"),
        *[F.col(column).alias(f"dedup_{column}") for column in FATE],
    )
    annotated = marked.join(fates, on=[name, number], how="left")
    annotated = annotated.withColumn("dedup_kept", F.expr("dedup_kept IS NULL"))
    return _columns(annotated, corpus, *ANNOTATIONS)


def name_edges(edges: DataFrame, identical: DataFrame, members: DataFrame, *, broadcast: bool) -> DataFrame:
    """EDGES, IDENTICAL, MEMBERS -> (left_id, right_id, jaccard) in the user's ids, left_id < right_id.

    A document with the shingle set of another is an edge of Jaccard 1 to the least doc_id of that set. `broadcast`:
    whether MEMBERS fits into every executor's memory.
    """
    same = identical.select(F.col("doc_id").alias("left_id"), F.col("set_id").alias("right_id"))
    every = edges.select("left_id", "right_id", "jaccard").unionByName(same.withColumn("jaccard", F.lit(1.0)))
    left = members.select(F.col("doc_id").alias("left_id"), F.col("id").alias("left"))
    right = members.select(F.col("doc_id").alias("right_id"), F.col("id").alias("right"))
    if broadcast:
        left, right = F.broadcast(left), F.broadcast(right)
    named = every.join(left, on="left_id", how="inner").join(right, on="right_id", how="inner")
    return named.select(
        F.least("left", "right").alias("left_id"), F.greatest("left", "right").alias("right_id"), "jaccard"
    )


def _number_copies(marked: DataFrame, name: str, repeated: DataFrame) -> DataFrame:
    """Mark one of equal rows as 1, the others as 2; which one does not matter, as nothing tells them apart."""
    ids = F.broadcast(repeated.select(F.col("doc_id").alias(name)))
    order = Window.partitionBy(name).orderBy(F.lit(0))
    number = _number(name)
    single = marked.join(ids, on=name, how="left_anti").withColumn(number, F.lit(1))
    several = marked.join(ids, on=name, how="left_semi")
    return single.unionByName(several.withColumn(number, F.least(F.row_number().over(order), F.lit(2))))


def _mark(corpus: DataFrame, doc_id: Column, name: str, note: Note | None) -> DataFrame:
    marked = corpus.withColumn(name, doc_id)
    return marked if note is None else note(marked, name)


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
    return rows.select(*[F.col(_quote(name)) for name in corpus.columns], *more)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
