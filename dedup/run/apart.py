"""Places of inputs, outputs and stores, which must lie apart, whatever links, globs or schemes name them."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from glob import glob, has_magic
from pathlib import PurePath
from typing import NamedTuple

from dedup.errors import StorageError
from dedup.files.globs import is_hidden
from dedup.files.storage import MARK, OutputStorage, Storage
from dedup.files.systems import redact, split_url
from dedup.run.lock import UNREACHABLE
from dedup.store.schemas import BATCHES, FILES, OF_LAYERS, SEGMENT, TABLES

OWN_SUFFIXES = ("", ".partial", ".lock", ".replaced")
"""Suffixes of an output's path that give the paths that a run makes, changes and deletes."""
OBJECT_STORES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
"""Usual scheme of an object store, by each of its other schemes."""
STORE_MARK = f"{BATCHES}/_delta_log"
"""Folder that identifies a store."""
STORES = {STORE_MARK: "every store"}
OF_STORES = {*TABLES, *OF_LAYERS, FILES, BATCHES}
NO_CONTENT = {*OF_STORES, "lost+found"}
"""Folders that may lie in the folder of a new store: leftovers of a crash at its creation, and a disk's own."""


class Place(NamedTuple):
    """Target of a path or pattern."""

    system: str
    """Scheme and authority; empty for this machine."""
    names: tuple[str, ...]
    """Names of the folders on the way, possibly with globs."""


def check_apart(
    inputs: Sequence[str], target: str, *, option: str = "--output", suffixes: Sequence[str] = OWN_SUFFIXES
) -> None:
    """Refuse inputs within or around the paths that a run makes or deletes.

    Parameters
    ----------
    inputs
        Paths and globs of all inputs.
    option
        Option that gave the target, for the message.
    suffixes
        Suffixes of the paths to be made, after the target's own.

    Raises
    ------
    StorageError
        Names the input and the place that it shares with the target.
    """
    for own in (target.rstrip("/") + suffix for suffix in suffixes):
        for path in inputs:
            if any(_overlap(one, other) for one in _find_places(path) for other in _find_places(own, globs=False)):
                raise StorageError(
                    f"{option} {target}: must lie apart from every input ({path} and {own} overlap); choose another "
                    "folder"
                )


def check_store(inputs: Sequence[str], store: str, *, option: str = "--store") -> None:
    """Refuse a store that overlaps inputs, outputs or other stores, and a new one in a folder with files.

    Raises
    ------
    StorageError
        Names the path in the way.
    """
    check_apart(inputs, store, option=option, suffixes=("",))
    storage = Storage()
    check_outside(storage, store, option=option, marks={**STORES, MARK: "every output"})
    if storage.exists(f"{store.rstrip('/')}/{STORE_MARK}"):
        return
    for entry in storage.list(store):
        is_table = entry.is_folder and entry.path in OF_STORES
        for below in storage.list(f"{store.rstrip('/')}/{entry.path}") if is_table else ():
            # A crash at its creation leaves tables without rows.
            if below.path.startswith(f"{SEGMENT}="):
                raise StorageError(
                    f"{option} {store}: must be a whole store (it holds {entry.path}/{below.path} and no {BATCHES}, as "
                    "a copy that was cut short does); copy it again, or choose another folder"
                )
        if entry.path not in NO_CONTENT and (entry.path == MARK or not is_hidden(entry.path)):
            raise StorageError(
                f"{option} {store}: must be a store, or a folder that is missing or empty (it holds {entry.path}); "
                "choose another folder"
            )


def check_outside(
    storage: OutputStorage, path: str, *, option: str = "--output", marks: Mapping[str, str] = STORES
) -> None:
    """Refuse a path within folders that others write to and delete.

    Parameters
    ----------
    marks
        Names of such folders for people, by the path below them that identifies them.

    Raises
    ------
    StorageError
        Names the folder around it.
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
    """Yield the folders around a path, and around the targets of its links."""
    scheme, rest = split_url(path)
    if scheme:
        authority, _, key = rest.partition("/")
        names = _names(os.path.normpath(f"/{key}"))
        yield from ("/".join((f"{scheme}://{authority}", *names[:count])) for count in range(len(names)))
        return
    for place in dict.fromkeys((os.path.abspath(rest), os.path.realpath(rest))):  # noqa: PTH100 - as below
        yield from map(str, PurePath(place).parents)


def _find_places(path: str, *, globs: bool = True) -> Iterator[Place]:
    """Yield the places of a path, and on this machine those that its links and globs lead to."""
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
    """Yield the links below a folder, which readers of it follow."""
    for below, folders, files in os.walk(folder):
        yield from (found for name in (*folders, *files) if os.path.islink(found := f"{below}/{name}"))  # noqa: PTH114


def _split(path: str) -> tuple[str, str, str]:
    """Return scheme, authority and path; the first two are empty for a path on this machine."""
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
    """Return the names of a path up to the first choice between several."""
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
    """Return a regular expression that matches at least all that Hadoop's glob matches."""
    wild = re.split(r"\[[^\]]*\]|\{.*\}|[*?]", pattern)
    return re.compile(".*".join(re.escape(part.replace("\\", "")) for part in wild), re.DOTALL)
