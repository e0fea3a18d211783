"""A terminal that is closed while the job runs, and once it has finished; an output that takes no more."""

import fcntl
import importlib
import io
import json
import logging
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
import warnings
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from dedup import cli
from dedup.cli.process import REPEAT_SECONDS, command, stop_on_signals
from dedup.cli.run import answer
from dedup.files.storage import Storage
from dedup.informing import Inform
from dedup.run.session import ROOT
from dedup.run.workspace import Workspace

JOB = [sys.executable, str(ROOT / "jobs" / "deduplicate.py"), "--engine", "memory", "--id-column", "id"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No signal here ends the session that other tests of this process have made."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


@pytest.fixture
def words(tmp_path):
    rows = [{"id": number, "text": f"some words and number {number}"} for number in range(200)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [*JOB, "--input", f"{tmp_path}/in.jsonl", "--output", f"{tmp_path}/out"]


def run_here(*words):
    """Run the job in this process; return the exit status."""
    return cli.main(["run", *words])


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
    assert run_here(*words[2:]) == 0


def test_a_signal_that_ends_spark_says_nothing_of_what_fails_by_it(monkeypatch, caplog):
    # It is set back at the end.
    caplog.set_level(logging.INFO, "dedup.informing")
    ended, handlers = threading.Event(), {}

    def end():
        warnings.warn("Unable to cleanly shutdown Spark JVM process.", RuntimeWarning, stacklevel=1)
        ended.set()
        raise FileNotFoundError("its socket is gone")

    context = SimpleNamespace(stop=end)
    monkeypatch.setitem(
        sys.modules, "pyspark", SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
    )
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    stopped = stop_on_signals()
    before = set(threading.enumerate())
    with warnings.catch_warnings(record=True) as warned:
        handlers[signal.SIGTERM](signal.SIGTERM, None)
        for thread in set(threading.enumerate()) - before:
            thread.join(10)
        Inform()("the near misses", context.stop)

    assert (stopped, ended.wait(10), told, caplog.messages, warned) == ([signal.SIGTERM], True, [], [], [])


def test_a_run_that_is_cut_short_says_what_the_same_command_does(tmp_path, capsys):
    output = str(tmp_path / "out")

    def cut(*stopped):
        return answer(KeyboardInterrupt(), stopped, output), capsys.readouterr().err

    with Workspace(Storage(), output) as workspace:
        workspace.open({}, overwrite=False)
        said = "interrupted; nothing was published. The same command starts from the beginning."
        assert cut() == (130, f"dedup: {said}\n")
        for name in ("signatures", "edges"):
            workspace.finish(name, {"rows": 1})
        said = (
            "stopped by SIGTERM; nothing was published. The same command goes on after the 2 tables that were finished."
        )
        assert cut(signal.SIGTERM) == (143, f"dedup: {said}\n")


def test_an_interrupt_ends_a_run_in_one_line_or_comes_too_late(words, tmp_path):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    while not (tmp_path / "out.lock").exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert (process.returncode, len(said.splitlines())) in {(130, 1), (0, 0)}
    assert (process.returncode == 0) == (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "stopped by SIGTERM"), (signal.SIGHUP, "stopped by SIGHUP")],
)
@pytest.mark.parametrize(
    "words", ["explain out --top 1", "evaluate --input in --exact --output out", "plan --check 9x9", "store compact s"]
)
def test_a_signal_ends_other_commands_in_one_line(words, number, said, monkeypatch, capsys):
    module = importlib.import_module(f"dedup.cli.{words.split()[0]}")
    monkeypatch.setattr(module, "parse_arguments", lambda _: signal.raise_signal(number))

    assert (cli.main(words.split()), capsys.readouterr().err) == (128 + number, f"dedup: {said}\n")


@pytest.mark.parametrize("wait", [0, REPEAT_SECONDS])
def test_a_signal_that_is_repeated_at_once_does_not_disturb_the_end(monkeypatch, wait):
    now = [100.0]
    monkeypatch.setattr("dedup.cli.process.time", SimpleNamespace(monotonic=lambda: now[0]))
    stopped = stop_on_signals()
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGHUP)
    now[0] += wait
    with pytest.raises(SystemExit) if wait else nullcontext():
        signal.raise_signal(signal.SIGTERM)

    assert stopped == [signal.SIGHUP, signal.SIGTERM][: 2 if wait else 1]


@pytest.mark.parametrize(
    ("module", "number", "words", "said"),
    [
        ("dedup.cli.process", signal.SIGINT, "", "interrupted"),
        (
            "numpy.exceptions",
            signal.SIGTERM,
            "run --input {0}/in --output {0}/out",
            "stopped by SIGTERM; nothing was published. The same command can be given again.",
        ),
    ],
    ids=["of a command", "of a package that is imported but once"],
)
def test_a_signal_amid_the_imports_ends_a_command_in_one_line(module, number, words, said, tmp_path):
    code = f"""
import runpy, signal, sys
class Amid:
    def find_spec(self, name, *_):
        name == "{module}" and signal.raise_signal({number:d})
sys.meta_path.insert(0, Amid())
runpy.run_module("dedup", run_name="__main__")
"""
    command = [sys.executable, "-c", code, *words.format(tmp_path).split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (128 + number, f"dedup: {said}\n")


@pytest.mark.parametrize(
    "shell",
    [
        *(pytest.param(each, marks=pytest.mark.full) for each in ("{} >&-", "{} 2>&-")),
        *("{} <&- >&- 2>&-", "{} > /dev/full 2>&1"),
    ],
)
def test_an_output_that_takes_no_more_makes_no_failure(words, tmp_path, shell):
    command = shell.format(" ".join(words))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_an_explanation_that_nobody_can_read_makes_no_failure(finished):
    command = f"{sys.executable} -m dedup explain {finished}/out --id 1 >&-"
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a folder with a corpus, an output of it and a store that it was added to."""
    folder = tmp_path_factory.mktemp("finished")
    rows = [{"id": number, "text": f"some words and number {number // 2}"} for number in range(20)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("--input", f"{folder}/in.jsonl", "--output", f"{folder}/out", "--store", f"{folder}/store", "--batch", "a")
    assert run_here(*given, "--engine", "memory", "--id-column", "id") == 0
    return folder


ANSWERS = {
    "run": "run --engine memory --id-column id --input in.jsonl --output again --overwrite",
    "plan": "plan --documents 1e6",
    "explain": "explain out --id 1",
    "evaluate": "evaluate --exact --input in.jsonl --id-column id",
    "store": "store history store",
    "compare": "compare --against store --against in.jsonl --id-column id",
    "overlap": "overlap out store",
    "erase": "erase store --where source=b",
    "lookup": "lookup store --input in.jsonl",
    "help": "--help",
    "version": "--version",
}
HELP = {f"help of {verb}": f"{verb} --help" for verb in cli.VERBS}


@contextmanager
def unread(buffering):
    """Let stdout be a pipe that nobody reads; what pytest captures comes anew for each fixture and each test."""
    reader, writer = os.pipe()
    os.close(reader)
    kept, before = os.dup(1), sys.stdout
    os.dup2(writer, 1)
    os.close(writer)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", buffering, closefd=False), write_through=not buffering)
    try:
        yield
        # Python does so as it ends.
        sys.stdout.flush()
    finally:
        sys.stdout = before
        os.dup2(kept, 1)
        os.close(kept)


@pytest.mark.parametrize(
    "words",
    [*ANSWERS.values(), *(pytest.param(each, marks=pytest.mark.full) for each in HELP.values())],
    ids=[*ANSWERS, *HELP],
)
@pytest.mark.parametrize("buffering", [0, -1])
def test_an_answer_that_nobody_reads_any_more_makes_no_failure(finished, monkeypatch, capfd, words, buffering):
    assert {*ANSWERS} >= {*cli.VERBS}
    monkeypatch.chdir(finished)
    verb, *given = words.split()
    with unread(buffering):
        try:
            status = run_here(*given) if verb == "run" else cli.main([verb, *given])
        except SystemExit as end:
            status = end.code

    assert (status or 0, capfd.readouterr().err) == (0, "")


@pytest.mark.parametrize("verb", ["plan", "help"])
def test_an_answer_that_is_written_as_python_ends_makes_no_failure_either(finished, verb):
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "dedup", *ANSWERS[verb].split()]
    others = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, check=False, cwd=finished, env=others)
    os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_connection_that_breaks_elsewhere_is_a_fault(capsys):
    @command
    def main():
        raise BrokenPipeError

    assert main() == 1
    assert "BrokenPipeError" in capsys.readouterr().err
