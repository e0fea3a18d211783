"""A batch that Spark adds is the batch that the memory engine adds."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup.errors import DataError
from dedup.run.growing import Growth, add_batch
from dedup.run.job import Job
from dedup.settings.files import load_config
from dedup.store.schemas import TABLES
from dedup.store.snapshot import Snapshot, to_sets
from dedup.store.state import read_rows, read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check
from tests.store import list_edges, list_members
from tests.stores import serve_bucket
from tests.test_pipeline import make_texts

OUTPUTS = ("kept", "removed", "duplicates", "edges", "near_misses", "changes")


class Side:
    """A store, grown by one engine or by both in turn."""

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        folder.mkdir()
        self.folder, self.settings = folder, settings
        self.tables = Tables(str(folder / "store"))

    def add(self, name: str, path: Path, spark=None, *, anew: bool = False) -> dict:
        engine = "memory" if spark is None else "spark"
        config = load_config(settings={**self.settings, "engine": engine})
        job = Job(inputs=[str(path)], output=str(self.folder / name), config=config)
        return add_batch(job, Growth(store=self.tables.path, batch=name, anew=anew), spark=spark)

    def output(self, name: str) -> dict[str, list]:
        found = {}
        for table in OUTPUTS:
            rows = ds.dataset(self.folder / name / table).to_table().to_pylist() if self.has(name, table) else []
            found[table] = sorted(tuple(row.values()) for row in rows)
        return found

    def has(self, name: str, table: str) -> bool:
        return (self.folder / name / table).exists()

    def rows(self) -> dict[str, list]:
        """Return the rows of all tables."""
        snapshot = Snapshot(tables=self.tables, state=read_state(self.tables))
        found = {}
        for name in TABLES:
            rows = snapshot.read(name)
            if name == "sets":
                values, offsets = to_sets(rows["shingles"])
                rows = rows.drop_columns(["shingles"])
                rows = rows.append_column("shingles", pa.array(np.split(values, offsets[1:-1]), pa.list_(pa.uint64())))
            found[name] = sorted(repr(tuple(row.values())) for row in rows.to_pylist())
        return found


def write(path: Path, rows: dict[int, str], *, column: str = "id") -> Path:
    columns = {"text": list(rows.values())} | ({column: list(rows)} if column else {})
    pq.write_table(pa.table(columns), path, row_group_size=8)
    return path


def hold_together(tmp_path, spark, batches, settings, *, anew=(), engines=(True, True, True, True)):
    """Add batches to two stores, by memory and by the engines told, and compare all that is written."""
    one, other = Side(tmp_path / "memory", settings), Side(tmp_path / "joined", settings)
    for number, (rows, is_spark) in enumerate(zip(batches, engines, strict=False)):
        path = write(tmp_path / f"{number}.parquet", rows, column=settings.get("input.id_column", ""))
        name = f"batch{number}"
        memory = one.add(name, path, anew=number in anew)
        joined = other.add(name, path, spark if is_spark else None, anew=number in anew)
        assert other.output(name) == one.output(name), number
        assert other.rows() == one.rows(), number
        for count in ("documents", "kept", "removed", "identical", "near", "chained"):
            assert joined[count] == memory[count], count
    assert check(other.tables, mend=False) == []
    histories = [read_rows(side.tables)[0].drop_columns(["state", "time"]).to_pylist() for side in (one, other)]
    assert histories[0] == histories[1]
    return other


def deal(texts, count, seed=3):
    """Return the texts in so many batches, under ids in another order than theirs."""
    ids = Random(seed).sample(range(1000), len(texts))
    rows = dict(zip(ids, texts, strict=True))
    return [dict(list(rows.items())[number::count]) for number in range(count)]


@pytest.mark.parametrize("engines", [(True, True, True), (False, True, False)], ids=["Spark alone", "both in turn"])
def test_batches_added_by_spark_are_those_of_the_memory_engine(spark, tmp_path, engines):
    batches = deal(make_texts(7, originals=8, copies=4), 3)
    settings = {"input.id_column": "id"}

    side = hold_together(tmp_path, spark, batches, settings, anew={2}, engines=engines)

    assert list_edges(side.tables)
    assert {row[1] for row in list_members(side.tables).values()} == {True, False}


def template(chance, number, *, words=60, changed=1):
    """Return a text of a template with a few words of its own."""
    tokens = [f"t{place}" for place in range(words)]
    for place in chance.sample(range(words), changed):
        tokens[place] = f"own{number}x{place}"
    return " ".join(tokens)


def test_buckets_over_the_cap_are_linked_anew_as_in_memory(spark, tmp_path):
    chance = Random(11)
    texts = [template(chance, number, changed=1 + number % 3) for number in range(40)]
    texts += make_texts(5, originals=4, copies=3)
    settings = {"input.id_column": "id", "buckets.max_bucket": 4}
    batches = deal(texts, 3)

    side = hold_together(tmp_path, spark, batches, settings, engines=(False, True, True))

    assert side.rows()["hot"]


def test_rows_without_ids_and_rows_of_the_store_that_come_again_are_told_as_in_memory(spark, tmp_path):
    texts = ["", "one two three four five six", "one two three four five six", *make_texts(3, originals=3, copies=3)]
    batches = [dict(enumerate(texts[:14])), dict(enumerate(["", *texts[8:], texts[1], texts[1], "new"]))]

    side = hold_together(tmp_path, spark, batches, {}, engines=(True, True))

    told = pq.read_table(side.folder / "batch1" / "duplicates").to_pylist()
    assert [row for row in told if row["id"] == row["representative_id"]]


def test_ids_that_the_store_has_are_refused_by_name_on_spark_too(spark, tmp_path):
    side = Side(tmp_path / "side", {"input.id_column": "id"})
    side.add("a", write(tmp_path / "a.parquet", {1: "a text", 7: "one more"}))
    before = side.rows()

    with pytest.raises(DataError, match=r"must hold ids that the store has not \(got 1 that it has: 7\)"):
        side.add("b", write(tmp_path / "b.parquet", {100: "other", 7: "another"}), spark)
    assert side.rows() == before


def test_a_batch_of_spark_on_an_object_store_is_that_of_the_memory_engine(spark, tmp_path):
    batches = deal(make_texts(7, originals=4, copies=3), 2)
    settings = {"input.id_column": "id"}
    with serve_bucket() as bucket:
        one, other = Side(tmp_path / "here", settings), Side(tmp_path / "there", settings)
        other.tables = Tables(f"{bucket}/stores/joined")
        for number, rows in enumerate(batches):
            path = write(tmp_path / f"{number}.parquet", rows)
            one.add(f"{number}", path)
            other.add(f"{number}", path, spark)
            assert other.output(f"{number}") == one.output(f"{number}")
        assert other.rows() == one.rows()


class Killed(Exception):  # noqa: N818 - no error of the program
    """What ends a run in the middle of it."""


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
    commit = Tables.commit

    def die(tables, name, *args):
        # Files are written, and those of some tables committed.
        if name == "members":
            raise Killed
        return commit(tables, name, *args)

    monkeypatch.setattr(Tables, "commit", die)
    with pytest.raises(Killed):
        side.add("b", paths[1], spark)
    monkeypatch.setattr(Tables, "commit", commit)
    assert (read_state(side.tables).number, side.rows()) == (1, before)

    side.add("b", paths[1], spark)
    assert side.rows() == whole.rows()
    assert side.output("b") == whole.output("b")
    assert check(side.tables, mend=True, hours=0)
    assert check(side.tables, mend=False, hours=0) == []


def test_files_of_tasks_are_no_wider_open_than_the_folder_of_the_store(spark, tmp_path):
    side = Side(tmp_path / "side", {"input.id_column": "id"})
    store = Path(side.tables.path)
    store.mkdir(0o700)
    side.add("a", write(tmp_path / "a.parquet", deal(make_texts(7, originals=3), 1)[0]), spark)

    assert [path for path in store.rglob("*") if path.stat().st_mode & 0o077] == []


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
