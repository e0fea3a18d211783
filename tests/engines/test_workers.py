"""Processes beside that of a run."""

import os
import signal
import subprocess
import sys
import time

import psutil

from dedup.engines.workers import open_beside

WORK = """
import os, time
from dedup.engines.workers import Processes, open_beside

def tell(held, _):
    time.sleep(0.2)
    return os.getpid()

with open_beside("colorsys") as beside, Processes(2, None) as workers:
    print(*{beside.submit(os.getpid).result(), *workers.map(tell, range(8))}, flush=True)
    time.sleep(60)
"""


def is_alive(pid):
    """Tell whether a process is there, and has not ended without anybody asking how."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_processes_end_with_the_one_that_they_work_for_even_where_it_is_killed():
    with subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, text=True) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3
        assert all(map(is_alive, pids))
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, pids))


def test_a_module_that_is_loaded_is_used_in_a_thread():
    with open_beside("os") as beside:
        assert beside.submit(os.getpid).result() == os.getpid()
