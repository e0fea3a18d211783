"""Where Delta Lake is asked for a table, and what it says where it cannot answer."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dedup.errors import StorageError
from dedup.files.systems import _connect_of
from dedup.store import log
from dedup.store.folder import File
from dedup.store.log import Log
from dedup.store.schemas import BATCHES


@pytest.fixture
def asked(monkeypatch):
    """Return the names and options that Delta Lake is asked with, which answers in colour that it cannot."""
    found = []

    def refuse(uri, *, storage_options, **_):
        found.append((uri, storage_options))
        raise DeltaError("Kernel error\n\x1b[31m↳\x1b[0m at https://a/?sig=secret: refused")

    monkeypatch.setattr(log, "DeltaTable", refuse)
    _connect_of.cache_clear()
    yield found
    _connect_of.cache_clear()


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("s3a://bucket/x/", "s3://bucket/x/bands"),
        ("S3N://bucket/x", "s3://bucket/x/bands"),
        ("file:///x", "/x/bands"),
        ("abfs://c@account.dfs.core.windows.net/x", "abfs://c@account.dfs.core.windows.net/x/bands"),
    ],
)
def test_a_table_is_asked_for_by_a_name_that_delta_lake_knows(monkeypatch, asked, path, uri):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")

    with pytest.raises(
        StorageError, match=r"/bands: must be a table of Delta Lake \(Kernel error ↳ at .*=\*\*\* refused\)$"
    ):
        Log(path).open("bands")

    [(found, options)] = asked
    assert found == uri
    assert ("AWS_ENDPOINT_URL" in options, options.get("AZURE_STORAGE_ACCOUNT_KEY")) == (
        uri.startswith("s3"),
        "a2V5" if uri.startswith("abfs") else None,
    )


@pytest.mark.parametrize(
    ("path", "name", "value", "words"),
    [
        ("s3://bucket/x", "AWS_ENDPOINT_URL", "localhost:9", "AWS_ENDPOINT_URL must begin with http:// or https:// "),
        ("abfs://c@account/x", "AZURE_STORAGE_KEY", "none!", "AZURE_STORAGE_KEY must be the account's key"),
        ("s4://bucket/x", "A", "a", "must be on a local disk, s3, gs, abfs or hdfs"),
        ("s3:///x", "A", "a", "must name a bucket"),
    ],
)
def test_what_delta_lake_would_die_of_is_refused_before(monkeypatch, asked, *, path, name, value, words):
    monkeypatch.setenv(name, value)

    with pytest.raises(StorageError, match=words):
        Log(path).open("bands")
    assert asked == []


def test_a_table_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "batches").write_text("a file")
    monkeypatch.setattr(log, "DeltaTable", DeltaTable)

    with pytest.raises(StorageError, match=f"{tmp_path}/batches: must be a table of Delta Lake"):
        Log(str(tmp_path)).create("batches", log.pa.schema([("a", log.pa.int64())]))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("\x1b[31m↳\x1b[0m No space left on device (os error 28)\n", "no space is left on the disk of {}; make some"),
        ("Read-only file system (os error 30)", r"{}: must be a table of Delta Lake \(Read-only"),
        ("Generic S3 error: refused", r"{}: must be a table of Delta Lake \(Generic S3 error: refused\)"),
        ("Error performing PUT: 503", r"{}: must be a table that can be read and written \(Error performing PUT: 503"),
    ],
)
def test_a_disk_that_takes_no_commit_is_told_in_a_line(tmp_path, monkeypatch, said, words):
    def refuse(*_, **__):
        raise OSError(said)

    file = File(path="a.parquet", size=1, segment="", rows=1)
    own = Log(str(tmp_path))
    for name in ("bands", BATCHES):
        own.create(name, pa.schema([("number", pa.int64())]))
    for method in ("create_write_transaction", "vacuum"):
        monkeypatch.setattr(DeltaTable, method, refuse)
    for name, act in (
        ("bands", lambda: own.commit("bands", [file], [])),
        ("bands", lambda: own.vacuum("bands", 0)),
        (BATCHES, lambda: own.commit_state(0, 1, file)),
    ):
        with pytest.raises(StorageError, match=f"^{words.format(tmp_path / name)}"):
            act()
