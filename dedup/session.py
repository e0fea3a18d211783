"""The Spark session of a job: its own on this machine, or the one that spark-submit prepared."""

import atexit
import contextlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from dedup.errors import DedupError

ROOT = Path(__file__).resolve().parent.parent
LOCAL_CONF = ROOT / "conf" / "spark-local.conf"
LOG_CONF = ROOT / "conf" / "log4j2.properties"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
GRAPHFRAMES_JAR = ROOT / "jars" / "graphframes.jar"
PACKAGE = "dedup.zip"


def open_session(*, quiet: bool) -> SparkSession:
    """Return the Spark session to work in.

    Under spark-submit the session has the settings given there, and the package is sent to the executors unless it is
    among --py-files or installed. Otherwise Spark starts on this machine with conf/spark-local.conf and the jar that
    scripts/jars fetched.

    Parameters
    ----------
    quiet
        No progress bar, and nothing of what the JVM says on stderr as it starts.

    Raises
    ------
    DedupError
        When Spark does not start; with what it said.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = SparkSession.builder.appName("dedup").getOrCreate()
        if PACKAGE not in (spark.conf.get("spark.submit.pyFiles", None) or "") and "site-packages" not in __file__:
            _send_package(spark)
        return spark
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers inherit the JVM's environment, and import the package from where the driver has it.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    builder = SparkSession.builder.appName("dedup")
    settings = read_conf(LOCAL_CONF)
    settings[JAVA_OPTIONS] += f' "-Dlog4j2.configurationFile={LOG_CONF.as_uri()}"'
    for key, value in settings.items():
        builder = builder.config(key, value)
    if GRAPHFRAMES_JAR.exists():
        builder = builder.config("spark.jars", str(GRAPHFRAMES_JAR))
    builder = builder.config("spark.ui.showConsoleProgress", str(not quiet).lower())
    with _silenced_stderr() if quiet else contextlib.nullcontext():
        return builder.getOrCreate()


def read_conf(path: Path) -> dict[str, str]:
    """Read a Spark properties file: a key, white space, a value; # begins a comment line."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


@contextlib.contextmanager
def _silenced_stderr() -> Iterator[None]:
    """Send what child processes write to stderr to a file, which an error quotes; the JVM keeps it for its lifetime."""
    with tempfile.TemporaryFile() as log:
        saved = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield
        except Exception as error:
            log.seek(0)
            said = " / ".join(log.read().decode("utf-8", "replace").split("\n")).strip(" /") or str(error)
            raise DedupError(f"Spark did not start: {said}") from error
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def _send_package(spark: SparkSession) -> None:
    """Ship this package to the executors as a zip."""
    package = Path(__file__).resolve().parent
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
    spark.sparkContext.addPyFile(str(target))
