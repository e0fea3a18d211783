"""Measurements of a run's stages: time, counts and bytes moved."""

import contextlib
import copy
import logging
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from dedup.informing import Inform
from dedup.run.progress import Progress, is_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger("dedup")
GROUP = "spark.jobGroup.id"


class Clock:
    """Clock of the stages, which also records their counts and the parts left out of the report.

    Parameters
    ----------
    begun
        Start of the run, in seconds since 1970; by default now.
    """

    def __init__(self, spark: "SparkSession | None" = None, *, begun: float | None = None) -> None:
        self.inform = Inform()
        self.begun = time.time() if begun is None else begun
        self._starts: list[float] = []
        self._spark = spark
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
        if self._spark is None:
            yield
            return
        context = self._spark.sparkContext
        before = context.getLocalProperty(GROUP)
        context.setLocalProperty(GROUP, self._key(name))
        try:
            yield
        finally:
            with contextlib.suppress(Py4JError):  # stopped amid the stage: that error is the one to see
                context.setLocalProperty(GROUP, before)  # type: ignore[arg-type] # null takes it away

    def _count_tasks(self, name: str) -> tuple[int, int] | None:
        """Return the finished tasks of a stage, and all that Spark has planned so far."""
        if self._spark is None:
            return self._tasks[0] if self._tasks else None
        try:
            tracker = self._spark.sparkContext.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._key(name))]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        except (Py4JError, OSError):
            return None
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)

    def _key(self, name: str) -> str:
        return f"{name} {self._run}"

    def count_shuffles(self) -> dict[str, int] | None:
        """Return the bytes that each stage of this run wrote to shuffles, from Spark's status store.

        The store exists without Spark's UI too. It forgets the oldest jobs beyond spark.ui.retainedJobs (1,000).
        None without Spark, or where it has no such store.
        """
        if self._spark is None:
            return None
        written = dict.fromkeys(self._counts, 0)
        try:
            context: Any = self._spark.sparkContext._jsc.sc()  # noqa: SLF001 - its only door
            context.listenerBus().waitUntilEmpty()
            store, tracker = context.statusStore(), self._spark.sparkContext.statusTracker()
            jobs = {job: name for name in written for job in tracker.getJobIdsForGroup(self._key(name))}
            known: set[int] = set()
            # A stage that several jobs share was run by the first.
            for job in sorted(jobs):
                found = tracker.getJobInfo(job)
                stages = set(found.stageIds) - known if found else set()
                written[jobs[job]] += sum(_read_shuffled(store, stage) for stage in stages)
                known |= stages
        except Py4JError:
            return None
        return written

    @property
    def start_seconds(self) -> float:
        """Seconds from the start of the run to that of its first stage."""
        return min(self._starts, default=self.begun) - self.begun

    def report(self) -> dict[str, dict[str, Any]]:
        """Return the entries of report.json for every stage."""
        shuffled = self.count_shuffles()
        return {
            name: {"rows": counts.rows, **_numbers(counts), "seconds": round(self._seconds[name], 3)}
            | ({"shuffle_bytes": shuffled[name]} if shuffled is not None else {})
            for name, counts in self._counts.items()
        }


def _read_shuffled(store: Any, stage: int) -> int:  # noqa: ANN401 - of the JVM
    """Return the bytes that a stage wrote to its shuffle; 0 for one that Spark has forgotten."""
    try:
        return int(store.lastStageAttempt(stage).shuffleWriteBytes())
    except Py4JJavaError:
        return 0


def _numbers(counts: Any) -> dict[str, int]:  # noqa: ANN401 - any of `tables.counts`
    return {name: value for name, value in asdict(counts).items() if isinstance(value, int)}
