"""Paths that the workers reach themselves, and tables, which Spark reads."""

import json
import socket
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import functions as F

from dedup.engine.sessions import find_heap
from dedup.errors import ConfigError, DataError, SchemaError, StorageError
from dedup.evaluate import dispatch
from dedup.evaluate.evaluation import EvaluationQuestion
from dedup.files.listing import list_files
from dedup.files.storage import Storage, find_result
from dedup.files.systems import _connect_of
from dedup.run import opening, reach
from dedup.run.growing import Growth
from dedup.run.input import load_table, take_table
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.run.reach import check_reach, check_schemes
from dedup.run.start import choose_engine, start
from dedup.settings.files import load_config
from tests.stores import KEYS, serve_bucket

STORAGE = Storage()
WORDS = " ".join(f"word{number}" for number in range(40))


@pytest.fixture(scope="module")
def bucket():
    with serve_bucket() as url:
        yield url


@pytest.fixture
def silent(monkeypatch):
    """Return the URL of a store that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{listener.getsockname()[1]}"}.items():
            monkeypatch.setenv(name, value)
        _connect_of.cache_clear()
        yield "s3://corpora"
    _connect_of.cache_clear()


def ask(source, output="/out", **options):
    # Who reads and writes is asked here, not who searches: the driver is sooner done with it.
    settings = {"input.id_column": "id", "driver.search_bytes": 10**9, **options}
    return Job(inputs=[source], output=output, config=load_config(settings=settings))


@pytest.fixture
def configure(spark):
    """Return a function that changes settings of Hadoop until the test ends."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    before = {}

    def change(settings):
        for key, value in settings.items():
            before[key] = conf.get(key)
            conf.set(key, value)

    yield change
    for key, value in before.items():
        if value is None:
            conf.unset(key)
        else:
            conf.set(key, value)


@pytest.mark.classic
@pytest.mark.parametrize("search_bytes", [0, 10**9])
def test_an_output_that_is_elsewhere_for_spark_is_refused(spark, configure, tmp_path, search_bytes):
    (tmp_path / "sparks").mkdir()
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 1, "text": WORDS}))
    # Where Spark's own tables lie is settled with the first question about them.
    assert spark.catalog.listTables() is not None
    # A path without a scheme is of the default file system: here one that shows a folder as its root.
    configure({"fs.defaultFS": "viewfs://own/", "fs.viewfs.mounttable.own.linkMergeSlash": f"file://{tmp_path}/sparks"})
    job = ask(f"{tmp_path}/in.jsonl", "/out", **{"driver.search_bytes": search_bytes})

    with pytest.raises(StorageError, match=r"^--output /out: must be one place for Spark and for its Python workers"):
        run(spark, job)
    assert [*(tmp_path / "sparks").iterdir()] == []


@pytest.mark.parametrize(
    ("source", "output", "words"),
    [
        ("wasb://somewhere/in", "/out", "got scheme 'wasb'"),
        ("/in", "s3://user:password@corpora/out", r"s3://\*\*\*@corpora/out.*must name a bucket, without user"),
        (
            "/in",
            "s3://missing/out",
            r"s3://missing/out: must be a path .*(NoSuchBucket|NO_SUCH_BUCKET|does not)",
        ),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_what_the_machine_cannot_reach_is_refused_with_the_way_to_a_table(source, output, words):
    for engine in ("auto", "spark"):
        with pytest.raises(StorageError, match=f"{words}.*: --table 'parquet.`{source}`' .* in place of --input"):
            start(ask(source, output, engine=engine))


@pytest.mark.classic
def test_what_nobody_reaches_is_refused_of_a_table(spark):
    with pytest.raises(StorageError, match=r"No FileSystem for scheme"):
        load_table(spark, "parquet.`oss://somewhere/a`")


@pytest.mark.parametrize("url", ["https://host/a.jsonl", "HF://datasets/a", "s4://bucket/a", "wasb://c@account/a"])
def test_an_unknown_scheme_is_refused_before_spark_is_started(url):
    sets = {"layers": ["contamination"], "contamination.sets": [f"asked:text:{url}"]}
    jobs = [ask(url), ask("/in", url), ask("/in", **{"evaluation.labeled_pairs": url}), ask("/in", **sets)]
    for job in (*jobs, replace(ask("/in"), baseline=url)):
        with pytest.raises(StorageError, match="must be on a local disk, s3, gs, abfs or hdfs"):
            start(job)
    with pytest.raises(StorageError, match="must be on a local disk, s3, gs, abfs or hdfs"):
        start(ask("/in"), work=Growth(store=url, batch="a"))
    for more in ({"inputs": [url]}, {"inputs": ["/in"], "pairs": url}, {"inputs": ["/in"], "output": url}):
        with pytest.raises(StorageError, match="must be on a local disk, s3, gs, abfs or hdfs"):
            dispatch.needs_spark(EvaluationQuestion(config=load_config(), **more))


def test_a_scheme_that_only_spark_may_know_is_left_to_spark_with_a_table():
    check_schemes(replace(ask("hf://datasets/a", "ftp://host/out"), table=object()))
    with pytest.raises(StorageError, match=r"got scheme 'webhdfs'.*--table 'parquet.`webhdfs://name/a`'"):
        check_schemes(ask("webhdfs://name/a"))
    with pytest.raises(StorageError, match=r"got scheme 'webhdfs'\)$"):
        check_schemes(ask("/in"), "webhdfs://name/store")
    with pytest.raises(StorageError, match=r"got scheme 'https'\)$"):
        check_schemes(replace(ask("/in", "https://host/out"), table=object()))


def test_an_object_of_the_users_beside_the_output_stays(bucket):
    Storage().write_text(f"{bucket}/theirs.probe", "years of work")

    check_reach(ask(f"{bucket}/in", f"{bucket}/theirs"))

    assert Storage().read_text(f"{bucket}/theirs.probe") == "years of work"
    assert [each.path for each in Storage().list(bucket) if each.path.startswith("theirs")] == ["theirs.probe"]


def test_a_store_that_never_answers_is_given_up(silent, monkeypatch):
    monkeypatch.setattr(reach, "PATIENCE_SECONDS", 0.5)
    begin = time.monotonic()

    with pytest.raises(StorageError, match=rf"^{silent}/in: no answer within 0 s; files that only Spark reaches"):
        check_reach(ask(f"{silent}/in/*.parquet"))
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("name", ["part-{}.jsonl", "lang=en/{}.jsonl.zst"])
def test_a_corpus_on_a_store_needs_no_spark(bucket, tmp_path, monkeypatch, name):
    monkeypatch.setattr(opening, "ALONE_BYTES", 0)
    monkeypatch.setattr(opening, "SPLIT_BYTES", 200)
    texts = [WORDS, f"{WORDS} end", "something else", WORDS.upper()]
    for number in range(2):
        lines = "".join(json.dumps({"id": 10 * number + at, "text": text}) + "\n" for at, text in enumerate(texts))
        with STORAGE.create(f"{tmp_path}/in/{name.format(number)}") as stream:
            packed = pa.compress(lines.encode(), "zstd", asbytes=True)
            stream.write(packed if name.endswith(".zst") else lines.encode())
        STORAGE.copy(f"{tmp_path}/in/{name.format(number)}", f"{bucket}/{tmp_path.name}/in/{name.format(number)}")
    remote = f"{bucket}/{tmp_path.name}"
    STORAGE.write_text(f"{remote}/out/mine.txt", "not the job's")

    for root in (str(tmp_path), remote):
        assert choose_engine(ask(f"{root}/in", f"{root}/clean")) == "memory"
        run_in_memory(ask(f"{root}/in", f"{root}/clean"))

    def read(root):
        clean = find_result(STORAGE, f"{root}/clean")
        folders = [f"{clean}/{folder}" for folder in ("kept", "removed", "edges")]
        return {file.relative: STORAGE.open(file.path).read() for file in list_files(folders, format="text").files}

    assert read(remote) == read(str(tmp_path))
    found = {entry.path.partition("/")[0] for entry in STORAGE.list(remote, recursive=True) if entry.path}
    assert found == {"in", "out", "clean"}
    with pytest.raises(StorageError, match="must not exist yet"):
        run_in_memory(ask(f"{remote}/in", f"{remote}/out"))


def test_the_id_of_a_text_is_its_whole_path_however_it_was_named(tmp_path, monkeypatch):
    for name in ("a", "b"):
        STORAGE.write_text(f"{tmp_path}/in/{name}.txt", WORDS)
    monkeypatch.chdir(tmp_path)

    run_in_memory(ask("in", "out", **{"input.id_column": ""}))

    [removed] = ds.dataset("out/duplicates").to_table().to_pylist()
    assert (removed["id"], removed["representative_id"]) == (f"{tmp_path}/in/b.txt", f"{tmp_path}/in/a.txt")


def test_a_table_of_the_catalog_is_read_by_its_name(spark, tmp_path):
    rows = [(1, WORDS), (2, WORDS), (3, "something else")]
    spark.createDataFrame(rows, "id int, text string").write.saveAsTable("pages")
    spark.table("pages").createOrReplaceTempView("view")
    try:
        assert sorted(load_table(spark, "view").collect()) == rows
        job = replace(ask("", f"{tmp_path}/out", **{"input.table": "default.pages", "layers": ["exact"]}), inputs=[])
        report = run(spark, job)

        assert choose_engine(job) == "spark"
        assert (report["input"], report["format"], report["removed"]) == (["default.pages"], "table", 1)
        kept = ds.dataset(f"{tmp_path}/out/kept", format="parquet").to_table().to_pylist()
        assert sorted(row["id"] for row in kept) == [1, 3]
        folder = spark.table("pages").inputFiles()[0].rpartition("/")[0].removeprefix("file:")
        with pytest.raises(StorageError, match="must lie apart from every input"):
            run(spark, replace(job, output=f"{folder}/out"))
    finally:
        spark.catalog.dropTempView("view")
        spark.sql("DROP TABLE pages")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"input.table": "none.such"}, r"^--table none.such: must be a table of Spark's catalog \(.*NOT_FOUND"),
        (
            {"input.table": "two words"},
            r"^--table two words: must be a table of Spark's catalog \(\[PARSE_SYNTAX_ERROR\]",
        ),
        ({"input.table": "delta.`/in`"}, r"^--table delta.`/in`: must be a table of Spark's catalog \(.*delta"),
    ],
)
def test_a_table_that_spark_cannot_read_is_refused_by_name(spark, tmp_path, settings, words):
    job = ask("/in", f"{tmp_path}/out", **settings)

    with pytest.raises(StorageError, match=words):
        run(spark, job)
    with pytest.raises(ConfigError, match="engine: must be"):
        choose_engine(replace(job, config=replace(job.config, engine="memory")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [("site", "SITE"), ("text", "Text"), ("site", "site")])
def test_columns_that_spark_does_not_tell_apart_are_refused(spark, names):
    table = spark.createDataFrame([(1, WORDS)], "id int, text string")
    table = table.select("id", "text", F.lit("").alias("other")).toDF("id", *names)

    with pytest.raises(SchemaError, match=rf"tells apart \(got '{names[0]}' and '{names[1]}', spark.sql.caseSensitive"):
        take_table(table, "")
    with pytest.raises(SchemaError, match="--without t: columns must have names"):
        take_table(table, "t", "--without t")
    if names[0] != names[1]:
        spark.conf.set("spark.sql.caseSensitive", "TRUE")
        assert take_table(table, "").rows.columns == ["id", *names]
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.classic
def test_sparks_readers_refuse_a_text_by_its_id_before_it_fills_the_heap(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("dedup.engine.sessions.find_heap", lambda _: 800)
    table = spark.createDataFrame([("a", "short"), ("b", "x" * 101)], "id string, text string")
    job = Job(
        inputs=[], output=str(tmp_path / "out"), config=load_config(None, None, ["input.id_column=id"]), table=table
    )

    with pytest.raises(DataError, match=r"a text must be of at most 100 bytes \(got 101 of id b\); take it out"):
        run(spark, job)
    assert find_heap(spark) > 1 << 30
