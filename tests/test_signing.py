"""Shingle sets held from the first pass over the text on, in place of a second one."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.engine import memory
from dedup.errors import DataError
from dedup.layers.near import signing
from dedup.run import local, opening
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config
from tests.store import list_edges, list_members
from tests.store.sides import Side
from tests.templates import make_templates
from tests.test_driver import read_all
from tests.test_pipeline import make_texts


@pytest.fixture
def read_again(monkeypatch):
    """List the rows that a second pass reads, split by split."""
    found = []
    fetch = memory._fetch_split

    def count_fetched(source, item, **settings):
        found.append(item[-1].num_rows)
        return fetch(source, item, **settings)

    monkeypatch.setattr(memory, "_fetch_split", count_fetched)
    monkeypatch.setattr(opening, "SPLIT_BYTES", 1)
    return found


def write(folder, texts_of, name=""):
    folder.mkdir()
    for number, texts in enumerate(texts_of):
        ids = [f"{name}{number} {place}" for place in range(len(texts))]
        pq.write_table(
            pa.table({"id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())}),
            folder / f"{number}.parquet",
        )


def run(folder, output, *settings):
    config = load_config(None, None, ["input.id_column=id", *settings])
    return run_in_memory(Job(inputs=[str(folder)], output=str(output), config=config))


PLAIN = [
    *make_texts(4, originals=6, copies=3),
    *(" ".join(f"w{number}x{place}" for place in range(30)) for number in range(60)),
]


@pytest.mark.parametrize(
    ("settings", "again"),
    [(["buckets.max_bucket=5"], True), (["mode=exact"], False)],
    ids=["a crowd", "exact"],
)
def test_what_is_held_from_the_first_pass_need_not_be_read_again(tmp_path, monkeypatch, read_again, settings, again):
    crowd = make_templates(60, common=120, own=12, copies=10).texts
    write(tmp_path / "in", [crowd, [], PLAIN, crowd[:3]])

    run(tmp_path / "in", tmp_path / "held", *settings)
    held, read_again[:] = [*read_again], []
    monkeypatch.setattr(signing, "HELD_BYTES", 0)
    run(tmp_path / "in", tmp_path / "read", *settings)

    assert bool(held) == again
    assert 0 < sum(held) < len(PLAIN) or not again
    assert sum(read_again) >= sum(held) + len(crowd)
    assert read_all(tmp_path / "held") == read_all(tmp_path / "read")


def test_sets_that_memory_has_no_room_for_are_read_again(tmp_path, monkeypatch, read_again):
    monkeypatch.setattr(local, "HELD_SHARE", 1 << 36)
    write(tmp_path / "in", [PLAIN])

    run(tmp_path / "in", tmp_path / "out", "mode=exact")

    assert 0 < sum(read_again) <= len(PLAIN)


@pytest.mark.parametrize(
    "change", [lambda texts: texts[1:], lambda texts: [f"{text} w" for text in texts]], ids=["gone", "longer"]
)
def test_documents_that_are_others_when_they_are_read_again_end_the_run(tmp_path, monkeypatch, change):
    texts = make_texts(4, originals=3, copies=2)
    write(tmp_path / "in", [texts])
    fetch = memory.MemoryEngine.fetch

    def change_first(*args, **options):
        shutil.rmtree(tmp_path / "in")
        write(tmp_path / "in", [change(texts)])
        return fetch(*args, **options)

    monkeypatch.setattr(memory.MemoryEngine, "fetch", change_first)
    with pytest.raises(DataError, match=r"must not change while the job reads it \(documents are gone or others\)"):
        run(tmp_path / "in", tmp_path / "out")


def test_a_crowd_of_equal_documents_is_none(tmp_path, read_again):
    write(tmp_path / "in", [["the same text over and over again"] * 40 + PLAIN])

    run(tmp_path / "in", tmp_path / "out")

    assert 0 < sum(read_again) < len(PLAIN)


@pytest.mark.parametrize("held", [True, False])
def test_a_batch_of_a_store_is_read_once(tmp_path, monkeypatch, read_again, held):
    # However large the batch is: memory alone decides.
    monkeypatch.setattr(signing, "HELD_BYTES", 0)
    if not held:
        monkeypatch.setattr(local, "HELD_SHARE", 1 << 36)
    side, other = (Side(tmp_path / name, {"input.id_column": "id"}) for name in ("one", "other"))
    for number, texts in enumerate([PLAIN[:20], PLAIN[20:]]):
        write(tmp_path / f"{number}", [texts[::2], texts[1::2]], f"{number}/")
        side.add(f"batch {number}", tmp_path / f"{number}")
    assert (not read_again) == held

    monkeypatch.setattr(local, "HELD_SHARE", 1 << 36)
    for number in range(2):
        other.add(f"batch {number}", tmp_path / f"{number}")

    assert list_edges(side.tables) == list_edges(other.tables) != []
    assert list_members(side.tables) == list_members(other.tables)
