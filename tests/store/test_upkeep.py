"""What keeps a store in order."""

import errno
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyarrow import csv

from dedup.cli import store as cli
from dedup.errors import DataError, StorageError
from dedup.files.storage import Storage
from dedup.files.systems import find_reason
from dedup.store.deleting import delete_ids
from dedup.store.schemas import BATCHES, TABLES, list_layouts
from dedup.store.snapshot import Snapshot
from dedup.store.state import Label, State, create, read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check, compact, count_files, list_history, vacuum
from dedup.store.writing import Writing
from tests.engine import SEARCH, Corpus, Row
from tests.store import add, edges_of, find_union, list_edges, list_members, prepare, take_down
from tests.test_pipeline import make_texts

ROWS = [Row(number + 7_000_000_001, text) for number, text in enumerate(make_texts(3, originals=8))]


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """Return the path of a store, which each test has a copy of."""
    tables = Tables(str(tmp_path_factory.mktemp("grown") / "store"))
    for number in range(4):
        add(tables, f"{number}", ROWS[number::4], SEARCH)
    return tables.path


@pytest.fixture
def tables(grown, tmp_path):
    return Tables(str(shutil.copytree(grown, tmp_path / "store")))


def find(folder, content: bytes) -> list[Path]:
    return [path for path in Path(folder).rglob("*") if path.is_file() and content in path.read_bytes()]


def test_compaction_changes_the_files_and_nothing_else(tables):
    edges, members = list_edges(tables), list_members(tables)
    before, after = count_files(tables), len([name for name in TABLES if name != "hot"]) + 1
    history = list_history(tables)

    assert compact(tables) == (before, after)
    assert count_files(tables) == after
    assert (list_edges(tables), list_members(tables)) == (edges, members)
    assert compact(tables) == (after, after)
    assert read_state(tables).number == 5
    assert list_history(tables)[:-1] == history
    add(tables, "new", [Row(5, ROWS[-1].text)], SEARCH)
    assert list_edges(tables) == edges_of(find_union([*ROWS, Row(5, ROWS[-1].text)], SEARCH))


@pytest.mark.parametrize("bound", ["MERGED", "MERGED_BYTES"])
def test_compaction_in_parts_merges_all_rows_in_order(tables, monkeypatch, bound):
    before = Snapshot(tables=tables, state=read_state(tables))
    rows = {name: before.read(name).num_rows for name in TABLES}
    monkeypatch.setattr(f"dedup.store.writing.{bound}", 1)
    groups = dict.fromkeys(TABLES, 2)
    inner = Snapshot.layout.__globals__["list_layouts"]
    monkeypatch.setattr(
        "dedup.store.snapshot.list_layouts",
        lambda *of, **how: {name: each._replace(group=groups.get(name, 2)) for name, each in inner(*of, **how).items()},
    )
    compact(tables)

    after = Snapshot(tables=tables, state=read_state(tables))
    for name in TABLES:
        keys = after.read(name)[after.layout(name).key].to_numpy()
        assert (np.diff(keys) >= 0).all(), name
        assert keys.size == rows[name] or name == "members"
    assert after.members().num_rows == before.members().num_rows == after.read("members").num_rows


def test_compaction_merges_a_bounded_number_of_bytes_however_uneven_sets_are(tmp_path, monkeypatch):
    sets = Snapshot.layout.__globals__["list_layouts"](pa.int64())["sets"]._replace(group=4)
    monkeypatch.setattr("dedup.store.snapshot.list_layouts", lambda *_, **__: {"sets": sets})
    monkeypatch.setattr("dedup.store.writing.MERGED_BYTES", 100_000)
    writing, merged = Writing(Tables(str(tmp_path)), State(number=1, log=0, id_type="int64")), []
    for segment, size in (("1", 8), ("2", 8_000)):
        numbers = np.arange(200) + 200 * int(segment)
        columns = {"set": numbers, "digest_high": numbers, "digest_low": numbers, "shingles": [bytes(size)] * 200}
        writing.snapshot.extra.setdefault("sets", []).extend(
            writing.tables.write("sets", segment, sets, [pa.table(columns)])
        )
    monkeypatch.setattr(writing, "write", lambda _, parts: merged.extend(parts))
    writing.merge("sets")

    assert pa.concat_tables(merged)["set"].to_pylist() == [*range(200, 600)]
    assert 100_000 < max(part.nbytes for part in merged) < 140_000


def test_compaction_writes_files_that_are_large_and_no_larger(tables, monkeypatch):
    """A footer of all sets of a large store would be too long to be read."""
    inner = Snapshot.layout.__globals__["list_layouts"]
    sets = inner(pa.int64())["sets"]._replace(group=2, file_rows=5)
    name = "dedup.store.snapshot.list_layouts"
    monkeypatch.setattr(name, lambda *kind, **told: {**inner(*kind, **told), "sets": sets})
    monkeypatch.setattr("dedup.store.writing.MERGED", 2)
    before = Snapshot(tables=tables, state=read_state(tables)).read("sets").sort_by("set")
    after = compact(tables)
    compacted = Snapshot(tables=tables, state=read_state(tables))
    files = sorted(compacted.list_files("sets"), key=lambda file: compacted.read_bounds("sets", file)[0])

    assert pa.concat_tables(compacted.find("sets", before["set"].to_numpy(), files=[file]) for file in files) == before
    # A group more than are asked for, as a file is full once it has them.
    assert {file.rows for file in files[:-1]} <= {5, 6, 7}
    assert len(files) > 2
    assert compact(tables) == (after.files, after.files)


def test_what_is_deleted_leaves_no_trace_after_vacuum(tmp_path, monkeypatch):
    plain = {"compression": "none", "use_dictionary": False}

    def layouts(*kind, **told):
        return {name: each._replace(encoding=plain) for name, each in list_layouts(*kind, **told).items()}

    for module in ("snapshot", "election"):
        monkeypatch.setattr(f"dedup.store.{module}.list_layouts", layouts)
    tables, gone = Tables(str(tmp_path / "store")), ROWS[10]
    for number in range(4):
        add(tables, f"{number}", ROWS[number::4], SEARCH)
    shingles, _ = Corpus([gone]).sets([gone.text])
    # The user's id as a number of 64 bits and as text, and shingles of the set.
    traces = [gone.id.to_bytes(8, "little"), str(gone.id).encode(), shingles[3:5].tobytes()]
    assert [bool(find(tables.path, trace)) for trace in traces] == [True, False, True]
    take_down(tables, [row.id for row in ROWS if row.text == gone.text])
    compact(tables)
    vacuum(tables, 0)

    assert [find(tables.path, trace) for trace in traces] == [[], [], []]
    assert check(tables, mend=False) == []


def test_vacuum_deletes_what_no_state_names_and_nothing_that_one_does(tables):
    # What a crash leaves: files that no commit of their table names, and segments that no state does.
    grown = prepare(tables, "lost", [Row(5, "a text that is never there at all")], SEARCH)
    tables.log.commit("sets", grown.writing.files["sets"])
    edges = list_edges(tables)
    assert vacuum(tables, 1) == 0
    assert vacuum(tables, 0) == sum(len(files) for files in grown.writing.files.values())
    assert vacuum(tables, 0) == 0
    assert list_edges(tables) == edges
    assert check(tables, mend=False, hours=0) == []


def test_a_commit_whose_answer_is_lost_counts_and_keeps_its_files(tables, monkeypatch):
    """The client of an object store asks for it again, and is refused: the version is there."""
    commit = DeltaTable.create_write_transaction

    def lose(table, *given, **named):
        commit(table, *given, **named)
        if table.table_uri.rstrip("/").endswith(BATCHES):
            raise CommitFailedError("a version of this number exists")

    grown = prepare(tables, "late", [Row(5, "a text that is never there at all")], SEARCH)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", lose)
        after = grown.finish("add")
    assert read_state(tables) == after
    assert check(tables, mend=False, hours=0) == []


def test_orphaned_segments_are_told_and_mended(tables):
    grown = prepare(tables, "lost", [Row(5, "a text that is never there at all")], SEARCH)
    tables.log.commit("sets", grown.writing.files["sets"])

    assert check(tables, mend=False) == []
    [found] = check(tables, mend=False, hours=0)
    assert (found.table, found.what, found.mended) == ("sets", "segments that no commit names", False)
    assert [each.mended for each in check(tables, mend=True, hours=0)] == [True]
    assert check(tables, mend=False, hours=0) == []


def test_rows_that_belong_to_nothing_are_told_and_mended(tables):
    state = read_state(tables)
    edges = list_edges(tables)
    # Documents that vanish from their table alone.
    writing = Writing(tables, state)
    lone = [row.id for row in ROWS if row.text == ROWS[12].text]
    writing.rewrite("documents", lambda rows: ~np.isin(rows["doc_id"].to_numpy(), lone))
    writing.finish(state, Label(operation="damage"))

    assert {each.table for each in check(tables, mend=False)} >= {"sets", "bands"}
    assert all(each.mended for each in check(tables, mend=True))
    assert check(tables, mend=False) == []
    assert list_edges(tables) == [edge for edge in edges if not {*edge[:2]} & {*lone}]


def test_a_bit_that_turns_in_any_column_is_told(tables):
    compact(tables)
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    for name in snapshot.state.segments:
        for file in snapshot.list_files(name):
            path = Path(tables.path, name, file.path)
            whole, group = path.read_bytes(), pq.read_metadata(path).row_group(0)
            for column in map(group.column, range(group.num_columns)):
                begin = column.dictionary_page_offset or column.data_page_offset
                content = bytearray(whole)
                content[begin + column.total_compressed_size - 1] ^= 1
                path.write_bytes(content)
                assert [each.what for each in check(tables, mend=False)] == [f"file {file.path} is missing or damaged"]
            path.write_bytes(whole)
    assert check(tables, mend=False) == []


def test_missing_and_damaged_files_are_told(tables, monkeypatch):
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    first, second = (Path(tables.path, "sets", file.path) for file in snapshot.list_files("sets")[:2])
    content = first.read_bytes()
    begin = len(content) // 3
    first.write_bytes(content[:begin] + bytes([content[begin] ^ 255]) + content[begin + 1 :])
    with monkeypatch.context() as patch:
        # As of files of earlier releases, which have no checksums.
        patch.setattr("dedup.store.upkeep._is_whole", lambda *_: True)
        found = check(tables, mend=True)
    assert [(each.table, each.what, each.mended) for each in found] == [
        ("sets", "shingle sets whose digest is another", False)
    ]
    first.write_bytes(content)
    second.unlink()
    assert ["is missing or damaged" in each.what for each in check(tables, mend=True)] == [True]


@pytest.mark.parametrize("part", ["head", "middle", "name"])
def test_a_damaged_file_is_named_by_whatever_reads_it(tables, tmp_path, capsys, part):
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    path = Path(tables.path, "documents", snapshot.list_files("documents")[0].path)
    content = path.read_bytes()
    harmed = {
        "head": content[:100],
        "middle": content[:4] + bytes(len(content) // 2) + content[-len(content) // 2 :],
        # Of a column, in the footer.
        "name": content.replace(b"doc_id", b"doc_ie"),
    }
    path.write_bytes(harmed[part])
    (tmp_path / "ids").write_text(f"{ROWS[0].id}\n", "utf-8")

    assert cli.main(["delete", tables.path, "--ids", str(tmp_path / "ids")]) == 2
    assert f"dedup: {path}: must be a whole file of parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [OSError("AWS Error SERVICE_UNAVAILABLE during GetObject operation: "), OSError(errno.EIO, "an error")]
)
def test_a_file_that_the_file_system_does_not_give_is_not_called_damaged(tables, monkeypatch, error):
    class Refusing(io.BytesIO):
        def read(self, *_):
            raise error

    file = Snapshot(tables=tables, state=read_state(tables)).list_files("documents")[0]
    own = Storage.open
    monkeypatch.setattr(
        Storage,
        "open",
        lambda storage, path: pa.PythonFile(Refusing(bytes(99)), "r") if file.path in path else own(storage, path),
    )
    for act in (lambda: check(tables, mend=True), lambda: delete_ids(tables, [str(ROWS[0].id)], readmit=False)):
        with pytest.raises(StorageError) as told:
            act()
        place = f"{tables.path}/documents/{file.path}"
        assert str(told.value) == f"{place}: must be a path that can be read and written ({find_reason(error)})"


@pytest.mark.parametrize("name", ["documents", "bands"])
def test_vacuum_deletes_nothing_where_the_log_of_a_table_has_lost_its_end(tables, name):
    *_, last = sorted(Path(tables.path, name, "_delta_log").glob("*.json"))
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(StorageError, match=f"{name}: must be a table of Delta Lake"):
        vacuum(tables, 0)
    last.write_bytes(content)
    assert check(tables, mend=False) == []


def test_a_file_for_which_memory_lacks_is_not_called_damaged(tables):
    file = Snapshot(tables=tables, state=read_state(tables)).list_files("documents")[0]
    with pytest.raises(MemoryError), tables.read("documents", file):
        raise pa.ArrowMemoryError("malloc of size 1 failed")


def test_the_commands_tell_what_they_did(tables, tmp_path, capsys):
    assert cli.main(["history", tables.path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["number", "time", "operation", "batch", "documents", "kept"]
    assert [line.split()[2:5] for line in lines[1:]] == [
        ["add", f"{number}", f"{len(ROWS[number::4])}"] for number in range(4)
    ]
    assert cli.main(["compact", tables.path]) == 0
    assert cli.main(["vacuum", tables.path, "--hours", "0"]) == 0
    capsys.readouterr()
    assert cli.main(["check", tables.path]) == 0
    assert capsys.readouterr().out == "sound\n"
    (tmp_path / "ids").write_text(f"{ROWS[0].id}\n99\n\n", "utf-8")
    assert cli.main(["delete", tables.path, "--ids", str(tmp_path / "ids"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {"deleted": 1, "not_there": 1, "displaced": 0}
    assert cli.main(["delete", tables.path, "--ids", str(tmp_path / "ids")]) == 0
    assert read_state(tables).number == 6
    (tmp_path / "ids").write_text("x\n", "utf-8")
    assert cli.main(["delete", tables.path, "--ids", str(tmp_path / "ids")]) == 2
    assert "--ids: must hold integers" in capsys.readouterr().err
    shutil.rmtree(tables.path)
    assert cli.main(["history", tables.path]) == 2
    assert "must be a store" in capsys.readouterr().err


def test_integers_spelled_in_two_ways_are_one_id_and_hexadecimal_ones_none(tables):
    name = ROWS[0].id
    for spelled in (f"0x{name:x}", f"0X{name:X}"):
        with pytest.raises(DataError, match=f"must hold integers, as the ids of the store are .got '{spelled}'"):
            delete_ids(tables, [spelled], readmit=False)
    found = delete_ids(tables, [f"{name}", f"0{name}", "-0", "0"], readmit=False)
    assert (found.documents, found.absent) == (1, 1)


NAMES = ["a", "b", "a\rb", "a\nb", "c\r", "c", "{d}", "", " "]


@pytest.fixture(scope="module")
def hardly_named(tmp_path_factory):
    """Return the path of a store of ids that are hard to write."""
    tables = Tables(str(tmp_path_factory.mktemp("named") / "store"))
    add(tables, "a", [Row(name, f"text number {place}") for place, name in enumerate(NAMES)], SEARCH)
    return tables.path


@pytest.fixture
def named(hardly_named, tmp_path):
    """Return a function that deletes the ids of a file from a copy of that store."""
    tables = Tables(str(shutil.copytree(hardly_named, tmp_path / "store")))

    def act(content):
        (tmp_path / "ids").write_bytes(content)
        code = cli.main(["delete", tables.path, "--ids", str(tmp_path / "ids")])
        left = Snapshot(tables=tables, state=read_state(tables)).read("documents", ["id"])["id"].to_pylist()
        return code, {*NAMES} - {*left}

    return act


@pytest.mark.parametrize(
    ("content", "gone"),
    [
        (b"a\rb\n", {"a\rb"}),
        (b"\xef\xbb\xbfa\r\n\r\n\nc", {"a", "c"}),
        (b"b\na\n", {"a", "b"}),
        (b" \n", {" "}),
        (b'{"id": "a\\nb", "text": "x"}\n{"id": "{d}"}\n{"id": ""}\n', {"a\nb", "{d}", ""}),
        (b'{"id": "a"}\nb\nx\xc2\x85b\n', {"a", "b"}),
    ],
)
def test_a_line_deletes_the_id_that_it_is_and_no_other(named, content, gone):
    assert named(content) == (0, gone)


@pytest.mark.parametrize(
    ("content", "way"),
    [
        (b"b\na\nb\n", '\'a\\nb\', an id of {store} that no line can be); write {{"id": "a\\nb"}}'),
        (b"a\r\nb", '\'a\\nb\', an id of {store} that no line can be); write {{"id": "a\\nb"}}'),
        (b"b\nc\r\n", '\'c\\r\', an id of {store} that no line can be); write {{"id": "c\\r"}}'),
        (b"a\n{d}\n", '(got \'{{d}}\'); write {{"id": "{{d}}"}}'),
        (b'a\n{"id": 1.5}', 'line 2 must have a string or an integer as "id" (got 1.5)'),
        (b"a\n\xff\n", "line 2 must be UTF-8"),
    ],
)
def test_an_id_that_no_line_can_be_is_refused_by_name_with_the_way_that_can(named, content, way, tmp_path, capsys):
    assert named(content) == (2, set())
    assert way.format(store=tmp_path / "store") in capsys.readouterr().err


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_ids_are_a_column_of_files_with_rows(tmp_path, form):
    table = pa.table({"id": ["a\nb", "{d}"]})
    path = tmp_path / f"ids.{form}"
    (pq.write_table if form == "parquet" else csv.write_csv)(table, path)
    assert cli.main(["delete", f"{tmp_path}/store", "--ids", str(path)]) == 0
    left = Snapshot(tables=(tables := Tables(f"{tmp_path}/store")), state=read_state(tables)).read("documents", ["id"])
    assert {*NAMES} - {*left["id"].to_pylist()} == {"a\nb", "{d}"}


def test_a_file_of_ids_that_is_not_there_is_one_line(tables, capsys):
    assert cli.main(["delete", tables.path, "--ids", "none"]) == 2
    assert capsys.readouterr().err == "dedup: --ids none: must be a file that can be read (No such file or directory)\n"


def test_a_damaged_file_of_ids_is_named_by_its_option(tables, tmp_path, capsys):
    (tmp_path / "ids.parquet").write_bytes(b"PAR1 and no more")
    assert cli.main(["delete", tables.path, "--ids", f"{tmp_path}/ids.parquet"]) == 2
    assert capsys.readouterr().err.startswith(f"dedup: --ids: {tmp_path}/ids.parquet cannot be read as parquet")


def test_a_store_whose_first_batch_has_failed_has_nothing_to_delete(tmp_path, capsys):
    create(Tables(str(tmp_path / "store")), pa.int64())
    (tmp_path / "ids").write_text("1\n", "utf-8")

    assert cli.main(["delete", str(tmp_path / "store"), "--ids", str(tmp_path / "ids")]) == 2
    assert capsys.readouterr().err == f"dedup: {tmp_path}/store: must hold a batch (it has none yet)\n"


def test_compaction_leaves_a_store_without_a_batch_to_its_first_one(tmp_path):
    tables = Tables(str(tmp_path / "store"))
    create(tables, pa.int64())

    assert compact(tables) == (0, 0)
    assert not read_state(tables).number
    add(tables, "a", ROWS[:4], SEARCH)
    assert check(tables, mend=False) == []


@pytest.mark.parametrize("readmit", [False, True])
def test_what_a_deleted_document_had_displaced_is_listed_and_can_be_readmitted(tmp_path, readmit):
    tables = Tables(str(tmp_path / "store"))
    text = "one two three four five six seven eight nine ten"
    add(tables, "a", [Row(1, text), Row(2, text), Row(3, f"{text} eleven"), Row(9, "other")], SEARCH)
    assert [told[1] for _, told in sorted(list_members(tables).items())] == [True, False, False]
    found = delete_ids(tables, ["1"], readmit=readmit)

    rows = {row["id"]: row["is_kept"] for row in found.displaced.to_pylist()}
    assert rows == ({2: True} if readmit else {2: False, 3: False})
    members = list_members(tables)
    assert [members[number][1] for number in (2, 3)] == [readmit, False]
    if readmit:
        assert members[3][2] == 2
    else:
        assert [members[number][2:4] for number in (2, 3)] == [(None, "displaced")] * 2
        add(tables, "b", [Row(0, text)], SEARCH)
        assert {number: told[1] for number, told in list_members(tables).items()} == {0: True, 2: False, 3: False}
        assert {told[2] for told in list_members(tables).values()} == {0}
