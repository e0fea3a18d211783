"""Measurements of a run's stages: time, counts and bytes moved."""

import contextlib
import copy
import logging
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dedup.informing import Inform
from dedup.run.progress import Progress, is_watched

if TYPE_CHECKING:
    from dedup.engine.sessions import Jobs

LOG = logging.getLogger("dedup")


class Clock:
    """Clock of the stages, which also records their counts and the parts left out of the report.

    Parameters
    ----------
    begun
        Start of the run, in seconds since 1970; by default now.
    """

    def __init__(self, jobs: "Jobs | None" = None, *, begun: float | None = None) -> None:
        self.inform = Inform()
        self.begun = time.time() if begun is None else begun
        self._starts: list[float] = []
        self._jobs = jobs
        # Other runs in the session have stages of the same names.
        self._run = uuid.uuid4().hex
        self._seconds: dict[str, float] = {}
        self._counts: dict[str, Any] = {}
        self._tasks: list[tuple[int, int]] = []
        self._part = ""
        # Where these lines go to a terminal, and are wanted there.
        is_shown = LOG.isEnabledFor(logging.INFO) and is_watched()
        self._progress = Progress(self._count_tasks) if is_shown else None

    def watch(self, done: int, total: int) -> None:
        """Record the progress of the stage at work."""
        self._tasks[:] = [(done, total)]

    def of(self, part: str) -> "Clock":
        """Return the clock of a part of the run, whose stages are prefixed with its name."""
        clock = copy.copy(self)
        clock._part = part  # noqa: SLF001 - one of its own kind
        return clock

    @contextlib.contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time a stage, and name its Spark jobs after it."""
        begin = time.monotonic()
        self._starts.append(time.time())
        name = self._part + name
        self._tasks.clear()
        if self._progress:
            self._progress.begin(name)
        try:
            with self.group(name):
                yield
        finally:
            if self._progress:
                self._progress.end(name)
        self._seconds[name] = self._seconds.get(name, 0) + time.monotonic() - begin

    def note(self, name: str, counts: Any) -> None:  # noqa: ANN401 - any of `tables.counts`, with `rows`
        """Record the counts of a stage, and log them."""
        name = self._part + name
        self._counts[name] = counts
        LOG.info("%-16s %14s %9.1f s", name, f"{counts.rows:,} rows", self._seconds[name])

    @contextlib.contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Name the Spark jobs of this thread after a stage."""
        if self._jobs is None:
            yield
            return
        with self._jobs.group(self._key(name)):
            yield

    def _count_tasks(self, name: str) -> tuple[int, int] | None:
        """Return the finished tasks of a stage, and all that Spark has planned so far."""
        if self._jobs is None:
            return self._tasks[0] if self._tasks else None
        return self._jobs.count_tasks(self._key(name))

    def _key(self, name: str) -> str:
        return f"{name} {self._run}"

    def count_shuffles(self) -> dict[str, int] | None:
        """Return the bytes that each stage of this run wrote to shuffles; None where nobody counts them."""
        if self._jobs is None:
            return None
        names = {self._key(name): name for name in self._counts}
        written = self._jobs.count_shuffled(names)
        return None if written is None else {names[key]: count for key, count in written.items()}

    @property
    def start_seconds(self) -> float:
        """Seconds from the start of the run to that of its first stage."""
        return min(self._starts, default=self.begun) - self.begun

    def report(self) -> dict[str, dict[str, Any]]:
        """Return the entries of report.json for every stage."""
        shuffled = self.count_shuffles()
        return {
            name: {"rows": counts.rows}
            | {each: value for each, value in asdict(counts).items() if isinstance(value, int)}
            | {"seconds": round(self._seconds[name], 3)}
            | ({"shuffle_bytes": shuffled[name]} if shuffled is not None else {})
            for name, counts in self._counts.items()
        }
