"""Class data of Spark's JVM, loaded and checked once for all JVMs that tests start: a quarter of a small run.

python -m tests.classes FILE writes it (JEP 350), as found in a run on Spark. A JVM that it does not fit, as it has
another classpath or is of another release, goes without.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.run.session import ROOT, open_session
from dedup.settings.files import load_config
from tests.corpora import write_corpus
from tests.machine import describe_java

DOCUMENTS = 1_000
OPTIONS = "-XX:SharedArchiveFile={} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
"""JVMs that live for seconds on busy cores also compile and collect as little as they can; none says what it left."""
STARTS = " -Djdk.lang.Process.launchMechanism=VFORK" if sys.platform == "linux" else ""
"""A run by tasks starts two hundred processes, one for the permissions of each file: each without a process between."""


def share_classes() -> str:
    """Return the options of a JVM that shares classes, which are written first if this environment has none.

    Empty where there is no Java, or Spark does not run: whatever needs it says so.
    """
    file = Path(sys.prefix, f"classes-{pyspark.__version__}-{describe_java()}.jsa")
    part = file.with_suffix(f".{os.getpid()}")
    # A JVM that shares classes writes none.
    own = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    try:
        if not file.exists():
            subprocess.run([sys.executable, "-m", "tests.classes", part], cwd=ROOT, env=own, check=True)
            part.rename(file)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return OPTIONS.format(file) + STARTS


def share_loops(package: Path) -> None:
    """Give a copy of the package the loops that Numba has compiled for this one: ten seconds of a core."""
    own, other = (each / "kernels" / "loops" for each in (ROOT / "dedup", package))
    if (own / "__pycache__").exists():
        shutil.copytree(own / "__pycache__", other / "__pycache__", dirs_exist_ok=True)
        # It looks whether the source has changed since.
        for path in own.glob("*.py"):
            shutil.copystat(path, other / path.name)


def write_classes(file: Path) -> None:
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={file} -Xlog:disable -Xlog:all=error:stderr"
    with tempfile.TemporaryDirectory() as scratch:
        write_corpus(Path(scratch), DOCUMENTS)
        config = load_config(None, None, ["input.id_column=doc_id", "driver.search_bytes=0"])
        spark = open_session()
        run(spark, Job(inputs=[f"{scratch}/documents"], output=f"{scratch}/out", config=config))
        spark.stop()
    # It writes as it ends.
    gateway: Any = SparkContext._gateway
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    write_classes(Path(sys.argv[1]))
