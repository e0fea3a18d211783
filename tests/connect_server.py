"""A server of Spark Connect on loopback, in a process of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dedup.run.session import GRAPHFRAMES_JAR, LOCAL_CONF, LOG_CONF, ROOT, SHORTCUTS

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
    "spark.jars": str(GRAPHFRAMES_JAR),
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_CONF.as_uri()}",
}


@contextlib.contextmanager
def serve(scratch: Path) -> Iterator[str]:
    """Start a server that works in a folder, give its address, and stop it."""
    port = free_port()
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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
