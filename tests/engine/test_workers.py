"""Processes beside that of a run."""

import errno
import mmap
import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context

import numpy as np
import psutil
import pyarrow as pa
import pytest

from dedup.engine import arena
from dedup.engine.workers import Processes, open_beside

WORK = """
import os, time
from dedup.engine.workers import Processes, open_beside

def tell(held, _):
    time.sleep(0.2)
    return os.getpid()

with open_beside("colorsys") as beside, Processes(2, None) as workers:
    print(*{beside.submit(os.getpid).result(), *workers.map(tell, range(8))}, flush=True)
    time.sleep(60)
"""


def is_alive(pid):
    """Tell whether a process is there, and has not ended without anybody asking how."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_processes_end_with_the_one_that_they_work_for_even_where_it_is_killed():
    with subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, text=True) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3
        assert all(map(is_alive, pids))
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, pids))


def work_alone(_):
    with open_beside("colorsys") as beside, Processes(2, None) as workers:
        return {os.getpid(), beside.submit(os.getpid).result(), *workers.map(lambda *_: os.getpid(), range(2))}


def test_a_process_that_may_have_none_of_its_own_does_the_work_itself():
    with get_context("fork").Pool(1) as pool:
        [found] = pool.map(work_alone, [None])
        assert len(found) == 1


def test_where_no_semaphore_can_be_made_a_process_does_the_work_itself(monkeypatch):
    """As in a container whose /dev/shm is missing, read-only or full."""
    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refuse)
    assert work_alone(None) == {os.getpid()}


def test_nobody_waits_for_the_process_beside_after_an_error():
    def stop():
        with open_beside("colorsys") as beside:
            beside.submit(time.sleep, 4)
            raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stop()

    assert time.monotonic() - begin < 2


def test_a_module_that_is_loaded_is_used_in_a_thread():
    with open_beside("os") as beside:
        assert beside.submit(os.getpid).result() == os.getpid()


def give_arrays(held, size):
    """Return arrays, small and large ones, a view that is not contiguous, and a table."""
    values = np.arange(size)
    return {"values": values, "odd": values[1::2], "few": values[:3], "texts": pa.array([f"{held} {size}"] * size)}


@pytest.mark.parametrize("room", [arena.SIZE, 3 * arena.LEAST, arena.LEAST])
def test_arrays_come_as_they_were_whether_or_not_the_arena_has_room(monkeypatch, room):
    monkeypatch.setattr(arena, "SIZE", room)
    sizes = [0, 1, 20_000, 50_000, 20_000]

    with Processes(2, "of") as workers:
        found = list(workers.map(give_arrays, sizes))

    for each, size in zip(found, sizes, strict=True):
        expected = give_arrays("of", size)
        assert each["texts"].equals(expected.pop("texts"))
        for name, values in expected.items():
            np.testing.assert_array_equal(each[name], values)
            assert each[name].flags.writeable


def test_memory_of_the_arena_is_given_back_with_the_last_view_of_an_array():
    shared = arena.Arena(get_context("fork"))
    first, second = np.arange(1 << 20), np.arange(1 << 18)

    one, other = shared.unpack(shared.pack([first, second]))
    held = os.fstat(shared._file).st_blocks
    half = one[: 1 << 19]
    del one
    assert os.fstat(shared._file).st_blocks == held
    del half
    assert os.fstat(shared._file).st_blocks * 512 <= second.nbytes + mmap.PAGESIZE
    np.testing.assert_array_equal(other, second)
    del other
    assert os.fstat(shared._file).st_blocks == 0


def test_without_an_arena_arrays_go_through_the_pipe(monkeypatch):
    monkeypatch.setattr(os, "memfd_create", refuse)

    with Processes(2, "of") as workers:
        assert workers._arena is None
        [found] = workers.map(give_arrays, [20_000])

    np.testing.assert_array_equal(found["values"], np.arange(20_000))


def refuse(*_, **__):
    """Refuse as a container does that lets few system calls pass."""
    raise OSError(errno.ENOSYS, "Function not implemented")


def tell_handlers(_held, _item):
    return [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]


@pytest.mark.parametrize("hung_up", [signal.SIG_IGN, signal.SIG_DFL, sys.exit])
def test_a_process_ends_by_a_signal_that_its_parent_answers_in_its_own_way(hung_up):
    """Otherwise it takes the answer for an error of its work, and waits for more while the parent waits for its end."""
    signal.signal(signal.SIGTERM, sys.exit)
    signal.signal(signal.SIGHUP, hung_up)
    with Processes(2, None) as processes:
        [found] = processes.map(tell_handlers, [0])

    left = signal.SIG_IGN if hung_up is signal.SIG_IGN else signal.SIG_DFL
    assert found == [signal.SIG_DFL, left, signal.SIG_IGN]
