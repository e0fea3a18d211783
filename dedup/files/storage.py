"""File systems as the control of a job needs them: small texts, renames, listings, and whole files."""

import contextlib
import io
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
from pyarrow import fs

from dedup.errors import StorageError
from dedup.files.systems import can_rename, is_local, readable, redact, resolve

COPY_BYTES = 1 << 20
COPIES, READS = 16, 16
"""Objects copied, and ranges or beginnings of files read, at a time; the store does the work."""
MOST_COPIED = 5 << 30
"""Bytes of the largest object that S3 copies in one request."""
MARK = "_DEDUP"
"""File that marks a folder as the job's own, with the identity of its run; the first to be written and the last to be
deleted."""
CURRENT = "_CURRENT"
"""File of an output on an object store that names its published version's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """File or folder within a folder."""

    path: str
    """Path below the listed folder."""
    is_folder: bool
    size: int
    """Bytes; 0 for a folder."""
    changed: int
    """Time of the last change in nanoseconds since 1970; 0 if the file system keeps none."""
    is_special: bool = False
    """Whether it is a pipe, a socket or a device."""


VERSION = re.compile("version-[0-9a-f]{12}")


class OutputStorage(Protocol):
    """The file systems of an output, this machine's or Spark's."""

    def exists(self, path: str, /) -> bool:
        """Tell whether a file or folder is there."""

    def is_folder(self, path: str, /) -> bool:
        """Tell whether a folder is there."""

    def delete(self, path: str, /) -> None:
        """Remove a file or a whole folder, if it is there."""

    def list(self, path: str, /) -> list[Entry]:
        """Return the contents of a folder."""

    def can_rename(self, path: str, /) -> bool:
        """Tell whether a folder is renamed in one step, as on a disk and unlike on an object store."""

    def rename(self, source: str, target: str, /) -> None:
        """Move a file or folder to a name that is free."""

    def write_text(self, path: str, content: str, /) -> None:
        """Write a small UTF-8 file, over an existing one."""

    def create_text(self, path: str, content: str, /) -> bool:
        """Write a small UTF-8 file unless there is one; tell whether it was written."""

    def read_text(self, path: str, /) -> str:
        """Read a small UTF-8 file."""


def find_result(storage: OutputStorage, output: str) -> str:
    """Return the folder with an output's tables: its own, or its published version's on an object store."""
    pointer = f"{output.rstrip('/')}/{CURRENT}"
    try:
        version = storage.read_text(pointer).strip() if storage.exists(pointer) else ""
    except UnicodeDecodeError:
        version = ""
    # One cut short by a crash, or damaged, names nothing.
    return f"{output.rstrip('/')}/{version}" if VERSION.fullmatch(version) else output


class OutputFile(io.RawIOBase):
    """File being written, whose errors name it, or where it is gathered; closing it closes nothing beneath."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream = stream
        self._path = path

    def writable(self) -> bool:
        """Return true: the file can be written to."""
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401 - any bytes-like object
        """Write bytes.

        Raises
        ------
        StorageError
            When the file system refuses.
        """
        with readable(self._path):
            return self._stream.write(content)

    def tell(self) -> int:
        """Return the bytes written."""
        return self._stream.tell()


class Storage:
    """File systems of this machine and of object stores; without state, so it may be sent to a worker."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return self.look(path) is not None

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder is there."""
        entry = self.look(path)
        return entry is not None and entry.is_folder

    def look(self, path: str) -> Entry | None:
        """Return the entry at a path, whose own path is empty; None if nothing is there."""
        system, place = resolve(path)
        with readable(path):
            info = system.get_file_info(place)
        return None if info.type == fs.FileType.NotFound else _entry(info, "")

    def delete(self, path: str) -> None:
        """Remove a file or a whole folder, if it exists; of a link, only the link."""
        system, place = resolve(path)
        with readable(path), contextlib.suppress(FileNotFoundError):
            if is_local(path):
                if Path(place).is_dir() and not Path(place).is_symlink():
                    shutil.rmtree(place)
                else:
                    Path(place).unlink()
            elif (entry := self.look(path)) is not None:
                (system.delete_dir if entry.is_folder else system.delete_file)(place)

    def can_rename(self, path: str) -> bool:
        """Tell whether a folder is renamed in one step, as on a disk and unlike on an object store."""
        return can_rename(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a name that is free; on object stores every object of it is copied.

        Raises
        ------
        StorageError
            When the name is taken or the file system refuses.
        """
        system, place = resolve(source)
        goal = resolve(target)[1]
        if self.exists(target):
            raise StorageError(f"{redact(target)}: must be free to take {redact(source)} (it exists)")
        with readable(target):
            if is_local(source):
                Path(place).rename(goal)
            elif self.is_folder(source):
                self._copy_objects(source, target)
                system.delete_dir(place)
            else:
                system.move(place, goal)

    def _copy_objects(self, source: str, target: str) -> None:
        system, place = resolve(source)
        goal = resolve(target)[1]

        def copy(entry: Entry) -> None:
            if entry.size > MOST_COPIED:
                self.copy(f"{source}/{entry.path}", f"{target}/{entry.path}")
            else:
                system.copy_file(f"{place}/{entry.path}", f"{goal}/{entry.path}")

        objects = [entry for entry in self.list(source, recursive=True) if not entry.is_folder]
        with ThreadPoolExecutor(COPIES) as copiers:
            for _ in copiers.map(copy, objects):
                pass

    def write_text(self, path: str, content: str) -> None:
        """Write a small UTF-8 file, over an existing one; readers see the old or the new content whole."""
        with self.create(path) as stream:
            stream.write(content.encode())

    def create_text(self, path: str, content: str) -> bool:
        """Write a small UTF-8 file unless there is one; tell whether it was written.

        On a local disk one of two that try at the same moment succeeds. On object stores both can; the content is then
        that of one of them.
        """
        system, place = resolve(path)
        if not is_local(path):
            if self.exists(path):
                return False
            self.write_text(path, content)
            return True
        with readable(path):
            system.create_dir(str(Path(place).parent))
            try:
                stream = Path(place).open("xb")  # noqa: SIM115 - closed below, where another error counts
            except FileExistsError:
                return False
            try:
                with stream:
                    stream.write(content.encode())
            except OSError:
                Path(place).unlink(missing_ok=True)
                raise
        return True

    def read_text(self, path: str) -> str:
        """Read a small UTF-8 file.

        Raises
        ------
        StorageError
            When it is missing, or a folder.
        UnicodeDecodeError
            When it is no UTF-8.
        """
        system, place = resolve(path)
        with readable(path), system.open_input_stream(place, compression=None) as stream:
            content = bytes(stream.read())
        return content.decode("utf-8")

    def list(self, path: str, *, recursive: bool = False) -> list[Entry]:
        """Return the entries of a folder by path; empty if there is no folder.

        Raises
        ------
        StorageError
            When the file system refuses, or a name is not UTF-8.
        """
        system, place = resolve(path)
        with readable(path):
            found = system.get_file_info(fs.FileSelector(place, recursive=recursive, allow_not_found=True))
            begin = len(place.rstrip("/")) + 1
            entries = [_entry(info, info.path[begin:]) for info in found if info.type != fs.FileType.NotFound]
        return sorted(entries, key=lambda entry: entry.path)

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator["OutputFile"]:
        """Open a file to be written whole: it appears under its name at the end, over an existing one, or not at all.

        Folders on the way are made. Files for an object store are gathered on this machine's disk first, since such a
        store makes an object of the part that was sent if a writer fails midway.
        """
        system, place = resolve(path)
        if is_local(path):
            with readable(path):
                system.create_dir(str(Path(place).parent))
            with _temporary(Path(place).parent) as (stream, temporary):
                yield OutputFile(stream, path)
                with readable(path):
                    stream.close()
                    temporary.replace(place)
            return
        with readable(path):
            stream = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, whatever could not be flushed
        try:
            yield OutputFile(stream, tempfile.gettempdir())
            with readable(tempfile.gettempdir()):
                stream.seek(0)
            with readable(path), system.open_output_stream(place, compression=None) as target:
                shutil.copyfileobj(stream, target, COPY_BYTES)
        finally:
            # As of `_temporary`.
            with contextlib.suppress(OSError):
                stream.close()

    def copy(self, source: str, target: str) -> None:
        """Copy a file byte for byte, over an existing one."""
        if is_local(source) and is_local(target):
            place, goal = (Path(resolve(path)[1]) for path in (source, target))
            with readable(target):
                goal.parent.mkdir(parents=True, exist_ok=True)
            with _temporary(goal.parent) as (_, temporary), readable(target):
                # Within the kernel, or without a copy where the file system shares blocks.
                shutil.copyfile(place, temporary)
                temporary.replace(goal)
            return
        with self.open(source) as stream, self.create(target) as output:
            shutil.copyfileobj(stream, output, COPY_BYTES)

    def open(self, path: str) -> pa.NativeFile:
        """Open a stored file for random access, without decompression."""
        system, place = resolve(path)
        with readable(path):
            return system.open_input_file(place)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Return the bytes of a file from a place to another, of each range; all are on their way at once.

        Behind the end of the file there are none.
        """
        system, place = resolve(path)
        with readable(path):
            if not is_local(path):
                with system.open_input_file(place) as stream, ThreadPoolExecutor(READS) as readers:
                    return [*readers.map(lambda each: bytes(stream.read_at(each[1] - each[0], each[0])), ranges)]
            with Path(place).open("rb", buffering=0) as file:
                # A disk answers many requests at a time twice to four times as fast as one after another.
                for begin, end in ranges if hasattr(os, "posix_fadvise") else ():
                    os.posix_fadvise(file.fileno(), begin, end - begin, os.POSIX_FADV_WILLNEED)
                return [os.pread(file.fileno(), end - begin, begin) for begin, end in ranges]


def _entry(info: fs.FileInfo, path: str) -> Entry:
    is_folder, is_special = (info.type == kind for kind in (fs.FileType.Directory, fs.FileType.Unknown))
    changed = info.mtime_ns or 0
    return Entry(path=path, is_folder=is_folder, size=info.size or 0, changed=changed, is_special=is_special)


UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.tmp")
"""Name of a file that was being written when its process was killed."""


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Create a file with the permissions of the umask, and delete it if it is still there afterwards."""
    temporary = folder / f".{secrets.token_hex(8)}.tmp"
    with readable(str(folder)):
        stream = temporary.open("xb")
    try:
        yield stream, temporary
    finally:
        # What could not be written before cannot be flushed now, and would hide why.
        with contextlib.suppress(OSError):
            stream.close()
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
