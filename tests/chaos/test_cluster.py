"""The job on a standalone cluster with packed dependencies, with processes killed."""

import json
import re
import signal
import tarfile

import psutil
import pytest

from dedup.kernels.loops.compiler import DIGEST
from dedup.run.session import ROOT
from tests.chaos.conftest import NAMES, STAGED, await_, finish, read, start

SMALL = (
    "--conf spark.driver.memory=1g --conf spark.executor.memory=1g --conf spark.executor.cores=1 "
    "--conf spark.sql.shuffle.partitions=4 --conf spark.ui.enabled=false "
    # As for a small corpus on one machine: each executor would compile every plan.
    "--conf spark.sql.codegen.wholeStage=false "
    # Executors that die are started again at once.
    "--conf spark.task.maxFailures=20 --conf spark.driver.bindAddress=127.0.0.1 --conf spark.driver.host=127.0.0.1"
)


EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def submit(master, source, output, *arguments):
    program = (ROOT / "scripts" / "submit",)
    return start(source, output, *arguments, program=program, MASTER=master, SUBMIT_OPTIONS=SMALL)


def find(word):
    """Return the processes that work in the folder of a cluster of this checkout, with the word in their command."""
    every = psutil.process_iter(["cmdline", "cwd"])
    at_work = [each for each in every if (each.info["cwd"] or "").startswith(f"{ROOT}/dist/cluster-")]
    return [each for each in at_work if word in (each.info["cmdline"] or ())]


@pytest.mark.parametrize(
    ("shuffling", "components"),
    [
        (["candidates"], "auto"),
        pytest.param(["identical", "candidates", "members"], "graphframes", marks=pytest.mark.full),
    ],
)
def test_with_workers_and_executors_killed_a_cluster_gives_the_result_of_local_mode(
    master, corpus, undisturbed, tmp_path, *, shuffling, components
):
    """Kill executors between the table before a stage, or a part of it, and the stage's own table."""
    partial = tmp_path / "out.partial" / "stages"
    process = submit(master, corpus, tmp_path / "out", *STAGED, "--set", f"components.engine={components}")
    killed = []

    await_(lambda: list(partial.glob("near_signatures-*")), process)
    await_(lambda: find("pyspark.daemon"), process)
    for worker in find("pyspark.daemon"):
        worker.send_signal(signal.SIGKILL)
    killed.append("signatures")
    for stage in shuffling:
        # A stage of a small corpus can end between two looks at its own folder.
        before = NAMES[NAMES.index(stage) - 1]
        await_(lambda before=before: list(partial.glob(f"near_{before}[-.]*")), process)
        await_(lambda: find(EXECUTOR), process)
        if not (partial / f"near_{stage}.json").exists():
            find(EXECUTOR)[0].send_signal(signal.SIGKILL)
            killed.append(stage)
    status, said = finish(process)

    assert status == 0, said[-2000:]
    assert killed == ["signatures", *shuffling]
    assert read(tmp_path / "out") == undisturbed
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.full
def test_a_driver_that_searches_survives_workers_that_are_killed(master, corpus, undisturbed, tmp_path):
    process = submit(master, corpus, tmp_path / "out")

    await_(lambda: find("pyspark.daemon"), process)
    for worker in find("pyspark.daemon"):
        worker.send_signal(signal.SIGKILL)
    status, said = finish(process)

    assert status == 0, said[-2000:]
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["search"] == "process"
    assert read(tmp_path / "out") == undisturbed


def test_the_archive_holds_what_executors_import_and_not_spark(master):
    with tarfile.open(ROOT / "dist" / "environment.tar.gz") as archive:
        names = [name.split("site-packages/")[1] for name in archive.getnames() if "site-packages/" in name]
    packages = {name.split("/")[0] for name in names}

    assert {"numpy", "pyarrow", "scipy", "pandas", "xxhash", "numba", "jinja2", "prometheus_client"} <= packages, master
    # As compiled here, which executors would do anew for each run.
    sources = {path.stem: path.read_text("utf-8") for path in (ROOT / "dedup" / "kernels" / "loops").glob("*.py")}
    loops = {
        f"{name}.{each}_{DIGEST}"
        for name, text in sources.items()
        for each in re.findall(r"@compiled\ndef (\w+)", text)
    }
    assert f"sets.shingle_{DIGEST}" in loops
    assert {name.rsplit("/")[-1].split("-")[0] for name in names if name.endswith(".nbi")} == loops
    compiled = {re.sub(r"__pycache__/|\.cpython-\d+", "", name) for name in names if name.endswith(".pyc")}
    assert {"dedup/kernels/sets/lsh.pyc", "numpy/__init__.pyc", "pyarrow/compute.pyc"} <= compiled
    assert not {"pyspark", "mypy", "pytest", "moto"} & packages
