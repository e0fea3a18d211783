"""Spark's settings: how their files are read, and that Spark knows each."""

import os
import re
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from dedup.engine.exchange import WAVES
from dedup.engine.sessions import LARGE_TYPES, count_cores, suited
from dedup.errors import DedupError
from dedup.run import session, shortcuts
from dedup.run.opening import SPLIT_BYTES
from dedup.run.session import COMPILED, LOCAL_CONF, ROOT, _fork_workers, _has_package, read_conf, suit_session
from dedup.run.spark_input import join_partitions
from tests.engine.tables import settings

CONFS = sorted((ROOT / "conf").glob("*.conf"))
# Objects whose loading enters the keys they define into Spark's register.
REGISTERS = (
    "org.apache.spark.internal.config.package$",
    "org.apache.spark.internal.config.Python$",
    "org.apache.spark.internal.config.UI$",
    "org.apache.spark.sql.internal.SQLConf$",
)


def test_a_properties_file_is_keys_and_values_and_comments(tmp_path):
    file = tmp_path / "some.conf"
    file.write_text(
        "# comment\n\n  #spark.off  1\nspark.a   1\n\tspark.b\tx y  z  \nspark.c a#b=c\nspark.d é\n", "utf-8"
    )

    assert read_conf(file) == {"spark.a": "1", "spark.b": "x y  z", "spark.c": "a#b=c", "spark.d": "é"}


def test_a_server_that_is_gone_when_settings_are_given_back_hides_no_error():
    def give_back(_, value):
        if value == "true":
            raise PySparkException("the server is gone")

    spark = SimpleNamespace(
        conf=SimpleNamespace(get=lambda name, _: "true" if name == LARGE_TYPES else None, set=give_back)
    )

    with pytest.raises(ValueError, match="the reason"), suited(spark):
        raise ValueError("the reason")


def test_java_looks_first_where_most_classes_are(monkeypatch):
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    [path] = shortcuts.choose_class_path().values()
    found = [Path(each).name for each in path.split(os.pathsep)]

    # A jar that Spark no longer has, or several of one name, would not be seen otherwise.
    assert [re.split(r"[_-][0-9]", each)[0] for each in found] == [*shortcuts.FIRST_JARS]
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert shortcuts.choose_class_path() == {}


@pytest.mark.classic
@pytest.mark.parametrize("conf", CONFS, ids=lambda path: path.name)
def test_spark_knows_every_key_and_takes_every_value(spark, conf):
    jvm = spark.sparkContext._jvm
    for name in REGISTERS:
        jvm.java.lang.Class.forName(name)
    entries = {key: jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(key) for key in read_conf(conf)}

    # Spark reads its master before it has settings, and hands on what is Hadoop's.
    unknown = {key for key, entry in entries.items() if entry is None and not key.startswith("spark.hadoop.")}
    assert unknown <= {"spark.master", COMPILED}
    settings = jvm.org.apache.spark.SparkConf(False)
    for key, value in read_conf(conf).items():
        settings.set(key, value)
    for entry in filter(None, entries.values()):
        # Fails where a size, a number or a choice is none.
        settings.get(entry)


@pytest.mark.classic
@pytest.mark.parametrize(
    ("least", "before", "after"),
    [(None, "false", "false"), ("10", "false", "true"), ("11", "false", "false"), ("11", "true", "true")],
)
def test_plans_are_compiled_for_large_inputs_in_sessions_of_the_job(spark, least, before, after):
    compiled = "spark.sql.codegen.wholeStage"
    given = {compiled: before, **({} if least is None else {COMPILED: least})}
    with settings(spark, **given):
        suit_session(spark, 10)
        assert spark.conf.get(compiled) == after


@pytest.mark.classic
def test_workers_forked_while_sql_is_loaded_are_those_that_sql_asks_for(spark):
    def tell_parent(batches):
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([os.getppid()] * batch.num_rows, pa.int64())], names=["parent"])

    _fork_workers(spark.sparkContext)

    forking = {*spark.sparkContext.parallelize(range(2), 2).map(lambda _: os.getppid()).collect()}
    assert {row.parent for row in spark.range(2).mapInArrow(tell_parent, "parent long").collect()} == forking


@pytest.mark.parametrize(
    ("given", "has"),
    [
        ({}, False),
        ({"spark.submit.pyFiles": "file:/a/other.zip", "spark.archives": "file:/a/data.tar.gz"}, False),
        ({"spark.submit.pyFiles": "file:/a/other.zip,file:/a/dedup.zip"}, True),
        ({"spark.archives": "file:/a/dist/environment.tar.gz#environment"}, True),
        ({"spark.yarn.dist.archives": "file:/a/dist/environment.tar.gz#environment"}, True),
    ],
)
def test_the_package_is_sent_to_executors_unless_what_scripts_package_makes_is(given, has):
    assert _has_package(SimpleNamespace(conf=given)) is has


def test_both_files_are_there_and_no_key_stands_twice_in_one():
    assert [path.name for path in CONFS] == ["spark-cluster.conf", LOCAL_CONF.name]
    for conf in CONFS:
        lines = [line for line in conf.read_text("utf-8").splitlines() if line and not line.startswith("#")]
        assert len(lines) == len(read_conf(conf))


def test_signals_wait_until_the_jvm_is_there_to_end_with_this_process(monkeypatch):
    came = []

    def start(_conf):
        signal.raise_signal(signal.SIGTERM)
        assert came == []
        raise PySparkException("no matter")

    handler = signal.signal(signal.SIGTERM, lambda *_: came.append("a signal"))
    try:
        monkeypatch.setattr(session.SparkContext, "getOrCreate", start)
        with pytest.raises(DedupError, match="Spark did not start: no matter"):
            session._start(with_delta=False)
        assert came == ["a signal"]
        signal.raise_signal(signal.SIGTERM)
        assert came == ["a signal"] * 2
    finally:
        signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize(("partitions", "size", "left"), [(500, 0, "least"), (500, 100 * SPLIT_BYTES, 100), (3, 0, 3)])
def test_a_table_of_many_small_partitions_is_read_by_fewer_tasks(spark, partitions, size, left):
    rows = spark.range(0, 1_000, 1, partitions)

    joined = join_partitions(rows, size)

    tasks = joined.select(F.spark_partition_id()).distinct().count()
    assert tasks == (WAVES * count_cores(spark) if left == "least" else left)
    assert joined.count() == 1_000


def test_a_jvm_that_is_killed_as_it_starts_is_said_to_be(monkeypatch):
    jvm = subprocess.Popen(["sleep", "60"])

    def start(_):
        jvm.kill()
        raise Py4JNetworkError("Answer from Java side is empty")

    with monkeypatch.context() as patch:
        patch.setattr(session, "SparkContext", SimpleNamespace(getOrCreate=start, _gateway=SimpleNamespace(proc=jvm)))
        patch.setattr(session, "_silenced_stderr", nullcontext)
        with pytest.raises(DedupError, match=r"^Spark was killed, .*, and repeat the command$"):
            session._start(with_delta=False)
