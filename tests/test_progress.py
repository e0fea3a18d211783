"""What a terminal shows while a stage is at work."""

import io
import logging
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from dedup.api import deduplicate
from dedup.display import CLEAR
from dedup.engine.workers import Processes
from dedup.errors import DedupError
from dedup.run import progress, session, start
from dedup.run.job import Job
from dedup.run.progress import Progress, describe
from dedup.run.session import ROOT
from dedup.settings.files import load_config


@pytest.mark.parametrize(
    ("tasks", "seconds", "said"),
    [
        (None, 3, "signatures                  3 s"),
        ((0, 0), 3, "signatures                  3 s"),
        ((1, 100), 7, "signatures                  7 s    1%"),
        ((25, 100), 20, "signatures                 20 s   25%, about 1 min left"),
        ((90, 100), 90, "signatures                2 min   90%, about 10 s left"),
        ((100, 100), 4000, "signatures            1 h 7 min  100%"),
    ],
)
def test_a_stage_tells_its_share_and_the_time_left(tasks, seconds, said):
    assert describe("signatures", tasks, seconds) == said


def test_the_line_comes_with_time_and_goes_with_the_stage(monkeypatch):
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    screen = io.StringIO()
    shown = Progress(lambda name: (1, 2) if name == "edges" else None, screen)
    shown.begin("sets")
    shown.begin("edges")
    while "edges" not in screen.getvalue():
        time.sleep(0.01)
    shown.end("edges")
    shown.end("sets")

    assert "sets" not in screen.getvalue().partition("edges")[0]
    assert " 50%, about 0 s left" in screen.getvalue()
    assert screen.getvalue().endswith(CLEAR)
    length = len(screen.getvalue())
    time.sleep(0.05)
    assert len(screen.getvalue()) == length


def test_a_closed_terminal_is_written_to_no_more(monkeypatch):
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    screen = io.StringIO()
    screen.close()
    shown = Progress(lambda _: None, screen)
    shown.begin("sets")
    time.sleep(0.05)
    shown.end("sets")

    assert shown._stages == []


def test_no_thread_is_left_when_no_stage_is(monkeypatch):
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    shown = Progress(lambda _: None, io.StringIO())
    for name in ("sets", "edges"):
        shown.begin(name)
        assert [thread.name for thread in threading.enumerate()].count("progress") == 1
        shown.end(name)
        deadline = time.monotonic() + 5
        while any(thread.name == "progress" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize("count", [1, 2])
def test_workers_tell_how_much_is_done(count):
    told = []
    with Processes(count, 1, watch=lambda *tasks: told.append(tasks)) as workers:
        assert list(workers.map(max, [0, 5, 3])) == [1, 5, 3]

    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


LOOPS = """
import logging
from dedup.kernels.loops.compiler import compiled

logging.basicConfig(format="%(message)s", level=logging.INFO)

@compiled
def add(left, right):
    return left + right

@compiled
def double(value):
    return value * 2

assert (add(1, 2), double(3)) == (3, 6)
"""


def test_loops_that_are_compiled_are_told_of_once_and_those_that_are_kept_are_not(tmp_path):
    (tmp_path / "loops.py").write_text(LOOPS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, str(tmp_path / "loops.py")]
    said = [
        subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True).stderr
        for _ in range(2)
    ]

    assert said == ["compiling loops, once on this machine ...\n", ""]


def test_the_start_of_spark_is_told_of_before_the_wait_for_it(monkeypatch, caplog):
    def refuse(**_):
        raise DedupError(f"told {caplog.messages}")

    monkeypatch.setattr(start, "find_session", lambda: None)
    monkeypatch.setattr(session, "open_session", refuse)
    caplog.set_level(logging.INFO, "dedup")
    job = Job(inputs=["a"], output="b", config=load_config(settings={"engine": "spark"}))

    with pytest.raises(DedupError, match=r"told \['starting Spark \.\.\.'\]"):
        start.start(job)


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "a b c d e f g"}\n{"id": 2, "text": "a b c d e f g"}\n')
    return str(tmp_path / "in.jsonl")


@pytest.mark.parametrize(
    ("given", "in_notebook", "is_told"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
@pytest.mark.usefixtures("source")
def test_a_call_tells_of_its_stages_where_somebody_sees_it_or_asks(capsys, monkeypatch, given, in_notebook, is_told):
    if in_notebook:
        monkeypatch.setitem(sys.modules, progress.NOTEBOOK, object())
    log = logging.getLogger("dedup")
    before = (log.level, log.propagate, [*log.handlers])
    deduplicate("in.jsonl", id_column="id", engine="memory", progress=given)

    captured = capsys.readouterr()
    assert ("signatures" in captured.err, captured.out) == (is_told, "")
    assert len(re.findall(r"signatures +2 rows", captured.err)) == is_told
    assert (log.level, log.propagate, [*log.handlers]) == before


def test_a_call_says_nothing_twice_to_a_logger_that_is_set_up(source, caplog, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, progress.NOTEBOOK, object())
    caplog.set_level(logging.INFO, "dedup")
    deduplicate(source, id_column="id", engine="memory")

    assert sum(message.startswith("signatures") for message in caplog.messages) == 1
    assert " rows" not in capsys.readouterr().err
