"""Batches that Spark adds while things go wrong, and elsewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from dedup.store.log import Log
from dedup.store.state import read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check
from tests.store.sides import Side, deal, write
from tests.stores import serve_bucket
from tests.test_pipeline import make_texts

ROOT = Path(__file__).resolve().parents[2]


def test_a_batch_of_spark_on_an_object_store_is_that_of_the_memory_engine(tmp_path):
    batches = deal(make_texts(7, originals=4, copies=3), 2)
    settings = {"input.id_column": "id"}
    with serve_bucket() as bucket:
        one, other = Side(tmp_path / "here", settings), Side(tmp_path / "there", settings)
        other.tables = Tables(f"{bucket}/stores/joined")
        paths = [write(tmp_path / f"{number}.parquet", rows) for number, rows in enumerate(batches)]
        for number, path in enumerate(paths):
            one.add(f"{number}", path)
        other.add("0", paths[0])
        # Workers have the credentials that Spark was started with.
        command = [*(sys.executable, "jobs/deduplicate.py", "--engine", "spark", "--id-column", "id", "--batch", "1")]
        command += ["--store", other.tables.path, "--input", str(paths[1]), "--output", str(other.folder / "1")]
        command += ["--set", "driver.search_bytes=0"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

        assert done.returncode == 0, done.stderr
        assert other.rows() == one.rows()
        assert other.output("1") == one.output("1")


class Killed(Exception):  # noqa: N818 - no error of the program
    """What ends a run in the middle of it."""


@pytest.mark.full
def test_a_batch_of_spark_that_dies_leaves_the_store_as_it_was_and_is_finished_by_the_same_command(
    spark, tmp_path, monkeypatch
):
    first, second = deal(make_texts(7, originals=4, copies=3), 2)
    settings = {"input.id_column": "id"}
    side, whole = Side(tmp_path / "side", settings), Side(tmp_path / "whole", settings)
    paths = [write(tmp_path / "a.parquet", first), write(tmp_path / "b.parquet", second)]
    for each in (side, whole):
        each.add("a", paths[0])
    whole.add("b", paths[1])
    before = side.rows()
    commit = Log.commit

    def die(log, name, *args, **named):
        # Files are written, and those of some tables committed.
        if name == "members":
            raise Killed
        return commit(log, name, *args, **named)

    monkeypatch.setattr(Log, "commit", die)
    with pytest.raises(Killed):
        side.add("b", paths[1], spark)
    monkeypatch.setattr(Log, "commit", commit)
    assert (read_state(side.tables).number, side.rows()) == (1, before)

    side.add("b", paths[1], spark)
    assert side.rows() == whole.rows()
    assert side.output("b") == whole.output("b")
    assert check(side.tables, mend=True, hours=0)
    assert check(side.tables, mend=False, hours=0) == []


@pytest.mark.full
def test_files_of_tasks_are_no_wider_open_than_the_folder_of_the_store(spark, tmp_path):
    side = Side(tmp_path / "side", {"input.id_column": "id"})
    store = Path(side.tables.path)
    store.mkdir(0o700)
    side.add("a", write(tmp_path / "a.parquet", deal(make_texts(7, originals=3), 1)[0]), spark)

    assert [path for path in store.rglob("*") if path.stat().st_mode & 0o077] == []


@pytest.mark.full
def test_a_batch_of_spark_starts_over_where_another_writer_was_first(spark, tmp_path, monkeypatch):
    first, second = deal(make_texts(7, originals=4, copies=3), 2)
    settings = {"input.id_column": "id"}
    side, whole = Side(tmp_path / "side", settings), Side(tmp_path / "whole", settings)
    paths = [write(tmp_path / "a.parquet", first), write(tmp_path / "b.parquet", second)]
    for name, path in zip("ab", paths, strict=True):
        whole.add(name, path)
    commit, rivals = Tables.commit_state, ["a"]

    def come_late(tables, *args):
        if rivals:
            side.add(rivals.pop(), paths[0])
        return commit(tables, *args)

    monkeypatch.setattr(Tables, "commit_state", come_late)
    side.add("b", paths[1], spark)

    assert side.rows() == whole.rows()
    assert side.output("b") == whole.output("b")
