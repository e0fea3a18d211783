"""Files in the folder of a store, and the right to change them."""

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dedup.errors import StorageError
from dedup.files.systems import is_local, resolve
from dedup.store.schemas import SEGMENT

if TYPE_CHECKING:
    from deltalake import DeltaTable

TRIES = 20
"""Other writers that may be first before one gives up."""
_narrowing = threading.Lock()
"""Held while the umask, which is of the whole process, is that of a store."""


class Conflict(Exception):  # noqa: N818 - no error: the writer starts over
    """Another writer has committed since the state was read."""


class Damaged(StorageError):  # noqa: N818 - named as what it tells
    """A file of a table is none that can be read, whatever the file system does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a table."""

    path: str
    """Below the folder of the table."""
    size: int
    segment: str
    rows: int
    changed: int = 0
    """Milliseconds since 1970."""


@contextlib.contextmanager
def narrow(path: str) -> Iterator[None]:
    """Let files and folders that are made be no wider open than the folder of a store.

    What other threads make meanwhile is no wider open either, so it is for the moment in which a file is made.
    """
    if not is_local(path):
        yield
        return
    mode = stat.S_IMODE(Path(resolve(path)[1]).stat().st_mode)
    with _narrowing:
        before = os.umask(0o777)
        os.umask(before | 0o777 & ~mode)
        try:
            yield
        finally:
            os.umask(before)


def list_named(table: "DeltaTable") -> list[File]:
    """Return the files that an open table names, by path."""
    segments = f"partition.{SEGMENT}"
    found = [
        File(
            path=each["path"],
            size=each["size_bytes"],
            segment=each.get(segments, ""),
            rows=each["num_records"] or 0,
            changed=each["modification_time"],
        )
        for each in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]
    return sorted(found, key=lambda file: file.path)
