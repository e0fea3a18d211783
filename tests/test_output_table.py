"""The rows of an output as tables of a catalog: what is refused at once, and what is committed once all is done.

The catalogs of Delta Lake and Iceberg are downloaded, so tests/chaos/test_catalogs.py asks those; here Spark's own
commits tables of parquet, whose writers are the same but for replacing.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from dedup.api import deduplicate
from dedup.errors import AlertError, ConfigError, FinishedError, SchemaError, StorageError
from dedup.explain.result import PublishedOutput
from dedup.run import catalog, pipeline
from dedup.run.growing import Growth, check_settings
from dedup.run.job import Job
from dedup.run.start import choose_engine, start
from dedup.run.workspace import Workspace
from dedup.settings.files import load_config
from tests.test_pipeline import make_texts

TEXTS = make_texts(5, originals=6, copies=2)
ROWS = [{"id": n, "text": text, "size": len(text)} for n, text in enumerate([*TEXTS, *TEXTS[:4]])]
SEARCH = {"layers": ["exact"]}
"""A search of 14 jobs of Spark, where that of the layer near takes 35: tables hold what any has left."""
FOLDERS = {"annotate": "annotated", "weights": "weights"}
NAME, EARLIER = "clean_corpus", "earlier_corpus"


def serve(patch):
    """Let Spark's own catalog serve."""
    patch.setattr(catalog, "PROVIDERS", ("parquet",))
    patch.setattr(catalog, "_find_class", lambda _, name: "parquet" if name == "spark_catalog" else "")


def drop(spark, table):
    for name in ("", "_removed", "_duplicates"):
        spark.sql(f"DROP TABLE IF EXISTS {table}{name}")


@pytest.fixture
def rows(spark, monkeypatch):
    """Return the rows, where Spark's own catalog serves; its tables go when the test ends."""
    serve(monkeypatch)
    yield spark.createDataFrame(ROWS)
    drop(spark, NAME)


@pytest.fixture(scope="module")
def earlier(_session, tmp_path_factory):
    """Return the result of a run whose tables stay for the tests that change none: a run of rows takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        serve(patch)
        settings = {"output.table": EARLIER, **SEARCH}
        # A column of a table with a default, which is no part of its rows.
        default = {"CURRENT_DEFAULT": "0", "EXISTS_DEFAULT": "0"}
        rows = _session.createDataFrame(ROWS).withMetadata("size", default)
        # Brackets in its name, which Spark's readers take for a glob.
        output = tmp_path_factory.mktemp("earlier") / "out[1]"
        found = deduplicate(rows, output, id_column="id", settings=settings)
    yield found
    drop(_session, EARLIER)


def run(rows, output, spark=None, **settings):
    return deduplicate(rows, output, spark=spark, id_column="id", settings={"output.table": NAME, **SEARCH, **settings})


def read(spark, name):
    return sorted(map(tuple, spark.table(name).collect()))


def assert_held(spark, table, output, mode):
    """Hold the tables against the folders of an output of files."""
    parts = {"duplicates": f"{table}_duplicates", FOLDERS.get(mode, "kept"): table}
    parts |= {"removed": f"{table}_removed"} if mode == "filter" else {}
    for folder, name in parts.items():
        frame = spark.read.parquet(f"{output}/{folder}")
        assert read(spark, name) == sorted(map(tuple, frame.collect()))
        assert spark.table(name).schema == frame.schema


@pytest.mark.parametrize(
    "mode", ["filter", *(pytest.param(mode, marks=pytest.mark.full) for mode in ("annotate", "ids")), "weights"]
)
def test_tables_hold_what_the_folders_of_files_hold(mode, rows, earlier, spark, tmp_path):
    found = earlier if mode == "filter" else run(rows, tmp_path / "out", **{"output.mode": mode})
    pq.write_table(pa.table({name: [row[name] for row in ROWS] for name in rows.columns}), tmp_path / "in.parquet")
    settings = {"output.mode": mode, "engine": "memory", **SEARCH}
    files = deduplicate(tmp_path / "in.parquet", tmp_path / "files", id_column="id", settings=settings)

    table = EARLIER if mode == "filter" else NAME
    assert_held(spark, table, f"{tmp_path}/files", mode)
    written = {path.name for path in Path(found.output).iterdir()}
    assert not written & {"kept", "removed", "annotated", "weights"}
    if mode == "weights":
        assert found.weights.count() == files.report.documents == files.weights.count_rows()
    else:
        assert found.kept.count() == files.report.kept
    assert spark.catalog.tableExists(f"{table}_removed") == (mode == "filter")


def test_nothing_is_committed_of_a_run_that_fails(rows, spark, tmp_path):
    with pytest.raises(AlertError):
        run(rows, tmp_path / "out", **{"alerts.removal_rate_above": 0.0, "alerts.on_breach": "fail"})

    assert not any(spark.catalog.tableExists(name) for name in (NAME, f"{NAME}_removed", f"{NAME}_duplicates"))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_table_of_others_is_never_replaced(overwrite, rows, spark, tmp_path):
    rows.limit(1).write.saveAsTable(f"{NAME}_removed")

    with pytest.raises(StorageError, match=r"_removed` must be missing or a table that dedup made"):
        deduplicate(rows, tmp_path / "out", overwrite=overwrite, id_column="id", settings={"output.table": NAME})

    assert spark.table(f"{NAME}_removed").count() == 1
    assert not spark.catalog.tableExists(NAME)


@pytest.mark.usefixtures("earlier")
def test_an_earlier_result_stays_unless_it_is_to_be_replaced(rows, spark, tmp_path):
    with pytest.raises(StorageError, match=r"earlier_corpus_removed` must not exist yet \(it does\); pass --overwrite"):
        run(rows, tmp_path / "other", **{"output.table": EARLIER})

    assert spark.table(EARLIER).count() > 0


@pytest.mark.usefixtures("earlier")
def test_a_table_that_is_read_is_not_replaced_under_another_name(rows, spark, tmp_path):
    given = {"output.table": f"default.{EARLIER.upper()}", **SEARCH}
    for table, without in ((spark.table(EARLIER), []), (rows, [f"{EARLIER}_removed"])):
        settings = given | {"input.without": without}
        with pytest.raises(ConfigError, match=r"output\.table: .* must be no table that the run reads"):
            deduplicate(table, tmp_path / "out", id_column="id", overwrite=True, settings=settings)

    assert spark.table(EARLIER).count() > 0


@pytest.mark.classic
def test_tables_of_a_run_that_crashed_before_its_end_are_replaced_by_the_same_run(rows, spark, tmp_path, monkeypatch):
    rows.write.parquet(str(tmp_path / "in"))
    names = {"input.table": f"parquet.`{tmp_path}/in`", "input.id_column": "id", "output.table": NAME, **SEARCH}
    names["output.mode"] = "annotate"
    job = Job(inputs=[], output=str(tmp_path / "out"), config=load_config(settings=names))
    replaced = []
    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "publish", fail)
        with pytest.raises(SystemExit):
            pipeline.run(spark, job)
    settings = {"output.mode": "annotate", "engine": "memory", **SEARCH}
    deduplicate(tmp_path / "in", tmp_path / "files", id_column="id", settings=settings)
    assert_held(spark, NAME, f"{tmp_path}/files", "annotate")
    with pytest.raises(StorageError, match="must not exist yet"):
        pipeline.run(spark, replace(job, output=str(tmp_path / "other")))

    assert len([*(tmp_path / "out.partial/stages").glob("*.json")]) > 1
    # Spark's own catalog replaces no table.
    monkeypatch.setattr("pyspark.sql.DataFrameWriterV2.createOrReplace", lambda _: replaced.append(1))
    pipeline.run(spark, job)

    assert len(replaced) == len(catalog.FOLDERS["annotate"])
    with pytest.raises(FinishedError):
        pipeline.run(spark, job)


def fail(*_):
    raise SystemExit


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {},
            r"output\.table: must be a table of Delta Lake or Iceberg \(the catalog spark_catalog is of Spark",
        ),
        ({"output.files": 2}, r"output\.table: takes no output\.format and no output\.files"),
        ({"output.format": "jsonl"}, r"output\.table: takes no output\.format and no output\.files"),
    ],
)
def test_what_no_catalog_commits_is_refused_before_work(settings, words, spark, tmp_path):
    rows = spark.createDataFrame(ROWS).select("id", F.col("text"))

    with pytest.raises(ConfigError, match=words):
        run(rows, tmp_path / "out", **settings)

    assert not (tmp_path / "out.partial").exists()


def test_a_column_that_delta_lake_does_not_take_is_refused_before_work(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "PROVIDERS", ("delta",))
    monkeypatch.setattr(catalog, "_find_class", lambda *_: "delta")

    with pytest.raises(
        SchemaError,
        match=r"output\.table: names of columns in Delta Lake must have none of .* \(got 'a b'\); rename it",
    ):
        run(rows.withColumn("meta", F.array(F.struct(F.lit(1).alias("a b")))), tmp_path / "out")


@pytest.mark.parametrize(("mode", "names"), [("annotate", ["id", "a b"]), ("ids", ["id"]), ("weights", [])])
def test_columns_that_no_table_has_may_have_any_name(mode, names, rows, tmp_path, monkeypatch):
    seen = []

    def check(_, schema):
        seen.extend(schema.names)
        raise InterruptedError

    monkeypatch.setattr(catalog.CatalogTables, "check_columns", check)
    with pytest.raises(InterruptedError):
        run(
            rows.select("id", F.col("text").alias("a b")),
            tmp_path / "out",
            **{"input.text_column": "a b", "output.mode": mode},
        )

    assert seen == names


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a b", r"output\.table: a b must be a table that Spark can write"),
        ("missing.clean", r"output\.table: missing\.clean must be in a database that exists"),
    ],
)
def test_a_name_that_spark_does_not_take_is_refused_before_work(name, words, spark, tmp_path):
    with pytest.raises(StorageError, match=words):
        run(spark.createDataFrame(ROWS), tmp_path / "out", **{"output.table": name})


def test_a_slash_at_the_end_of_a_folder_puts_no_table_into_another():
    names = catalog.name_tables(load_config(settings={"output.table": "delta.`/data/clean/`"}).output)

    assert [*names.values()] == [f"`delta`.`/data/clean{end}`" for end in ("_removed", "_duplicates", "")]


def test_engines_that_write_no_tables_refuse_at_once(tmp_path):
    config = load_config(settings={"output.table": NAME})
    with pytest.raises(ConfigError, match=r"needs a table: --table .parquet\.`/in`. \(or orc, json, csv\) in place of"):
        choose_engine(Job(inputs=["/in"], output=str(tmp_path / "out"), config=config))

    with pytest.raises(ConfigError, match=r"--store: output\.table works in single runs only"):
        check_settings(load_config(settings={"output.table": NAME}), Growth(store=str(tmp_path), batch="a"))


def test_removals_are_explained_without_the_texts_that_spark_has(earlier):
    gone = earlier.duplicates.first()["id"]

    assert PublishedOutput(earlier.output).find([gone]) == {}


@pytest.mark.parametrize(
    ("sources", "target", "needs_it"),
    [
        (["delta.`/in`"], "", True),
        (["Delta.`/in`"], "", True),
        (["parquet.`/in`", "parquet.`/a`", "delta.`/b`"], "", True),
        (["parquet.`/in`"], "clean", True),
        (["parquet.`/in`", "parquet.`/a`"], "", False),
    ],
)
def test_spark_starts_with_delta_lake_for_any_end(monkeypatch, tmp_path, sources, target, needs_it):
    asked = []

    def open_session(*, with_delta):
        asked.append(with_delta)
        raise InterruptedError

    monkeypatch.setattr("dedup.run.start.find_session", lambda: None)
    monkeypatch.setattr("dedup.run.session.open_session", open_session)
    source, *without = sources
    settings = {"engine": "spark", "input.table": source, "input.without": without, "output.table": target}
    config = load_config(settings=settings)
    with pytest.raises(InterruptedError):
        start(Job(inputs=[], output=str(tmp_path / "out"), config=config))
    assert asked == [needs_it]
