"""One run at a time, also where the last one died."""

import json
import os
import socket
import time
from contextlib import nullcontext

import pytest

import dedup.run.lock
from dedup.errors import StorageError
from dedup.files.storage import Storage
from dedup.run.lock import Lock
from dedup.run.storage import HadoopStorage


@pytest.fixture
def lock(spark, tmp_path):
    """Return a function that makes a lock on one path; all are given up at the end."""
    made = []

    def make():
        made.append(Lock(HadoopStorage(spark).without_checksums(), str(tmp_path / "out.lock")))
        return made[-1]

    yield make
    for each in made:
        if each._beats.is_alive():
            each.release()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(dedup.run.lock, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(dedup.run.lock, "PATIENCE_SECONDS", 1.5)


def leave(tmp_path, **holder):
    """Leave the lock of a run that is no more."""
    content = {"run": "other", "host": "elsewhere pid:[1]", "pid": 1, "beat": 3, **holder}
    (tmp_path / "out.lock").write_text(json.dumps(content))


@pytest.mark.classic
def test_a_lock_is_there_while_it_is_held(lock, tmp_path):
    held = lock()
    held.acquire()
    held.check()
    found = json.loads((tmp_path / "out.lock").read_text())
    assert (found["pid"], found["host"].split()[0]) == (os.getpid(), socket.gethostname())
    # Hadoop logs a stack trace where it reads a file's checksums while they are written.
    assert [path.name for path in tmp_path.iterdir()] == ["out.lock"]

    held.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_left", [False, True])
def test_only_a_lock_that_two_may_have_taken_is_waited_for(tmp_path, monkeypatch, is_left):
    monkeypatch.setattr(dedup.run.lock, "SETTLE_SECONDS", 0.3)
    monkeypatch.setattr(dedup.run.lock, "PATIENCE_SECONDS", 0.1)
    if is_left:
        leave(tmp_path)
    held = Lock(Storage(), str(tmp_path / "out.lock"))
    held.acquire()
    begin = time.monotonic()
    held.check()
    assert (time.monotonic() - begin > 0.2) is is_left
    held.release()


@pytest.mark.classic
@pytest.mark.usefixtures("quick")
def test_a_lock_whose_holder_lives_is_refused(lock):
    held = lock()
    held.acquire()
    begin = time.monotonic()
    with pytest.raises(StorageError, match=rf"no other run must be at work .*process {os.getpid()} on"):
        lock().acquire()
    assert time.monotonic() - begin < 1.4
    held.check()


@pytest.mark.classic
@pytest.mark.usefixtures("quick")
def test_a_lock_without_a_sign_of_life_is_taken_over(lock, tmp_path):
    leave(tmp_path)
    held = lock()
    begin = time.monotonic()
    held.acquire()
    assert time.monotonic() - begin > 1.4
    held.check()


@pytest.mark.classic
def test_a_lock_of_a_process_that_died_on_this_machine_is_taken_over_at_once(lock, tmp_path):
    dead = 4_000_000
    leave(tmp_path, host=dedup.run.lock._host(), pid=dead)
    held = lock()
    begin = time.monotonic()
    held.acquire()
    assert time.monotonic() - begin < 1
    held.check()


@pytest.mark.classic
@pytest.mark.parametrize("content", [None, '{"run": "other", "host": "elsewhere", "pid": 7}'], ids=["removed", "taken"])
def test_a_holder_notices_that_its_lock_is_gone(lock, tmp_path, content):
    held = lock()
    held.acquire()
    (tmp_path / "out.lock").unlink()
    if content:
        (tmp_path / "out.lock").write_text(content)
    with pytest.raises(StorageError, match="must stay this run's until it ends"):
        held.check()
    held.release()
    assert (tmp_path / "out.lock").exists() == bool(content)


@pytest.mark.parametrize(("failures", "is_refused"), [(0, False), (2, False), (3, True)])
def test_a_lock_that_a_beat_replaces_while_it_is_read_is_read_again(tmp_path, monkeypatch, failures, is_refused):
    storage, left = Storage(), []
    held = Lock(storage, str(tmp_path / "out.lock"))
    held.acquire()
    left += [StorageError("the object has changed since it was opened")] * failures
    read = Storage.read_text

    def read_text(self, path):
        if left:
            raise left.pop()
        return read(self, path)

    monkeypatch.setattr(Storage, "read_text", read_text)
    try:
        with pytest.raises(StorageError, match="the object has changed") if is_refused else nullcontext():
            held.check()
        assert left == []
    finally:
        held.release()
    assert list(tmp_path.iterdir()) == []
