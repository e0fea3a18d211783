"""A terminal that is closed while the job runs, and once it has finished; an output that takes no more."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest

from dedup.run.session import ROOT

JOB = [sys.executable, str(ROOT / "jobs" / "deduplicate.py"), "--engine", "memory", "--id-column", "id"]


@pytest.fixture
def words(tmp_path):
    rows = [{"id": number, "text": f"some words and number {number}"} for number in range(200)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [*JOB, "--input", f"{tmp_path}/in.jsonl", "--output", f"{tmp_path}/out"]


def start_in_terminal(words):
    """Start a job as a terminal's own; return it and the terminal's other end."""
    far, near = pty.openpty()

    def take():
        os.setsid()
        fcntl.ioctl(near, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(words, stdin=near, stdout=near, stderr=near, preexec_fn=take)  # noqa: PLW1509 - no thread
    os.close(near)
    return process, far


def test_a_terminal_closed_once_the_output_is_whole_makes_no_failure(words, tmp_path):
    process, far = start_in_terminal(words)
    while not (tmp_path / "out" / "_SUCCESS").exists():
        assert process.poll() is None
        time.sleep(0.001)
    os.close(far)

    assert process.wait(60) == 0


def test_a_terminal_closed_before_stops_the_job_which_goes_on(words, tmp_path):
    process, far = start_in_terminal(words)
    while not (tmp_path / "out.lock").exists():
        assert process.poll() is None
        time.sleep(0.001)
    os.close(far)

    assert process.wait(60) in {0, 128 + signal.SIGHUP}
    assert not (tmp_path / "out.lock").exists()
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("shell", ["{} | true", "{} > /dev/full", "{} >&-", "{} > /dev/full 2>&1"])
def test_an_output_that_takes_no_more_makes_no_failure(words, tmp_path, shell):
    command = shell.format(" ".join(words))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "out" / "_SUCCESS").exists()
