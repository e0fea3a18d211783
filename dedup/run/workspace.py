"""The unfinished work of a run, and its publication as the output in one step.

An output folder OUT is whole once OUT/_SUCCESS is there. Until then all is in OUT.partial:

    OUT.partial/_DEDUP            the mark of what the job may replace and delete, OUT and OUT.replaced have it too
    OUT.partial/run.json          settings and input files of the run, so that only the same run goes on with it
    OUT.partial/stages/NAME       the table of a stage, finished once NAME.json with its measurements is there
    OUT.partial/checkpoints       GraphFrames' own
    OUT.partial/parts             rows of the result that still are to be moved to folders of their own
    OUT.partial/result            becomes OUT
    OUT.replaced                  an output that is being replaced
    OUT.lock                      the run that works on it now

Nothing else is ever moved or deleted, and of these no folder without the mark.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any, Protocol, Self

from dedup.errors import FinishedError, StorageError
from dedup.files.storage import Entry
from dedup.run.lock import UNREACHABLE, Lock, TextStorage

LOG = logging.getLogger("dedup")

MARK = "_DEDUP"
"""File that tells a folder of the job from one of the user, with what its run depended on; the first to be written and
the last to be deleted."""


class Storage(Protocol):
    """The file systems of the output."""

    def exists(self, path: str, /) -> bool:
        """Tell whether a file or folder is there."""

    def delete(self, path: str, /) -> None:
        """Remove a file or a whole folder, if it is there."""

    def list(self, path: str, /) -> list[Entry]:
        """Return what is in a folder."""

    def rename(self, source: str, target: str, /) -> None:
        """Move a file or folder to a name that is free."""

    def write_text(self, path: str, content: str, /) -> None:
        """Write a small UTF-8 file, over an existing one."""

    def create_text(self, path: str, content: str, /) -> bool:
        """Write a small UTF-8 file unless there is one; tell whether it was written."""

    def read_text(self, path: str, /) -> str:
        """Read a small UTF-8 file."""

    def size(self, path: str, /) -> int:
        """Return the bytes of all files in a folder."""


class Workspace:
    """The folder OUT.partial of one run, and its publication as OUT."""

    def __init__(self, storage: Storage, output: str, *, locks: TextStorage | None = None) -> None:
        self._storage = storage
        self.output = output.rstrip("/")
        self.partial = f"{self.output}.partial"
        self.checkpoints = f"{self.partial}/checkpoints"
        self.result = f"{self.partial}/result"
        self._replaced = f"{self.output}.replaced"
        self._is_open = False
        self._identity: Mapping[str, Any] = {}
        self._lock = Lock(locks or storage, f"{self.output}.lock")

    def __enter__(self) -> Self:
        """Keep other runs away from the output."""
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Let other runs come."""
        self._lock.release()

    def open(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin a run, or go on with an unfinished one of the same settings and input.

        Parameters
        ----------
        identity
            What the result depends on; compared key by key with that of an unfinished run.
        overwrite
            Discard an unfinished run that differs, and replace an existing output at publication.

        Raises
        ------
        StorageError
            When the output exists, or an unfinished run differs, and they are not to be overwritten, or when one of
            the job's folders is somebody else's.
        """
        self._identity = json.loads(json.dumps({"made_by": "dedup", **identity}))
        for folder in (self.partial, self._replaced):
            self._require_own(folder)
        # A crash while the output was made public: what is there of it is this job's, and not whole.
        cut_short = self._storage.exists(self._publishing) and not self._storage.exists(f"{self.output}/_SUCCESS")
        if self._storage.exists(self.output) and not (overwrite or cut_short):
            if self._read_record(f"{self.output}/{MARK}") == self._identity:
                raise FinishedError(f"{self.output}: is finished, with the same settings and input; nothing was done")
            raise StorageError(f"--output {self.output}: must not exist yet (it does); pass --overwrite to replace it")
        self._require_own(self.output)
        earlier = self._read_record(f"{self.partial}/run.json")
        if earlier is not None:
            differing = [key for key in identity if earlier.get(key) != identity[key]]
            if differing and not overwrite:
                key = differing[0]
                raise StorageError(
                    f"{self.partial}: holds an unfinished run with another {key} (it had {earlier.get(key)!r}, this "
                    f"run has {identity[key]!r}); repeat that run to finish it, or pass --overwrite to discard it"
                )
        self._lock.check()
        if cut_short:
            self._delete(self.output)
        self._is_open = True
        if earlier is not None and not differing:
            self._storage.delete(self.result)
            return
        self.discard()
        self._mark(self.partial)
        self._storage.write_text(f"{self.partial}/run.json", json.dumps(identity, indent=1))

    @property
    def _publishing(self) -> str:
        return f"{self.partial}/publishing"

    def abandon(self) -> None:
        """Drop the work of this run, if it has begun; it is not resumed."""
        if self._is_open:
            self.discard()

    def discard(self) -> None:
        """Drop the unfinished work; what a crash leaves of it is not resumed."""
        self._storage.delete(f"{self.partial}/run.json")
        self._delete(self.partial)

    def _mark(self, folder: str) -> None:
        self._storage.write_text(f"{folder}/{MARK}", json.dumps(self._identity, indent=1) + "\n")

    def _require_own(self, folder: str) -> None:
        """Refuse a file, or a folder without the mark, in a place that is to be replaced or deleted."""
        if self._storage.exists(folder) and not self._storage.exists(f"{folder}/{MARK}"):
            raise StorageError(
                f"{folder}: must be missing or a folder that dedup made (it is there without the file {MARK}); move it "
                "away, or choose another --output"
            )

    def _delete(self, folder: str) -> None:
        """Delete a folder that has the mark, the mark last: a crash amid it leaves a folder that still has it."""
        if not self._storage.exists(folder):
            return
        self._require_own(folder)
        for entry in self._storage.list(folder):
            if entry.path != MARK:
                self._storage.delete(f"{folder}/{entry.path}")
        self._storage.delete(folder)

    def _read_record(self, path: str) -> dict[str, Any] | None:
        if not self._storage.exists(path):
            return None
        try:
            record: dict[str, Any] = json.loads(self._storage.read_text(path))
        except (ValueError, *UNREACHABLE):  # cut short by a crash, or damaged: then what it records was not finished
            return None
        return record

    def finished(self, name: str) -> dict[str, Any] | None:
        """Return the measurements of a finished stage, None of any other."""
        return self._read_record(f"{self.table(name)}.json")

    def finish(self, name: str, measurements: Mapping[str, Any]) -> None:
        """Record that the table of a stage is whole."""
        self._lock.check()
        self._storage.write_text(f"{self.partial}/stages/{name}.json", json.dumps(measurements))

    def table(self, name: str) -> str:
        """Return the folder of the table of a stage."""
        return f"{self.partial}/stages/{name}"

    def move_part(self, folder: str, name: str) -> None:
        """Make a folder of this workspace one of the result."""
        self._storage.rename(folder, f"{self.result}/{name}")
        # As Spark leaves in every other folder of the result.
        self._storage.write_text(f"{self.result}/{name}/_SUCCESS", "")

    def table_bytes(self, name: str) -> int:
        """Return the size of the table of a finished stage."""
        return self._storage.size(self.table(name))

    def keep_report(self, files: Mapping[str, str]) -> str:
        """Write the small files of a run that is not published, and return the folder."""
        for name, content in files.items():
            self._storage.write_text(f"{self.partial}/report/{name}", content)
        return f"{self.partial}/report"

    def publish(self, files: Mapping[str, str]) -> None:
        """Add small files to the result and make it the output; then drop the unfinished work.

        The output appears in one rename where the file system has such a thing. An object store copies file by file, so
        everywhere `_SUCCESS` comes last, and only an output with it is whole. One to be replaced is moved aside first
        and deleted last.
        """
        for name, content in files.items():
            self._storage.write_text(f"{self.result}/{name}", content)
        self._mark(self.result)
        self._lock.check()
        if self._storage.exists(self.output):
            self._delete(self._replaced)
            self._require_own(self.output)
            self._storage.rename(self.output, self._replaced)
        self._storage.write_text(self._publishing, "")
        self._storage.rename(self.result, self.output)
        self._storage.write_text(f"{self.output}/_SUCCESS", "")
        self.discard()
        self._delete(self._replaced)
