"""What a command takes with all its processes: python -m tests.bench_processes FOUND COMMAND...

That process becomes the parent of those that lose theirs, on Linux, waits for each, and writes the seconds to FOUND:
what has ended is in them as well, however short it was. Only those are missed whose parent ignores that children end,
which no Python process does here (tests/bench_site).
"""

import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "tests" / "bench_site"
POLL_SECONDS, PSS_POLLS = 0.2, 5
"""Memory is looked at so often, and that of all processes together, which takes longer, every so many times."""
PR_SET_CHILD_SUBREAPER = 36


def spend(
    command: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path] = (), most_seconds: float = 1e9
) -> dict[str, Any]:
    """Run a command, and return what it took.

    Parameters
    ----------
    environment, folders
        What is added to the environment of this process, and to the path of its modules.

    Returns
    -------
    dict
        `seconds` until the command ended; `cpu_seconds`, user and system, of all its processes; `returncode`;
        `finished`, false where it was stopped after `most_seconds`; and peak memory as of `watch`.
    """
    path = os.pathsep.join(map(str, (SITE, ROOT, *folders)))
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.json")
        waiter = [sys.executable, "-m", "tests.bench_processes", str(found), *command]
        own = {**os.environ, **environment, "PYTHONPATH": path}
        process = psutil.Popen(waiter, cwd=ROOT, env=own, stdout=subprocess.DEVNULL)
        peaks = watch(process, time.monotonic() + most_seconds)
        return {**peaks, **json.loads(found.read_text("utf-8"))}


def watch(process: psutil.Popen, deadline: float) -> dict[str, Any]:
    """Wait for a process, and return the peak memory of the JVM, of the largest Python worker and of all under it."""
    peaks = {"jvm_bytes": 0, "worker_bytes": 0, "total_bytes": 0}
    finished = True
    for poll in count():
        if process.poll() is not None:
            return {**peaks, "finished": finished}
        total = 0
        for child in process.children(recursive=True):
            try:
                if poll % PSS_POLLS == 0:
                    total += child.memory_full_info().pss
                if child.name() == "java":
                    peaks["jvm_bytes"] = max(peaks["jvm_bytes"], child.memory_info().rss)
                elif "pyspark.worker" in child.cmdline():
                    peaks["worker_bytes"] = max(peaks["worker_bytes"], child.memory_info().rss)
                if time.monotonic() > deadline:
                    finished = False
                    child.kill()
            except psutil.NoSuchProcess:
                continue
        peaks["total_bytes"] = max(peaks["total_bytes"], total)
        time.sleep(POLL_SECONDS)
    raise AssertionError


def read_log(folder: Path) -> dict[str, float]:
    """Return the seconds of a Spark application and the bytes its tasks wrote to shuffles."""
    shuffled, times = 0, [0]
    for file in folder.iterdir():
        for line in file.open(encoding="utf-8"):
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                shuffled += event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            elif event["Event"] in {"SparkListenerApplicationStart", "SparkListenerApplicationEnd"}:
                times.append(event["Timestamp"])
    return {"session_seconds": (times[-1] - times[min(1, len(times) - 1)]) / 1000, "shuffle_bytes": shuffled}


def main() -> None:
    """Run the command, wait for all that it has started, and write what they took."""
    _, found, *command = sys.argv
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begin = time.monotonic()
    process, seconds, returncode = subprocess.Popen(command), 0.0, 0
    with contextlib.suppress(ChildProcessError):
        # Whoever waits for a process that has lost its parent to end would wait for one that nobody reaps.
        while True:
            pid, status = os.wait()
            if pid == process.pid:
                seconds, returncode = time.monotonic() - begin, os.waitstatus_to_exitcode(status)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "returncode": returncode}
    Path(found).write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    main()
