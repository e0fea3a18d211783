"""A batch that Spark adds is the batch that the memory engine adds."""

from random import Random

import pyarrow.parquet as pq
import pytest

from dedup.errors import DataError
from dedup.run.growing import Growth
from dedup.run.job import Job
from dedup.run.start import choose_engine
from dedup.settings.files import load_config
from dedup.store.state import read_state
from tests.store import list_edges, list_members
from tests.store.sides import Side, deal, hold_together, write
from tests.test_pipeline import make_texts


@pytest.mark.parametrize(
    "engines",
    [
        pytest.param((True, True), id="Spark alone", marks=pytest.mark.full),
        # With layers before near test_layers.py does the same, and tests/chaos on an object store.
        pytest.param((False, True, False), id="both in turn", marks=pytest.mark.full),
    ],
)
def test_batches_added_by_spark_are_those_of_the_memory_engine(spark, tmp_path, engines):
    batches = deal(make_texts(7, originals=8, copies=4), len(engines))
    settings = {"input.id_column": "id"}

    side = hold_together(tmp_path, spark, batches, settings, anew={len(engines) - 1}, engines=engines)

    assert list_edges(side.tables)
    assert {row[1] for row in list_members(side.tables).values()} == {True, False}


def template(chance, number, *, words=60, changed=1):
    """Return a text of a template with a few words of its own."""
    tokens = [f"t{place}" for place in range(words)]
    for place in chance.sample(range(words), changed):
        tokens[place] = f"own{number}x{place}"
    return " ".join(tokens)


@pytest.mark.full
def test_buckets_over_the_cap_are_linked_anew_as_in_memory(spark, tmp_path):
    chance = Random(11)
    texts = [template(chance, number, changed=1 + number % 3) for number in range(40)]
    texts += make_texts(5, originals=4, copies=3)
    settings = {"input.id_column": "id", "buckets.max_bucket": 4}
    batches = deal(texts, 2)

    side = hold_together(tmp_path, spark, batches, settings, engines=(False, True))

    assert side.rows()["hot"]


@pytest.mark.full
def test_strings_as_ids_and_sources_are_told_as_in_memory(spark, tmp_path):
    batches = [{f"id{key}": text for key, text in rows.items()} for rows in deal(make_texts(2, originals=6), 2)]
    settings = {"input.id_column": "id", "input.source_column": "site", "keep.order": ["longest"]}

    hold_together(tmp_path, spark, batches, settings, engines=(False, True))


@pytest.mark.full
def test_rows_without_ids_and_rows_of_the_store_that_come_again_are_told_as_in_memory(spark, tmp_path):
    texts = ["", "one two three four five six", "one two three four five six", *make_texts(3, originals=3, copies=3)]
    batches = [dict(enumerate(texts[:14])), dict(enumerate(["", *texts[8:], texts[1], texts[1], "new"]))]

    side = hold_together(tmp_path, spark, batches, {}, engines=(True, True))

    told = pq.read_table(side.folder / "batch1" / "duplicates").to_pylist()
    assert [row for row in told if row["id"] == row["representative_id"]]


def test_ids_that_the_store_has_are_refused_by_name_on_spark_too(spark, tmp_path):
    side = Side(tmp_path / "side", {"input.id_column": "id"})
    side.add("a", write(tmp_path / "a.parquet", {1: "a text", 7: "one more"}))
    before = side.rows()

    with pytest.raises(DataError, match=r"must hold ids that the store has not \(got 1 that it has: 7\)"):
        side.add("b", write(tmp_path / "b.parquet", {100: "other", 7: "another"}), spark)
    assert side.rows() == before


@pytest.mark.parametrize(("most", "engine"), [(10**9, "memory"), pytest.param(10**4, "spark", marks=pytest.mark.full)])
def test_a_batch_that_takes_little_memory_the_driver_adds_without_a_job(spark, tmp_path, most, engine):
    settings = {"input.id_column": "id", "driver.search_bytes": most}
    side = Side(tmp_path / "side", settings)
    texts = dict(enumerate(make_texts(3, originals=3, copies=3)))

    assert side.add("a", write(tmp_path / "a.parquet", texts), spark)["engine"] == engine


def test_documents_of_the_store_count_among_what_a_batch_takes(tmp_path):
    settings = {"input.id_column": "id"}
    side = Side(tmp_path / "side", settings)
    path = write(tmp_path / "a.parquet", dict(enumerate(make_texts(3, originals=3, copies=3))))
    side.add("a", path)
    job = Job(inputs=[str(path)], output=str(tmp_path / "out"), config=load_config(settings=settings))

    known = Growth(store=side.tables.path, batch="b").count_known()

    assert known == read_state(side.tables).sets > 0
    assert choose_engine(job, known) == "memory"
    assert choose_engine(job, 10**12) == "spark"
