"""The Python interface: results, settings by keyword, and a caller's session left as it was."""

import doctest
import gc
import json
import logging
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import dedup
from dedup import api, frames, stores
from dedup.engine import sessions
from dedup.layers import load_table
from dedup.run import session as running
from dedup.settings import files

WORDS = " ".join(f"word{number}" for number in range(40))
TEXTS = [WORDS, WORDS + " end", WORDS.upper() + " END!", "something else entirely", "", None]
ROWS = [{"id": 10 - number, "text": text} for number, text in enumerate(TEXTS)]
KEPT, REMOVED = [5, 6, 7, 8], [9, 10]
BY_DRIVER = {"driver__search_bytes": 10**9}
"""What spares a run on Spark most of its jobs."""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


def ids(table):
    if isinstance(table, DataFrame):
        return sorted(row.id for row in table.collect())
    assert isinstance(table, ds.Dataset)
    return sorted(table.to_table()["id"].to_pylist())


@pytest.mark.parametrize("module", [api, files, frames, stores])
def test_examples_come_out_as_written(module, tmp_path):
    (tmp_path / "docs").mkdir()
    found = doctest.testmod(module, extraglobs={"folder": str(tmp_path / "docs")})

    assert found.attempted > 0
    assert found.failed == 0


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, dedup; assert not {'numpy', 'pyarrow'} & sys.modules.keys();"
        "dedup.ConfigError, dedup.Settings, dedup.load_settings, dedup.deduplicate;"
        "print({'pyspark', 'numba', 'pandas', 'matplotlib.pyplot'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_every_exported_name_is_there_in_order():
    assert dedup.__all__ == sorted(dedup.__all__) == dir(dedup)
    assert all(getattr(dedup, name) is not None for name in dedup.__all__)
    assert dedup.Settings is type(dedup.load_settings())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dedup.nothing  # noqa: B018 - reading it is the test
    errors = {name for name, value in vars(dedup.errors).items() if isinstance(value, type)}
    assert errors <= set(dedup.__all__), "every error can be caught by name"


def test_files_without_a_session_give_datasets_and_a_typed_report(source, tmp_path):
    result = dedup.deduplicate(source, tmp_path / "out", id_column="id", engine="memory")

    assert (ids(result.kept), ids(result.removed), ids(result.duplicates)) == (KEPT, REMOVED, REMOVED)
    assert result.edges.to_table().num_rows == 2
    assert result.near_misses.to_table().num_rows == 0
    assert result.output == str(tmp_path / "out")
    report = result.report
    assert (report.documents, report.kept, report.removed, report.identical, report.near) == (6, 4, 2, 1, 1)
    assert (report.engine, report.alerts, report.removal_rate) == ("memory", 0, 2 / 6)
    assert report.to_dict() == json.loads((tmp_path / "out" / "report.json").read_text())
    shown = report._repr_html_()
    assert "<tr><th>removed</th><td>2</td></tr>" in shown
    assert "content" not in shown
    assert "content" not in repr(report)
    with pytest.raises(AttributeError):
        report.kept = 5


def test_without_an_output_the_folder_lives_as_long_as_the_result(source):
    result = dedup.deduplicate([source], id_column="id", engine="memory")
    output = Path(result.output)
    assert ids(result.kept) == KEPT

    del result
    gc.collect()

    assert not output.parent.exists()


def test_a_run_that_fails_leaves_no_temporary_folder(source, monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(api.tempfile, "tempdir", str(scratch))

    with pytest.raises(dedup.SchemaError, match="'body'"):
        dedup.deduplicate(source, text_column="body", engine="memory")

    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS)),
        ("b.csv", "id,text\n" + "".join(f"{row['id']},{row['text'] or ''}\n" for row in ROWS)),
    ],
)
def test_tables_of_other_formats_are_read_too(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    result = dedup.deduplicate(tmp_path / name, id_column="id", engine="memory")

    # What CSV holds are strings, of which "10" is the least of its component.
    kept, removed = (KEPT, REMOVED) if name.endswith("jsonl") else ([5, 6, 7, 10], [8, 9])
    assert (ids(result.kept), ids(result.removed)) == (kept, removed)


def test_text_files_are_read_as_path_and_text(tmp_path):
    (tmp_path / "in").mkdir()
    for name, text in {"a.txt": WORDS, "b.txt": WORDS + " end", "c.txt": "other"}.items():
        (tmp_path / "in" / name).write_text(text)
    result = dedup.deduplicate(tmp_path / "in", engine="memory")

    kept = result.kept.to_table().to_pylist()
    assert sorted((row["path"], row["text"]) for row in kept) == [("a.txt", WORDS), ("c.txt", "other")]


@pytest.mark.parametrize("mode", ["filter", "annotate"])
def test_streams_of_arrow_are_tables_of_the_result(tmp_path, mode):
    rows = pa.table({"id": [*range(5, 11)], "text": [WORDS, "other", "more", "", WORDS, f"{WORDS} end"]})
    (tmp_path / "in").mkdir()
    for name, opener, part in (("a.arrow", pa.ipc.new_file, rows[:3]), ("b.arrows", pa.ipc.new_stream, rows[3:])):
        with opener(tmp_path / "in" / name, rows.schema) as batches:
            batches.write(part)
    result = dedup.deduplicate(tmp_path / "in", id_column="id", output__mode=mode, engine="memory")

    assert (ids(result.kept), ids(result.removed)) == (KEPT, REMOVED)
    assert rows.schema.names == result.kept.schema.names[:2]
    Path(result.output, "kept" if mode == "filter" else "annotated", "b.arrows").write_bytes(b"torn")
    with pytest.raises(dedup.DataError, match=r"b\.arrows cannot be read as arrow"):
        _ = result.kept


def test_files_of_which_arrow_makes_no_dataset_are_refused_in_a_line(tmp_path):
    rows = pa.table([[1, 2], ["a text", "another"], ["x", "y"], ["x", "y"]], names=["id", "text", "note", "note"])
    pq.write_table(rows, tmp_path / "in.parquet")
    result = dedup.deduplicate(tmp_path / "in.parquet", tmp_path / "out", id_column="id", engine="memory")

    rule = "kept/in.parquet: must be whole, with columns that an Arrow dataset takes"
    with pytest.raises(dedup.StorageError, match=rf"{rule} .*duplicate"):
        _ = result.kept
    (tmp_path / "out" / "kept" / "in.parquet").write_bytes(b"PAR1")
    with pytest.raises(dedup.StorageError, match=rf"{rule} .*size"):
        _ = result.kept


def test_streams_of_which_arrow_makes_no_table_are_refused_in_a_line(tmp_path):
    twice = pa.table([[1, 2], ["a text", "another"], ["x", "y"], ["x", "y"]], names=["id", "text", "note", "note"])
    others = [pa.table({"id": [i], "text": [f"text {i}"], "note": [note]}) for i, note in ((3, 1), (4, "x"))]
    for name, parts, reason in (("twice", [twice], "duplicate"), ("types", others, "int64 vs string")):
        (tmp_path / name).mkdir()
        for number, rows in enumerate(parts):
            with pa.ipc.new_stream(tmp_path / name / f"{number}.arrows", rows.schema) as batches:
                batches.write(rows)
        result = dedup.deduplicate(tmp_path / name, id_column="id", engine="memory")

        rule = r"kept/0\.arrows: must be whole, with columns that an Arrow dataset takes"
        with pytest.raises(dedup.StorageError, match=rf"{rule} .*{reason}"):
            _ = result.kept


def test_modes_part_the_rows_as_far_as_they_are_written(source):
    annotated = dedup.deduplicate(source, id_column="id", output__mode="annotate", engine="memory")
    assert (ids(annotated.kept), ids(annotated.removed)) == (KEPT, REMOVED)

    only = dedup.deduplicate(source, id_column="id", settings={"output.mode": "ids"}, engine="memory")
    assert ids(only.kept) == KEPT
    for name, needs in {"weights": "output.mode", "cosines": "the layer semantic", "changes": "a store"}.items():
        with pytest.raises(dedup.StorageError, match=rf"/{name}: must be there \(it is not, .* run with {needs}"):
            getattr(only, name)
    with pytest.raises(dedup.StorageError, match="removed: is not written"):
        only.removed  # noqa: B018 - reading it is the test


def test_where_nothing_is_removed_the_table_is_empty(tmp_path):
    pq.write_table(pa.table({"id": [1], "text": ["alone"]}), tmp_path / "in.parquet")
    result = dedup.deduplicate(tmp_path / "in.parquet", id_column="id", engine="memory")
    removed = result.removed

    assert removed.schema.names == ["id", "text"]
    assert removed.count_rows() == 0


def test_settings_come_in_order_and_by_any_name(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("threshold = 0.6\nlsh.bands = 10\nlsh.rows = 5\n")

    settings = {"lsh.bands": 11, "lsh": {"recall": 0.9}}
    config = api.load_given(path, "code", settings, {"lsh__bands": 12, "id_column": "key"})

    lsh = config.lsh
    assert (config.threshold, lsh.bands, lsh.rows, lsh.recall, config.input.id_column) == (0.6, 12, 5, 0.9, "key")
    assert config.shingles.shingle_size == dedup.load_settings(preset="code").shingles.shingle_size
    again = api.load_given(config, None, {"lsh": {"rows": 3}}, {})
    assert (again.lsh.rows, again.lsh.bands, again.input.id_column) == (3, 12, "key")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"treshold": 0.5}, r"unknown key treshold \(did you mean threshold\?\)"),
        ({"format": "csv"}, r"unknown key format \(did you mean input\.format\?\)"),
        ({"threshold": 80}, r"threshold must be a number above 0 and at most 1 \(got 80\)"),
        ({"settings": {"lsh.band": 3}}, r"did you mean lsh\.bands\?"),
        ({"config": dedup.Settings(), "preset": "code"}, "preset: must be None where config is Settings"),
        ({"config": {"threshold": 0.5}}, r"config: must be a path \(got dict\)"),
        ({"settings": ["threshold"]}, r"settings: must be a dictionary of values by key \(got list\)"),
        ({"settings": {1: 2}}, "unknown key 1"),
        ({"preset": 3}, r"--preset: name must be one of .* \(got 3\)"),
        ({"output": 3}, r"output: must be a path \(got int\)"),
        ({"store": 3, "batch": "a"}, r"store: must be a path \(got int\)"),
    ],
)
def test_mistakes_in_the_settings_are_refused(source, options, words):
    with pytest.raises(dedup.ConfigError, match=words):
        dedup.deduplicate(source, **options)


@pytest.mark.parametrize(
    ("given", "named"),
    [([], "list of nothing"), (3, "int"), ([3, {}], "list of dict, int"), (None, "NoneType"), ({"text": []}, "dict")],
)
def test_what_is_no_input_is_refused(given, named):
    with pytest.raises(dedup.ConfigError, match=rf"input: must be a path, a list of paths, .*\(got {named}\)"):
        dedup.deduplicate(given)


@pytest.mark.parametrize(
    ("given", "way"),
    [
        (ds.dataset(pa.table({"text": [WORDS]})), r"its to_table\(\)"),
        (pd.Series([WORDS]), r"its to_frame\(\)"),
        (pl.LazyFrame({"text": [WORDS]}), r"its collect\(\)"),
        ((row for row in ROWS), r"list\(\.\.\.\) of it"),
    ],
    ids=["dataset", "series", "lazy", "generator"],
)
def test_the_way_from_what_is_no_table_to_one_is_told(given, way):
    with pytest.raises(dedup.ConfigError, match=rf"input: must be .* \(got \w+\); give {way}"):
        dedup.deduplicate(given)


@pytest.mark.parametrize("text", ["Is this (a) text?", WORDS, WORDS * 99, "two\nlines"])
def test_texts_in_place_of_paths_are_told_to_be_rows(text):
    with pytest.raises(dedup.StorageError, match=r'; texts are given as rows, \[\{"text": TEXT\}, \.\.\.\]'):
        dedup.deduplicate([text, "another"], engine="memory")
    with pytest.raises(dedup.StorageError, match=r"does not exist\)$"):
        dedup.deduplicate("nothing.jsonl", engine="memory")


def test_settings_may_be_numbers_of_numpy_and_paths():
    given = {"lsh.bands": np.int64(20), "threshold": np.float64(0.5), "passages.keep_first": np.False_}
    chosen = api.load_given(None, None, given, {"key_file": Path("key"), "without": [Path("other.parquet")]})

    assert (chosen.lsh.bands, chosen.threshold, chosen.of(load_table("passages")).keep_first) == (20, 0.5, False)
    assert (chosen.hash.key_file, chosen.input.without) == ("key", ("other.parquet",))


def look(spark):
    """Return what a run must leave as it was."""
    context = spark.sparkContext
    loggers = ["", "dedup", "py4j", "matplotlib", "pyspark"]
    return {
        "settings": spark.conf.getAll,
        "cached": context._jsc.sc().getPersistentRDDs().size(),
        "cached tables": spark._jsparkSession.sharedState().cacheManager().isEmpty(),
        "checkpoints": str(context._jsc.sc().checkpointDir()),
        "group": context.getLocalProperty("spark.jobGroup.id"),
        "log levels": [logging.getLogger(name).level for name in loggers],
        "handlers": [list(logging.getLogger(name).handlers) for name in loggers],
        "Spark's log level": context._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().name(),
        "own log levels": str(
            context._jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration().getLoggers().keySet()
        ),
        "views": [view.name for view in spark.catalog.listTables()],
    }


@pytest.fixture
def session(spark):
    """Return a session with settings, a cached table and a job group of its caller's."""
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "mine")
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    # As conf/spark-local.conf has them, and an input that is large by that.
    before = spark.conf.get(running.COMPILED)
    spark.conf.set(running.COMPILED, "1")
    spark.conf.set(running.WHOLE_STAGE, "false")
    spark.conf.set(sessions.LARGE_TYPES, "true")
    spark.conf.set(sessions.GROUP_COLUMNS, "false")
    most = spark.conf.get(sessions.MOST_ROWS)
    spark.conf.set(sessions.MOST_ROWS, "0")
    spark.range(3).cache().count()
    yield spark
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    spark.conf.set(running.COMPILED, before)
    spark.conf.unset(sessions.LARGE_TYPES)
    spark.conf.unset(sessions.GROUP_COLUMNS)
    spark.conf.set(sessions.MOST_ROWS, most)


@pytest.mark.classic
def test_a_dataframe_gives_dataframes_and_leaves_the_session_as_it_was(session, tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    rows = session.read.json(str(tmp_path / "rows.jsonl"), schema="id int, text string")
    before = look(session)
    assert before["cached"] == 1

    result = dedup.deduplicate(rows, tmp_path / "out", id_column="id", components__engine="graphframes")

    assert look(session) == before
    assert all(isinstance(table, DataFrame) for table in (result.kept, result.edges, result.near_misses))
    assert (ids(result.kept), ids(result.removed), ids(result.duplicates)) == (KEPT, REMOVED, REMOVED)
    assert result.kept.schema == rows.schema
    assert result.report.engine == "spark"
    assert result.report.to_dict()["input"] == [f"file:{tmp_path}/rows.jsonl"]


def test_a_dataframe_that_cannot_be_read_twice_is_refused_and_leaves_nothing(spark, tmp_path):
    rows = spark.createDataFrame(ROWS, "id int, text string")

    with pytest.raises(dedup.DataError, match="must give the same rows each time"):
        dedup.deduplicate(rows.filter(F.rand() < 2), tmp_path / "out", id_column="id")
    with pytest.raises(dedup.ConfigError, match='engine: must be "spark"'):
        dedup.deduplicate(rows, tmp_path / "out", engine="memory")
    twice = rows.withColumn("id", F.lit(1))
    with pytest.raises(dedup.DataError, match="must be unique"):
        dedup.deduplicate(twice, tmp_path / "out", id_column="id")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.classic
@pytest.mark.parametrize("readers", ["parquet", ""], ids=["first version", "second version"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_an_output_amid_the_files_of_a_dataframe_is_refused(spark, source, tmp_path, readers, is_cached):
    folder = tmp_path / "all of it"
    folder.mkdir()
    source.rename(folder / "in.parquet")
    spark.conf.set("spark.sql.sources.useV1SourceList", readers)
    rows = spark.read.parquet(str(folder))
    spark.conf.unset("spark.sql.sources.useV1SourceList")
    if is_cached:
        rows.cache().count()

    with pytest.raises(dedup.StorageError, match="must lie apart from every input"):
        dedup.deduplicate(rows, folder / "out", id_column="id")
    rows.unpersist()


def test_files_with_a_session_give_dataframes(spark, source, tmp_path):
    result = dedup.deduplicate(source, tmp_path / "o[u]t", spark=spark, id_column="id", **BY_DRIVER)

    assert (ids(result.kept), ids(result.removed), result.edges.count()) == (KEPT, REMOVED, 2)
    assert result.report.engine == "spark"
    with pytest.raises(dedup.FinishedError, match="is finished"):
        dedup.deduplicate(source, tmp_path / "o[u]t", spark=spark, id_column="id", **BY_DRIVER)


@pytest.mark.classic
@pytest.mark.parametrize(
    ("python", "lacks"),
    [("bare", "no ada_url, no numba, .*no xxhash"), ("gone", 'Cannot run program "[^"]*gone[^"]*": error=2, .*')],
)
def test_a_session_whose_workers_lack_packages_is_refused_in_a_line(spark, source, monkeypatch, python, lacks):
    folder = source.parent
    venv.create(folder / "bare", symlinks=True)
    monkeypatch.setattr(running, "_checked", set())
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(folder / python / "bin" / "python"))
    conf = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().conf()
    daemon = conf.get("spark.python.daemon.module")
    before = look(spark), sorted(folder.iterdir())

    # As in a session that this package has not opened.
    conf.set("spark.python.daemon.module", "pyspark.daemon")
    words = rf"^engine spark: Python workers must .*: {lacks}\); set PYSPARK_PYTHON=.*$"
    with pytest.raises(dedup.DedupError, match=words):
        dedup.deduplicate(source, folder / "out", spark=spark, id_column="id")
    conf.set("spark.python.daemon.module", daemon)

    assert (look(spark), sorted(folder.iterdir())) == before


def test_a_session_without_pandas_is_refused_in_a_line(spark, source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(
        dedup.DedupError, match=r"^engine spark: pyspark and pandas must .* \(got no pandas\); .*\[spark\]"
    ):
        dedup.deduplicate(source, tmp_path / "out", spark=spark, id_column="id")
    assert [*tmp_path.iterdir()] == [source]


def test_the_active_session_serves_and_goes_on(spark, source, tmp_path):
    result = dedup.deduplicate(source, tmp_path / "out", id_column="id", engine="spark", **BY_DRIVER)

    assert ids(result.kept) == KEPT
    assert spark.range(2).count() == 2


@pytest.mark.classic
def test_on_a_cluster_an_output_is_asked_for(spark, source, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "master", "spark://somewhere:7077")

    with pytest.raises(dedup.ConfigError, match=r"output: must be given .*\(master spark://somewhere:7077\)"):
        dedup.deduplicate(source, spark=spark, id_column="id")
