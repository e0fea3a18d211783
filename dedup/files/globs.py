"""Globs of Hadoop: names with braces and `[^...]`, and the paths that match."""

import fnmatch
import re
from collections.abc import Iterator

from dedup.errors import StorageError
from dedup.files.storage import Storage

MAGIC = re.compile(r"[*?\[{]")


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder of this name is hidden, so no data; `_key=value` is a partition of a table."""
    return name not in (".", "..") and (name.startswith(".") or (name.startswith("_") and "=" not in name))


def escape(path: str) -> str:
    r"""Return the glob of one path, for readers that take every path for a glob: its own characters quoted.

    >>> escape("out[1]")
    'out\\[1\\]'
    """
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def find_paths(storage: Storage, given: str) -> Iterator[tuple[str, str]]:
    """Return the paths that match an input, each with the folder at which its relative path begins."""
    path = given.rstrip("/") or given
    try:
        is_there = storage.exists(path)
    except StorageError as error:
        raise StorageError(f"--input {error}") from None
    if is_there:
        yield path, path
        return
    for pattern in dict.fromkeys(_expand(path)):
        root, parts = split_fixed(pattern)
        if not parts:
            if storage.exists(pattern):
                yield pattern, pattern
            continue
        matches = [root]
        for count, part in enumerate(parts, 1):
            is_last = count == len(parts)
            matches = [f"{match}/{name}" for match in matches for name in _names(storage, match, part, is_last)]
        yield from ((root or "/", match) for match in matches)


def split_fixed(pattern: str) -> tuple[str, list[str]]:
    """Return the folder before the first glob in a path, and the names from there on."""
    parts = pattern.split("/")
    fixed = next((place for place, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    return "/".join(parts[:fixed]), parts[fixed:]


def fits(name: str, pattern: str) -> bool:
    """Tell whether a name matches one of Hadoop's globs, which have braces and `[^...]`."""
    return any(fnmatch.fnmatchcase(name, each.replace("[^", "[!")) for each in _expand(pattern))


def _names(storage: Storage, folder: str, pattern: str, is_last: bool) -> list[str]:  # noqa: FBT001 - of one caller
    if not MAGIC.search(pattern):
        entry = storage.look(f"{folder}/{pattern}")
        return [pattern] if entry is not None and (is_last or entry.is_folder) else []
    accepts = re.compile(fnmatch.translate(pattern.replace("[^", "[!"))).match
    found = [entry for entry in storage.list(folder or "/") if accepts(entry.path) and not is_hidden(entry.path)]
    return [entry.path for entry in found if is_last or entry.is_folder]


def _expand(pattern: str) -> Iterator[str]:
    """Expand the innermost braces of a pattern, then the others: `{a,b}c` is `ac` and `bc`."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from _expand(pattern[: braces.start()] + choice + pattern[braces.end() :])
