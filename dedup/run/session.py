"""Spark session of a job: started on this machine, or prepared by spark-submit."""

import atexit
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import CalledProcessError, Popen, TimeoutExpired, run
from threading import Thread, current_thread, main_thread
from typing import IO, Any, NamedTuple

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from dedup.engine import sessions
from dedup.errors import DedupError
from dedup.version import __version__

ROOT = Path(__file__).resolve().parents[2]
_INSTALLED = Path(__file__).resolve().parents[1] / "conf"
"""Folder of the configuration in an installed wheel; in a checkout it lies beside the package."""
CONF = _INSTALLED if _INSTALLED.exists() else ROOT / "conf"
LOCAL_CONF = CONF / "spark-local.conf"
LOG_CONF = CONF / "log4j2.properties"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
GRAPHFRAMES_JAR = ROOT / "jars" / "graphframes.jar"
SHORTCUTS = "dedup.run.shortcuts"
"""Optional module that Python workers of this machine are forked from."""
PACKAGE, ENVIRONMENT = "dedup.zip", "environment.tar.gz"
"""Package archives made by scripts/package; either brings the package to executors."""
UMASK = "fs.permissions.umask-mode"
COMPILED = "spark.dedup.compiledBytes"
"""Setting in conf/spark-local.conf: least bytes of an input for which Spark compiles its plans."""
WHOLE_STAGE = "spark.sql.codegen.wholeStage"
"""Setting by which Spark compiles its plans."""
OLDEST_JAVA = 17
NEWEST_JAVA = 21 if pyspark.__version__.startswith(("4.0.", "4.1.")) else 25
"""Newest release of Java for Spark; 25 starts Spark 4.1 too, but fails on anything that goes through Arrow."""
JAVA_NEEDED = f"Spark {pyspark.__version__} needs Java {OLDEST_JAVA} to {NEWEST_JAVA}; set JAVA_HOME to such"
DELTA = {"4.1": "io.delta:delta-spark_4.1_2.13:4.1.0"}
"""Releases of Delta Lake by those of Spark."""
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # As many tasks read the log of a table as a shuffle has, instead of 50: a sixth less for a small one.
    "spark.databricks.delta.snapshotPartitions": "8",
}
WORKERS = ("dedup", "ada_url", "numba", "numpy", "orjson", "pandas", "pyarrow", "scipy", "xxhash")
"""Packages that tasks import, besides Spark's own."""
ENDED: dict[type, tuple[str, ...]] = {
    SparkContext: ("_active_spark_context", "_gateway", "_jvm"),
    SparkSession: ("_instantiatedSession", "_activeSession"),
}
"""Attributes by which PySpark knows the JVM of this process and its session."""
LOGGER = "org.apache.spark"
DYING_SECONDS = 5
"""Seconds given to an unresponsive JVM to end."""
STARTING_SECONDS = 0.5
"""Seconds for the same where it may live as well, as where it refuses a setting."""
KILLED = (
    "Spark was killed, as the kernel does where the machine's or the container's memory runs out; give it more, or "
    "spark.driver.memory less"
)

_checked: set[str] = set()
"""Applications, and sessions of Spark Connect, whose workers were found to have the packages."""
_said: list[IO[bytes]] = []
"""Files with the JVM's messages on stderr that the user did not see."""


class End(NamedTuple):
    """End of this process's JVM: exit status, negative for a signal, and its last messages."""

    status: int
    said: str


def open_session(*, with_delta: bool = False) -> SparkSession:
    """Return the Spark session to work in.

    That is one of Spark Connect where SPARK_REMOTE names its server. Under spark-submit the session has the settings
    given there, and the package is sent to the executors unless it is among --py-files, in --archives or installed.
    Otherwise Spark starts on this machine with conf/spark-local.conf and the jar that scripts/jars fetched.

    Parameters
    ----------
    with_delta
        Whether Spark on this machine downloads the jar of Delta Lake; elsewhere the user provides it.

    Raises
    ------
    DedupError
        When Spark does not start; with what it said. When its Python workers lack what tasks import.
    """
    if "SPARK_REMOTE" in os.environ:
        spark = SparkSession.builder.getOrCreate()
        check_workers(spark)
        return spark
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = SparkSession.builder.appName("dedup").getOrCreate()
        if "site-packages" not in __file__ and not _has_package(spark):
            _send_package(spark)
        check_workers(spark)
    else:
        spark = _start(with_delta=with_delta)
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only door to the JVM
    java = jvm.java.lang.Runtime.version().feature()
    if not _serves(java):
        spark.stop()
        raise DedupError(f"{JAVA_NEEDED} (got Java {java})")
    _follow_umask(spark)
    # Its thread would print that the JVM has gone, which whatever waits for the JVM raises as well.
    counting: Any = spark.sparkContext._accumulatorServer  # noqa: SLF001 - its only door
    counting.handle_error = lambda *_: None
    return spark


def suit_session(spark: SparkSession, size: int) -> None:
    """Let Spark compile its plans for a large input, in a session with the settings of conf/spark-local.conf.

    Whoever calls it gives the setting back.
    """
    if sessions.is_connect(spark):
        # Its settings are the server's.
        return
    least = spark.conf.get(COMPILED, None)
    if least is not None and size >= int(least):
        spark.conf.set(WHOLE_STAGE, "true")


def close_session(spark: SparkSession) -> None:
    """End the session, also one whose JVM has died."""
    try:
        spark.stop()
    except (Py4JError, OSError):
        # PySpark would ask that JVM for the next session of this process.
        for kind, names in ENDED.items():
            for name in names:
                setattr(kind, name, None)


def check_workers(spark: SparkSession) -> None:
    """Check once, by a task, that Python workers of a foreign session have the packages that tasks import.

    Raises
    ------
    DedupError
        When they have not, or do not start.
    """
    name, names = sessions.identify(spark), WORKERS
    if name in _checked:
        return

    def list_missing(version: str) -> list[str]:
        # Sent to the worker as it is, which may not have the modules.
        from importlib import import_module  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

        missing = [name for name in names if find_spec(name) is None]
        is_other = "dedup" not in missing and import_module("dedup.version").__version__ != version
        return [*missing, "dedup"] if is_other else missing

    def ask() -> list[str]:
        return sessions.run_tasks(spark, list_missing, [__version__], 1)[0]

    try:
        with _silenced_log(spark):
            missing = ask()
            if missing == ["dedup"] and sessions.is_connect(spark):
                _send_package(spark)
                missing = ask()
        lacks = f"no {', no '.join(missing)}" if missing else ""
    except (Py4JJavaError, PythonException) as error:
        lacks = re.findall(r".*(?:Error|Exception): (.+)", str(error).partition("\n\tat ")[0])[-1]
    if lacks and sessions.is_connect(spark):
        raise DedupError(
            f"engine spark: Python workers of the server must have the packages of this Python ({lacks}); install them "
            'there (docs/operations.md, "Spark Connect")'
        )
    if lacks:
        python = spark.sparkContext.pythonExec
        raise DedupError(
            f"engine spark: Python workers must have the packages of this Python ({python}: {lacks}); set "
            f"PYSPARK_PYTHON={sys.executable} before Spark starts, or give executors on other machines what they need "
            '(docs/operations.md, "Spark as you have it")'
        )
    _checked.add(name)


@contextlib.contextmanager
def _silenced_log(spark: SparkSession) -> Iterator[None]:
    """Silence the log of Spark's JVM, such as the hundred lines of a failing task; a server's is its own."""
    if sessions.is_connect(spark):
        yield
        return
    logging: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001 - its only door
    context = logging.LogManager.getContext(False)  # noqa: FBT003 - Java's own
    own = context.getConfiguration().getLoggers().get(LOGGER)
    level = own and own.getLevel()
    logging.core.config.Configurator.setLevel(LOGGER, logging.Level.OFF)
    try:
        yield
    finally:
        if own:
            logging.core.config.Configurator.setLevel(LOGGER, level)
        else:
            context.getConfiguration().removeLogger(LOGGER)
            context.updateLoggers()


def read_end(patience: float = DYING_SECONDS) -> End | None:
    """Return the end of the JVM started by this process; None if it runs, or spark-submit started it."""
    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - the only door to it
    try:
        status = process.wait(patience) if process else None
    except TimeoutExpired:
        status = None
    return None if status is None else End(status, _read_said())


def read_conf(path: Path) -> dict[str, str]:
    """Read a Spark properties file: a key, white space, a value; # begins a comment line."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def _choose_delta() -> dict[str, str]:
    """Return Spark's settings for Delta Lake; empty if PYSPARK_SUBMIT_ARGS has some.

    Raises
    ------
    DedupError
        When no release of Delta Lake is known for this one of Spark.
    """
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if "delta" in given or "iceberg" in given:
        return {}
    package = DELTA.get(pyspark.__version__.rpartition(".")[0])
    if package is None:
        raise DedupError(
            "--table, --output-table: need Delta Lake, of which no release is known for Spark "
            f"{pyspark.__version__}; pip install 'pyspark=={next(iter(DELTA))}.*', or name a release for this one by "
            "PYSPARK_SUBMIT_ARGS='--packages ... pyspark-shell'"
        )
    return {"spark.jars.packages": package, **DELTA_SETTINGS}


def _start(*, with_delta: bool) -> SparkSession:
    """Start Spark on this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers inherit the JVM's environment, and import the package from where the driver has it.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Spark asks for the address of this machine's name before it reads its settings, and ends where there is none.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings, loading = read_conf(LOCAL_CONF), None
    if find_spec(SHORTCUTS):
        shortcuts = import_module(SHORTCUTS)
        settings["spark.python.daemon.module"] = SHORTCUTS
        settings |= shortcuts.choose_class_path()
        loading = shortcuts.load_ahead()
    settings[JAVA_OPTIONS] += f' "-Dlog4j2.configurationFile={LOG_CONF.as_uri()}"'
    if with_delta:
        settings |= _choose_delta()
    if GRAPHFRAMES_JAR.exists():
        settings["spark.jars"] = str(GRAPHFRAMES_JAR)
    # Who runs the job sees its own lines; what the JVM says comes with the error if it does not start.
    settings["spark.ui.showConsoleProgress"] = "false"
    conf = SparkConf().setAppName("dedup").setAll([*settings.items()])
    try:
        with _silenced_stderr():
            with _deferred():
                context = SparkContext.getOrCreate(conf)
            # Loading SQL takes two seconds of one core.
            Thread(target=_fork_workers, args=(context,), name="forking", daemon=True).start()
            return SparkSession.builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        end = read_end(STARTING_SECONDS)
        if end is not None and end.status == -signal.SIGKILL:
            raise DedupError(f"{KILLED}, and repeat the command") from error
        java = _find_java()
        if java is not None and not _serves(java):
            raise DedupError(f"Spark did not start: {JAVA_NEEDED} (got Java {java})") from error
        lines = [line for line in _read_said().splitlines() if not line.startswith(("\t", "WARNING: "))]
        why = " / ".join(filter(None, lines)) or str(error)
        raise DedupError(f"Spark did not start: {why}" + ("" if java else f"; {JAVA_NEEDED}")) from error
    finally:
        # What is still loaded as the process ends would end it with an error of Python's own.
        if loading is not None:
            loading.join()


def _fork_workers(context: SparkContext) -> None:
    """Let Spark start its Python workers, as many as it has cores."""
    count = context.defaultParallelism
    # SQL asks for workers with this, and Spark would start others for it: see PythonWorkersKey.
    context.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
    # Whatever is wrong shows once there is work.
    with contextlib.suppress(Py4JError, PySparkException, OSError):
        context.parallelize(range(count), count).foreach(lambda _: None)


def _serves(java: int) -> bool:
    return OLDEST_JAVA <= java <= NEWEST_JAVA


def _find_java() -> int | None:
    """Return the release of the Java that Spark starts; None without one."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    try:
        done = run([program, "-version"], capture_output=True, check=True, text=True)  # noqa: S603 - as Spark does
    except (OSError, CalledProcessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else None


@contextlib.contextmanager
def _deferred() -> Iterator[None]:
    """Put off what signals ask for: a JVM that starts would not see that this process ends, and stay."""
    came = list[int]()
    known = ((each, signal.getsignal(each)) for each in signal.valid_signals() if current_thread() is main_thread())
    handlers = {each: handler for each, handler in known if callable(handler)}
    for each in handlers:
        signal.signal(each, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def _silenced_stderr() -> Iterator[None]:
    """Redirect the stderr of child processes to a file; the JVM keeps it for its lifetime."""
    _said[:] = [tempfile.TemporaryFile()]  # noqa: SIM115 - open as long as the JVM
    saved = os.dup(2)
    os.dup2(_said[0].fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _read_said() -> str:
    """Return the JVM's messages on stderr; empty if the user could see them."""
    said = b"".join(os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0) for log in _said)
    return said.decode("utf-8", "replace")


def _follow_umask(spark: SparkSession) -> None:
    """Give files on this machine the permissions of the process's umask, which Hadoop would not ask for."""
    if spark.conf.get(f"spark.hadoop.{UMASK}", None):
        return
    umask = os.umask(0o077)
    os.umask(umask)
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Hadoop's API has no other door from Python
    conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    # The file system is there since the JVM started, with settings of its own.
    jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf).getConf().set(UMASK, f"{umask:03o}")


def _has_package(spark: SparkSession) -> bool:
    """Tell whether spark-submit ships the package to the executors."""
    given = [
        spark.conf.get(f"spark.{name}", None) or "" for name in ("submit.pyFiles", "archives", "yarn.dist.archives")
    ]
    return PACKAGE in given[0] or any(ENVIRONMENT in each for each in given[1:])


def _send_package(spark: SparkSession) -> None:
    """Ship this package to the executors as a zip."""
    package = Path(__file__).resolve().parents[1]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    # Executors fetch it from here until the application ends.
    folder = Path(tempfile.mkdtemp(prefix="dedup-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / PACKAGE
    target.write_bytes(content.getvalue())
    if sessions.is_connect(spark):
        spark.addArtifacts(str(target), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(target))
