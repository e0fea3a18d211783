"""What the user gets: the input's rows and columns, and every id the user's own."""

import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.api import deduplicate
from dedup.engine.corpus import identify
from dedup.engine.expressions import column
from dedup.errors import DedupError, SchemaError
from dedup.files.columns import require_free
from dedup.output.file_output import NOTED_LENGTH
from dedup.output.row_output import ANNOTATED, cut_texts, decide_rows, note_texts, read_notes
from dedup.output.spark_tasks import save
from dedup.run.faults import recognise
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from dedup.settings.keeping import NOTES
from tests.engine.tables import rows

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


def make_decisions(spark, *gone):
    """Return DECISIONS of (doc_id, representative_id, component_id, kind, jaccard, number)."""
    columns = "doc_id long, representative_id long, component_id long, kind string, jaccard double, number long"
    return spark.createDataFrame(list(gone), columns)


def make_repeated(spark, *doc_ids):
    return spark.createDataFrame([(each,) for each in doc_ids], "doc_id long")


def parts(corpus, decisions, repeated, *, broadcast=True):
    """Return the rows that are kept and those that are removed."""
    found, [name] = decide_rows(corpus, F.col("id"), decisions, repeated, NOTES[:1], broadcast=broadcast)
    assert found.columns == [*corpus.columns, name]
    assert found.drop(name).schema == corpus.schema
    every = rows(found)
    return [[row[:-1] for row in every if row[-1] == kept] for kept in (True, False)]


def annotate(corpus, decisions, repeated):
    found, names = decide_rows(corpus, F.col("id"), decisions, repeated, NOTES, broadcast=True)
    assert names == list(NOTES)
    return found


@pytest.mark.parametrize("broadcast", [True, False])
def test_duplicates_are_removed_and_all_others_kept(spark, broadcast):
    corpus = make_corpus(spark, range(6))
    duplicates = make_decisions(spark, (1, 0, 0, "near", 0.9, 1), (4, 0, 0, "near", 0.8, 1))

    kept, removed = parts(corpus, duplicates, None, broadcast=broadcast)

    assert kept == [(number, f"text of {number}") for number in (0, 2, 3, 5)]
    assert removed == [(number, f"text of {number}") for number in (1, 4)]


def test_every_column_is_kept_in_its_order_whatever_its_name(spark):
    corpus = make_corpus(spark, [1, 1, 2, 3], ODD)
    duplicate, copy = (2, 1, 1, "near", 0.9, 1), (1, 1, 1, "identical", 1.0, 2)

    every, place = rows(corpus), ODD.index("id")

    for gone, equal in (([duplicate], None), ([duplicate, copy], make_repeated(spark, 1))):
        kept, removed = parts(corpus, make_decisions(spark, *gone), equal)
        assert sorted(kept + removed, key=repr) == every
        assert {row[place] for row in kept} == {1, 3}
    annotated = annotate(corpus, make_decisions(spark, duplicate, copy), make_repeated(spark, 1))
    assert annotated.columns == [*ODD, *NOTES]
    assert sorted((row[: len(ODD)] for row in rows(annotated)), key=repr) == every


@pytest.mark.parametrize(("equal", "broadcast"), [(False, True), (True, False)])
def test_a_write_notes_the_texts_that_pass_by_kept_or_not(spark, equal, broadcast):
    ids = [*range(30), 7] if equal else range(30)
    corpus = make_corpus(spark, ids, ("id", "a.b c")).withColumn(
        "a.b c", F.concat(F.repeat(F.lit("é"), NOTED_LENGTH + 100), "`a.b c`")
    )
    decisions = make_decisions(spark, (1, 0, 0, "near", 0.9, 1), *[(7, 7, 7, "identical", 1.0, 2)] * equal)
    repeated = make_repeated(spark, 7) if equal else None

    def note(marked, wanted):
        observation = Observation()
        noting = note_texts(marked, F.col("id"), wanted, column("a.b c"), observation)
        assert len(rows(noting)) == len(ids)
        return read_notes(observation)

    marked, _ = decide_rows(corpus, F.col("id"), decisions, repeated, NOTES[:1], broadcast=broadcast)
    assert note(marked, [1, 2, 7, 99, *range(1000, 1020)]) == dict.fromkeys((1, 2, 7), "é" * NOTED_LENGTH)
    assert note(annotate(corpus, decisions, repeated), [1, 3]).keys() == {1, 3}


def test_notes_hold_every_character_and_null(spark):
    texts = {2**63 - 1: 'quote " \\ \n \x00 \U0001f642 \u2028', -(2**63): None, 3: "", 4: "not wanted"}
    corpus = spark.createDataFrame(list(texts.items()), "id long, text string")
    observation = Observation()
    noting = note_texts(corpus, F.col("id"), [2**63 - 1, -(2**63), 3], F.col("text"), observation)

    assert len(rows(noting)) == len(texts)
    assert read_notes(observation) == {2**63 - 1: texts[2**63 - 1], -(2**63): "", 3: ""}


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_times_are_written_to_the_microsecond(spark, kind, tmp_path):
    moment = "timestamp_micros(1700000000123456)"
    corpus = spark.range(1).selectExpr(f"{moment} as at", f"cast({moment} as timestamp_ntz) as plain")
    save(corpus.write, str(tmp_path / "out"), kind)

    written = "".join(path.read_text("utf-8") for path in (tmp_path / "out").glob("part-*"))
    assert written.count("20.123456") == 2


def test_what_is_sent_back_of_notes_holds_no_row(spark, capsys):
    corpus = spark.range(3).selectExpr("map('key', id) as of", "cast(id as string) as text")
    noting = note_texts(corpus, identify(corpus, id_column="")[1], [1], F.col("text"), Observation())

    noting.explain("extended")
    lines = [line for line in capsys.readouterr().out.splitlines() if "CollectMetrics" in line]
    assert lines
    assert not any("xxhash64" in line for line in lines)


def test_one_of_equal_rows_is_kept_unless_all_are_duplicates(spark):
    corpus, repeated = make_corpus(spark, [1, 1, 1, 2, 2, 3]), make_repeated(spark, 1, 2)
    decisions = make_decisions(spark, *[(2, 3, 2, "near", 0.9, 1)] * 2, *[(1, 1, 1, "identical", 1.0, 2)] * 2)

    kept, removed = parts(corpus, decisions, repeated, broadcast=False)

    assert kept == [(1, "text of 1"), (3, "text of 3")]
    assert removed == [(number, f"text of {number}") for number in (1, 1, 2, 2)]


def test_annotations_say_what_became_of_each_row(spark):
    corpus = make_corpus(spark, range(4))
    duplicates = make_decisions(spark, (1, 0, 0, "near", 0.9, 1), (3, 2, 2, "identical", 1.0, 1))

    assert rows(annotate(corpus, duplicates, None)) == [
        (0, "text of 0", True, None, None, None, None),
        (1, "text of 1", False, 0, 0, "near", 0.9),
        (2, "text of 2", True, None, None, None, None),
        (3, "text of 3", False, 2, 2, "identical", 1.0),
    ]


def test_annotations_of_equal_rows_tell_the_first_from_the_others(spark):
    corpus = make_corpus(spark, [1, 1, 1, 2, 2, 3])
    decisions = make_decisions(spark, *[(2, 3, 2, "near", 0.9, 1)] * 2, *[(1, 1, 1, "identical", 1.0, 2)] * 2)

    assert rows(annotate(corpus, decisions, make_repeated(spark, 1, 2))) == [
        *[(1, "text of 1", False, 1, 1, "identical", 1.0)] * 2,
        (1, "text of 1", True, None, None, None, None),
        *[(2, "text of 2", False, 3, 2, "near", 0.9)] * 2,
        (3, "text of 3", True, None, None, None, None),
    ]


@pytest.mark.parametrize("kind", ["array(1)", "map('a', 1)", "struct(1)", "make_interval(1)", "null"])
def test_columns_that_csv_has_no_cells_for_are_refused_before_the_search(spark, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("dedup.run.pipeline.execute", lambda *_, **__: 1 / 0)
    corpus = make_corpus(spark, [1]).withColumn("more", F.expr(kind))

    with pytest.raises(SchemaError, match=r"csv must have no columns of the types .* of 'more'\)"):
        deduplicate(corpus, f"{tmp_path}/out", id_column="id", output__format="csv")


@pytest.mark.parametrize("name", [*NOTES, "DEDUP_Kept"])
def test_an_input_with_a_column_of_an_annotation_is_refused(spark, name):
    corpus = make_corpus(spark, [1], ["id", name])

    # To Spark, names that differ in case are one column.
    with pytest.raises(SchemaError, match=rf"(?i)annotate adds the column '{name}', which the input must not have"):
        require_free(corpus.columns, NOTES, ANNOTATED)


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


def test_a_table_of_which_all_rows_go_leaves_an_empty_one(spark, tmp_path):
    table = spark.createDataFrame([(number, "copy") for number in range(3)], "id long, text string")
    config = load_config(settings={"input.id_column": "id", "layers": ["exact"], "keep.drop": "all"})

    report = run(spark, Job(inputs=[], output=f"{tmp_path}/out", config=config, table=table))

    kept, removed = (spark.read.parquet(f"{tmp_path}/out/{name}") for name in ("kept", "removed"))
    assert (report["kept"], rows(kept), kept.schema) == (0, [], removed.schema)
    assert rows(removed) == rows(table)


def test_a_table_of_which_all_rows_go_has_the_columns_that_are_merged(spark, tmp_path):
    spark.createDataFrame([(1, "one text"), (2, "one text")], "id long, text string").write.parquet(f"{tmp_path}/in")
    settings = {"input.table": f"parquet.`{tmp_path}/in`", "input.id_column": "id", "layers": ["exact"]}
    config = load_config(settings=settings | {"keep.drop": "all", "keep.merge": ["count", "texts:text"]})
    run(spark, Job(inputs=[], output=f"{tmp_path}/out", config=config))

    kept, removed = (spark.read.parquet(f"{tmp_path}/out/{name}") for name in ("kept", "removed"))
    assert (kept.columns, kept.count()) == (["id", "text", "dedup_count", "dedup_texts"], 0)
    assert (removed.columns, removed.count()) == (["id", "text"], 2)


def test_rows_that_are_others_each_time_are_told_as_such(spark, tmp_path):
    # A plan that does not say so.
    now = spark.createDataFrame([("copy",)] * 3, "text string").withColumn("time", F.current_timestamp())

    with pytest.raises(DedupError, match="did the input change while it was read"):
        deduplicate(now, tmp_path / "out", layers=["exact"])


@pytest.mark.parametrize(
    ("kind", "value"), [("parquet", "make_interval(1)"), ("parquet", "struct()"), ("csv", "array(1)")]
)
def test_a_column_that_a_format_does_not_hold_is_told_by_its_name(spark, tmp_path, kind, value):
    table = spark.range(1).select("id", F.expr(value).alias("odd"))

    with pytest.raises(PySparkException) as caught:
        save(table.write, f"{tmp_path}/rows", kind)

    known = recognise(caught.value)
    assert isinstance(known, SchemaError)
    assert str(known).startswith("output.format: must be one in which Spark writes every column (")


def test_a_null_alone_in_a_record_of_csv_stays_a_record(spark, tmp_path):
    table = spark.createDataFrame([("one",), (None,), (None,)], "text string")
    config = load_config(settings={"output.format": "csv", "layers": ["exact"]})

    run(spark, Job(inputs=[], output=f"{tmp_path}/out", config=config, table=table))

    written = {
        name: sorted(line for path in (tmp_path / "out" / name).glob("*.csv") for line in path.read_text().split()[1:])
        for name in ("kept", "removed")
    }
    assert written == {"kept": ['""', "one"], "removed": ['""']}
