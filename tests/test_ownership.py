"""The job replaces, moves and deletes nothing but what it has made itself."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.errors import AlertError, FinishedError, StorageError
from dedup.files.storage import Storage
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.run.storage import HadoopStorage
from dedup.run.workspace import MARK, Workspace
from dedup.settings.files import load_config


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    text = "one text that stands here twice over"
    pq.write_table(pa.table({"id": [1, 2, 3], "text": [text, text, "another"]}), folder / "part.parquet")
    return str(folder)


def ask(corpus, output, *settings, overwrite=False):
    # What is replaced is asked here, not who searches: the driver is sooner done with it.
    config = load_config(None, None, ["input.id_column=id", "driver.search_bytes=1_000_000_000", *settings])
    return Job(inputs=[corpus], output=str(output), config=config, overwrite=overwrite)


def deduplicate(spark, corpus, output, *, overwrite=False):
    return run(spark, ask(corpus, output, overwrite=overwrite))


def begin(request, engine, corpus, output, *settings, overwrite=False):
    job = ask(corpus, output, *settings, overwrite=overwrite)
    return run(request.getfixturevalue("spark"), job) if engine == "spark" else run_in_memory(job)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def touched(monkeypatch):
    """Check each path that is deleted or moved, when it is, and return them all."""
    paths = []

    def check(path):
        own = Path(path.removeprefix("file:"))
        is_marked = any((folder / MARK).exists() for folder in (own, *own.parents))
        assert is_marked or own.name.endswith(".lock") or not own.exists(), f"{path} is not the job's own"
        paths.append(own.name)

    def watch(storage, name):
        original = getattr(storage, name)

        def watched(self, path, *more):
            check(path)
            return original(self, path, *more)

        monkeypatch.setattr(storage, name, watched)

    for storage in (HadoopStorage, Storage):
        watch(storage, "delete")
        watch(storage, "rename")
    return paths


@pytest.mark.classic
@pytest.mark.parametrize("engine", ["memory", "spark"])
def test_whatever_is_moved_or_deleted_has_the_mark(request, corpus, output, touched, *, monkeypatch, engine):
    def deduplicate(engine, *settings):
        return begin(request, engine, corpus, output, *settings, overwrite=True)

    deduplicate("memory")
    deduplicate("memory", "threshold=0.7")
    with pytest.raises(AlertError):
        deduplicate("memory", "alerts.removal_rate_above=0", "alerts.on_breach=fail")
    # Cut short amid publishing, in the moment after the rename.
    original = Storage.write_text

    def break_off(self, path, text):
        if path.endswith("output/_SUCCESS"):
            raise StorageError("cut short")
        original(self, path, text)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "write_text", break_off)
        with pytest.raises(StorageError, match="cut short"):
            deduplicate(engine)
    deduplicate(engine)

    assert {"output", "output.partial", "output.replaced", "output.lock"} <= set(touched)
    assert sorted(path.name for path in Path(output).parent.iterdir() if path.name.startswith("output")) == ["output"]


@pytest.mark.parametrize("name", ["output", "output.partial", "output.replaced"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_the_user_is_refused_and_stays_as_it_is(spark, corpus, output, name, overwrite):
    theirs = Path(output).parent / name
    (theirs / "deep").mkdir(parents=True)
    (theirs / "deep" / "thesis.txt").write_text("years of work")
    before = content(theirs)

    with pytest.raises(StorageError, match=r"must be missing or|must not exist"):
        deduplicate(spark, corpus, output, overwrite=overwrite)

    assert content(theirs) == before


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_lock_is_refused_and_stays(spark, corpus, output, kind):
    theirs = Path(f"{output}.lock")
    if kind == "folder":
        theirs.mkdir()
    else:
        theirs.write_text("a diary")

    with pytest.raises(StorageError, match="must be missing or the lock of a run"):
        deduplicate(spark, corpus, output)

    assert theirs.is_dir() or theirs.read_text() == "a diary"


def test_an_input_that_the_output_would_replace_is_refused_and_stays(spark, corpus, tmp_path):
    before = content(Path(corpus))

    for source, output in ((corpus, corpus), (f"{corpus}/part.parquet", corpus), (str(tmp_path), corpus)):
        with pytest.raises(StorageError, match="must lie apart from every input"):
            deduplicate(spark, source, output, overwrite=True)

    assert content(Path(corpus)) == before


@pytest.mark.parametrize("engine", ["memory", "spark"])
def test_an_output_in_a_store_is_refused_and_nothing_is_written(request, corpus, tmp_path, engine):
    store = tmp_path / "store"
    (store / "batches" / "_delta_log").mkdir(parents=True)

    with pytest.raises(StorageError, match=r"^--output .*: must lie outside of every store"):
        begin(request, engine, corpus, store / "out")

    assert [path.name for path in store.iterdir()] == ["batches"]


@pytest.mark.parametrize("engine", ["memory", "spark"])
@pytest.mark.parametrize("link", ["latest", "here/latest/", "file:{folder}/latest"])
def test_a_link_to_an_output_stays_and_what_it_leads_to_is_replaced(request, corpus, *, tmp_path, link, engine):
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "latest").symlink_to("disk/out")
    output = link.format(folder=tmp_path) if ":" in link else tmp_path / link

    for overwrite in (False, True):
        begin(request, engine, corpus, output, overwrite=overwrite)
        (tmp_path / "disk" / "out" / "kept").rename(tmp_path / "disk" / "out" / "changed")
    with pytest.raises(FinishedError):
        begin(request, engine, corpus, tmp_path / "disk" / "out")

    assert (tmp_path / "latest").readlink() == Path("disk/out")
    assert (tmp_path / "latest" / "changed").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "disk", "here", "latest"]
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["out"]


@pytest.mark.parametrize("engine", ["memory", "spark"])
@pytest.mark.parametrize("suffix", ["", ".partial", ".replaced"])
def test_a_mount_point_is_refused_before_any_work(request, corpus, *, tmp_path, monkeypatch, suffix, engine):
    output = tmp_path / "a b\\é"
    Path(f"{output}{suffix}").mkdir()
    escaped = bytes(tmp_path) + rb"/a\040b\134" + f"é{suffix}".encode()
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"63 43 254:0 /a " + escaped + b" rw,relatime - ext4 /dev/vda rw\n")
    monkeypatch.setattr("dedup.files.systems.MOUNTS", str(mounts))
    (tmp_path / "link").symlink_to(output)

    for given in (output, tmp_path / "link"):
        with pytest.raises(StorageError, match=r"^--output .*: must not be a mount point \(.*é.* is one\)"):
            begin(request, engine, corpus, given, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b\\é" + suffix, "corpus", "link", "mounts"]
    with pytest.raises(StorageError, match="must not be a mount point"):
        begin(request, engine, corpus, "/")


@pytest.mark.classic
def test_a_folder_is_deleted_mark_last(spark, output, monkeypatch):
    storage = HadoopStorage(spark)
    with Workspace(storage, output) as workspace:
        workspace.open({"version": "1"}, overwrite=False)
        workspace.publish({"kept/part-0": "", "report.json": "{}"})
    shutil.copytree(output, f"{output}.replaced")
    seen = []
    original = HadoopStorage.delete

    def watch(self, path):
        if path.startswith(f"{output}.replaced"):
            seen.append(storage.exists(f"{output}.replaced/{MARK}"))
        original(self, path)

    monkeypatch.setattr(HadoopStorage, "delete", watch)

    with Workspace(storage, output) as workspace:
        workspace._delete(f"{output}.replaced")

    assert len(seen) > 2
    assert all(seen)
