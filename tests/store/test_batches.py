"""Batches of files added to a store by the command."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dedup.cli import run as cli
from dedup.errors import StorageError
from dedup.files.storage import Storage
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config
from dedup.store.folder import narrow
from dedup.store.log import Log
from dedup.store.schemas import SEGMENT, TABLES, list_layouts
from dedup.store.state import create, read_rows, read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import compact, vacuum
from tests.store import list_edges, list_members, restore
from tests.test_pipeline import make_texts

TEXTS = make_texts(7, originals=6, copies=5)


class Place:
    """A store and what is written beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"

    def write(self, name: str, texts: dict[int, str]) -> str:
        path, table = self.folder / f"{name}.parquet", pa.table({"id": list(texts), "text": list(texts.values())})
        # A file that is written again is another one to a run.
        if not path.exists() or pq.read_table(path) != table:
            pq.write_table(table, path)
        return str(path)

    def add(self, name: str, texts: dict[int, str], *options: str, output: str = "") -> int:
        arguments = ["--input", self.write(name, texts), "--output", str(self.folder / (output or f"out-{name}"))]
        return cli.main([*arguments, "--store", str(self.store), "--batch", name, "--id-column", "id", *options])

    def read(self, name: str, table: str) -> list[dict]:
        return ds.dataset(self.folder / f"out-{name}" / table).to_table().to_pylist()

    def kept(self) -> set[int]:
        found = [ds.dataset(path / "kept").to_table()["id"].to_pylist() for path in self.folder.glob("out-*")]
        return {each for ids in found for each in ids}

    def history(self) -> list[dict]:
        return read_rows(Tables(str(self.store)))[0].drop_columns(["state"]).to_pylist()

    def content(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.store.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("made") / "here")
    place.folder.mkdir()
    place.add("a", numbered(TEXTS[:20]))
    place.add("b", numbered(TEXTS[20:], 20))
    return place


@pytest.fixture
def grown(made):
    """Return a place with two batches."""
    restore(made.folder)
    return made


def numbered(texts, first=0):
    return dict(enumerate(texts, first))


def test_outputs_of_batches_hold_together_what_one_run_keeps(place, tmp_path):
    parts = [numbered(TEXTS[begin : begin + 8], begin) for begin in range(0, len(TEXTS), 8)]
    for number, part in enumerate(parts):
        assert place.add(f"{number}", part) == 0
    config = load_config(None, None, ["input.id_column=id"])
    whole = place.write("whole", numbered(TEXTS))
    run_in_memory(Job(inputs=[whole], output=str(tmp_path / "one"), config=config))

    # Ids ascend with the batches, so those kept first are those of the least ids.
    assert place.kept() == set(ds.dataset(tmp_path / "one" / "kept").to_table()["id"].to_pylist())
    found = {row["id"]: row for number in range(len(parts)) for row in place.read(f"{number}", "duplicates")}
    assert found == {row["id"]: row for row in ds.dataset(tmp_path / "one" / "duplicates").to_table().to_pylist()}
    edges = [tuple(row.values()) for row in ds.dataset(tmp_path / "one" / "edges").to_table().to_pylist()]
    told = [tuple(row.values()) for number in range(len(parts)) for row in place.read(f"{number}", "edges")]
    assert sorted(told) == sorted(edges) == list_edges(Tables(str(place.store)))


def test_kept_and_removed_of_a_batch_are_its_documents(grown):
    rows = [*grown.read("b", "kept"), *grown.read("b", "removed")]
    assert {row["id"]: row["text"] for row in rows} == numbered(TEXTS[20:], 20)
    report = json.loads((grown.folder / "out-b" / "report.json").read_text())
    assert report["documents"] == len(rows)
    assert report["removed"] == len(grown.read("b", "removed")) == len(grown.read("b", "duplicates")) > 0
    assert {row["representative_id"] for row in grown.read("b", "duplicates")} & set(range(20))


def test_the_same_batch_twice_changes_nothing(grown, capsys):
    before = grown.content()

    assert grown.add("a", numbered(TEXTS[:20])) == 0
    assert "is finished" in capsys.readouterr().err
    assert grown.content() == before
    # But for the note of where its documents are now too.
    assert grown.add("a", numbered(TEXTS[:20]), output="out-again") == 0
    after = grown.content()
    assert {path: after[path] for path in before} == before
    assert all("/batches/" in path for path in after.keys() - before.keys())
    assert [row["operation"] for row in grown.history()] == ["add", "add", "output"]
    assert grown.add("a", numbered(TEXTS[:20]), output="out-again") == 0
    assert grown.content() == after
    for table in ("kept", "removed", "duplicates", "edges", "near_misses"):
        assert grown.read("again", table) == grown.read("a", table)


def test_other_documents_under_the_name_of_a_batch_are_refused(grown, capsys):
    assert grown.add("a", numbered(TEXTS[1:20]), output="other") == 2
    assert "'a' is in the store with other documents" in capsys.readouterr().err
    assert [row["batch"] for row in grown.history()] == ["a", "b"]


def test_ids_that_the_store_has_are_refused_by_name(grown, capsys):
    before = grown.content()

    assert grown.add("c", {100: "other", 7: "another"}) == 2
    assert "column 'id' must hold ids that the store has not (got 1 that it has: 7)" in capsys.readouterr().err
    assert grown.content() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "shingles.shingle_size=4"], "hash specification: shingle_size must be 5, as in the store (got 4)"),
        (["--set", "threshold=0.7"], "--store: threshold must be 0.8, as in the store (got 0.7)"),
        (["--set", "buckets.max_bucket=9"], "buckets.max_bucket must be 150, as in the store (got 9)"),
        (["--set", "limits.per_source=1"], "limits.per_source works in single runs only"),
        (["--set", "mode=exact"], 'needs mode = "lsh"'),
    ],
)
def test_other_settings_than_those_of_the_first_batch_are_refused(grown, capsys, options, message):
    assert grown.add("c", numbered(TEXTS[20:], 100), *options) == 2
    assert message in capsys.readouterr().err


def test_rows_of_the_store_that_come_again_without_an_id_column_are_copies_of_themselves(place, tmp_path):
    for name, texts in (("a", ["one two three four five six", ""]), ("b", ["", "one two three four five six", "new"])):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"text": texts}), path)
        arguments = ["--input", str(path), "--output", str(tmp_path / f"out-{name}")]
        assert cli.main([*arguments, "--store", str(place.store), "--batch", name]) == 0

    assert [row["text"] for row in place.read("b", "kept")] == ["new"]
    assert [(row["kind"], row["id"] == row["representative_id"]) for row in place.read("b", "duplicates")] == [
        ("identical", True),
        ("identical", True),
    ]


def test_a_document_kept_stays_kept_and_what_a_merge_would_change_is_listed(place):
    words = [f"w{number}" for number in range(60)]
    left, right = words[:50], words[6:56]  # 40 of 52 shingles shared
    middle = words[3:53]
    place.add("a", {5: " ".join(left)})
    place.add("b", {6: " ".join(right)})
    assert place.kept() == {5, 6}
    place.add("c", {4: " ".join(middle)})

    [row] = place.read("c", "duplicates")
    assert (row["id"], row["representative_id"]) == (4, 5)
    assert place.read("c", "changes") == [
        {"id": 6, "batch": "b", "was_kept": True, "is_kept": True, "would_be_kept": False, "component_id": 4}
        | {"layer": "near", "begin": None, "end": None}
    ]
    place.add("d", {7: "something else altogether that waits for nobody"}, "--reelect")
    assert {doc_id: row[1] for doc_id, row in list_members(Tables(str(place.store))).items()} == {
        4: True,
        5: False,
        6: False,
    }
    assert sorted((row["id"], row["was_kept"], row["is_kept"]) for row in place.read("d", "changes")) == [
        (4, False, True),
        (5, True, False),
        (6, True, False),
    ]


def test_a_jump_of_the_removal_rate_is_an_alert_against_the_batches_before(place, capsys):
    place.add("a", numbered(TEXTS[:20]))
    options = ["--set", "alerts.removal_rate_change_above=0.2", "--set", "alerts.on_breach=fail"]

    assert place.add("b", numbered(TEXTS[:20], 100), *options) == 3
    assert "removal_rate_change is" in capsys.readouterr().err
    assert read_state(Tables(str(place.store))).number == 1
    assert place.add("b", numbered(TEXTS[:20], 100)) == 0


def test_an_output_whose_store_was_vacuumed_cannot_be_made_again_and_one_line_says_so(grown, capsys):
    tables = Tables(str(grown.store))
    compact(tables)
    vacuum(tables, 0)
    before = grown.content()

    assert grown.add("b", numbered(TEXTS[20:], 20), output="again") == 2
    assert "vacuum has deleted what was there before it" in capsys.readouterr().err
    assert grown.content() == before


def test_an_output_is_made_again_once_the_storage_gives_the_store_and_no_vacuum_is_blamed(grown, monkeypatch, capsys):
    def refuse(storage, path):
        if "/sets/" in path:
            raise StorageError(f"{path}: must be a path that can be read and written (AWS Error SLOW_DOWN)")
        return opened(storage, path)

    opened = Storage.open
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "open", refuse)
        assert grown.add("b", numbered(TEXTS[20:], 20), output="again") == 2
    said = capsys.readouterr().err
    assert "SLOW_DOWN" in said
    assert "vacuum" not in said
    assert grown.add("b", numbered(TEXTS[20:], 20), output="again") == 0


@pytest.mark.parametrize("mode", [0o700, 0o750])
def test_files_are_no_wider_open_than_the_folder_of_the_store(place, mode):
    place.store.mkdir(mode)
    place.store.chmod(mode)
    place.add("a", numbered(TEXTS[:20]))
    place.add("b", numbered(TEXTS[20:], 20))
    compact(Tables(str(place.store)))

    assert [path for path in place.store.rglob("*") if path.stat().st_mode & 0o777 & ~mode] == []


def test_files_written_side_by_side_are_no_wider_open_than_the_folder_and_leave_the_umask_as_it_was(tmp_path):
    tmp_path.chmod(0o700)
    tables, layout, rows = Tables(str(tmp_path)), list_layouts(pa.int64())["hot"], pa.table({"key": [1]})
    first, second, written = (threading.Event() for _ in range(3))

    def supply(here: threading.Event, awaited: threading.Event):
        here.set()
        assert awaited.wait(60)
        yield rows

    before = os.umask(0o022)
    try:
        with ThreadPoolExecutor(2) as writers:
            quick = writers.submit(tables.write, "hot", "1", layout, supply(first, second))
            assert first.wait(60)
            slow = writers.submit(tables.write, "hot", "1", layout, supply(second, written))
            files = quick.result()
            written.set()
            files += slow.result()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert [(tmp_path / "hot" / file.path).stat().st_mode & 0o077 for file in files] == [0, 0]


def test_the_umask_is_that_of_a_store_for_one_thread_at_a_time(tmp_path):
    tmp_path.chmod(0o700)
    path, entered = str(tmp_path), threading.Event()

    def enter():
        with narrow(path):
            entered.set()

    before = os.umask(0o022)
    try:
        with ThreadPoolExecutor(1) as other:
            with narrow(path):
                waiting = other.submit(enter)
                assert not entered.wait(0.2)
            waiting.result()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_batch_needs_a_store_and_a_store_a_batch(place, capsys):
    arguments = ["--input", place.write("a", numbered(TEXTS)), "--output", str(place.folder / "out")]
    with pytest.raises(SystemExit):
        cli.main([*arguments, "--batch", "a"])
    assert "need --store" in capsys.readouterr().err
    assert cli.main([*arguments, "--store", str(place.store)]) == 2
    assert "--batch: must name the batch" in capsys.readouterr().err
    assert cli.main([*arguments, "--store", str(place.store), "--batch", "\udcff"]) == 2
    assert "--batch: must be a Unicode string" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["memory", "spark"])
def test_a_store_where_others_read_or_write_is_refused_and_nothing_is_written(tmp_path, capsys, engine):
    place = Place(tmp_path)
    assert place.add("a", numbered(TEXTS[:20])) == 0
    folder = tmp_path / "in"
    folder.mkdir()
    source = shutil.move(place.write("b", numbered(TEXTS[20:], 20)), folder)
    before = sorted(tmp_path.rglob("*"))
    arguments = ["--input", str(folder), "--batch", "b", "--engine", engine]
    for store, output, words in (
        (folder / "store", "out", f"--store {folder}/store: must lie apart from every input ({folder} and "),
        (folder, "out", f"--store {folder}: must lie apart from every input"),
        (place.store / "more", "out", f"--store {place.store}/more: must lie outside of every store"),
        (tmp_path / "out-a" / "more", "out", "must lie outside of every output"),
        (tmp_path / "more", "more/out", f"--output {tmp_path}/more/out: must lie apart from every input"),
        (tmp_path / "out" / "more", "out", "must lie apart from every input"),
        (tmp_path / "more", "store/out", "must lie outside of every store"),
    ):
        assert cli.main([*arguments, "--store", str(store), "--output", str(tmp_path / output)]) == 2
        assert words in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
    assert source in map(str, before)


def test_a_store_that_cannot_be_made_is_named(place, capsys):
    (place.folder / "file").touch()
    place.store = place.folder / "file" / "store"

    assert place.add("a", numbered(TEXTS[:20])) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said == f"dedup: {place.store}: must be a path that can be read and written (Not a directory)"
    assert not (place.folder / "out-a").exists()


def test_a_store_that_another_writer_is_about_to_make_is_none_yet(place):
    (place.store / "batches" / "_delta_log").mkdir(parents=True)

    assert place.add("a", numbered(TEXTS[:20])) == 0


def test_the_tables_of_a_first_batch_that_failed_get_the_columns_of_the_next_one(place):
    create(Tables(str(place.store)), pa.string(), has_sets=False)

    assert place.add("a", numbered(TEXTS[:20])) == 0
    for name, layout in list_layouts(pa.int64()).items():
        if name in TABLES:
            told = json.loads(DeltaTable(place.store / name).schema().to_json())["fields"]
            assert [each["name"] for each in told] == [*layout.schema.names, SEGMENT]
    assert pa.schema(DeltaTable(place.store / "documents").schema()).field("id").type == pa.int64()


def die(*_):
    raise KeyboardInterrupt


def read_columns(store: Path) -> pa.DataType:
    """Return the type of ids by the log, having read all rows by it."""
    table = DeltaTable(store / "documents")
    told = pa.schema(table.schema()).field("id").type
    for path in table.file_uris():
        assert pq.read_schema(path).field("id").type == told
    return told


def test_files_of_a_first_batch_that_died_before_its_state_do_not_decide_the_columns(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "commit_state", die)
        assert place.add("a", {f"t{name}": text for name, text in numbered(TEXTS[:20]).items()}) != 0
    assert DeltaTable(place.store / "documents").file_uris()

    assert place.add("b", numbered(TEXTS[:20])) == 0
    assert read_columns(place.store) == pa.int64()
    assert place.add("c", numbered(TEXTS[20:], 20)) == 0


@pytest.mark.parametrize("moment", ["begin", "commit", "commit_state"])
@pytest.mark.parametrize("late", ["files", "batch"])
def test_of_two_first_batches_with_ids_of_two_types_one_is_in_and_whole(place, monkeypatch, capsys, moment, late):
    texts, done = numbered(TEXTS[:20]), []
    others = {f"t{name}": text for name, text in texts.items()}
    act = getattr(Log, moment)

    def come_between(*arguments, **named):
        if not done:
            done.append(moment)
            with monkeypatch.context() as patch:
                if late == "files":
                    patch.setattr(Tables, "commit_state", die)
                place.add("other", others)
        return act(*arguments, **named)

    monkeypatch.setattr(Log, moment, come_between)
    status = place.add("own", texts)

    assert done == [moment]
    [row] = place.history()
    if late == "batch":
        assert (status, row["batch"], read_columns(place.store)) == (2, "other", pa.string())
        assert "ids must be of type string, as in the store (got int64)" in capsys.readouterr().err
    else:
        assert (status, row["batch"], read_columns(place.store)) == (0, "own", pa.int64())
    assert row["documents"] == sum(file.rows for file in Tables(str(place.store)).list_files("documents")) == 20
