"""Files, folders and listings, on this machine and on an object store."""

import multiprocessing
import os
import pickle
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from dedup.display import hide_secrets
from dedup.errors import DataError, StorageError
from dedup.files import systems
from dedup.files.listing import list_files
from dedup.files.sink import write
from dedup.files.source import open_source
from dedup.files.splits import split_files
from dedup.files.storage import Storage
from dedup.files.systems import can_fork, resolve
from tests.stores import serve_bucket

STORAGE = Storage()


@pytest.fixture(scope="module")
def bucket():
    with serve_bucket() as url:
        yield url


@pytest.fixture(params=["local", "store"])
def root(request, tmp_path):
    """Return a folder that is not there yet."""
    return f"{tmp_path}/root" if request.param == "local" else f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


def test_small_files_are_written_read_renamed_and_deleted(root):
    assert not STORAGE.exists(root)
    STORAGE.write_text(f"{root}/a/b.json", "ünï")
    STORAGE.write_text(f"{root}/a/b.json", "second")
    assert STORAGE.read_text(f"{root}/a/b.json") == "second"
    assert STORAGE.create_text(f"{root}/lock", "first")
    assert not STORAGE.create_text(f"{root}/lock", "other")
    assert STORAGE.read_text(f"{root}/lock") == "first"

    STORAGE.rename(f"{root}/a", f"{root}/c")
    with pytest.raises(StorageError, match=r"lock: must be free to take .*c"):
        STORAGE.rename(f"{root}/c", f"{root}/lock")

    found = [(entry.path, entry.size) for entry in STORAGE.list(root, recursive=True) if not entry.is_folder]
    assert found == [("c/b.json", 6), ("lock", 5)]
    STORAGE.delete(f"{root}/c")
    STORAGE.delete(f"{root}/c")
    assert [entry.path for entry in STORAGE.list(root)] == ["lock"]
    assert STORAGE.list(f"{root}/c") == []


def test_a_corpus_is_read_from_where_it_is_and_written_where_it_should_be(root, tmp_path):
    for name in ("lang=en/code=007/a.parquet", "lang=de/a.parquet"):
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2], "text": ["a", "b"]}), tmp_path / "in" / name)
        STORAGE.copy(str(tmp_path / "in" / name), f"{root}/in/{name}")

    listing = list_files([f"{root}/in"])
    source = pickle.loads(pickle.dumps(open_source(listing, id_column="id", text_column="text")))  # noqa: S301
    texts = [piece.batch["text"].to_pylist() for split in split_files(listing, 1) for piece in source.read(split)]
    write(source, 1, np.array([0]), kept_folder=f"{root}/out/kept", removed_folder=f"{root}/out/removed")
    write(source, 1, np.array([0]), kept_folder=f"{root}/out/kept", removed_folder=f"{root}/out/removed")

    assert texts == [["a", "b"], ["a", "b"]]
    written = list_files([f"{root}/out"]).files
    assert [file.relative for file in written] == [f"{part}/lang=en/code=007/a.parquet" for part in ("kept", "removed")]
    assert [file.path for file in list_files([f"{root}/*/lang=d?"]).files] == [f"{root}/in/lang=de/a.parquet"]


def test_of_many_that_create_a_file_one_succeeds(tmp_path):
    won = []
    threads = [
        threading.Thread(target=lambda: won.append(STORAGE.create_text(f"{tmp_path}/lock", "x"))) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(won) == [False] * 19 + [True]


def test_a_file_that_fails_in_the_midst_leaves_what_was_there(root):
    STORAGE.write_text(f"{root}/a", "old")

    def fail():
        with STORAGE.create(f"{root}/a") as stream:
            stream.write(b"new")
            raise RuntimeError("pulled the plug")

    with pytest.raises(RuntimeError, match="pulled"):
        fail()
    assert STORAGE.read_text(f"{root}/a") == "old"
    assert [entry.path for entry in STORAGE.list(root)] == ["a"]


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002])
def test_files_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        STORAGE.write_text(f"{tmp_path}/new/a", "x")
        STORAGE.create_text(f"{tmp_path}/new/b", "x")
        STORAGE.copy(f"{tmp_path}/new/a", f"{tmp_path}/new/c")
    finally:
        os.umask(before)

    assert {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "new").iterdir()} == {oct(0o666 & ~mask)}


def test_a_link_is_deleted_alone(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "a").touch()
    (tmp_path / "link").symlink_to("precious")

    STORAGE.delete(f"{tmp_path}/link")

    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious" / "a").exists()


def test_a_full_device_is_named_as_the_output_it_is(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n' * 3)
    source = open_source(list_files([str(path)]), id_column="id", text_column="text")
    (tmp_path / "kept").write_text("no folder")

    with pytest.raises(StorageError, match="kept"):
        write(source, 0, np.array([0]), kept_folder=str(tmp_path / "kept"))


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_full_disk_on_which_an_object_is_gathered_is_named_and_leaves_what_was_there(bucket, monkeypatch, size):
    STORAGE.write_text(f"{bucket}/full/a", "old")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "w+b"))  # noqa: PTH123, SIM115 - as there

    def fail():
        with STORAGE.create(f"{bucket}/full/a") as stream:
            stream.write(bytes(size))

    with pytest.raises(StorageError, match=f"^no space is left on the disk of {tempfile.gettempdir()}; make some"):
        fail()
    assert STORAGE.read_text(f"{bucket}/full/a") == "old"


def test_a_file_that_changed_since_it_was_listed_is_not_written(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n')
    source = open_source(list_files([str(path)]), id_column="id", text_column="text")
    os.utime(path, (0, 0))

    with pytest.raises(DataError, match=r"a\.jsonl: must not change while the job reads it"):
        write(source, 0, np.array([]), kept_folder=str(tmp_path / "kept"))


@settings(deadline=None)
@given(secret=st.text(st.sampled_from("s/@:%?#é \\"), min_size=1, max_size=8).map(lambda text: f"Q{text}Z"))
@pytest.mark.parametrize("scheme", ["s3", "gs", "ftp"])
def test_no_message_holds_a_secret(scheme, secret):
    for act in (STORAGE.exists, lambda path: list_files([path])):
        with pytest.raises(StorageError) as refused:
            act(f"{scheme}://Quser:{secret}@bucket/key")
        assert "Q" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "must be a path or glob \\(it is empty\\)"),
        ("a\0b", "NUL"),
        ("a\udcff", r"^(--input )?'a\\udcff': must be a path or glob in UTF-8"),
        ("a" * 256, "names of at most 255 bytes"),
        ("nonsense://host/x", "must be on a local disk, s3, gs, abfs or hdfs"),
    ],
)
def test_what_is_no_path_is_refused_in_one_line(path, message):
    for act in (STORAGE.exists, lambda path: list_files([path])):
        with pytest.raises(StorageError, match=message) as refused:
            act(path)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["/a/b", "file:/a/b", "file:///a/b", "file://localhost/a/b", "FILE:/a/b"])
def test_local_urls_are_paths(path):
    assert resolve(path)[1] == "/a/b"


@pytest.mark.parametrize("name", ["a:b", "2026-11-22T02:44:18", "%41 +#?.txt", "{a,b} [1]*.txt", "ü"])
def test_names_stand_for_themselves(tmp_path, name):
    STORAGE.write_text(f"{tmp_path}/{name}", "x")

    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert [Path(file.path).name for file in list_files([f"{tmp_path}/{name}"], format="text").files] == [name]


def test_only_where_no_jvm_is_taken_processes_are_forked():
    assert can_fork(["/a", "file:/b", "s3://c/d", "gs://e/f", "abfss://g@h/i"])
    assert not can_fork(["/a", "hdfs://name/b"])


class NameNode:
    """What libhdfs answers, of a name node that may be silent."""

    def __init__(self, *, answers, ended=None):
        self.answers, self.ended, self.process = answers, ended, os.getpid()

    def get_file_info(self, path):
        return fs.FileInfo(path, fs.FileType.Directory if self.answers else fs.FileType.NotFound)

    def __del__(self):
        if self.ended is not None and os.getpid() != self.process:
            self.ended.touch()


@pytest.fixture
def hdfs(monkeypatch):
    """Put a client in the place of the one of libhdfs."""

    def put(client):
        clients = [client]
        monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=lambda _: (clients.pop(), "/")))

    monkeypatch.setenv("CLASSPATH", "/hadoop/*")
    monkeypatch.setenv("LIBHDFS_OPTS", "-Xmx1g")
    systems._connect_of.cache_clear()
    yield put
    systems._connect_of.cache_clear()


def test_a_fork_leaves_alone_the_clients_of_the_process_it_is_of(hdfs, tmp_path):
    ended = tmp_path / "ended"
    hdfs(NameNode(answers=True, ended=ended))
    assert resolve("hdfs://name:8020/a")[1] == "/a"
    child = multiprocessing.get_context("fork").Process(target=resolve, args=("/b",))
    child.start()
    child.join(10)

    assert (child.exitcode, ended.exists()) == (0, False)
    assert resolve("hdfs://name:8020/b")[1] == "/b"


def test_hdfs_is_asked_whether_it_answers_and_leaves_ctrl_c_to_the_job(hdfs, monkeypatch):
    hdfs(NameNode(answers=True))
    resolve("hdfs://name:8020/a")
    assert os.environ["LIBHDFS_OPTS"] == "-Xmx1g -Xrs"
    hdfs(NameNode(answers=False))
    with pytest.raises(StorageError, match=r"hdfs://silent/a: must be a path .*\(the name node does not answer\)"):
        resolve("hdfs://silent/a")
    monkeypatch.delenv("CLASSPATH")
    with pytest.raises(StorageError, match=r"hdfs://other/a: .*CLASSPATH must name the jars of Hadoop"):
        resolve("hdfs://other/a")


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({}, (None, None)),
        ({"AZURE_STORAGE_KEY": "a2V5"}, ("a2V5", None)),
        ({"AZURE_STORAGE_SAS_TOKEN": "t"}, (None, "t")),
        ({"AZURE_STORAGE_KEY": "a2V5", "AZURE_STORAGE_SAS_TOKEN": "t"}, ("a2V5", None)),
    ],
)
def test_an_account_of_azure_is_opened_by_what_its_own_tools_take(monkeypatch, held, expected):
    for name in ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in held.items():
        monkeypatch.setenv(name, value)
    asked = []
    monkeypatch.setattr(fs, "AzureFileSystem", lambda **named: asked.append(named) or fs.LocalFileSystem())
    resolve(f"abfss://box@account{len(str(held))}.dfs.core.windows.net/a")

    [named] = asked
    assert named["account_name"].startswith("account")
    assert (named["account_key"], named["sas_token"]) == expected


@pytest.mark.parametrize("key", ["not base64!", "abc", "YWJj\n", "schlüssel"])
def test_a_key_of_azure_that_is_none_is_refused_before_its_client_ends_the_process(monkeypatch, key):
    monkeypatch.setenv("AZURE_STORAGE_KEY", key)
    systems._connect_of.cache_clear()
    for act in (STORAGE.exists, lambda path: STORAGE.write_text(path, "")):
        with pytest.raises(StorageError, match=r"\(AZURE_STORAGE_KEY must be the account's key, in base64") as refused:
            act("abfs://box@account.dfs.core.windows.net/a")
        assert key not in str(refused.value)


def test_a_signature_of_azure_is_in_no_message():
    told = "failed: 'https://a.blob.core.windows.net/c?sig=Q%2F+Q=&sv=1' and https://a/?sv=1&sig=QQ: no"
    with pytest.raises(StorageError) as refused, systems.readable("abfs://c@a/x"):
        raise OSError(told)
    for said in (str(refused.value), hide_secrets(told)):
        assert "Q" not in said
        assert "c?sig=***&sv=1' and https://a/?sv=1&sig=***" in said
