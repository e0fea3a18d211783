"""Inputs, outputs and stores that share a place, whatever links, globs or schemes name it."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from glob import glob, has_magic
from pathlib import PurePath
from typing import NamedTuple, Protocol

from dedup.errors import StorageError
from dedup.files.globs import is_hidden
from dedup.files.storage import MARK, Storage
from dedup.files.systems import redact, split_url
from dedup.run.lock import UNREACHABLE
from dedup.store.schemas import BATCHES, TABLES

OWN_SUFFIXES = ("", ".partial", ".lock", ".replaced")
"""Paths that a run makes, changes and deletes, by what follows the path of the output."""
OBJECT_STORES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
"""Schemes that name one store, by the other name of each."""
STORE_MARK = f"{BATCHES}/_delta_log"
"""Folder by which a store is known."""
STORES = {STORE_MARK: "every store"}
NO_CONTENT = {*TABLES, BATCHES, "lost+found"}
"""Folders that the folder of a new store may have: those that a crash amid its making leaves, and that of a disk."""


class Place(NamedTuple):
    """Target of a path or pattern."""

    system: str
    """Scheme and authority; empty for this machine and for what has no scheme."""
    names: tuple[str, ...]
    """Names of the folders down to it, globs among them."""


def check_apart(
    inputs: Sequence[str], target: str, *, option: str = "--output", suffixes: Sequence[str] = OWN_SUFFIXES
) -> None:
    """Make sure that no input lies in what a run makes or deletes, nor around it.

    Parameters
    ----------
    inputs
        Paths and globs of all that is read.
    option
        Name under which the target was given.
    suffixes
        Ends of the paths that are made, after the target's own.

    Raises
    ------
    StorageError
        With the input and the place that it shares with the target.
    """
    for own in (target.rstrip("/") + suffix for suffix in suffixes):
        for path in inputs:
            if any(_overlap(one, other) for one in _find_places(path) for other in _find_places(own, globs=False)):
                raise StorageError(
                    f"{option} {target}: must lie apart from every input ({path} and {own} overlap); choose another "
                    "folder"
                )


def check_store(inputs: Sequence[str], store: str, *, option: str = "--store") -> None:
    """Make sure that a store lies apart from inputs, outputs and other stores, and that a new one gets its own folder.

    Raises
    ------
    StorageError
        With what is in the way.
    """
    check_apart(inputs, store, option=option, suffixes=("",))
    storage = Storage()
    check_outside(storage, store, option=option, marks={**STORES, MARK: "every output"})
    if storage.exists(f"{store.rstrip('/')}/{STORE_MARK}"):
        return
    for entry in storage.list(store):
        if entry.path not in NO_CONTENT and (entry.path == MARK or not is_hidden(entry.path)):
            raise StorageError(
                f"{option} {store}: must be a store, or a folder that is missing or empty (it holds {entry.path}); "
                "choose another folder"
            )


class Existing(Protocol):
    """A file system that tells what is there."""

    def exists(self, path: str, /) -> bool:
        """Tell whether a file or folder is there."""


def check_outside(storage: Existing, path: str, *, option: str = "--output", marks: Mapping[str, str] = STORES) -> None:
    """Make sure that a path lies outside of folders that others write to and delete.

    Parameters
    ----------
    marks
        Names of such folders for people, by the path below them that tells them.

    Raises
    ------
    StorageError
        With the folder around it.
    """
    for folder in _list_around(path):
        for mark, name in marks.items():
            try:
                is_there = storage.exists(f"{folder}/{mark}")
            except UNREACHABLE:  # says so where it is written to
                return
            if is_there:
                raise StorageError(
                    f"{option} {path}: must lie outside of {name} ({redact(folder)} is one); choose another folder"
                )


def _list_around(path: str) -> Iterator[str]:
    """Yield the folders around a path, and those around what its links lead to."""
    scheme, rest = split_url(path)
    if scheme:
        authority, _, key = rest.partition("/")
        names = _names(os.path.normpath(f"/{key}"))
        yield from ("/".join((f"{scheme}://{authority}", *names[:count])) for count in range(len(names)))
        return
    for place in dict.fromkeys((os.path.abspath(rest), os.path.realpath(rest))):  # noqa: PTH100 - as below
        yield from map(str, PurePath(place).parents)


def _find_places(path: str, *, globs: bool = True) -> Iterator[Place]:
    """Yield the place that a path names, and on this machine those that its links and globs lead to."""
    scheme, authority, rest = _split(path)
    if scheme:
        yield Place(f"{scheme}://{authority}", _names(os.path.normpath(f"/{rest}")))
        # On a cluster a path without a scheme is of its default file system.
        if scheme not in {"hdfs", "viewfs"}:
            return
    absolute = os.path.abspath(rest)  # noqa: PTH100 - pathlib resolves no pattern
    yield Place("", _names(absolute))
    yield Place("", _names(os.path.realpath(absolute)))
    if globs:
        yield from (Place("", _names(os.path.realpath(link))) for link in _find_links(absolute))
    if globs and has_magic(rest):
        for found in glob(absolute, include_hidden=True):  # noqa: PTH207 - the pattern is absolute
            yield Place("", _names(os.path.realpath(found)))
        names = _names(absolute)
        first = next((number for number, name in enumerate(names) if _is_pattern(name)), len(names))
        yield Place("", (*_names(os.path.realpath("/" + "/".join(names[:first]))), *names[first:]))


def _find_links(folder: str) -> Iterator[str]:
    """Yield the links below a folder, which who reads it follows."""
    for below, folders, files in os.walk(folder):
        yield from (found for name in (*folders, *files) if os.path.islink(found := f"{below}/{name}"))  # noqa: PTH114


def _split(path: str) -> tuple[str, str, str]:
    """Return scheme, authority and path; both are empty for a path of this machine."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*|$)", path)
    if not found:
        return "", "", path
    scheme = found[1].lower()
    if scheme == "file":
        return "", "", found[3] or "/"
    store, authority = OBJECT_STORES.get(scheme, scheme), (found[2] or "").lower()
    if store == "abfs":
        # A container and its account, which its own name tells.
        return store, authority.partition(".")[0], found[3]
    # Who reads says nothing of what is read.
    return store, authority.rpartition("@")[2], found[3]


def _names(path: str) -> tuple[str, ...]:
    """Return the names of a path, as far as no choice between paths stands among them."""
    return tuple(name for name in re.sub(r"/[^/]*\{[^}]*/.*", "", path).split("/") if name)


def _overlap(one: Place, other: Place) -> bool:
    """Tell whether one place is or holds the other."""
    return one.system == other.system and all(
        name == second or (_is_pattern(name) and bool(_compile(name).fullmatch(second)))
        for name, second in zip(one.names, other.names, strict=False)
    )


def _is_pattern(name: str) -> bool:
    return has_magic(name) or "{" in name


@lru_cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Return a regular expression that takes all that Hadoop's glob takes, and may take more."""
    wild = re.split(r"\[[^\]]*\]|\{.*\}|[*?]", pattern)
    return re.compile(".*".join(re.escape(part.replace("\\", "")) for part in wild), re.DOTALL)
