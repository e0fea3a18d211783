"""The job on YARN, on a mini cluster of two node managers, with packed dependencies and a container killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from dedup.run.session import ROOT
from tests.chaos.conftest import DEADLINE_SECONDS, STAGED, await_, finish, read, start

PACKAGES = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.2",
    # What it does not hold itself.
    *("junit:junit:4.13.2", "org.mockito:mockito-core:2.28.2", "org.bouncycastle:bcpkix-jdk18on:1.78.1"),
    *("jakarta.xml.bind:jakarta.xml.bind-api:2.3.3", "com.sun.xml.bind:jaxb-impl:2.3.3"),
)
EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
SMALL = (
    "--conf spark.driver.memory=700m --conf spark.driver.memoryOverhead=400m --conf spark.executor.memory=700m "
    "--conf spark.executor.cores=1 --conf spark.executor.instances=2 --conf spark.yarn.am.memory=400m "
    "--conf spark.sql.shuffle.partitions=4 --conf spark.ui.enabled=false "
    f"--conf spark.yarn.jars=local:{Path(pyspark.__file__).parent}/jars/*"
)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a mini cluster; return its folder, which has the settings of clients."""
    folder = tmp_path_factory.mktemp("yarn")
    program = Path(sys.executable).with_name("spark-submit")
    # All of Hadoop's classes are of one loader.
    settings = (f"spark.jars.ivy={folder}/ivy", "spark.driver.userClassPathFirst=true", "spark.ui.enabled=false")
    words = [part for each in settings for part in ("--conf", each)]
    cluster = Path(__file__).with_name("yarn_cluster.py")
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    process = subprocess.Popen(
        [program, "--master", "local[1]", "--packages", ",".join(PACKAGES), *words, cluster, folder],
        env={**os.environ, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (folder / "yarn-site.xml").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield folder
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for each in find(folder):
            each.kill()


def find(folder, word=""):
    """Return the processes of containers, with the word in their command."""
    every = psutil.process_iter(["cmdline", "cwd"])
    at_work = [each for each in every if (each.info["cwd"] or "").startswith(f"{folder}/target")]
    return [each for each in at_work if not word or word in (each.info["cmdline"] or ())]


@pytest.mark.full
@pytest.mark.parametrize(("mode", "killed"), [("client", EXECUTOR), ("cluster", MASTER)])
def test_with_a_container_killed_yarn_gives_the_result_of_local_mode(
    yarn, corpus, undisturbed, tmp_path, *, mode, killed
):
    options = f"--deploy-mode {mode} --queue batch --conf spark.yarn.stagingDir={yarn} {SMALL}"
    settings = {"HADOOP_CONF_DIR": str(yarn), "MASTER": "yarn", "SUBMIT_OPTIONS": options}
    process = start(corpus, tmp_path / "out", *STAGED, program=(ROOT / "scripts" / "submit",), **settings)

    await_(lambda: list((tmp_path / "out.partial" / "stages").glob("near_identical*")), process)
    find(yarn, killed)[0].kill()
    status, said = finish(process)

    assert status == 0, said[-2000:]
    assert read(tmp_path / "out") == undisturbed
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
