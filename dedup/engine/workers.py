"""Workers that share the splits of a pass: processes of this machine, or tasks of Spark (see `dedup.engine.tasks`)."""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from typing import Any, Protocol, Self, TypeVar

from dedup.engine.arena import Arena, Packed, open_arena
from dedup.errors import DedupError

LOG = logging.getLogger("dedup")

Item = TypeVar("Item")
Value = TypeVar("Value")
# Elsewhere than on Linux libraries hold threads that do not survive a fork.
_CONTEXT = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
_held: list[Any] = []
FOLLOWING_SECONDS = 1.0
"""Seconds between checks that the parent process is alive."""


class Workers(Protocol):
    """Workers that share the splits of a pass, all holding one value, such as a source."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, kind: object, *_: object) -> None:
        """End, after an error amid the work."""

    def map(self, work: Callable[[Any, Item], Value], items: Sequence[Item]) -> Iterator[Value]:
        """Yield what the work makes of the value held and of each item, in their order."""


class Open(Protocol):
    """Maker of workers that hold a value; `watch` is told after each item how many are done, and of how many."""

    def __call__(self, held: object, *, watch: Callable[[int, int], None]) -> Workers:
        """Make them."""


class Processes:
    """A few processes that all hold one value, such as a source; with one, the work is done in this process.

    Processes and not threads: between its compiled loops a split takes Python as long again. A process that may have
    none of its own (see `_open_pool`) does the work by itself.
    """

    def __init__(self, count: int, held: object, *, watch: Callable[[int, int], None] = lambda *_: None) -> None:
        """Begin; see `Open`."""
        self._held = held
        self._watch = watch
        self._arena = open_arena(_CONTEXT) if count > 1 else None
        self._pool = _open_pool(ProcessPoolExecutor, count, held, self._arena) if count > 1 else None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End the processes; after an error, amid their work."""
        if self._pool is not None:
            if kind is not None:
                for process in (self._pool._processes or {}).values():  # noqa: SLF001 - nothing else stops running work
                    process.terminate()
            self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Any, Item], Value], items: Sequence[Item]) -> Iterator[Value]:
        """Yield what the work makes of the value held and of each item, in their order.

        Raises
        ------
        DedupError
            When a process has died, which it does for want of memory.
        """
        self._watch(0, len(items))
        if self._pool is None:
            for number, item in enumerate(items):
                yield work(self._held, item)
                self._watch(number + 1, len(items))
            return
        futures: list[Future[Any]] = [self._pool.submit(_work, work, item) for item in items]
        try:
            for number, future in enumerate(futures):
                value = future.result()
                yield self._arena.unpack(value) if self._arena is not None and isinstance(value, Packed) else value
                self._watch(number + 1, len(items))
                # What it holds is not needed any longer.
                futures[number] = None  # type: ignore[call-overload]
        except BrokenProcessPool as error:
            raise DedupError(
                "a worker process ended before its work was done, most likely for lack of memory; free some, or pass "
                "--set engine=spark, which works in parts"
            ) from error


def open_beside(module: str) -> Executor:
    """Return who does work that needs a module while this process goes on.

    That is a process of its own, on another core, which loads the module at once; a thread where the module is there
    already, or processes are not forked.
    """
    is_forked = module not in sys.modules and sys.platform == "linux"
    pool = _open_pool(_Beside, 1) if is_forked else None
    if pool is None:
        return ThreadPoolExecutor(1)
    pool.submit(import_module, module)
    return pool


def _open_pool(
    kind: type[ProcessPoolExecutor], count: int, held: object = None, arena: Arena | None = None
) -> ProcessPoolExecutor | None:
    """Return a pool of processes that hold a value; None where this process may have none.

    Those of `multiprocessing.Pool` may not, nor any on a machine without room in /dev/shm, or without it, as some
    containers are: semaphores of processes are files there.
    """
    if multiprocessing.current_process().daemon:
        return None
    try:
        return kind(count, mp_context=_CONTEXT, initializer=_begin, initargs=(held, arena))
    except OSError as error:
        LOG.info("no processes beside this one, which works alone (%s)", error)
        return None


class _Beside(ProcessPoolExecutor):
    """A process whose death shows where results are asked for, and nowhere else."""

    def __exit__(self, kind: object, *_: object) -> None:
        """End; after an error without waiting.

        Where a signal comes amid the start of the process, its pool may never hear of the end; Python tells it again as
        it ends itself.
        """
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as the class above
        """Return the result of some work to come."""
        try:
            return super().submit(*args, **kwargs)
        except BrokenProcessPool as error:
            broken: Future[Any] = Future()
            broken.set_exception(error)
            return broken


def _begin(held: object = None, arena: Arena | None = None) -> None:
    # Ctrl-C is for the process that waits for this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGHUP):
        # What the parent does on a signal would here be an error of the work at hand, after which this process goes on.
        if callable(signal.getsignal(each)):
            signal.signal(each, signal.SIG_DFL)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    _held[:] = [held, arena]


def _follow(parent: int) -> None:
    """End this process with the one that it works for, which may be killed and say nothing."""
    while os.getppid() == parent:
        time.sleep(FOLLOWING_SECONDS)
    os._exit(1)


def _work(work: Callable[[Any, Item], Value], item: Item) -> Value | Packed:
    held, arena = _held
    value = work(held, item)
    return value if arena is None else arena.pack(value)


def count_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
