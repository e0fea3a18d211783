"""A file system that fails at its n-th step of a small run, and one that nobody comes back to after it.

In the full profile for every n; otherwise every fault takes each ninth, but each third of the last, which publish, and
together they take all of these.
"""

import errno
import io
import json
import os
import pathlib
import shutil
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from dedup.cli import run as cli
from dedup.files import storage, systems
from dedup.files.storage import Storage, find_result
from dedup.report.summary import Drawing
from dedup.run import lock
from tests.chaos.conftest import STRIDE

FAULTS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "time-out": errno.ETIMEDOUT}
TEXTS = [f"a page about {subject} that says {number}" for number in range(5) for subject in ("rain", "rain", "snow")]
STORE = "s3://corpora"
PLACES = ("a disk", "an object store")
PUBLISHING = 24 // STRIDE
"""How many of the steps that are tried may publish."""
OTHERS = {("EIO", "a disk"), ("time-out", "a disk"), ("time-out", "an object store")}
"""Errors that are handled as others are: `files.systems` tells only a full device from the rest."""


class Killed(BaseException):
    """What ends a process that is killed: nothing after it reaches the disk."""


class Faults:
    """Counts the steps that change or list what is stored, and fails at one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self, at: int = 0, fault: int | None = None, *, kill: bool = False) -> None:
        """Begin to count anew: the step numbered `at` fails, with an errno or as a killed process does."""
        self.count, self.at, self.fault, self.kill, self.steps = 0, at, fault, kill, []

    def step(self, name: str) -> None:
        self.count += 1
        self.steps.append(name)
        if self.kill and self.count >= self.at > 0:
            raise Killed
        if self.fault is not None and self.count == self.at:
            raise OSError(self.fault, os.strerror(self.fault))


class Stream:
    """A file whose writes are steps."""

    def __init__(self, stream, faults: Faults) -> None:
        self._stream, self._faults = stream, faults

    def write(self, content):
        self._faults.step("write")
        return self._stream.write(content)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()

    def __getattr__(self, name):
        return getattr(self._stream, name)


class Object(Stream):
    """An object, which appears whole when it is closed, or not at all."""

    def __init__(self, place: Path, faults: Faults) -> None:
        self._place, self._is_whole = place, True
        super().__init__(io.BytesIO(), faults)

    def write(self, content):
        self._is_whole = False
        written = super().write(content)
        self._is_whole = True
        return written

    def close(self):
        if self._is_whole and not self._stream.closed:
            self._stream.seek(0)
            self._place.write_bytes(self._stream.read())
        self._stream.close()


class Disk(fs.FileSystemHandler):
    """A folder of this machine, as an object store's bucket or as the disk itself, each of whose changes is a step."""

    def __init__(self, root: str, faults: Faults) -> None:
        self.root, self.faults, self.inner = root, faults, fs.LocalFileSystem()

    def _below(self, path: str) -> str:
        return f"{self.root}/{path}" if self.root else path

    def _name(self, info: fs.FileInfo) -> fs.FileInfo:
        path = info.path[len(self.root) + 1 :] if self.root else info.path
        return fs.FileInfo(path, info.type, size=info.size, mtime_ns=info.mtime_ns)

    def get_type_name(self):
        return "disk"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return [self._name(info) for info in self.inner.get_file_info([self._below(path) for path in paths])]

    def get_file_info_selector(self, selector):
        self.faults.step("list")
        below = fs.FileSelector(self._below(selector.base_dir), selector.allow_not_found, selector.recursive)
        return [self._name(info) for info in self.inner.get_file_info(below)]

    def create_dir(self, path, recursive):
        self.faults.step("create folder")
        self.inner.create_dir(self._below(path), recursive=recursive)

    def delete_dir(self, path):
        self.faults.step("delete folder")
        self.inner.delete_dir(self._below(path))

    def delete_dir_contents(self, path, missing_dir_ok):
        self.faults.step("delete folder")
        self.inner.delete_dir_contents(self._below(path), missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self):
        self.delete_dir_contents("", missing_dir_ok=False)

    def delete_file(self, path):
        self.faults.step("delete file")
        self.inner.delete_file(self._below(path))

    def move(self, src, dest):
        self.faults.step("move")
        self.inner.move(self._below(src), self._below(dest))

    def copy_file(self, src, dest):
        self.faults.step("copy")
        self.inner.copy_file(self._below(src), self._below(dest))

    def open_input_stream(self, path):
        return self.inner.open_input_stream(self._below(path), compression=None)

    def open_input_file(self, path):
        return self.inner.open_input_file(self._below(path))

    def open_output_stream(self, path, _metadata):
        self.faults.step("create")
        place = Path(self._below(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        return pa.PythonFile(Object(place, self.faults), mode="w")

    def open_append_stream(self, path, _metadata):
        self.faults.step("create")
        return self.inner.open_append_stream(self._below(path))


class Module:
    """A module some of whose functions are steps."""

    def __init__(self, module, faults: Faults, *names: str) -> None:
        self._module, self._faults, self._names = module, faults, names

    def __getattr__(self, name):
        found = getattr(self._module, name)
        if name not in self._names:
            return found

        def stepping(*given, **named):
            self._faults.step(name)
            return found(*given, **named)

        return stepping


def watch(method, faults: Faults, folder: Path):
    """Return a method of paths whose calls for the disk, below a folder, are steps."""

    def stepping(path, *given, **named):
        if path.is_relative_to(folder) and "store" not in str(path):
            faults.step(method.__name__)
        return method(path, *given, **named)

    return stepping


@pytest.fixture
def faults(tmp_path, monkeypatch):
    """Return what makes the file system fail; also of the store s3://corpora, which lies in a folder."""
    faults = Faults()
    disks = {"": Disk("", faults), "s3": Disk(str(tmp_path / "store"), faults)}
    monkeypatch.setattr(systems, "_connect", lambda scheme, _: fs.PyFileSystem(disks[scheme]))
    own = Module(os, faults, "open")
    original = os.fdopen
    own.fdopen = lambda *given: Stream(original(*given), faults)
    monkeypatch.setattr(storage, "os", own)
    monkeypatch.setattr(storage, "shutil", Module(shutil, faults, "rmtree", "copyfile"))
    for name in ("rename", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(pathlib.Path, name, watch(getattr(pathlib.Path, name), faults, tmp_path))
    # A process that was killed is none.
    monkeypatch.setattr(lock, "_is_alive", lambda _: False)
    for name, seconds in {"SETTLE_SECONDS": 0, "BEAT_SECONDS": 60, "PATIENCE_SECONDS": 0}.items():
        monkeypatch.setattr(lock, name, seconds)
    monkeypatch.setattr("dedup.run.execution.draw", lambda *_: Drawing())
    monkeypatch.setattr("dedup.run.execution.to_html", lambda *_: "a page")
    return faults


@pytest.fixture
def root(request, tmp_path):
    """Return where the corpus lies, and its output will."""
    (tmp_path / "store" / "corpora").mkdir(parents=True)
    folder = tmp_path if request.param == "a disk" else tmp_path / "store" / "corpora"
    (folder / "in").mkdir()
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    (folder / "in" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "in" / "b.jsonl").write_text('{"id": 100, "text": "another file without a copy"}\n')
    pq.write_table(pa.table({"id": [0, 2], "other": [1, 3]}), folder / "bystander.parquet")
    return (str(folder) if request.param == "a disk" else STORE), folder


def deduplicate(root, *more):
    words = ["--input", f"{root}/in", "--output", f"{root}/out", "--id-column", "id", "--engine", "memory", *more]
    return cli.main([*words, "--set", "shingles.shingle_size=2", "--log-level", "error"])


def content(folder):
    """Return every file's bytes, but for what tells one run from another."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def result(root):
    """Return the bytes of the published rows and tables."""
    place = find_result(Storage(), f"{root}/out")
    names = [entry.path for entry in Storage().list(place, recursive=True) if not entry.is_folder]
    told = [name for name in names if name.split("/")[0] in {"kept", "removed", "duplicates", "edges", "near_misses"}]
    assert Storage().exists(f"{root}/out/_SUCCESS")
    return {name: Storage().open(f"{place}/{name}").readall() for name in told}


def bystanders(folder):
    return {name: held for name, held in content(folder).items() if not name.startswith(("out", "store"))}


@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize(
    ("fault", "root"),
    [
        # A disk has three times as many steps.
        pytest.param(fault, place, marks=pytest.mark.full if (fault, place) in OTHERS else ())
        for fault, place in product([*FAULTS, "killed"], PLACES)
    ],
    indirect=["root"],
)
def test_whatever_step_fails_nothing_is_lost_and_a_rerun_gives_the_same(faults, root, fault, overwrite, capsys):
    root, folder = root
    more = ["--overwrite"] if overwrite else []
    before = bystanders(folder)
    faults.reset()
    assert deduplicate(root) == 0
    whole = result(root)
    if overwrite:
        faults.reset()
        assert deduplicate(root, *more) == 0
    count = faults.count
    assert count > 30
    # What is to be replaced is put back, which a run would take longer for.
    finished = folder.parent / f"{folder.name}-finished"
    (folder / "out").rename(finished)
    seen = set()
    first = ([*FAULTS, "killed"].index(fault) + overwrite) % STRIDE
    tried = range(1 + first, count + 1, STRIDE)
    for number in [*tried[:-PUBLISHING:STRIDE], *tried[-PUBLISHING:]]:
        if overwrite:
            shutil.copytree(finished, folder / "out")
        faults.reset(number, FAULTS.get(fault), kill=fault == "killed")
        try:
            status = deduplicate(root, *more)
        except Killed:
            status = None
        step = f"step {number} {faults.steps[number - 1 : number]}"
        said = capsys.readouterr().err
        assert status in {0, 1, 2, None}, step
        assert "Traceback" not in said, f"{step}: {said}"
        seen.add(status)
        faults.reset()
        assert bystanders(folder) == before, step
        if status == 0 or Storage().exists(f"{root}/out/_SUCCESS"):
            # Of an output that is to be replaced, the one before is as good as the new.
            assert result(root) == whole, step
        again = deduplicate(root, *more)
        assert again == 0, f"{step}: {capsys.readouterr().err}"
        assert result(root) == whole, step
        assert {path.name for path in folder.iterdir()} - {"in", "bystander.parquet", "store"} == {"out"}, step
        shutil.rmtree(folder / "out")
    assert seen <= ({None, 0} if fault == "killed" else {0, 2})
