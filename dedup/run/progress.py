"""Progress of the stage at work: a line on a terminal that disappears when the stage ends."""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from dedup.display import CLEAR, duration, make_handler

TICK_SECONDS = 0.5
SURE = 0.05
"""Least share done at which the time left is shown."""
NOTEBOOK = "ipykernel"
"""Package that runs the cells of a notebook, which shows what goes to stderr, too."""


def is_watched() -> bool:
    """Tell whether somebody sees what is written to stderr, on a terminal or in a notebook."""
    return sys.stderr is not None and (sys.stderr.isatty() or NOTEBOOK in sys.modules)


@contextlib.contextmanager
def telling(*, is_told: bool | None) -> Iterator[None]:
    """Tell of stages on stderr for a while; where it is None if somebody sees it, and no logging is set up for it."""
    log = logging.getLogger("dedup")
    if not (is_watched() and not log.isEnabledFor(logging.INFO) if is_told is None else is_told):
        yield
        return
    handler, level, propagates = make_handler(), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    # A handler of the caller would say the same again.
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates


class Progress:
    """Progress line of the stage at work, shown once it lasts longer than a tick.

    Parameters
    ----------
    ask
        Returns the finished and all tasks of a stage, by its name; None if unknown.
    """

    def __init__(self, ask: Callable[[str], tuple[int, int] | None], stream: TextIO | None = None) -> None:
        self._ask = ask
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._stages: list[tuple[str, float]] = []
        self._shows = False
        self._is_drawn = False

    def begin(self, name: str) -> None:
        """Show a stage from now on; of several at once, the one that began last."""
        with self._lock:
            self._stages.append((name, time.monotonic()))
            if not self._shows:
                self._shows = True
                threading.Thread(target=self._show, name="progress", daemon=True).start()

    def end(self, name: str) -> None:
        """Stop showing a stage."""
        with self._lock:
            self._stages = [each for each in self._stages if each[0] != name]
            if self._is_drawn:
                self._is_drawn = False
                self._write(CLEAR)

    def _show(self) -> None:
        """Redraw the line of the stage at work at every tick, until there is none."""
        while True:
            time.sleep(TICK_SECONDS)
            with self._lock:
                if not self._stages:
                    self._shows = False
                    return
                stage = self._stages[-1]
            line = describe(stage[0], self._ask(stage[0]), time.monotonic() - stage[1])
            with self._lock:
                if stage in self._stages:
                    self._is_drawn = True
                    self._write(f"{CLEAR}{line}")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal is closed.
            self._stages = []


def describe(name: str, tasks: tuple[int, int] | None, seconds: float) -> str:
    """Return the line of a stage that has been at work for some seconds."""
    done, total = tasks or (0, 0)
    said = f"{name:<16} {duration(seconds):>14}"
    if not total:
        return said
    share = min(done / total, 1)
    left = f", about {duration(seconds * (1 - share) / share)} left" if SURE <= share < 1 else ""
    return f"{said}  {share:4.0%}{left}"
