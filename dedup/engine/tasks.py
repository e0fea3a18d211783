"""Tasks of Spark that share the splits of a pass, while one process searches between the passes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from dedup.engine.placement import ceil_div

Item = TypeVar("Item")
Value = TypeVar("Value")
WAVES = 2
"""Tasks of a job for each core: what a job gives back is on its way to the driver at once."""
JOBS = 32
"""A pass over many small items, such as files, has no more jobs: those of a few milliseconds would be all overhead."""
AT_ONCE = 2
"""Jobs at the same time: where one leaves cores idle, the next has begun."""


class Tasks:
    """Workers (see `dedup.engine.workers`) on the executors."""

    def __init__(self, spark: SparkSession, held: object, *, watch: Callable[[int, int], None]) -> None:
        """Begin; see `Open` there."""
        self._spark = spark
        self._held = spark.sparkContext.broadcast(held)
        self._watch = watch

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the value held."""
        # After an error Spark may be gone.
        with contextlib.suppress(Py4JError, OSError):
            self._held.destroy()

    def map(self, work: Callable[[Any, Item], Value], items: Sequence[Item]) -> Iterator[Value]:
        """Yield what the work makes of the value held and of each item, in their order."""
        context, held = self._spark.sparkContext, self._held
        tasks = WAVES * context.defaultParallelism
        size = max(tasks, ceil_div(len(items), JOBS))

        def run(begin: int) -> list[Value]:
            some = items[begin : begin + size]
            # A function of its own: Spark sends all that it refers to.
            return context.parallelize(some, min(len(some), tasks)).map(lambda item: work(held.value, item)).collect()

        done, pool = 0, ThreadPoolExecutor(AT_ONCE)
        self._watch(done, len(items))
        jobs: list[Future[list[Value]]] = [pool.submit(run, begin) for begin in range(0, len(items), size)]
        # What a job holds is not needed any longer once it has been given.
        jobs.reverse()
        try:
            while jobs:
                found = jobs.pop().result()
                done += len(found)
                yield from found
                self._watch(done, len(items))
        finally:
            # Nothing goes on in the caller's session after an error.
            pool.shutdown(cancel_futures=True)
