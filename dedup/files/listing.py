"""Inputs -> the files of a corpus, in one order, with their format and compression."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from dedup.errors import DataError, StorageError
from dedup.files.formats import FORMATS, load_format
from dedup.files.formats.format import Format, InputFile
from dedup.files.globs import find_paths, fits, is_hidden
from dedup.files.storage import Entry, Storage
from dedup.files.systems import absolute, is_local, redact, resolve

COMPRESSIONS = {"gz": "gzip", "zst": "zstd", "bz2": "bz2", "lz4": "lz4"}
"""Endings of compressed lines and texts, with pyarrow's names of the compressions."""
OF_OUTPUTS = ("dedup.toml", "report.json")
"""Files that the output of a run has beside its folders of rows."""
ADVICE = r"; (mend them, or )?pass --[^;]*$"
"""Pattern of the end of an error that names options of --input alone."""
UNREADABLE = ("snappy", "xz", "zip", "br")
"""Endings of compressions that are not supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Files of a corpus, in the order of their relative paths; a file's place in it is its number."""

    files: tuple[InputFile, ...]
    foreign: tuple[InputFile, ...] = ()
    """Files with documents that take part in the search and are not written, whose numbers follow."""

    @property
    def every(self) -> tuple[InputFile, ...]:
        """All files, by their numbers."""
        return self.files + self.foreign

    @property
    def format(self) -> Format:
        """Format of all files."""
        return self.files[0].format

    @property
    def size(self) -> int:
        """Bytes of all files as stored."""
        return sum(file.size for file in self.every)

    def absolute(self) -> "Listing":
        """Return the same files by absolute paths, which are valid in any folder."""
        own, others = (
            tuple(replace(file, path=absolute(file.path)) for file in files) for files in (self.files, self.foreign)
        )
        return Listing(files=own, foreign=others)

    @property
    def fingerprint(self) -> str:
        """Fingerprint that changes when a file is added, removed or rewritten."""
        listed = [(file.path, file.size, file.changed) for file in self.every]
        return f"{len(listed):,} files, SHA-256 {hashlib.sha256(repr(listed).encode('utf-8', 'replace')).hexdigest()}"


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Let errors name another option or setting where they name --input, without advice that helps only there."""
    try:
        yield
    except (StorageError, DataError) as error:
        raise type(error)(re.sub(ADVICE, "", str(error)).replace("--input", option, 1)) from error


def part_formats(files: Iterable[InputFile]) -> Iterator[tuple[Format, list[InputFile]]]:
    """Yield runs of files of one format."""
    for _, found in groupby(files, key=lambda file: file.format.name):
        named = [*found]
        yield named[0].format, named


def list_files(
    inputs: Sequence[str],
    *,
    format: str = "auto",  # noqa: A002 - as the setting is called
    name_filter: str = "",
) -> Listing:
    """Return the files of inputs.

    An input is a file, a folder, which is searched at any depth, or a glob of `*`, `?`, `[..]` and `{a,b}`, none of
    which matches a slash. Files and folders whose names begin with `_` or `.` are no data; folders `_key=value` are.

    Parameters
    ----------
    format
        One of FORMATS for all files, or "auto": as their names end.
    name_filter
        A glob that the names of files must match; empty for any name.

    Raises
    ------
    StorageError
        When an input is missing or has no file, is listed twice, or its names tell no format or several.
    """
    storage, found = Storage(), list[_Found]()
    for path in inputs:
        files = list(_find(storage, path))
        chosen = [each for each in files if not name_filter or fits(each.name, name_filter)]
        if special := [each.path for each in chosen if each.entry.is_special]:
            # To open a pipe waits for who writes to it, perhaps for ever.
            raise StorageError(f"--input {redact(special[0])}: must be a file, to be read more than once (it is none)")
        if not chosen:
            _refuse(storage, path, name_filter if files else "")
        found.extend(chosen)
    named = _name_apart(found)
    kinds = _guess(found) if format == "auto" else [load_format(format)] * len(found)
    listed = [
        InputFile(
            path=each.path,
            relative=relative,
            size=each.entry.size,
            changed=each.entry.changed,
            format=kind,
            compression=_compression(each.path) if kind.is_compressible else None,
        )
        for each, relative, kind in zip(found, named, kinds, strict=True)
    ]
    return Listing(files=tuple(sorted(listed, key=lambda file: file.relative)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    given: str
    """Input that the file belongs to."""
    root: str
    """Folder at which the file's relative path begins."""
    path: str
    entry: Entry

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def relative(self) -> str:
        return self.path[len(self.root) :].lstrip("/")


def _find(storage: Storage, given: str) -> Iterator[_Found]:
    """Find the data files of one input."""
    for root, path in find_paths(storage, given):
        entry = storage.look(path)
        if entry is None or is_hidden(path.rpartition("/")[2]):
            continue
        if entry.is_folder:
            begin = path if path == root else root
            if is_local(path):
                _check_links(resolve(path)[1])
            for below in storage.list(path, recursive=True):
                if not below.is_folder and not any(map(is_hidden, below.path.split("/"))):
                    place = f"{path.rstrip('/')}/{below.path}"
                    yield _Found(given=given, root=begin, path=place, entry=below)
        else:
            begin = path.rpartition("/")[0] if path == root else root
            yield _Found(given=given, root=begin, path=path, entry=entry)


def _check_links(folder: str) -> None:
    """Refuse links to folders that they lie in, by way of other links too, which a listing would follow for ever."""
    for place, names, _ in os.walk(folder, followlinks=True):
        for path in (Path(place, name) for name in names):
            if path.is_symlink() and any(map(path.samefile, (*path.parents, *path.parent.resolve().parents))):
                raise StorageError(
                    f"--input {redact(str(path))}: must lead elsewhere than to a folder that it lies in "
                    f"({redact(str(path.resolve()))})"
                )


def _refuse(storage: Storage, given: str, name_filter: str) -> None:
    if name_filter:
        raise StorageError(f"input.name_filter: must match the name of a file in {redact(given)} (got {name_filter!r})")
    hidden = "has no file to read; names that begin with . or _ are hidden"
    state = hidden if any(True for _ in find_paths(storage, given)) else "does not exist"
    raise StorageError(f"--input {redact(given)}: must be a file, a folder of files or a glob (it {state})")


def _guess(found: Sequence[_Found]) -> list[Format]:
    """Return the format common to all files by their names."""
    guessed = [find_format(each.name) for each in found]
    formats = [kind for kind in guessed if kind]
    kinds = [each.name for each in formats]
    if len(formats) < len(found):
        unknown = found[guessed.index(None)]
        if {each.name for each in found}.issuperset(OF_OUTPUTS):
            told = " and ".join(OF_OUTPUTS)
            raise StorageError(
                f"--input {redact(unknown.given)}: must not be the output of a run (it has {told}); the rows that "
                "stayed are in its folder kept"
            )
        *names, last = FORMATS
        filtered = f"{_filter(found, guessed)} to leave it out, or " if formats else ""
        raise StorageError(
            f"--input {redact(unknown.given)}: its format cannot be guessed from {unknown.name!r}; "
            f"pass {filtered}--format {', '.join(names)} or {last}"
        )
    if len(set(kinds)) > 1:
        by_input = dict(zip((each.given for each in found), kinds, strict=True))
        is_told = len(set(by_input.values())) == len(set(kinds))
        shown = by_input if is_told else dict(zip((each.path for each in found), kinds, strict=True))
        first = {kind: next(name for name in shown if shown[name] == kind) for kind in shown.values()}
        told = ", ".join(f"{redact(name)} is {kind}" for kind, name in first.items())
        raise StorageError(
            f"--input: all inputs must have one format ({told}); pass {_filter(found, guessed)} to read those alone"
        )
    return formats


def _filter(found: Sequence[_Found], guessed: Sequence[Format | None]) -> str:
    """Return the setting that leaves only files of the format that most have; a text is often about the others."""
    kinds = Counter(kind.name for kind in guessed if kind)
    usual = max(kinds, key=lambda kind: (kind != "text", kinds[kind]))
    names = [each.name.split(".") for each, kind in zip(found, guessed, strict=True) if kind and kind.name == usual]
    ends = {".".join(parts[-2:] if parts[-1].lower() in COMPRESSIONS else parts[-1:]) for parts in names}
    glob = ",".join(f"*.{each}" for each in sorted(ends))
    return f"--set 'input.name_filter={glob if len(ends) == 1 else f'{{{glob}}}'}'"


def find_format(path: str) -> Format | None:
    """Return the format that a file is named after; None where its name tells none."""
    names = path.lower().rpartition("/")[2].split(".")[1:]
    parts = [part for part in names if part not in COMPRESSIONS and part not in UNREADABLE]
    return next((kind for kind in map(load_format, FORMATS) if parts and parts[-1] in kind.extensions), None)


def _compression(path: str) -> str | None:
    ending = path.lower().rpartition(".")[2]
    if ending in UNREADABLE:
        known = ", ".join(COMPRESSIONS)
        raise StorageError(f"{redact(path)}: must be compressed as one of {known}, or not at all (got {ending})")
    return COMPRESSIONS.get(ending)


def _name_apart(found: Sequence[_Found]) -> list[str]:
    """Return the relative paths, prefixed with the names of their roots if two would be equal.

    Raises
    ------
    StorageError
        When a file is listed twice, or two still have one path.
    """
    places = _locate(found)
    repeated = [place for place, count in Counter(places).items() if count > 1]
    if repeated:
        same = [each for each, place in zip(found, places, strict=True) if place == repeated[0]][:2]
        givens = " and ".join(redact(each.given) for each in same)
        paths = " as ".join(dict.fromkeys(redact(each.path) for each in same))
        raise StorageError(f"--input: must lead to each file once (got {paths} from {givens})")
    named = [each.relative for each in found]
    if len(set(named)) < len(named) or _list_folders(named) & set(named):
        named = [f"{each.root.rstrip('/').rpartition('/')[2]}/{each.relative}" for each in found]
    for name, count in Counter(named).items():
        if count > 1:
            paths = " and ".join(redact(each.path) for each, own in zip(found, named, strict=True) if own == name)
            raise StorageError(f"--input: files must differ in folder or name (got {paths}); rename a folder")
    if both := _list_folders(named) & set(named):
        path = found[named.index(min(both))].path
        raise StorageError(f"--input: the output would need a folder named as {redact(path)}; rename one of the two")
    return named


def _locate(found: Sequence[_Found]) -> list[str]:
    """Return the place of each file, however inputs spell it and whatever links lead to its folder.

    In /data these are one file: file:///data/a, /data/./a, a and, where b is a link to its own folder, b/a.
    """
    folders: dict[str, str] = {}
    places = []
    for each in found:
        folder, _, name = resolve(each.path)[1].rpartition("/")
        if folder not in folders:
            folders[folder] = os.path.realpath(folder) if is_local(each.path) else folder
        places.append(f"{folders[folder]}/{name}")
    return places


def _list_folders(names: Iterable[str]) -> set[str]:
    """Return the folders that files of these relative paths lie in."""
    folders = {name.rpartition("/")[0] for name in names}
    return folders | _list_folders(folders) if folders - {""} else folders
