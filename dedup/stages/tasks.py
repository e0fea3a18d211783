"""Tasks of Spark that share the splits of a pass, while one process searches between the passes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

from pyspark.sql import SparkSession

Item = TypeVar("Item")
Value = TypeVar("Value")
WAVES = 2
"""Items of a job for each core: what it gives back is on its way to the driver at once."""
JOBS = 2
"""Jobs at the same time: where one leaves cores idle, the next has begun."""


class Tasks:
    """Workers (see `dedup.engines.workers`) on the executors, an item to each task."""

    def __init__(self, spark: SparkSession, held: object, *, watch: Callable[[int, int], None]) -> None:
        """Begin; see `Open` there."""
        self._spark = spark
        self._held = spark.sparkContext.broadcast(held)
        self._watch = watch

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Let go of the value held; after an error Spark may be gone."""
        if kind is None:
            self._held.destroy()

    def map(self, work: Callable[[Any, Item], Value], items: Sequence[Item]) -> Iterator[Value]:
        """Yield what the work makes of the value held and of each item, in their order."""
        context, held = self._spark.sparkContext, self._held
        size = WAVES * context.defaultParallelism

        def run(begin: int) -> list[Value]:
            some = items[begin : begin + size]
            # A function of its own: Spark sends all that it refers to.
            return context.parallelize(some, len(some)).map(lambda item: work(held.value, item)).collect()

        done, pool = 0, ThreadPoolExecutor(JOBS)
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
            pool.shutdown(wait=False, cancel_futures=True)
