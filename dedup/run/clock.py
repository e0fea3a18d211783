"""What the stages of a run took: their time, their counts, and the bytes that they moved."""

import contextlib
import copy
import logging
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from dedup.informing import Inform
from dedup.run.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger("dedup")
GROUP = "spark.jobGroup.id"
Given = ParamSpec("Given")
Value = TypeVar("Value")


class Clock:
    """Times the stages, and notes what they counted, and what of the report had to be left out."""

    def __init__(self, spark: "SparkSession | None" = None) -> None:
        self.inform = Inform()
        self._spark = spark
        # Other runs in the session have stages of the same names.
        self._run = uuid.uuid4().hex
        self._seconds: dict[str, float] = {}
        self._counts: dict[str, Any] = {}
        self._tasks: list[tuple[int, int]] = []
        self._part = ""
        # Where these lines go to a terminal, and are wanted there.
        is_shown = LOG.isEnabledFor(logging.INFO) and sys.stderr.isatty()
        self._progress = Progress(self._count_tasks) if is_shown else None

    def watch(self, done: int, total: int) -> None:
        """Take note of how much of the stage at work is done."""
        self._tasks[:] = [(done, total)]

    def of(self, part: str) -> "Clock":
        """Return the clock of a part of the run, whose stages have its name before theirs."""
        clock = copy.copy(self)
        clock._part = part  # noqa: SLF001 - one of its own kind
        return clock

    def __call__(self, name: str, work: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs) -> Value:
        """Return what the work returns, and note it as a stage unless that is None: its `counts`, or itself."""
        with self.time(name):
            value = work(*args, **kwargs)
        if value is not None:
            self.note(name, getattr(value, "counts", value))
        return value

    @contextlib.contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Take the time of a stage, and let its Spark jobs be known by its name."""
        begin = time.monotonic()
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
        """Note what a stage counted, and say so."""
        name = self._part + name
        self._counts[name] = counts
        LOG.info("%-16s %14s %9.1f s", name, f"{counts.rows:,} rows", self._seconds[name])

    @contextlib.contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Let the Spark jobs that this thread starts be known as those of a stage."""
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
        """Return the tasks of a stage that are done, and all, as far as Spark has planned them."""
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
        """Return the bytes that every stage wrote to shuffles in this run, as Spark's own status store has them.

        The store is there without Spark's UI too. The oldest jobs are forgotten beyond spark.ui.retainedJobs (1,000).
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

    def report(self) -> dict[str, dict[str, Any]]:
        """Return what report.json says of every stage."""
        shuffled = self.count_shuffles()
        return {
            name: {"rows": counts.rows, **_numbers(counts), "seconds": round(self._seconds[name], 3)}
            | ({"shuffle_bytes": shuffled[name]} if shuffled is not None else {})
            for name, counts in self._counts.items()
        }


def _read_shuffled(store: Any, stage: int) -> int:  # noqa: ANN401 - of the JVM
    """Return the bytes that a stage wrote to its shuffle; none of one that Spark has forgotten."""
    try:
        return int(store.lastStageAttempt(stage).shuffleWriteBytes())
    except Py4JJavaError:
        return 0


def _numbers(counts: Any) -> dict[str, int]:  # noqa: ANN401 - any of `tables.counts`
    return {name: value for name, value in asdict(counts).items() if isinstance(value, int)}
