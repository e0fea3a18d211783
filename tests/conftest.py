"""One Spark session for all tests of a process, made when the first asks for it."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import SparkSession

from dedup.cli.process import STOPS
from dedup.report import figures, plots  # noqa: F401 - what is loaded is drawn with in a thread, not in a process
from dedup.run import lock, opening
from dedup.run.session import GRAPHFRAMES_JAR, LOCAL_CONF, ROOT, SHORTCUTS, read_conf
from tests.classes import share_classes
from tests.connect_server import free_port, serve

# How long an example takes says nothing about a kernel, least of all on a machine whose cores are busy with Spark.
settings.register_profile("quick", deadline=None, max_examples=30)
settings.register_profile("full", settings.get_profile("quick"), max_examples=100)
# That there is an example is all that scripts/mutations asks for.
settings.register_profile("any", settings.get_profile("quick"), phases=set(Phase) - {Phase.shrink, Phase.explain})
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)
ON_CONNECT = bool(os.environ.get("ON_CONNECT"))
"""Whether the tests that ask Spark, and only these, ask a server of Spark Connect."""


def pytest_configure(config: pytest.Config) -> None:
    """Let every JVM of the tests, in this process, its workers and those they start, share the classes of Spark."""
    if not hasattr(config, "workerinput"):
        os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {share_classes()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the full profile what is marked for it, most of it a second look by Spark, and group the rest.

    One of several workers has all that asks Spark: what a JVM compiles, and a first run by tasks takes three times the
    processor seconds of a later one, is compiled once. The others have whole files, whose fixtures are made once.
    """
    left = [item for item in items if PROFILE != "full" and item.get_closest_marker("full")]
    if ON_CONNECT:
        left += [item for item in items if not _asks_spark(item) or item.get_closest_marker("classic")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
    if not _is_grouped(config):
        return
    for item in items:
        group = "spark" if _asks_spark(item) else item.nodeid.partition("::")[0]
        # As the mark xdist_group does, but that pytest 9.2 keeps ids elsewhere than pytest-xdist 3.8 writes them.
        item._id = type(item._id).parse(f"{item.nodeid}@{group}")


def _is_grouped(config: pytest.Config) -> bool:
    """Tell whether this process is a worker that is given groups of tests."""
    return hasattr(config, "workerinput") and config.getvalue("loadgroup")


def _asks_spark(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return "_session" in item.fixturenames or any(isinstance(each, str) and each == "spark" for each in given)


@pytest.fixture(scope="session", autouse=True)
def _settled() -> Iterator[None]:
    """No two runs of a test begin at one moment on an object store, so none waits to see which has won."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "SETTLE_SECONDS", 0.0)
        yield


@pytest.fixture(autouse=True)
def _signals() -> None:
    """Undo what a command in this process, or whoever started it, has done with signals, which processes inherit."""
    for each in STOPS:
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _undrawn() -> Iterator[None]:
    """No run of a test draws plots, four fifths of a small run: tests/test_report.py draws those of all reports."""

    def leave(report: Mapping[str, Any], drawn: Mapping[str, str], _: object) -> dict[str, str]:
        return dict.fromkeys([*drawn, *plots.list_plots(report)], "<svg></svg>")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dedup.report.summary.draw_plots", leave)
        yield


@pytest.fixture(scope="session", autouse=True)
def _shared_out() -> Iterator[None]:
    """No driver searches by itself unless a test says so: what tests ask of Spark are its stages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "choose_bytes", lambda _: 0)
        yield


@pytest.fixture(scope="session")
def _session(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if ON_CONNECT:
        with serve(tmp_path_factory.mktemp("server")) as address, pytest.MonkeyPatch.context() as patch:
            # Those that open a session of their own, and the processes they start, find the server by it.
            patch.setenv("SPARK_REMOTE", address)
            session = SparkSession.builder.remote(address).getOrCreate()
            yield session
            session.stop()
        return
    if _is_grouped(pytestconfig):
        # Fails where another worker asks Spark too.
        (tmp_path_factory.getbasetemp().parent / "spark").mkdir()
    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    settings = read_conf(LOCAL_CONF)
    settings |= {
        "spark.master": "local[2]",
        # Tables of a few rows, and a hundred plans a run: what adapts or compiles plans costs more than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.memory": "2g",
        # Few partitions, as the corpora are tiny; more than cores, so that rows do change places.
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": SHORTCUTS,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        # So that a client of Spark Connect finds this JVM, whose classes are compiled.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    # Each run leaves 0.8 GB.
    settings["spark.driver.extraJavaOptions"] += " -Xmn400m"
    # Without it Spark says which file is missing, and no test is silently left out.
    settings["spark.jars"] = str(GRAPHFRAMES_JAR)
    builder = SparkSession.builder.appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    _remember_names()
    session = builder.getOrCreate()
    _forget_defaults(session)
    session.sparkContext.setCheckpointDir(str(scratch / "checkpoints"))
    yield session
    session.stop()


def _remember_names() -> None:
    """Ask the JVM once what a name is: it looks for a class of it through all jars, an eighth of a run."""

    def remember(find: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def get(owner: Any, name: str) -> Any:
            found = find(owner, name)
            if isinstance(found, JavaClass | JavaPackage):
                vars(owner)[name] = found
            return found

        return get

    for kind in (JavaPackage, JVMView):
        kind.__getattr__ = remember(kind.__getattr__)


def _forget_defaults(session: SparkSession) -> None:
    """Take Hadoop's defaults out of what each task unpacks, a seventh of a run of a few documents; half are YARN's."""
    jvm: Any = session.sparkContext._jvm
    settings: Any = session.sparkContext._jsc.hadoopConfiguration()
    told = jvm.java.io.StringWriter()
    jvm.org.apache.hadoop.conf.Configuration.dumpConfiguration(settings, told)
    for each in json.loads(told.toString())["properties"]:
        if each["resource"].endswith("-default.xml") and not each["key"].startswith("fs."):
            settings.unset(each["key"])


@pytest.fixture
def spark(_session: SparkSession) -> Iterator[SparkSession]:
    yield _session
    _session.catalog.clearCache()


@pytest.fixture
def output(tmp_path: Path) -> str:
    return str(tmp_path / "output")
