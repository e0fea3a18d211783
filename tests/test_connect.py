"""A server of Spark Connect on loopback, whose client is a process of its own: the same results as in memory."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dedup.run.session import LOCAL_CONF, LOG_CONF, ROOT, SHORTCUTS
from tests.on_connect import BATCHES, run_all

DEADLINE_SECONDS = 120
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    # As tests/conftest.py has them.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "3",
    "spark.python.daemon.module": SHORTCUTS,
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_CONF.as_uri()}",
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server, and stop it."""
    scratch, port = tmp_path_factory.mktemp("server"), free_port()
    settings = SETTINGS | {"spark.connect.grpc.binding.port": str(port), "spark.local.dir": str(scratch)}
    words = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    program = Path(sys.executable).with_name("spark-submit")
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    process = subprocess.Popen(
        [program, "--properties-file", LOCAL_CONF, "--master", "local[2]", *words, "--class", kind, "spark-internal"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=scratch,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        # It inherits that a run of another test has made this process deaf to SIGTERM.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)


@pytest.fixture(scope="module")
def outcome(server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a client has found."""
    folder = tmp_path_factory.mktemp("client")
    subprocess.run(
        [sys.executable, "-m", "tests.on_connect", server, folder], cwd=ROOT, check=True, timeout=DEADLINE_SECONDS
    )
    return json.loads((folder / "outcome.json").read_text("utf-8"))


def test_a_server_gives_the_results_of_memory(outcome, tmp_path):
    found, expected = outcome["results"], run_all(tmp_path, None)

    assert {name: each["rows"] for name, each in found.items()} == {
        name: each["rows"] for name, each in expected.items()
    }
    assert [each["search"] for each in found.values()] == ["tasks", "tasks", "process", *["tasks"] * BATCHES]


def test_what_a_server_cannot_do_is_told(outcome):
    said = outcome["refused"]

    assert "DataError: input: must give the same rows each time it is read" in said["rand"]
    assert "StorageError: --output" in said["inside"]
    assert "DataError: input.id_column: " in said["repeated"]
    assert "give a server of Spark Connect its plugin" in said["graphframes"]
    assert outcome["sees"] == [True, False]
