"""A store whose writers are killed at any step, run at the same time, or do the work of many days."""

import shutil
import subprocess
import sys
from random import Random

import pytest
from deltalake import DeltaTable

from dedup.cli import store as store_cli
from dedup.files.storage import Storage
from dedup.report.summary import Drawing
from dedup.run import lock
from dedup.run.session import ROOT
from dedup.store.state import read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check, compact, vacuum
from tests.chaos.conftest import STRIDE
from tests.conftest import PROFILE
from tests.engine import SEARCH, Row
from tests.store import edges_of, find_union, list_edges, list_members, members_of
from tests.store.test_batches import Place, numbered
from tests.test_pipeline import make_texts

TEXTS = make_texts(11, originals=7, copies=5)
TABLES = ("kept", "removed", "duplicates", "edges", "near_misses", "changes")


class Killed(BaseException):
    """What ends a process that is killed: nothing after it reaches the disk."""


class Steps:
    """Counts what changes the disk, and kills at one of these steps, before it or right after it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self, at: float = 0) -> None:
        self.count, self.at, self.names = 0, at, []

    def watch(self, name, work):
        def step(*given, **named):
            self.count += 1
            self.names.append(name)
            if self.count > self.at > 0:
                raise Killed
            return work(*given, **named)

        return step


@pytest.fixture
def steps(monkeypatch):
    steps = Steps()
    for owner, names in {
        Storage: ("create", "delete", "rename", "create_text"),
        DeltaTable: ("create", "create_write_transaction"),
    }.items():
        for name in names:
            monkeypatch.setattr(owner, name, steps.watch(name, getattr(owner, name)))
    monkeypatch.setattr(lock, "_is_alive", lambda _: False)
    for name, seconds in {"SETTLE_SECONDS": 0, "BEAT_SECONDS": 60, "PATIENCE_SECONDS": 0}.items():
        monkeypatch.setattr(lock, name, seconds)
    monkeypatch.setattr("dedup.run.execution.draw", lambda *_: Drawing())
    monkeypatch.setattr("dedup.run.execution.to_html", lambda *_: "a page")
    return steps


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def union(texts) -> list[tuple]:
    return edges_of(find_union([Row(number, text) for number, text in texts.items()], SEARCH))


@pytest.mark.parametrize("first", [True, False], ids=["the first batch", "a later batch"])
def test_a_batch_killed_at_any_step_leaves_the_store_as_it_was_and_is_finished_by_the_same_command(
    place, steps, first, tmp_path
):
    before = {} if first else numbered(TEXTS[:16])
    after = before | numbered(TEXTS[16:28], 16)
    earlier = tmp_path / "earlier"
    if before:
        assert place.add("a", before) == 0
        shutil.copytree(place.store, earlier)
    whole = Place(tmp_path / "whole")
    whole.folder.mkdir()
    if before:
        shutil.copytree(earlier, whole.store)
    steps.reset()
    whole.add("b", numbered(TEXTS[16:28], 16))
    count, states = steps.count, {*()}
    assert {"create", "create_write_transaction", "rename"} <= set(steps.names)
    killed = []
    tables = Tables(str(place.store))
    for at in range(count, 0, -STRIDE):
        steps.reset(at)
        try:
            place.add("b", numbered(TEXTS[16:28], 16))
        except Killed:
            killed.append(at)
        steps.reset()
        known = tables.exists() and Storage().exists(f"{place.store}/hot/_delta_log") and read_state(tables).number
        states.add(known)
        if known:
            assert check(tables, mend=False) == [], at
            assert list_edges(tables) == union(after if known == 1 + bool(before) else before), at
        assert place.add("b", numbered(TEXTS[16:28], 16)) == 0, at
        assert list_edges(tables) == union(after), at
        for table in TABLES:
            assert place.read("b", table) == whole.read("b", table), (at, table)
        # As it was before the batch.
        Storage().delete(str(place.folder / "out-b"))
        Storage().delete(str(place.store))
        if before:
            shutil.copytree(earlier, place.store)
    assert killed[0] >= count - STRIDE
    assert states >= ({False, 1} if first else {1, 2})


def test_a_deletion_killed_at_any_step_is_done_or_not(place, steps, tmp_path):
    texts = numbered(TEXTS[:30])
    (tmp_path / "ids").write_text("3\n8\n15\n", "utf-8")
    left = {number: text for number, text in texts.items() if number not in {3, 8, 15}}
    arguments = ["delete", str(place.store), "--ids", str(tmp_path / "ids")]
    at, seen = 0, set()
    place.add("a", texts)
    shutil.copytree(place.store, tmp_path / "earlier")
    while True:
        at += STRIDE
        steps.reset(at)
        try:
            store_cli.main(arguments)
            break
        except Killed:
            pass
        steps.reset()
        tables = Tables(str(place.store))
        seen.add(read_state(tables).number)
        assert check(tables, mend=False) == []
        assert list_edges(tables) == union(texts if read_state(tables).number == 1 else left)
        assert store_cli.main(arguments) == 0
        assert list_edges(tables) == union(left)
        Storage().delete(str(place.store))
        shutil.copytree(tmp_path / "earlier", place.store)
    assert seen == {1, 2}


@pytest.mark.parametrize("setting", ["lsh.bands=24", "shingles.shingle_size=4"], ids=["from its sets", "from texts"])
def test_a_migration_killed_at_any_step_leaves_the_store_as_it_was_and_is_finished_by_the_same_command(
    place, steps, setting, tmp_path
):
    parts = {"a": numbered(TEXTS[:12]), "b": numbered(TEXTS[12:20], 12)}
    for name, texts in parts.items():
        place.add(name, texts)
    (tmp_path / "ids").write_text("3\n13\n", "utf-8")
    store_cli.main(["delete", str(place.store), "--ids", str(tmp_path / "ids")])
    new, before = Tables(str(tmp_path / "new")), place.content()
    arguments = ["migrate", str(place.store), "--to", new.path, "--id-column", "id", "--set", setting]
    arguments += [f"--input={name}={tmp_path / name}.parquet" for name in parts]
    steps.reset()
    assert store_cli.main(arguments) == 0
    whole, seen = (list_edges(new), list_members(new)), set()
    for at in range(3, steps.count, 7 if PROFILE == "full" else steps.count // 4):
        Storage().delete(new.path)
        steps.reset(at)
        with pytest.raises(Killed):
            store_cli.main(arguments)
        steps.reset()
        known = new.exists() and Storage().exists(f"{new.path}/hot/_delta_log")
        seen.add(read_state(new).number if known else None)
        assert not known or check(new, mend=False) == []
        assert store_cli.main(arguments) == 0
        assert (list_edges(new), list_members(new)) == whole, at
        assert place.content() == before
    # Before its batches, and between these and what is taken out of them.
    assert seen >= {None, 0}
    assert seen & {1, 2, 3}


def test_writers_at_the_same_time_lose_no_row(place):
    parts = {f"{number}": numbered(TEXTS[number::2], 100 * number) for number in range(2)}
    writers = [
        subprocess.Popen(
            [
                *(sys.executable, "jobs/deduplicate.py", "--input", place.write(name, texts), "--id-column", "id"),
                *("--store", str(place.store), "--batch", name, "--output", str(place.folder / f"out-{name}")),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, texts in parts.items()
    ]
    told = [writer.communicate(timeout=120)[0] for writer in writers]

    assert [said for writer, said in zip(writers, told, strict=True) if writer.returncode] == []
    tables = Tables(str(place.store))
    assert sorted(row["batch"] for row in place.history()) == sorted(parts)
    assert check(tables, mend=False, hours=0) == []
    assert list_edges(tables) == union({number: text for texts in parts.values() for number, text in texts.items()})


def test_many_days_of_batches_with_all_that_goes_wrong_are_one_run(place, steps, tmp_path):
    chance, count, killed = Random(5), 30 if PROFILE == "full" else 10, 0
    texts = make_texts(5, originals=14, copies=5)
    ids = chance.sample(range(1000), len(texts))
    days = {f"2026-11-{day:02}": dict(zip(ids[day::count], texts[day::count], strict=True)) for day in range(count)}
    late = "2026-11-07"
    tables = Tables(str(place.store))
    for day in [*(day for day in days if day != late and days[day]), late]:
        if chance.random() < 0.3:
            steps.reset(chance.randint(1, 60))
        try:
            place.add(day, days[day])
        except Killed:
            killed += 1
            steps.reset()
            place.add(day, days[day])
        steps.reset()
        if day.endswith("3"):
            # The scheduler runs it once more, into another folder.
            assert place.add(day, days[day], output=f"again-{day}") == 0
        if day == f"2026-11-{count // 2:02}":
            (tmp_path / "ids").write_text("\n".join(map(str, [*days["2026-11-01"], *days["2026-11-02"]])), "utf-8")
            assert store_cli.main(["delete", str(place.store), "--ids", str(tmp_path / "ids")]) == 0
        if day == f"2026-11-{2 * count // 3:02}":
            compact(tables)
            vacuum(tables, 0)
    assert killed > 1
    assert place.add("last", {5000: "nothing"}, "--reelect") == 0

    gone = {*days["2026-11-01"], *days["2026-11-02"]}
    rows = [Row(number, text) for day in days.values() for number, text in day.items() if number not in gone]
    found = find_union([*rows, Row(5000, "nothing")], SEARCH)
    assert list_edges(tables) == edges_of(found)
    assert list_members(tables) == members_of(found)
    assert check(tables, mend=False) == []
