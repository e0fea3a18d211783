"""What a terminal shows while a stage is at work."""

import io
import threading
import time

import pytest

from dedup.engine.workers import Processes
from dedup.run import progress
from dedup.run.progress import CLEAR, Progress, describe


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
