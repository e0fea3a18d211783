"""The history of a store, told in Python and on the command line."""

import json

import pyarrow.parquet as pq
import pytest

import dedup
from dedup.cli import lookup, run
from dedup.cli import store as upkeep
from dedup.store.tables import Tables
from tests.store.sides import Side, deal, list_rows, write
from tests.test_pipeline import make_texts

SETTINGS = {"input.id_column": "id", "engine": "memory"}
PARTS = deal(make_texts(7, originals=8), 3)
BATCHES = {"october": PARTS[0], "november": PARTS[1], "december": PARTS[2]}
SAMPLE = list(PARTS[0].values())[:4]
GONE = [*PARTS[0]][:3]
UNTIMED = {"number", "operation", "batch", "documents", "kept"}


@pytest.fixture
def paths(tmp_path):
    return {name: write(tmp_path / f"{name}.parquet", rows) for name, rows in BATCHES.items()}


def type_history(side, paths, capsys) -> list:
    """Do a whole history by commands; return what they print."""
    path, told = side.tables.path, []

    def call(main, *words):
        assert main([*words]) == 0, words
        told.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])

    def bring(name, *words):
        options = ["--id-column", "id", "--set", "engine=memory", "--output", str(side.folder / name), *words]
        assert run.main(["--store", path, "--batch", name, "--input", str(paths[name]), *options]) == 0
        capsys.readouterr()

    (side.folder / "texts").write_text("".join(json.dumps({"text": text}) + "\n" for text in SAMPLE))
    (side.folder / "gone").write_text("".join(f"{number}\n" for number in [*GONE, -5]))
    bring("october")
    bring("november")
    call(lookup.main, path, "--input", str(side.folder / "texts"), "--json")
    call(lookup.main, path, "--input", str(side.folder / "texts"), "--threshold", "0.9", "--json")
    call(upkeep.main, "delete", path, "--ids", str(side.folder / "gone"), "--readmit", "--json")
    call(upkeep.main, "compact", path, "--json")
    call(upkeep.main, "vacuum", path, "--hours", "0", "--json")
    bring("december", "--reelect")
    call(upkeep.main, "check", path, "--json")
    call(upkeep.main, "history", path, "--json")
    call(upkeep.main, "migrate", path, "--to", f"{path}2", "--id-column", "id", "--threshold", "0.6", "--json")
    return told


def call_history(side, paths) -> list:
    """Do the same in Python; return what comes back, in the words of the commands."""
    store, told = dedup.Store(side.tables.path), []

    def bring(name, *, reelect=False):
        return store.add(paths[name], name, side.folder / name, reelect=reelect, id_column="id", engine="memory")

    def note_matches(found):
        rows = [[match._asdict() for match in matches] for matches in found]
        told.append([{"id": number, "matches": each} for number, each in enumerate(rows, 1)])

    bring("october")
    second = bring("november")
    assert second.kept.to_table().equals(pq.read_table(side.folder / "november" / "kept"))
    assert second.changes.count_rows() == len(side.output("november")["changes"])
    note_matches(store.lookup(SAMPLE))
    note_matches(store.lookup(SAMPLE, threshold=0.9))
    found = store.delete([*GONE, -5], readmit=True)
    counts = {"deleted": found.documents, "not_there": found.absent, "displaced": found.displaced.num_rows}
    told.append([counts, *found.displaced.to_pylist()])
    told.append([store.compact()._asdict()])
    told.append([{"files_deleted": store.vacuum(hours=0)}])
    bring("december", reelect=True)
    told.append([each._asdict() for each in store.check()])
    told.append([each._asdict() for each in store.history()])
    other, edges = store.migrate(f"{store.path}2", id_column="id", threshold=0.6)
    fresh = sum(edges["is_new"].to_pylist())
    counts = {"changed": other.num_rows, "edges_gone": edges.num_rows - fresh, "edges_new": fresh}
    told.append([counts, *other.to_pylist()])
    return told


def test_a_history_in_python_is_that_of_the_command_line(tmp_path, paths, capsys):
    typed, called = Side(tmp_path / "typed", SETTINGS), Side(tmp_path / "called", SETTINGS)
    said, told = type_history(typed, paths, capsys), call_history(called, paths)

    # Seconds since 1970, and as the command writes them.
    for rows in (said[-2], told[-2]):
        assert len(rows) == 5
        rows[:] = [{name: row[name] for name in UNTIMED} for row in rows]
    assert told == said
    assert called.rows() == typed.rows()
    for name in BATCHES:
        assert called.output(name) == typed.output(name), name
    assert list_rows(Tables(f"{called.tables.path}2")) == list_rows(Tables(f"{typed.tables.path}2"))


def test_rows_in_memory_are_a_batch_and_come_back_as_what_they_were(tmp_path):
    words = " ".join(f"word{number}" for number in range(30))
    store = dedup.Store(tmp_path / "store")
    first = dedup.deduplicate([{"id": "a", "text": words}], store=store.path, batch="1", id_column="id")
    second = store.add([{"id": "b", "text": words + " end"}, {"id": "c", "text": "other words"}], "2", id_column="id")

    assert first.kept == [{"id": "a", "text": words}]
    assert [row["id"] for row in second.kept] == ["c"]
    assert [(row["id"], row["representative_id"]) for row in second.duplicates] == [("b", "a")]
    assert second.changes == []
    # The same batch again writes the same output, and leaves the store as it is.
    again = store.add([{"id": "b", "text": words + " end"}, {"id": "c", "text": "other words"}], "2", id_column="id")
    assert again.kept == second.kept
    assert [commit.batch for commit in store.history()] == ["1", "2"]
    with pytest.raises(dedup.DataError, match="'2' is in the store with other documents"):
        store.add([{"id": "b", "text": words}], "2", id_column="id")
    with pytest.raises(dedup.StorageError, match="must be a store"):
        dedup.Store(tmp_path / "none").history()


def test_a_batch_without_a_store_is_refused():
    for given in ({"batch": "1"}, {"reelect": True}):
        with pytest.raises(dedup.ConfigError, match="store: must be given where batch or reelect is"):
            dedup.deduplicate([{"text": "a"}], **given)


def test_an_opened_store_answers_many_times_as_it_was(tmp_path):
    store = dedup.Store(tmp_path / "store")
    store.add([{"id": 1, "text": "some words of a text"}], "1", id_column="id")
    view = store.open()
    store.delete([1])

    assert [[match.id for match in found] for found in view.look_up(["Some words of a text!"] * 2)] == [[1], [1]]
    assert store.lookup(["Some words of a text!"]) == [[]]


def test_arguments_that_no_command_would_take_are_refused_in_a_line(tmp_path):
    store = dedup.Store(tmp_path / "store")
    store.add([{"id": 1, "text": "some words of a text"}], "1", id_column="id")
    for call, said in (
        (lambda: store.lookup(["a"], threshold=2), "threshold: must be a number above 0 and at most 1 (got 2)"),
        (
            lambda: store.lookup(["a"], threshold=float("nan")),
            "threshold: must be a number above 0 and at most 1 (got nan)",
        ),
        (lambda: store.lookup(["a"], threshold="a"), "threshold: must be a number above 0 and at most 1 (got 'a')"),
        (lambda: store.vacuum(hours=-1), "hours: must be a 64-bit integer of at least 0 (got -1)"),
        (lambda: store.vacuum(hours=1.5), "hours: must be a 64-bit integer of at least 0 (got 1.5)"),
        (lambda: store.check(mend=True, hours=-1), "hours: must be a finite number of at least 0 (got -1)"),
        # A list of its characters would be others.
        (lambda: store.delete("15"), "ids: must be a list, as ['15'] (got '15')"),
        (lambda: store.erase("15"), "ids: must be a list, as ['15'] (got '15')"),
        (lambda: store.erase(texts="15"), "texts: must be a list, as ['15'] (got '15')"),
        (lambda: store.erase([1], outputs="out"), "outputs: must be a list, as ['out'] (got 'out')"),
        (lambda: store.lookup("15"), "texts: must be a list, as ['15'] (got '15')"),
        (lambda: store.admit("15"), "texts: must be a list, as ['15'] (got '15')"),
        (lambda: store.erase(where={"source": 5}), "where: source must be a string (got 5)"),
    ):
        with pytest.raises(dedup.ConfigError) as caught:
            call()
        assert str(caught.value) == said
    store.admit(["new words"], [2])
    with pytest.raises(dedup.ConfigError):
        store.vacuum(hours=-1)
    # It takes in what was admitted, once it has something to do.
    assert [each.operation for each in store.history()] == ["add"]
    assert store.check() == []


def test_rows_of_spark_are_refused(spark, tmp_path):
    frame = spark.createDataFrame([(1, "some words")], "id long, text string")
    with pytest.raises(dedup.ConfigError, match="--store: needs files or rows in memory"):
        dedup.Store(tmp_path / "store").add(frame, "1", id_column="id")


def test_an_id_with_the_hash_of_another_in_the_store_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("dedup.kernels.ids.hash_id", lambda user_id, _: len(user_id or b""))
    store = dedup.Store(tmp_path / "store")
    store.add([{"id": "a", "text": "some words of a text"}], "1", **SETTINGS)

    with pytest.raises(dedup.DataError, match=r"other hashes of 64 bits than those of the store \(got 'b', .*'a'"):
        store.add([{"id": "b", "text": "others"}, {"id": "cc", "text": "more"}], "2", **SETTINGS)
    with pytest.raises(dedup.DataError, match="must hold ids that the store has not"):
        store.add([{"id": "a", "text": "others"}], "2", **SETTINGS)
