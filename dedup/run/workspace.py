"""Workspace of an unfinished run, and its publication as the output in one step.

An output folder OUT is whole once OUT/_SUCCESS is there. Until then all is in OUT.partial:

    OUT.partial/_DEDUP            the mark of what the job may replace and delete, OUT and OUT.replaced have it too
    OUT.partial/run.json          settings and input files of the run, so that only the same run goes on with it
    OUT.partial/stages/NAME-RUN   the table of a stage, finished once NAME.json names it with its measurements
    OUT.partial/checkpoints-RUN   GraphFrames' own
    OUT.partial/committing        tables of a catalog may have been committed
    OUT.partial/scratch-RUN       files that a store would get, if the run added to it
    OUT.partial/parts-RUN         rows of the result that still are to be moved to folders of their own
    OUT.partial/result-RUN        becomes OUT
    OUT.replaced                  an output that is being replaced
    OUT.lock                      the run that works on it now

RUN is a token of the run's own, so one that was held up and has lost the lock writes nowhere that its successor does.

An object store has no rename: it would copy file by file, and readers would meet half an output. There the result is
written to OUT/version-RUN and becomes the output by one small object, OUT/_CURRENT, which names it; the version before
stays for those who still read it, until the next one is published.

Nothing else is ever moved or deleted, and of these no folder without the mark.
"""

import contextlib
import hashlib
import json
import logging
import re
import uuid
from collections.abc import Mapping
from typing import Any, Self

from py4j.protocol import Py4JError

from dedup.errors import FinishedError, StorageError
from dedup.files.storage import CURRENT, MARK, OutputStorage, find_result
from dedup.files.systems import follow, is_mount
from dedup.run.apart import check_outside
from dedup.run.lock import UNREACHABLE, Lock

LOG = logging.getLogger("dedup")

BEGUN = re.compile(rf"\.[0-9a-f]+\.tmp|\.{MARK}\.crc")
"""Names of the files that make up the mark."""


def locate(output: str) -> str:
    """Return the folder in which an output on this machine is written: the target of a link, so that the link stays.

    Raises
    ------
    StorageError
        When a folder that is to be renamed is where a file system is mounted.
    """
    place = follow(output)
    for own in (place, *(f"{place.rstrip('/')}{suffix}" for suffix in (".partial", ".replaced"))):
        if is_mount(own):
            raise StorageError(
                f"--output {output}: must not be a mount point ({own} is one), which cannot be renamed; choose a "
                "folder in it"
            )
    return place


def count_finished(storage: OutputStorage, output: str) -> int:
    """Return the number of tables that an unfinished run of an output left finished, with which it would go on."""
    stages = storage.list(f"{output.rstrip('/')}.partial/stages")
    return sum(entry.path.endswith(".json") for entry in stages)


class Workspace:
    """The folder OUT.partial of one run, and its publication as OUT."""

    def __init__(self, storage: OutputStorage, output: str, *, locks: OutputStorage | None = None) -> None:
        self.storage = storage
        self._run = uuid.uuid4().hex[:12]
        self._can_rename = storage.can_rename(output)
        self.output = output.rstrip("/")
        self.partial = f"{self.output}.partial"
        self.checkpoints = f"{self.partial}/checkpoints-{self._run}"
        self.parts = f"{self.partial}/parts-{self._run}"
        self.scratch = f"{self.partial}/scratch-{self._run}"
        self.result = f"{self.partial}/result-{self._run}" if self._can_rename else f"{self.output}/version-{self._run}"
        self._replaced = f"{self.output}.replaced"
        self._publishing, self._committing = (f"{self.partial}/{name}" for name in ("publishing", "committing"))
        self._before = ""
        """Version that was published before this run's own; empty until then, and without versions."""
        self._is_open = False
        self._identity: Mapping[str, Any] = {}
        self._locks = locks or storage
        self._lock = Lock(self._locks, f"{self.output}.lock")

    def __enter__(self) -> Self:
        """Take the output's lock.

        Raises
        ------
        StorageError
            When another run is at work on it, or no output may be there.
        """
        check_outside(self._locks, self.output)
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the output's lock."""
        with contextlib.suppress(*UNREACHABLE):
            self._leave()
        self._lock.release()

    def _leave(self) -> None:
        """Delete this run's files after another had taken its lock, published and tidied up."""
        if not self._is_open or not self.storage.exists(self.partial) or self.storage.exists(f"{self.partial}/{MARK}"):
            return
        for folder in (f"{self.partial}/stages", self.partial):
            entries = self.storage.list(folder) if self.storage.exists(folder) else []
            own = [entry.path for entry in entries if entry.path.endswith(f"-{self._run}")]
            for name in own:
                self.storage.delete(f"{folder}/{name}")
            if len(own) == len(entries):
                self.storage.delete(folder)

    def open(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin a run, or resume an unfinished one with the same settings and input.

        Parameters
        ----------
        identity
            Settings and files that the result depends on; compared key by key with those of an unfinished run.
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
        cut_short = self._is_cut_short()
        if self.storage.exists(self.output) and not (overwrite or cut_short or self._is_bare(self.output)):
            if self._read_record(f"{find_result(self.storage, self.output)}/{MARK}") == self._identity:
                if not self._can_rename:
                    # A crash may have come between the pointer and the sign for those who wait for it.
                    self.storage.write_text(f"{self.output}/_SUCCESS", "")
                self._tidy()
                raise FinishedError(f"{self.output}: is finished, with the same settings and input; nothing was done")
            raise StorageError(f"--output {self.output}: must not exist yet (it does); pass --overwrite to replace it")
        self._require_own(self.output)
        earlier = self._read_record(f"{self.partial}/run.json")
        if earlier is not None:
            differing = [key for key in identity if earlier.get(key) != self._identity[key]]
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
            self._drop_results()
        else:
            self.discard()
            self._mark(self.partial)
            self.storage.write_text(f"{self.partial}/run.json", json.dumps(identity, indent=1))
        if not self._can_rename and not self.storage.exists(f"{self.output}/{MARK}"):
            # One that is there says what the tables beside it are of.
            self._mark(self.output)

    def _is_cut_short(self) -> bool:
        """Tell whether the output is an incomplete publication of this job, left by a crash."""
        if self._can_rename:
            return self.storage.exists(self._publishing) and not self.storage.exists(f"{self.output}/_SUCCESS")
        if not self.storage.exists(f"{self.output}/{MARK}") or self.storage.exists(f"{self.output}/_SUCCESS"):
            return False
        return find_result(self.storage, self.output) == self.output

    def _drop_results(self) -> None:
        """Delete results of earlier tries: rows of an interrupted result must not be published."""
        for entry in self.storage.list(self.partial):
            if entry.path.startswith(("result-", "parts-", "checkpoints-", "scratch-")):
                self.storage.delete(f"{self.partial}/{entry.path}")

    def abandon(self) -> None:
        """Delete the work of this run, if it has begun; it cannot be resumed."""
        if self._is_open:
            self.discard()
            self._withdraw()

    def discard(self) -> None:
        """Delete the unfinished work; it cannot be resumed, even after a crash in between."""
        self.storage.delete(f"{self.partial}/run.json")
        self._delete(self.partial)

    def _withdraw(self) -> None:
        """Withdraw the version that was to be published on an object store."""
        if not self._can_rename:
            self.storage.delete(self.result)
            if self._is_cut_short():
                self._delete(self.output)

    def _mark(self, folder: str) -> None:
        self.storage.write_text(f"{folder}/{MARK}", json.dumps(self._identity, indent=1) + "\n")

    def _require_own(self, folder: str) -> None:
        """Refuse to replace or delete a file, or a folder without the mark."""
        if self.storage.exists(folder) and not self.storage.exists(f"{folder}/{MARK}") and not self._is_bare(folder):
            raise StorageError(
                f"{folder}: must be missing or a folder that dedup made (it is there without the file {MARK}); move it "
                "away, or choose another --output"
            )

    def _is_bare(self, folder: str) -> bool:
        """Tell whether a folder holds only leftovers of a mark that was being written in a crash."""
        is_folder = self.storage.is_folder(folder)
        return is_folder and all(BEGUN.fullmatch(entry.path) for entry in self.storage.list(folder))

    def _delete(self, folder: str) -> None:
        """Delete a folder with the mark, the mark last, so that a crash in between leaves it marked."""
        if not self.storage.exists(folder):
            return
        self._require_own(folder)
        for entry in self.storage.list(folder):
            if entry.path != MARK:
                self.storage.delete(f"{folder}/{entry.path}")
        self.storage.delete(folder)

    def _read_record(self, path: str) -> dict[str, Any] | None:
        if not self.storage.exists(path):
            return None
        try:
            record: Any = json.loads(self.storage.read_text(path))
        except (ValueError, RecursionError, Py4JError):  # cut short by a crash, or damaged: nothing was finished
            return None
        return record if isinstance(record, dict) else None

    def finished(self, name: str) -> dict[str, Any] | None:
        """Return what was recorded of a finished stage; None for any other."""
        record = self._read_stage(name)
        return None if record is None else record["seen"]

    def finish(self, name: str, measurements: Mapping[str, Any]) -> None:
        """Record that the new table of a stage is whole.

        Raises
        ------
        StorageError
            When another run has the lock by now.
        """
        self._lock.check()
        record = {"run": self._run, "seen": measurements}
        self.storage.write_text(
            f"{self.partial}/stages/{name}.json", json.dumps({**record, "check": self._sign(record)})
        )

    def new_table(self, name: str) -> str:
        """Return the folder in which this run writes the table of a stage."""
        return f"{self.partial}/stages/{name}-{self._run}"

    def table(self, name: str) -> str:
        """Return the folder of the table of a finished stage."""
        record = self._read_stage(name)
        return f"{self.partial}/stages/{name}-{self._run if record is None else record['run']}"

    def _sign(self, record: Mapping[str, Any]) -> str:
        """Return the checksum of a record and the run's identity; damaged and foreign records lack it."""
        return hashlib.sha256(json.dumps([self._identity, record], sort_keys=True).encode()).hexdigest()

    def _read_stage(self, name: str) -> dict[str, Any] | None:
        record = self._read_record(f"{self.partial}/stages/{name}.json") or {}
        signed = record.pop("check", None)
        return record if signed == self._sign(record) else None

    def move_part(self, folder: str, name: str) -> None:
        """Move a folder of this workspace into the result."""
        self.storage.rename(folder, f"{self.result}/{name}")
        # As Spark leaves in every other folder of the result.
        self.storage.write_text(f"{self.result}/{name}/_SUCCESS", "")

    @property
    def is_committing(self) -> bool:
        """Whether this run, or an earlier try of it, has begun to commit tables outside the output."""
        return self.storage.exists(self._committing)

    def begin_commit(self) -> None:
        """Record that tables outside the output are being committed.

        Raises
        ------
        StorageError
            When another run has the lock by now.
        """
        self._lock.check()
        self.storage.write_text(self._committing, "")

    def keep_report(self, files: Mapping[str, str]) -> str:
        """Write the small files of an unpublished run, and return their folder."""
        for name, content in files.items():
            self.storage.write_text(f"{self.partial}/report/{name}", content)
        self._withdraw()
        return f"{self.partial}/report"

    def publish(self, files: Mapping[str, str]) -> None:
        """Add small files to the result, publish it as the output, and delete the unfinished work.

        On a file system the output appears in one rename; one to be replaced is moved aside first and deleted last. On
        an object store a small object turns from the version before to this one. Everywhere `_SUCCESS` comes last, and
        only an output with it is whole.

        Raises
        ------
        StorageError
            When another run has the lock by now.
        """
        for name, content in files.items():
            self.storage.write_text(f"{self.result}/{name}", content)
        self._mark(self.result)
        self._lock.check()
        if self._can_rename:
            self._publish_by_rename()
        else:
            self._publish_by_pointer()
        self._tidy()

    def _tidy(self) -> None:
        """Delete what a published output no longer needs; errors do not fail a finished run."""
        try:
            earlier = self._read_record(f"{self.partial}/run.json")
            if earlier is None or earlier.items() <= self._identity.items():
                self.discard()
            self._delete(self._replaced)
            if self._before:
                self._delete_versions()
        except (*UNREACHABLE, KeyboardInterrupt, SystemExit) as error:
            why = str(error) if isinstance(error, Exception) else "interrupted"
            LOG.warning(
                "%s: is whole, but temporary files remain; repeat the command to remove them (%s)", self.output, why
            )
            if not isinstance(error, Exception):
                raise

    def _publish_by_rename(self) -> None:
        if self.storage.exists(self.output):
            self._delete(self._replaced)
            self._require_own(self.output)
            self.storage.rename(self.output, self._replaced)
        self.storage.write_text(self._publishing, "")
        self.storage.rename(self.result, self.output)
        self.storage.write_text(f"{self.output}/_SUCCESS", "")

    def _publish_by_pointer(self) -> None:
        self._before = find_result(self.storage, self.output)
        self.storage.write_text(f"{self.result}/_SUCCESS", "")
        self.storage.write_text(f"{self.output}/{CURRENT}", self.result.rpartition("/")[2])
        self.storage.write_text(f"{self.output}/_SUCCESS", "")

    def _delete_versions(self) -> None:
        """Delete all versions but the published one and, after a publication, the one before."""
        stay = {self._before, find_result(self.storage, self.output)}
        stay |= {f"{self.output}/{name}" for name in (MARK, CURRENT, "_SUCCESS")}
        for entry in self.storage.list(self.output):
            if (place := f"{self.output}/{entry.path}") not in stay:
                self.storage.delete(place)
