"""A server of Spark Connect in the JVM of the tests, its client in another process: the results are those of memory."""

import json
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dedup.run.session import ROOT
from tests.connect_server import DEADLINE_SECONDS
from tests.on_connect import BATCHES, run_all

pytestmark = pytest.mark.classic


@pytest.fixture(scope="module")
def server(_session: SparkSession) -> str:
    """Return the address of the server in the JVM of the tests."""
    return f"sc://127.0.0.1:{_session.conf.get('spark.connect.grpc.binding.port')}"


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


def test_of_equal_rows_without_ids_one_stays(outcome):
    count, kept, removed = outcome["equal"]

    assert kept + removed == count
    assert 0 < kept <= count / 2 <= removed


def test_what_a_server_cannot_do_is_told(outcome):
    said = outcome["refused"]

    assert "DataError: input: must give the same rows each time it is read" in said["rand"]
    assert "StorageError: --output" in said["inside"]
    assert "DataError: input.id_column: " in said["repeated"]
    assert "give a server of Spark Connect its plugin" in said["graphframes"]
    assert outcome["sees"] == [True, False]
