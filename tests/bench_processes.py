"""What a contender of the benchmark takes while it runs."""

import json
import time
from pathlib import Path
from typing import Any

import psutil

POLL_SECONDS = 0.1


def watch(process: psutil.Popen, deadline: float) -> dict[str, Any]:
    """Wait for a process, and return the peak memory of the JVM and of the largest Python worker under it."""
    peaks = {"jvm_bytes": 0, "worker_bytes": 0, "total_bytes": 0}
    cpu_seconds: dict[int, float] = {}
    finished = True
    while process.poll() is None:
        total = 0
        for child in [process, *process.children(recursive=True)]:
            try:
                total += child.memory_full_info().pss
                cpu_seconds[child.pid] = sum(child.cpu_times()[:2])
                if child.name() == "java":
                    peaks["jvm_bytes"] = max(peaks["jvm_bytes"], child.memory_info().rss)
                elif "pyspark.daemon" in child.cmdline():
                    peaks["worker_bytes"] = max(peaks["worker_bytes"], child.memory_info().rss)
            except psutil.NoSuchProcess:
                continue
        peaks["total_bytes"] = max(peaks["total_bytes"], total)
        if time.monotonic() > deadline:
            finished = False
            for child in [*process.children(recursive=True), process]:
                child.kill()
        time.sleep(POLL_SECONDS)
    return {**peaks, "cpu_seconds": sum(cpu_seconds.values()), "finished": finished}


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
