"""Documents admitted to a store one by one."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from threading import Timer

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dedup
from dedup.cli import run as cli
from dedup.errors import ConfigError, DataError, StorageError
from dedup.store import journal
from dedup.store.admission import Admission, Request, Verdict
from dedup.store.admitted import take_admitted
from dedup.store.election import DISPLACED
from dedup.store.journal import Position, list_segments, locate, read_journal
from dedup.store.lookup import View
from dedup.store.snapshot import Snapshot
from dedup.store.state import read_rows, read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check
from tests.engine import SEARCH, Row
from tests.store import add, edges_of, find_union, list_edges, list_members, members_of, take_down
from tests.store.test_equality import make_rows
from tests.strategies import runs

# So many bands that no pair at the threshold is missed, and the texts that share one are often below it.
WIDE = replace(SEARCH, bands=40, rows=2, threshold=0.7)
TEXTS = ["one two three four five six seven", "another text of some other words", "one two three four five six seven!"]


def open_(tables: Tables) -> Admission:
    return Admission(View.open(tables.path))


def admit(admission: Admission, rows: list[Row], sizes: Sequence[int] = ()) -> list[Verdict]:
    """Admit rows by requests of some sizes, all at once, or by one."""
    left, requests = iter(rows), []
    for size in sizes or [len(rows)]:
        taken = [*islice(left, size)]
        requests.append(Request([row.text for row in taken], [row.id for row in taken]))
    answers = admission.admit(requests)
    assert not [each for each in answers if isinstance(each, DataError)]
    return [answer for each in answers for answer in each]


def find_best(before: list[Row], row: Row, search) -> tuple[float | None, set[int]]:
    """Return the greatest similarity of a row to others by one run over all, and the rows that have it."""
    found = find_union([*before, row], search)
    heads = {each["doc_id"]: each["set_id"] for each in found.identical.to_pylist()}
    head = heads.get(row.id, row.id)
    met = {head: 1.0} if row.text.split() else {}
    for left, right, jaccard in (tuple(each.values()) for each in found.edges.to_pylist()):
        if head in {left, right}:
            met[left + right - head] = jaccard
    similar = {each.id: met[heads.get(each.id, each.id)] for each in before if heads.get(each.id, each.id) in met}
    best = max(similar.values(), default=None)
    return best, {doc_id for doc_id, value in similar.items() if value == best}


def read_members(tables: Tables) -> list[dict]:
    return Snapshot(tables=tables, state=read_state(tables)).members().to_pylist()


def list_ids(tables: Tables) -> list[int]:
    return sorted(Snapshot(tables=tables, state=read_state(tables)).places().doc_ids.tolist())


@runs(2)
@given(seed=st.integers(0, 2**32), by_representative=st.booleans(), held=st.booleans())
def test_answers_are_those_of_a_batch_and_tables_those_of_one_run_whatever_happens(
    tmp_path_factory, monkeypatch, seed, by_representative, held
):
    monkeypatch.setattr("dedup.store.resident.HELD_SHARE", 1 if held else 1 << 60)
    search, chance = replace(WIDE, by_representative=by_representative), Random(seed)
    tables, rows = Tables(str(tmp_path_factory.mktemp("store"))), make_rows(seed)
    chance.shuffle(rows)
    there, rows = rows[:6], rows[6:]
    add(tables, "first", there, search)
    admission = open_(tables)
    lots: dict[int, bool] = {}
    while rows:
        match chance.choice(["admit", "admit", "admit", "crash", "batch", "delete"]):
            case "admit":
                came, rows = rows[:5], rows[5:]
                answers = admit(admission, came, [1, 2, 2])
                for row, answer in zip(came, answers, strict=True):
                    if not by_representative:
                        best, similar = find_best(there, row, search)
                        assert (answer.id, answer.jaccard) == (row.id, best)
                        assert answer.of in similar or (answer.of is None and not similar)
                    assert not answer.unsure
                    lots[row.id] = not answer.duplicate
                    there.append(row)
            case "crash":
                admission = open_(tables)
            case "batch":
                take_admitted(tables)
                told = {row["doc_id"]: row["kept"] for row in read_members(tables)}
                assert {doc_id: told.get(doc_id, True) for doc_id in lots} == lots
                came, rows = rows[:3], rows[3:]
                add(tables, f"batch {len(rows)}", came, search)
                there += came
                admission.take_over(admission.look())
                assert not admission.pending
            case "delete" if len(there) > 2:
                gone = chance.sample(there, 2)
                take_admitted(tables)
                take_down(tables, [row.id for row in gone])
                there = [row for row in there if row not in gone]
                # Nobody is kept for these, so one like them would be.
                displaced = {row["doc_id"] for row in read_members(tables) if row["kind"] == DISPLACED}
                take_down(tables, [*displaced])
                there = [row for row in there if row.id not in displaced]
                lots = {}
                admission.take_over(admission.look())
    take_admitted(tables)
    assert list_edges(tables) == edges_of(find_union(there, search))
    assert check(tables, mend=False) == []
    add(tables, "last", [Row(1000, "")], search, anew=True)
    assert list_members(tables) == members_of(find_union([*there, Row(1000, "")], search))


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """Return the path of a store, which each test has a copy of."""
    tables = Tables(str(tmp_path_factory.mktemp("grown") / "store"))
    add(tables, "first", [Row(number, text) for number, text in enumerate(TEXTS)], SEARCH)
    return tables.path


@pytest.fixture
def tables(grown, tmp_path):
    return Tables(str(shutil.copytree(grown, tmp_path / "store")))


def test_the_same_text_empty_ones_and_short_ones(tables):
    texts = ["new words", "New words!", "", "", "?", "new", "new words", TEXTS[0]]
    answers = admit(open_(tables), [Row(number, text) for number, text in enumerate(texts, 10)])

    assert [answer.of for answer in answers] == [None, 10, None, None, None, None, 10, 0]
    assert [answer.jaccard for answer in answers] == [None, 1.0, None, None, None, None, 1.0, 1.0]


def test_texts_of_a_request_that_resemble_one_another_alone(tables):
    words = " ".join(f"word{number}" for number in range(60))
    first, second = admit(open_(tables), [Row(10, words), Row(11, f"{words} end")])

    assert (first.of, second.of) == (None, 10)


def test_an_id_once_more_has_its_answer_again_and_with_another_text_none(tables):
    admission = open_(tables)
    first = admit(admission, [Row(10, "new words"), Row(11, "new words")])
    assert admit(admission, [Row(10, "New words"), Row(11, "new words")]) == first
    assert admit(open_(tables), [Row(10, "New words"), Row(11, "new words")]) == first
    refused, fine, twice = admission.admit(
        [Request(["other words"] * 3, [12, 10, 0]), Request(["a"], [13]), Request(["a", "b"], [14, 14])]
    )

    assert str(refused) == "ids: must be of no other document (got 2 that are: 10, 0)"
    assert fine == [Verdict(13, None, None, unsure=False)]
    assert str(twice) == "ids: must be of no other document (got 1 that are: 14)"
    assert admission.pending == 3


def test_copies_of_a_document_that_was_deleted_meanwhile_are_those_of_the_first_that_came(tables):
    admission = open_(tables)
    take_down(tables, [1])
    before = admit(admission, [Row(10, TEXTS[1])])
    admission.take_over(admission.look())
    for number, each in enumerate((admission, open_(tables)), 11):
        assert [answer.of for answer in admit(each, [Row(number, TEXTS[1])])] == [10]
        assert admit(each, [Row(10, TEXTS[1])]) == before == [Verdict(10, 1, 1.0, unsure=False)]


def test_a_text_that_a_batch_brought_meanwhile_goes_and_one_like_it_stays(tables):
    words = " ".join(f"word{number}" for number in range(60))
    admission = open_(tables)
    add(tables, "second", [Row(20, "new words"), Row(21, words)], SEARCH)
    assert [each.of for each in admit(admission, [Row(10, "new words"), Row(11, f"{words} end")])] == [None, None]
    take_admitted(tables)
    assert {row["doc_id"]: row["kept"] for row in read_members(tables) if row["doc_id"] in {10, 11}} == {
        10: False,
        11: True,
    }


def test_without_ids_a_text_is_its_own(tables):
    admission = open_(tables)
    [[one, other, again, empty, nothing]] = admission.admit(
        [Request(["new words", "New words", "new words", "", ""], None)]
    )

    assert len({one.id, other.id, empty.id}) == 3
    assert (one.of, other.of, again, empty.of, nothing.of) == (
        None,
        one.id,
        Verdict(one.id, one.id, 1.0, unsure=False),
        None,
        None,
    )
    take_admitted(tables)
    admission.take_over(admission.look())
    [[later]] = admission.admit([Request(["new words"], None)])
    assert (later.id, later.of, later.jaccard, admission.pending) == (one.id, one.id, 1.0, 0)
    take_admitted(tables)
    assert len(list_ids(tables)) == 6


def test_ids_and_texts_of_other_types_are_refused(tables):
    admission = open_(tables)
    for ids in ([1.5], ["1"], [True], [1 << 63], [1, 2]):
        with pytest.raises(DataError, match=r"^ids: must be .*\(got "):
            admission.check(Request(["a text"], ids))
    with pytest.raises(DataError, match="texts: must be strings"):
        admission.check(Request([None], [1]))


def test_a_crowd_is_met_as_far_as_the_cap_and_said_to_be(tmp_path):
    tables = Tables(str(tmp_path / "store"))
    search = replace(SEARCH, bands=40, rows=1, max_bucket=3, threshold=0.99, estimate_sigmas=9.0)
    words = " ".join(f"word{number}" for number in range(60))
    add(tables, "first", [Row(number, f"{words} end{number}") for number in range(6)], search)
    [near, other] = admit(open_(tables), [Row(10, f"{words} end"), Row(11, "something else")])

    assert (near.of, near.unsure, other.unsure) == (None, True, False)


@pytest.mark.parametrize("harm", ["cut", "flip"])
def test_what_was_answered_before_a_crash_is_there_and_a_frame_cut_short_is_not(tables, harm):
    admission = open_(tables)
    admit(admission, [Row(10, "first text")])
    admit(admission, [Row(11, "second text")])
    [segment] = list_segments(tables)
    path = Path(locate(tables, segment))
    content = path.read_bytes()
    begin = next(position.end for position, _ in read_journal(tables, Position(0, 0), read_state(tables).kind))
    for at in range(begin, len(content), 7):
        harmed = content[:at] if harm == "cut" else content[:at] + bytes([255 - content[at]]) + content[at + 1 :]
        path.write_bytes(harmed)
        left = [rows["id"].to_pylist() for _, rows in read_journal(tables, Position(0, 0), read_state(tables).kind)]
        assert left == [[10]]
    admission = open_(tables)
    admit(admission, [Row(12, "third text")])
    take_admitted(tables)
    assert list_ids(tables) == [0, 1, 2, 10, 12]


def test_a_storage_that_fails_leaves_nothing_in_memory_and_the_next_is_whole(tables, monkeypatch):
    admission = open_(tables)
    with monkeypatch.context() as patch:
        patch.setattr(journal.os, "write", lambda file, content: os.pwrite(file, content[:9], 0) and 1 / 0)
        with pytest.raises(ZeroDivisionError):
            admit(admission, [Row(10, "a text of its own")])
    assert admission.pending == 0
    assert admit(admission, [Row(11, "a text of its own")]) == [Verdict(11, None, None, unsure=False)]
    assert [answer.of for answer in admit(open_(tables), [Row(12, "a text of its own")])] == [11]


def test_an_answer_is_only_given_while_no_other_admits(tables):
    def fail():
        raise StorageError("another has begun")

    admission = Admission(View.open(tables.path), fail)
    with pytest.raises(StorageError, match="another has begun"):
        admit(admission, [Row(10, "a text of its own")])


def test_batches_deletions_and_compaction_take_what_was_admitted(tmp_path):
    store = dedup.Store(tmp_path / "store")
    rows = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    store.add(rows, "first", id_column="id", engine="memory")
    assert read_state(Tables(str(store.path))).to_json().count('"format": 1') == 1
    assert [each.of for each in store.admit(["new words", TEXTS[0]], ["a", "secret"])] == [None, "0"]
    with pytest.raises(DataError, match="must be of no other document"):
        store.admit(["other words"], ["a"])
    assert store.delete(["secret"]).documents == 1
    assert read_state(Tables(str(store.path))).to_json().count('"format": 2') == 1
    store.vacuum(hours=0)
    content = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert not [path for path, each in content.items() if b"secret" in each]
    store.admit(["newer words"], ["b"])
    found = store.add([{"id": "c", "text": "newer words"}], "second", id_column="id", engine="memory")
    assert [row["representative_id"] for row in found.duplicates] == ["b"]
    store.admit(["newest words"], ["d"])
    store.compact()
    assert [(each.operation, each.batch, each.documents, each.kept) for each in store.history()] == [
        ("add", "first", 3, 2),
        ("admit", "admitted-2", 2, 1),
        ("delete", "", 1, 0),
        ("admit", "admitted-4", 1, 1),
        ("add", "second", 1, 0),
        ("admit", "admitted-6", 1, 1),
        ("compact", "", 0, 0),
    ]
    assert store.check() == []
    told = [each[0]._replace(batch="") for each in store.lookup(["new words", "newer words", "newest words"])]
    assert told == [dedup.Match(name, 1.0, "", kept=True) for name in "abd"]


def test_batches_of_admitted_documents_have_names_of_their_own_also_in_a_store_that_was_migrated(tmp_path):
    store, other, third = (dedup.Store(tmp_path / name) for name in ("store", "other", "third"))
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS[:2])]
    store.add(rows, "first", id_column="id", engine="memory")
    store.delete([0])
    store.admit(["new words"], [10])
    store.migrate(other.path, id_column="id", threshold=0.7)
    other.migrate(third.path, id_column="id", threshold=0.6)
    other.admit(["newer words"], [11])
    assert other.migrate(third.path, id_column="id", threshold=0.6).changes.num_rows == 0
    assert [each.batch for each in third.history()] == ["first", "admitted-3", "admitted-4"]


@pytest.mark.parametrize("local", [True, False])
def test_what_was_deleted_leaves_the_journal_by_a_vacuum_while_a_process_admits(tables, monkeypatch, local):
    monkeypatch.setattr("dedup.run.lock.BEAT_SECONDS", 0.05)
    monkeypatch.setattr(journal, "is_local", lambda _: local)
    store = dedup.Store(tables.path)
    with store.admission() as admission:
        admit(admission, [Row(10, "first words"), Row(11, "second words")])
        store.delete([10])
        # It looks a second later.
        looking = Timer(1, lambda: admission.take_over(admission.look()))
        looking.start()
        store.vacuum(hours=0)
        looking.join()
        assert [*read_journal(tables, Position(0, 0), read_state(tables).kind)] == []
        admit(admission, [Row(12, "third words")])
    store.compact()
    assert list_ids(tables) == [0, 1, 2, 11, 12]


def test_ids_with_halves_of_surrogate_pairs_are_those_of_lines_of_json(tmp_path):
    store = dedup.Store(tmp_path / "store")
    rows = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    store.add(rows, "first", id_column="id", engine="memory")
    assert [each.id for each in store.admit(["new words"], ["a\ud800"])] == ["a\ufffd"]
    assert store.delete(["a\ud800"]).documents == 1


def test_one_process_admits_and_stores_of_other_layers_are_refused(tmp_path, tables, monkeypatch, capsys):
    monkeypatch.setattr("dedup.run.lock.BEAT_SECONDS", 0.05)
    monkeypatch.setattr("dedup.store.admitted.PATIENCE_SECONDS", 0)
    store = dedup.Store(tables.path)
    with store.admission() as admission:
        admit(admission, [Row(10, "new words")])
        with pytest.raises(StorageError, match="no other run must be at work on this store"), store.admission():
            pass
        # Its documents are taken, and what it writes next is not lost.
        store.vacuum(hours=0)
        admit(admission, [Row(11, "newer words")])
    store.vacuum(hours=0)
    assert (list_segments(tables), read_rows(tables)[0]["documents"].to_pylist()) == ([], [3, 1, 1])
    with pytest.raises(StorageError, match="must be a store"), dedup.Store(tmp_path / "none").admission():
        pass
    assert not (tmp_path / "none").exists()
    rows = [{"id": 1, "text": "a text", "day": 1}]
    for settings, words in (({"layers": ["exact", "near"]}, "layers"), ({"keep.order": ["highest:day"]}, "columns")):
        other = dedup.Store(tmp_path / words)
        other.add(rows, "first", id_column="id", engine="memory", settings=settings)
        with pytest.raises(ConfigError, match=words), other.admission():
            pass
    batch = ["--store", tables.path, "--batch", "admitted-9", "--input", "in.jsonl", "--output", str(tmp_path / "out")]
    assert cli.main(batch) == 2
    assert "must not begin with 'admitted-'" in capsys.readouterr().err
