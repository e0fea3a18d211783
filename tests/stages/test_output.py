"""What the user gets: the input's rows and columns, and every id the user's own."""

import time

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import SchemaError
from dedup.stages.output import (
    ANNOTATIONS,
    NOTED_LENGTH,
    annotate,
    cut_texts,
    list_copies,
    mark,
    name_edges,
    note_texts,
    read_notes,
)
from dedup.tables import schemas
from tests.stages import make_signatures, rows

ODD = [
    "z",
    "a.b c",
    "tick`ed",
    "id",
    "_dedup",
    "__DEDUP_number",
    "_dedup_",
    "_dedup_removed",
    "number",
    "doc_id",
    "A.b",
    "*",
]


def make_corpus(spark, ids, names=("id", "text")):
    schema = T.StructType()
    for name in names:
        schema.add(name, T.LongType() if name == "id" else T.StringType())
    values = [tuple(each if name == "id" else f"{name} of {each}" for name in names) for each in ids]
    return spark.createDataFrame(values, schema).repartition(3)


def make_removals(spark, *fates):
    """Return REMOVALS of (doc_id, representative_id, component_id, kind, jaccard); ids are document ids."""
    table = [(doc_id, doc_id, "near", kind, kept, place, jaccard) for doc_id, kept, place, kind, jaccard in fates]
    return spark.createDataFrame(table, schemas.removals(T.LongType()))


def make_members(spark, kind, *documents):
    """Return MEMBERS of (doc_id, id, representative_id, component_id, kind, jaccard)."""
    whole = [(*each[:2], None, *each[2:4], None, *each[4:], *[None] * 5) for each in documents]
    return spark.createDataFrame(whole, schemas.members(kind))


def make_repeated(spark, copies):
    return spark.createDataFrame(list(copies.items()), schemas.REPEATED)


def parts(corpus, *tables, broadcast=True):
    """Return the rows that are kept and those that are removed."""
    found, name = mark(corpus, F.col("id"), *tables, broadcast=broadcast)
    assert found.columns == [*corpus.columns, name]
    assert found.drop(name).schema == corpus.schema
    every = rows(found)
    return [[row[:-1] for row in every if row[-1] == removed] for removed in (False, True)]


@pytest.mark.parametrize("broadcast", [True, False])
def test_duplicates_are_removed_and_all_others_kept(spark, broadcast):
    corpus = make_corpus(spark, range(6))
    duplicates = make_removals(spark, (1, 0, 0, "near", 0.9), (4, 0, 0, "near", 0.8))

    kept, removed = parts(corpus, duplicates, None, broadcast=broadcast)

    assert kept == [(number, f"text of {number}") for number in (0, 2, 3, 5)]
    assert removed == [(number, f"text of {number}") for number in (1, 4)]


def test_every_column_is_kept_in_its_order_whatever_its_name(spark):
    corpus = make_corpus(spark, [1, 1, 2, 3], ODD)
    duplicates, repeated = make_removals(spark, (2, 1, 1, "near", 0.9)), make_repeated(spark, {1: 2})
    copies = make_removals(spark, (1, 1, 1, "identical", 1.0))
    doc_id = F.col("id")

    every, place = rows(corpus), ODD.index("id")

    for equal in (None, repeated):
        kept, removed = parts(corpus, duplicates, equal)
        assert sorted(kept + removed, key=repr) == every
        assert {row[place] for row in kept} == {1, 3}
    annotated = annotate(corpus, doc_id, duplicates, copies, repeated)
    assert annotated.columns == [*ODD, *ANNOTATIONS]
    assert sorted((row[: len(ODD)] for row in rows(annotated)), key=repr) == every


@pytest.mark.parametrize(("equal", "broadcast"), [(False, True), (True, False)])
def test_a_write_notes_the_texts_that_pass_by_kept_or_not(spark, equal, broadcast):
    ids = [*range(30), 7] if equal else range(30)
    corpus = make_corpus(spark, ids, ("id", "a.b c")).withColumn(
        "a.b c", F.concat(F.repeat(F.lit("é"), NOTED_LENGTH + 100), "`a.b c`")
    )
    duplicates, repeated = make_removals(spark, (1, 0, 0, "near", 0.9)), make_repeated(spark, {7: 2})

    def note(wanted):
        observation = Observation()
        return observation, note_texts(corpus, F.col("id"), wanted, "a.b c", observation)

    observation, noting = note([1, 2, 7, 99, *range(1000, 1020)])
    marked, _ = mark(noting, F.col("id"), duplicates, repeated if equal else None, broadcast=broadcast)
    assert len(rows(marked)) == len(ids)
    assert read_notes(observation) == dict.fromkeys((1, 2, 7), "é" * NOTED_LENGTH)

    observation, noting = note([1, 3])
    annotated = annotate(noting, F.col("id"), duplicates, duplicates.limit(0), repeated if equal else None)
    assert len(rows(annotated)) == len(ids)
    assert read_notes(observation).keys() == {1, 3}


def test_notes_hold_every_character_and_null(spark):
    texts = {2**63 - 1: 'quote " \\ \n \x00 \U0001f642 \u2028', -(2**63): None, 3: "", 4: "not wanted"}
    corpus = spark.createDataFrame(list(texts.items()), "id long, text string")
    observation = Observation()
    noting = note_texts(corpus, F.col("id"), [2**63 - 1, -(2**63), 3], "text", observation)

    assert len(rows(noting)) == len(texts)
    assert read_notes(observation) == {2**63 - 1: texts[2**63 - 1], -(2**63): "", 3: ""}


def test_one_of_equal_rows_is_kept_unless_all_are_duplicates(spark):
    corpus, repeated = make_corpus(spark, [1, 1, 1, 2, 2, 3]), make_repeated(spark, {1: 3, 2: 2})

    kept, removed = parts(corpus, make_removals(spark, (2, 3, 2, "near", 0.9)), repeated, broadcast=False)

    assert kept == [(1, "text of 1"), (3, "text of 3")]
    assert removed == [(number, f"text of {number}") for number in (1, 1, 2, 2)]


def test_annotations_say_what_became_of_each_row(spark):
    corpus = make_corpus(spark, range(4))
    duplicates = make_removals(spark, (1, 0, 0, "near", 0.9), (3, 2, 2, "identical", 1.0))

    found = rows(annotate(corpus, F.col("id"), duplicates, duplicates.limit(0), None))

    assert found == [
        (0, "text of 0", True, None, None, None, None),
        (1, "text of 1", False, 0, 0, "near", 0.9),
        (2, "text of 2", True, None, None, None, None),
        (3, "text of 3", False, 2, 2, "identical", 1.0),
    ]


def test_annotations_of_equal_rows_tell_the_first_from_the_others(spark):
    corpus = make_corpus(spark, [1, 1, 1, 2, 2, 3])
    first = make_removals(spark, (2, 3, 2, "near", 0.9))
    copies = make_removals(spark, *[(1, 1, 1, "identical", 1.0)] * 2, (2, 3, 2, "near", 0.9))

    found = rows(annotate(corpus, F.col("id"), first, copies, make_repeated(spark, {1: 3, 2: 2})))

    assert found == [
        *[(1, "text of 1", False, 1, 1, "identical", 1.0)] * 2,
        (1, "text of 1", True, None, None, None, None),
        *[(2, "text of 2", False, 3, 2, "near", 0.9)] * 2,
        (3, "text of 3", True, None, None, None, None),
    ]


@pytest.mark.parametrize("name", [*ANNOTATIONS, "DEDUP_Kept"])
def test_an_input_with_a_column_of_an_annotation_is_refused(spark, name):
    corpus = make_corpus(spark, [1], ["id", name])
    nobody = make_removals(spark)

    # To Spark, names that differ in case are one column.
    with pytest.raises(SchemaError, match=rf"(?i)annotate adds the column '{name}', which the input must not have"):
        annotate(corpus, F.col("id"), nobody, nobody, None)


def test_further_copies_share_the_fate_of_the_first(spark):
    signatures = make_signatures(
        spark,
        [(doc_id, -doc_id, 1, 0, 0) for doc_id in (1, 1, 1, 2, 2, 3, 3, 4, 5, 5)],
    )
    # 1 resembles nobody, 3 is the representative of component 2, and 2 and 5 are duplicates there.
    gone = [(2, -2, "near", "near", -3, -2, 0.9), (5, -5, "url", "url", None, -2, None)]
    removals = spark.createDataFrame(gone, schemas.removals(T.LongType()))
    members = spark.createDataFrame([(3, -2)], "doc_id long, component_id long")
    repeated = make_repeated(spark, {1: 3, 2: 2, 3: 2, 5: 2})

    copies = list_copies(repeated, signatures, removals, members, ("exact", "equal"))

    assert copies.columns == schemas.removals(T.LongType()).names
    assert rows(copies) == [
        *[(1, -1, "exact", "equal", -1, -1, 1.0)] * 2,
        (2, -2, "near", "near", -3, -2, 0.9),
        (3, -3, "exact", "equal", -3, -2, 1.0),
        (5, -5, "url", "url", None, -2, None),
    ]


@pytest.mark.parametrize("broadcast", [True, False])
def test_edges_are_named_by_the_users_ids_the_lesser_first(spark, broadcast):
    ids = spark.createDataFrame([(1, "9"), (2, "10"), (3, "é"), (4, "z")], "doc_id long, id string")
    edges = spark.createDataFrame([(1, 2, 0.7), (2, 3, 0.6)], schemas.EDGES)

    named = name_edges(edges, ids, broadcast=broadcast)

    assert named.columns == ["left_id", "right_id", "jaccard"]
    assert rows(named) == [("10", "9", 0.7), ("10", "é", 0.6)]


@pytest.mark.parametrize("kind", [T.LongType(), T.ByteType()])
def test_integer_ids_are_their_own_names(spark, kind):
    ids = make_members(spark, kind, *[(each, each, -7, -7, "near", 0.9) for each in (-7, -5, 3, 9)])
    edges = spark.createDataFrame([(-7, 3, 0.9), (-5, 9, 1.0)], schemas.EDGES)

    named = name_edges(edges, ids.select("doc_id", "id"), broadcast=True)

    assert rows(named) == [(-5, 9, 1.0), (-7, 3, 0.9)]
    assert {named.schema[name].dataType for name in ("left_id", "right_id")} == {kind}


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_texts_lose_their_spans_in_any_order(spark, kind):
    texts = [(1, "aéb漢c😀d"), (2, "whole"), (3, None), (4, ""), (5, "overlap")]
    corpus = spark.createDataFrame(texts, "id long, text string").withColumn("text", F.col("text").cast(kind))
    spans = [(1, 5, 6), (1, 1, 3), (3, 0, 1), (5, 4, 7), (5, 0, 2), (5, 1, 5)]
    cuts = spark.createDataFrame(spans, "doc_id long, begin long, end long")
    left = cut_texts(corpus, F.col("id"), cuts, "text")
    assert left.schema == corpus.schema
    assert rows(left.withColumn("text", F.col("text").cast("string"))) == [
        (1, "a漢cd"),
        (2, "whole"),
        (3, None),
        (4, ""),
        (5, ""),
    ]


def test_a_document_of_many_spans_takes_no_square(spark):
    count = 30_000
    text, width = "Home | News | Contact all of us\n" * count, 32
    corpus = spark.createDataFrame([(1, text)], "id long, text string")
    cuts = spark.range(count).selectExpr("1L AS doc_id", f"id * {width} AS begin", f"id * {width} + 7 AS end")
    begin = time.monotonic()
    [(_, left)] = cut_texts(corpus, F.col("id"), cuts, "text").collect()
    assert time.monotonic() - begin < 50
    assert left == text.replace("Home | ", "")
