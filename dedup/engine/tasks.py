"""Tasks of Spark that share the splits of a pass, while one process searches between the passes."""

import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Generic, Self, TypeVar

from pyspark.sql import SparkSession

from dedup.engine import sessions
from dedup.engine.placement import ceil_div

Item = TypeVar("Item")
Value = TypeVar("Value")
WAVES = 2
"""Tasks of a job for each core: what a job gives back is on its way to the driver at once."""
JOBS = 32
"""A pass over many small items, such as files, has no more jobs: those of a few milliseconds would be all overhead."""
AT_ONCE = 2
"""Jobs at the same time: where one leaves cores idle, the next has begun."""


class Held(Generic[Value]):
    """A value that goes to tasks with what they do, and is unpacked once in each worker, since it may be large.

    Spark itself sends what is above a megabyte to each executor once, as it does with broadcast variables, which Spark
    Connect has not.
    """

    def __init__(self, value: Value) -> None:
        self._packed = zlib.compress(pickle.dumps(value), level=1)

    @property
    def value(self) -> Value:
        """The value."""
        value: Value = _unpack(self._packed)
        return value


@lru_cache(maxsize=4)
def _unpack(packed: bytes) -> Any:  # noqa: ANN401 - whatever was packed
    return pickle.loads(zlib.decompress(packed))  # noqa: S301 - from the driver


class Tasks:
    """Workers (see `dedup.engine.workers`) on the executors."""

    def __init__(self, spark: SparkSession, held: object, *, watch: Callable[[int, int], None]) -> None:
        """Begin; see `Open` there."""
        self._spark = spark
        self._held = Held(held)
        self._watch = watch
        self._tasks = WAVES * sessions.count_cores(spark)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def map(self, work: Callable[[Any, Item], Value], items: Sequence[Item]) -> Iterator[Value]:
        """Yield what the work makes of the value held and of each item, in their order."""
        size, held = max(self._tasks, ceil_div(len(items), JOBS)), self._held

        def run(begin: int) -> list[Value]:
            some = items[begin : begin + size]
            return sessions.run_tasks(self._spark, lambda item: work(held.value, item), some, self._tasks)

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
