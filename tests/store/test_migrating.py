"""A store made anew with other settings."""

import json
from itertools import product

import pytest

import dedup
from dedup.cli import store as cli
from dedup.files.source import FileSource
from dedup.report.summary import Drawing
from dedup.store.lookup import View
from dedup.store.state import read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check
from tests.store import list_edges, list_members, restore
from tests.store.test_batches import Place, numbered
from tests.test_pipeline import make_texts

TEXTS = make_texts(9, originals=6, copies=4)
PARTS = {name: numbered(TEXTS[10 * place : 10 * place + 10], 100 * place) for place, name in enumerate("abc")}
OTHER = {
    "from its sets": ["--set", "threshold=0.6", "--set", "buckets.max_bucket=20", "--set", "lsh.bands=24"],
    "from texts": ["--set", "shingles.shingle_size=2", "--set", "text.tokens=punctuation"],
}


@pytest.fixture(autouse=True)
def no_plots(monkeypatch):
    monkeypatch.setattr("dedup.run.execution.draw", lambda *_: Drawing())
    monkeypatch.setattr("dedup.run.execution.to_html", lambda *_: "a page")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("made") / "here")
    place.folder.mkdir()
    for name, texts in PARTS.items():
        place.add(name, texts, *(["--reelect"] if name == "b" else []))
    return place.folder


@pytest.fixture
def place(folder):
    restore(folder)
    return Place(folder)


def take_down(place, store, ids):
    (place.folder / "ids").write_text("".join(f"{each}\n" for each in ids))
    cli.main(["delete", str(store), "--ids", str(place.folder / "ids"), "--readmit"])


def migrate(place, *options, to="new"):
    inputs = [f"--input={name}={place.folder / name}.parquet" for name in PARTS]
    arguments = ["migrate", str(place.store), "--to", str(place.folder / to), "--id-column", "id"]
    return cli.main([*arguments, *inputs, *options])


def build(place, *options, parts=PARTS) -> Tables:
    """Add all batches to a store of their own."""
    other = Place(place.folder / "whole")
    other.folder.mkdir(exist_ok=True)
    for name, texts in parts.items():
        assert other.add(name, texts, *(["--reelect"] if name == "b" else []), *options) == 0
    return Tables(str(other.store))


@pytest.mark.parametrize("way", OTHER)
def test_a_store_of_other_settings_is_what_its_batches_make_with_them(place, capsys, way):
    before = place.content()
    old = Tables(str(place.store))
    capsys.readouterr()
    assert migrate(place, *OTHER[way], "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    new, whole = Tables(str(place.folder / "new")), build(place, *OTHER[way])
    assert list_edges(new) == list_edges(whole) != list_edges(old)
    assert list_members(new) == list_members(whole)
    assert {**read_state(new).settings} == {**read_state(whole).settings}
    assert (read_state(new).spec, read_state(new).searched) == (read_state(whole).spec, read_state(whole).searched)
    assert check(new, mend=False) == []
    assert place.content() == before
    lots = [{doc_id: row[1] for doc_id, row in list_members(each).items()} for each in (old, new)]
    other = {each for each in {**lots[0], **lots[1]} if lots[0].get(each, True) != lots[1].get(each, True)}
    edges = [{each[:2] for each in list_edges(each)} for each in (old, new)]
    alone = {"edges_gone": len(edges[0] - edges[1]), "edges_new": len(edges[1] - edges[0])}
    assert told[0] == {"changed": len(other), **alone}
    assert {row["id"]: row["is_kept"] for row in told[1:]} == {each: lots[1].get(each, True) for each in other}
    # The batches are the ones that they were.
    state = read_state(new).number
    place.store = place.folder / "new"
    assert place.add("b", PARTS["b"], "--reelect", *OTHER[way], output="again") == 0
    # But for the note of one more output.
    assert read_state(new).number == state + 1
    assert read_state(new).outputs["a"] == read_state(old).outputs["a"] != []


@pytest.mark.parametrize("way", ["from its sets", pytest.param("from texts", marks=pytest.mark.full)])
def test_what_was_deleted_stays_deleted_and_what_comes_meanwhile_is_taken_over(place, way):
    gone = [*PARTS["b"], 0, 5]
    take_down(place, place.store, gone)
    assert migrate(place, *OTHER[way]) == 0
    left = {name: {key: text for key, text in texts.items() if key not in gone} for name, texts in PARTS.items()}
    new = Tables(str(place.folder / "new"))
    parts = {name: texts for name, texts in left.items() if texts}
    whole = build(place, *OTHER[way], parts=parts)
    assert list_edges(new) == list_edges(whole)
    assert {doc_id: row[1] for doc_id, row in list_members(new).items()}.keys() == list_members(whole).keys()
    assert check(new, mend=False) == []

    late = {"late": numbered(TEXTS[:4], 900)}
    assert place.add("late", late["late"]) == 0
    take_down(place, place.store, [200, 7])
    assert migrate(place, *OTHER[way], f"--input=late={place.folder / 'late.parquet'}") == 0
    build(place, *OTHER[way], parts=late)
    take_down(place, whole.path, [200, 7])
    assert list_edges(new) == list_edges(whole)
    assert check(new, mend=False) == []


@pytest.mark.parametrize(
    ("way", "twice", "times"),
    [
        pytest.param(
            *each, marks=() if each in {("from its sets", True, 2), ("from texts", False, 1)} else pytest.mark.full
        )
        for each in product(OTHER, [False, True], [1, 2])
    ],
)
def test_what_was_deleted_and_came_again_is_of_the_batch_that_brought_it_last(place, way, twice, times):
    if twice:
        assert migrate(place, *OTHER[way]) == 0
    gone, brought = [*PARTS["a"]][:3], []
    for number in range(times):
        take_down(place, place.store, gone[: 3 - number])
        again = {f"again{number}": {gone[0]: TEXTS[7 + number], gone[1]: f"a text of its own {number}"}}
        assert place.add(f"again{number}", again[f"again{number}"]) == 0
        brought.append(f"--input=again{number}={place.folder / f'again{number}'}.parquet")
    take_down(place, place.store, [gone[1]])
    assert migrate(place, *OTHER[way], *brought) == 0

    new, left = Tables(str(place.folder / "new")), {key: text for key, text in PARTS["a"].items() if key not in gone}
    last = {name: {gone[0]: texts[gone[0]]} for name, texts in again.items()}
    whole = build(place, *OTHER[way], parts={**PARTS, "a": left, **last})
    assert list_edges(new) == list_edges(whole)
    assert list_members(new).keys() == list_members(whole).keys()
    assert check(new, mend=False) == []


@pytest.mark.parametrize("held", [True, False])
def test_a_store_cuts_over_to_one_with_shingle_sets_or_without(place, held):
    settings = ("--set", f"shingles.stored={str(held).lower()}")
    if held:
        place.store = place.folder / "without"
        for name, texts in PARTS.items():
            assert place.add(name, texts, "--set", "shingles.stored=false", output=f"{name}-without") == 0
    before = list_edges(Tables(str(place.store)))
    assert migrate(place, *settings, "--cut-over") == 0

    now = Tables(str(place.store))
    assert read_state(now).has_sets == held
    assert list_edges(now) == before
    assert check(now, mend=False) == []
    assert dedup.lookup(now.path, TEXTS[6:7])[0]
    columns = {"shingles"} if held else {"file", "row"}
    assert columns < {*now.log.open("sets").to_pyarrow_table(columns=[*sorted(columns), "set"]).column_names}
    assert place.add("late", numbered(TEXTS[:4], 950), *settings) == 0
    assert check(now, mend=False) == []


@pytest.mark.parametrize("way", [pytest.param("from its sets", marks=pytest.mark.full), "from texts"])
def test_a_store_that_cuts_over_is_the_other_from_one_commit_on_and_goes_on_from_there(place, way, capsys):
    opened = View.open(str(place.store))
    before = next(opened.look_up(TEXTS[:1]))
    take_down(place, place.store, [3])
    dedup.Store(str(place.store)).admit(["a text of its own"], [900])
    admitted = place.write("admitted-5", {900: "a text of its own"})
    assert migrate(place, *OTHER[way], f"--input=admitted-5={admitted}", "--cut-over") == 0
    new, now = Tables(str(place.folder / "new")), Tables(str(place.store))
    assert (list_edges(now), list_members(now)) == (list_edges(new), list_members(new))
    assert check(now, mend=False) == []
    assert [*dedup.Store(now.path).history()][-1].operation == "cut over"
    assert next(opened.look_up(TEXTS[:1])) == before
    assert dedup.lookup(now.path, ["a text of its own"])[0][0].id == 900
    # What it has is settled by the new settings, and what comes is held against it.
    assert place.add("late", numbered(TEXTS[:4], 950)) == 2
    assert "must be" in capsys.readouterr().err
    state = read_state(now).number
    for each in (place.store, place.folder / "new"):
        place.store = each
        assert place.add("late", numbered(TEXTS[:4], 950), *OTHER[way], output=f"late-{each.name}") == 0
    assert (list_edges(now), list_members(now)) == (list_edges(new), list_members(new))
    assert read_state(now).number == state + 1


def test_a_key_is_rotated_by_reading_each_text_once(place, monkeypatch):
    reads, inner = place.folder / "reads", FileSource.read

    def read(self, split, rows=None):
        with reads.open("a") as file:
            file.write(f"{split.parts[0].size}\n")
        return inner(self, split, rows)

    key = place.folder / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    monkeypatch.setattr(FileSource, "read", read)
    assert migrate(place, "--set", f"hash.key_file={key}", "--cut-over") == 0
    assert sorted(map(int, reads.read_text().split())) == sorted(
        (place.folder / f"{name}.parquet").stat().st_size for name in PARTS
    )
    user_id, text = [*PARTS["c"].items()][-1]
    assert user_id in {each.id for each in dedup.lookup(str(place.store), [text])[0]}
    assert check(Tables(str(place.store)), mend=False) == []


def test_texts_that_are_needed_and_not_given_are_asked_for(place, capsys):
    arguments = ["migrate", str(place.store), "--to", str(place.folder / "new"), "--id-column", "id"]
    assert cli.main([*arguments, "--set", "shingles.shingle_size=4", f"--input=a={place.folder / 'a.parquet'}"]) == 2
    assert "since another shingle_size needs their texts (missing: b, c)" in capsys.readouterr().err
    assert cli.main([*arguments, "--set", 'keep.order=["latest:date"]']) == 2
    assert "since another keep.order needs their texts (missing: a, b, c)" in capsys.readouterr().err
    assert cli.main([*arguments[:-1], "other"]) == 2
    assert "input.id_column must be 'id', as in the store (got 'other')" in capsys.readouterr().err
    assert not (place.folder / "new").exists()
    inputs = [f"--input={name}={place.folder / 'a.parquet'}" for name in "abc"]
    assert cli.main([*arguments, *inputs[:1], "--set", "limits.per_source=2"]) == 2
    assert "limits.per_source works in single runs only" in capsys.readouterr().err


def test_a_store_is_not_made_where_it_reads_or_in_another(place, capsys):
    for to, words in (("store", "must lie apart from every input"), ("store/new", "must lie apart from every input")):
        assert migrate(place, to=to) == 2
        assert f"--to {place.folder}/{to}: {words}" in capsys.readouterr().err
    assert migrate(place, to="") == 2
    assert "must lie apart from every input" in capsys.readouterr().err
    assert migrate(place, to="out-a/new") == 2
    assert "must lie outside of every output" in capsys.readouterr().err
