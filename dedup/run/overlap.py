"""Whether an input and an output share a place, whatever links, globs or schemes name it."""

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from glob import glob, has_magic
from typing import NamedTuple

from dedup.errors import StorageError

OWN_SUFFIXES = ("", ".partial", ".lock", ".replaced")
"""Paths that a run makes, changes and deletes, by what follows the path of the output."""
OBJECT_STORES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb"}
"""Schemes that name one store, by the other name of each."""


class Place(NamedTuple):
    """Target of a path or pattern."""

    system: str
    """Scheme and authority; empty for this machine and for what has no scheme."""
    names: tuple[str, ...]
    """Names of the folders down to it, globs among them."""


def check_apart(inputs: Sequence[str], output: str) -> None:
    """Make sure that no input lies in what a run makes or deletes, nor around it.

    Raises
    ------
    StorageError
        With the input and the place that it shares with the output.
    """
    for suffix in OWN_SUFFIXES:
        target = output.rstrip("/") + suffix
        for path in inputs:
            if any(_overlap(one, other) for one in _find_places(path) for other in _find_places(target, globs=False)):
                raise StorageError(
                    f"--output {output}: must lie apart from every input (--input {path} and {target} overlap); "
                    "choose another folder for the output"
                )


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
    # Who reads says nothing of what is read.
    return OBJECT_STORES.get(scheme, scheme), (found[2] or "").rpartition("@")[2].lower(), found[3]


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
