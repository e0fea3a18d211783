"""Stores that hold no shingle sets, and make the few that they need of the texts again."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dedup
from dedup.store.snapshot import Snapshot
from dedup.store.state import read_state
from dedup.store.upkeep import check
from tests.store import restore
from tests.store.sides import Side, deal, write
from tests.test_pipeline import make_texts

SETTINGS = {"input.id_column": "id", "threshold": 0.6, "buckets.max_bucket": 4}
BATCHES = deal(make_texts(5, originals=8, copies=6), 3)
LEFT = {"shingles.stored": False}


def grow(folder, settings, paths, spark=None) -> Side:
    side = Side(folder, SETTINGS | settings)
    for number, path in enumerate(paths):
        side.add(f"{number}", path, spark)
        if number == 1:
            dedup.Store(side.tables.path).delete([*BATCHES[0]][:2], readmit=True)
    return side


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Side:
    folder = tmp_path_factory.mktemp("made") / "here"
    folder.mkdir()
    return grow(
        folder / "without", LEFT, [write(folder / f"{number}.parquet", rows) for number, rows in enumerate(BATCHES)]
    )


@pytest.fixture
def without(made) -> Side:
    """Return a store without shingle sets."""
    restore(made.folder.parent)
    return made


@pytest.fixture
def paths(without) -> list[Path]:
    """Return its batches."""
    return [without.folder.with_name(f"{number}.parquet") for number in range(len(BATCHES))]


@pytest.mark.parametrize("on_spark", [False, pytest.param(True, marks=pytest.mark.full)])
def test_without_shingle_sets_all_is_as_with_them(tmp_path, without, paths, request, on_spark):
    one = grow(tmp_path / "with", {}, paths)
    other = grow(tmp_path / "without", LEFT, paths, request.getfixturevalue("spark")) if on_spark else without
    texts = [*BATCHES[2].values()]

    for number in range(len(paths)):
        assert other.output(f"{number}") == one.output(f"{number}"), number
    snapshots = [Snapshot(tables=side.tables, state=read_state(side.tables)) for side in (one, other)]
    assert "shingles" not in snapshots[1].read("sets").schema.names
    assert snapshots[1].read("edges").equals(snapshots[0].read("edges"))
    stores = [dedup.Store(side.tables.path) for side in (one, other)]
    assert stores[1].lookup(texts) == stores[0].lookup(texts)
    assert any(stores[0].lookup(texts))
    stores[1].compact()
    assert check(other.tables, mend=False) == []
    assert stores[1].lookup(texts) == stores[0].lookup(texts)


@pytest.mark.parametrize("change", ["gone", "other"])
def test_a_text_that_is_gone_or_another_is_told(without, paths, change):
    rows = pq.read_table(paths[2])
    if change == "gone":
        paths[2].unlink()
    else:
        write(paths[2], {number: f"{text} more" for number, text in BATCHES[2].items()})

    with pytest.raises(dedup.StorageError, match=r"2\.parquet: must be as a batch of the store has read it"):
        dedup.Store(without.tables.path).lookup(rows["text"].to_pylist())


def test_what_keeps_no_texts_is_refused(tmp_path, without, paths):
    store = dedup.Store(without.tables.path)
    with pytest.raises(dedup.ConfigError, match="false needs files as input"):
        store.add([{"id": 1, "text": "a"}], "3", **(SETTINGS | LEFT))
    with pytest.raises(dedup.ConfigError, match="must hold shingle sets"):
        store.admit(["some text"])
    with pytest.raises(dedup.ConfigError, match="must be False, as in the store"):
        store.add(str(paths[0]), "3", tmp_path / "out", settings=SETTINGS)
