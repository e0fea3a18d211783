"""Real processes to kill, fill and interrupt: the job as a user starts it, a cluster on loopback, an S3 server."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest

from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.session import ROOT
from dedup.settings.files import load_config
from tests.conftest import PROFILE
from tests.corpora import write_corpus

JOB = ROOT / "jobs" / "deduplicate.py"
DEADLINE_SECONDS = 300
STRIDE = 1 if PROFILE == "full" else 3
"""Of the steps of a run that may fail, each is tried in the full profile, and otherwise each third."""
NAMES = ("signatures", "identical", "buckets", "candidates", "sets", "edges", "components", "members")
STAGES = tuple(f"near_{name}" for name in NAMES)
"""Tables of a run, in the order in which they are finished."""
STAGED = ("--set", "driver.search_bytes=0")
"""What leaves the search to Spark's tasks, however little it is."""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a corpus whose stages take long enough to be hit."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, 5_000)
    return folder / "documents"


@pytest.fixture(scope="session")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    """Return the result of a run that nothing happened to, in memory: all engines find the same."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    config = load_config(None, None, ["input.id_column=doc_id"])
    run_in_memory(Job(inputs=[str(corpus)], output=str(output), config=config))
    return read(output)


def read(output: Path) -> dict[str, list]:
    """Return the rows of the result."""
    return {name: rows_of(ds.dataset(output / name)) for name in ("kept", "removed", "duplicates", "edges")}


def rows_of(dataset: ds.Dataset) -> list:
    """Return rows in an order of their own."""
    return sorted(dataset.to_table().to_pylist(), key=repr)


def write_words(source: Path | str, output: Path | str, *arguments: str) -> list[str]:
    """Return the arguments of the job on Spark, on files or a table with a quoted name."""
    option = "--table" if "`" in str(source) else "--input"
    words = [option, str(source), "--output", str(output), "--id-column", "doc_id", "--set", "engine=spark"]
    return [*words, *arguments]


def start(
    source: Path | str, output: Path | str, *arguments: str, program: tuple = (sys.executable, JOB), **environment: str
) -> psutil.Popen:
    """Start the job on Spark; its words go to stderr of the process object."""
    return psutil.Popen(
        [*map(str, program), *write_words(source, output, *arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: psutil.Popen) -> tuple[int, str]:
    """Wait for the end of a job; return its exit status and what it said on stderr."""
    _, said = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, said


def await_(condition: Callable[[], object], process: psutil.Popen) -> None:
    """Wait until the condition holds while a process runs."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert process.poll() is None, f"ended with {process.returncode}: {process.stderr.read()[-2000:]}"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill(process: psutil.Popen) -> None:
    """Kill a driver as a machine's end would: its JVM and workers with it."""
    for each in [*process.children(recursive=True), process]:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    process.communicate()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def master() -> Iterator[str]:
    """Start a master and two workers; return the master's URL."""
    port = str(free_port())
    script = ROOT / "scripts" / "cluster"
    # The workers' own Python has none of the job's packages.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "PYTHON"))}
    try:
        subprocess.run([script, "start", port], check=True, timeout=120, env=environment)
        yield f"spark://127.0.0.1:{port}"
    finally:
        subprocess.run([script, "stop", port], check=True, timeout=60)
