"""Lock of an output: one run at a time works on it."""

import contextlib
import json
import logging
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Self

from py4j.protocol import Py4JError

from dedup.errors import StorageError
from dedup.files.storage import OutputStorage, Storage
from dedup.files.systems import is_local

LOG = logging.getLogger("dedup")

UNREACHABLE = (Py4JError, OSError, StorageError)
BEAT_SECONDS = 5
"""Seconds between two writes of the holder to its lock."""
PATIENCE_SECONDS = 20
"""Seconds without a change after which a lock was left by a run that died."""
READS = 3
"""Tries to read a lock: on an object store one fails if a write comes between its two requests."""
HOLDER = {"run": str, "host": str, "pid": int}
"""Contents of a lock that identify its holder."""
BEATING = threading.Lock()
"""Mutex held during a write to the lock: a process forked while another thread talks to a store would inherit locks
that nobody opens."""
os.register_at_fork(before=BEATING.acquire, after_in_parent=BEATING.release, after_in_child=BEATING.release)
SETTLE_SECONDS = 0.3
"""Seconds to wait before a lock just taken is read again: without atomic creation two runs that begin at once both find
the place free, and the last writer wins, as with two that take a dead run's lock."""


class Lock:
    """Lock file that its holder rewrites every few seconds to show that it is alive; no clocks are compared."""

    def __init__(self, storage: OutputStorage, path: str, *, of: str = "output") -> None:
        self._storage = storage
        self._path = path
        self._of = of
        self._holder = {"run": uuid.uuid4().hex, "host": _host(), "pid": os.getpid()}
        self._taken = 0.0
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="lock", daemon=True)

    def acquire(self) -> None:
        """Take the lock, also from a run that died holding it.

        Raises
        ------
        StorageError
            When another run holds it.
        """
        try:
            content = json.dumps({**self._holder, "beat": 0})
            is_new = self._storage.create_text(self._path, content)
            if not is_new:
                self._await_death()
                self._storage.write_text(self._path, content)
            # Of two that create a file of a disk at once one fails, unless it is Hadoop that creates it.
            is_atomic = isinstance(self._storage, Storage) and is_local(self._path)
            self._taken = 0.0 if is_new and is_atomic else time.monotonic()
            self._beats.start()
        except BaseException:
            # A signal, for one, may come once the file is written.
            self._give_up()
            raise

    def __enter__(self) -> Self:
        """Take the lock, as `acquire`."""
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()

    def check(self) -> None:
        """Make sure that the lock is still held.

        Raises
        ------
        StorageError
            When another run took it, or somebody removed it.
        """
        if (left := self._taken + SETTLE_SECONDS - time.monotonic()) > 0:
            time.sleep(left)
        if not self._is_held():
            holder = _describe(self._read())
            raise StorageError(f"{self._path}: must stay this run's until it ends ({holder} has it now)")

    def release(self) -> None:
        """Release the lock, if it is held."""
        self._ended.set()
        self._beats.join()
        self._give_up()

    def _give_up(self) -> None:
        # Where Spark has died a lock on a cluster's file system stays, and is known by its process to be a dead one's.
        with contextlib.suppress(*UNREACHABLE):
            if self._is_held():
                self._storage.delete(self._path)

    def _is_held(self) -> bool:
        found = self._read()
        # A beat leaves the file empty for a moment.
        return found.get("run", self._holder["run"]) == self._holder["run"] if found is not None else False

    def _read(self) -> dict[str, Any] | None:
        """Return the lock's contents; empty while it is being written or if it is damaged, None if it is missing.

        Raises
        ------
        StorageError
            When it is no lock, but somebody else's file or folder, or the storage does not give it.
        """
        content = ""
        for number in range(1, READS + 1):
            try:
                content = self._storage.read_text(self._path)
                break
            except (Py4JError, StorageError) as error:
                if not self._storage.exists(self._path):
                    return None
                if number == READS:
                    if isinstance(error, StorageError) and not self._storage.is_folder(self._path):
                        raise
                    raise self._refuse() from error
            except UnicodeDecodeError:
                return {}
        if content and not content.startswith("{"):
            raise self._refuse()
        try:
            found = json.loads(content)
        except ValueError:
            return {}
        is_whole = isinstance(found, dict) and all(isinstance(found.get(key), kind) for key, kind in HOLDER.items())
        return found if is_whole else {}

    def _refuse(self) -> StorageError:
        return StorageError(
            f"{self._path}: must be missing or the lock of a run (it is something else); move it away, or choose "
            "another --output"
        )

    def _await_death(self) -> None:
        found = self._read()
        if found is None or (found and found["host"] == _host() and not _is_alive(found["pid"])):
            return
        LOG.warning("%s: %s may be at work here; looking for signs of life", self._path, _describe(found))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(BEAT_SECONDS / 10)
            now = self._read()
            if now is None:
                return
            if now and found and now != found:
                raise StorageError(
                    f"{self._path}: no other run must be at work on this {self._of} ({_describe(now)} is)"
                )
            found = now or found

    def _beat(self) -> None:
        beat = 0
        while not self._ended.wait(BEAT_SECONDS):
            beat += 1
            # The file system may be out of reach for a while, or Spark may have stopped.
            with contextlib.suppress(*UNREACHABLE), BEATING:
                if not self._is_held():
                    return
                self._storage.write_text(self._path, json.dumps({**self._holder, "beat": beat}))


def _host() -> str:
    """Return a name for the machine, and on Linux the container, in which these process ids are valid."""
    space = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()} {space.readlink() if space.is_symlink() else ''}".strip()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _describe(holder: dict[str, Any] | None) -> str:
    if not holder:
        return "another run"
    return f"process {holder['pid']} on {holder['host'].split()[0]}"
