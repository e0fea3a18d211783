"""Erasure: what is left of documents in the files of a store and of the outputs of its batches."""

import bz2
import gzip
import json
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from dedup import Store, deduplicate
from dedup.cli import erase as cli
from dedup.errors import ConfigError, DataError
from dedup.explain.result import PublishedOutput
from dedup.run import erasing
from dedup.store.snapshot import Snapshot
from dedup.store.state import read_state
from dedup.store.tables import Tables
from tests.engine import Corpus, Row
from tests.store import restore

FIRST = 7_000_000_001


def make_rows(named):
    """Return documents of which most have near copies, whose words are no other's."""
    rng, rows = Random(3), []
    for number in range(48):
        family, version = divmod(number, 4)
        words = [f"word{family}x{place}" for place in range(30)]
        for _ in range(version):
            words[rng.randrange(30)] = f"only{number}y{rng.randrange(100)}"
        rows.append({"id": named(number), "source": f"s{family % 3}", "text": " ".join(words)})
    return rows


def write(path, rows, form):
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))
    elif form == "csv":
        pa.csv.write_csv(pa.Table.from_pylist(rows), path.with_suffix(".csv"))
    elif form == "orc":
        pa.orc.write_table(pa.Table.from_pylist(rows), path.with_suffix(".orc"))
    elif form == "arrow":
        pa.feather.write_feather(pa.Table.from_pylist(rows), path.with_suffix(".arrow"), compression="uncompressed")
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(content))


def fill(folder, form="parquet", named=lambda number: FIRST + number, mode="filter"):
    """Make a store of three batches, of which the last has copies of documents of the first."""
    rows, store = make_rows(named), Store(folder / "store")
    for number in range(3):
        (folder / f"in{number}").mkdir()
        write(folder / f"in{number}" / "rows", rows[number::3], form)
        chosen = {"id_column": "id", "source_column": "source", "settings": {"output.mode": mode}, "engine": "memory"}
        store.add(f"{folder}/in{number}", f"b{number}", f"{folder}/out{number}", **chosen)
    return rows, store


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "here"
    folder.mkdir()
    return folder, *fill(folder)


@pytest.fixture
def filled(made):
    """Return a folder that is filled, and its documents and store."""
    restore(made[0])
    return made


def read_all(folder):
    """Return the bytes of all files, as they are and decompressed."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.relative_to(folder).parts[0].startswith("in"):
            content = path.read_bytes()
            parts = [content]
            if path.suffix == ".parquet":
                table = pq.read_table(path)
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                parts.append(sink.getvalue().to_pybytes())
            elif path.suffix == ".orc":
                parts.append(repr(pa.orc.read_table(path).to_pylist()).encode())
            elif path.suffix in {".gz", ".bz2"}:
                parts.append({".gz": gzip, ".bz2": bz2}[path.suffix].decompress(content))
            found[path] = b"\0".join(parts)
    return found


def list_traces(row):
    """Return what must not be found of a document: its id as text and number, its text, and shingles of its own."""
    own = [f'"{row["id"]}"'.encode(), row["text"].encode()]
    if isinstance(row["id"], int):
        own = [str(row["id"]).encode(), row["id"].to_bytes(8, "little"), row["text"].encode()]
    shingles, _ = Corpus([Row(1, row["text"])]).sets([row["text"]])
    return own, [np.uint64(each).tobytes() for each in shingles]


def find(folder, traces):
    contents = read_all(folder)
    return {trace: [path.name for path, content in contents.items() if trace in content] for trace in traces}


def size_page(output):
    return (output / "report.html").stat().st_size


@pytest.mark.parametrize(
    ("form", "named", "mode"),
    [
        ("parquet", lambda number: FIRST + number, "filter"),
        pytest.param("jsonl", lambda number: f"name{number}z", "filter", marks=pytest.mark.full),
        ("jsonl", lambda number: FIRST + number, "annotate"),
        ("csv", lambda number: f"name{number}z", "annotate"),
        ("orc", lambda number: FIRST + number, "annotate"),
        pytest.param("arrow", lambda number: FIRST + number, "annotate", marks=pytest.mark.full),
        pytest.param("parquet", lambda number: f"name{number}z", "annotate", marks=pytest.mark.full),
        pytest.param("jsonl", lambda number: FIRST + number, "ids", marks=pytest.mark.full),
        pytest.param("orc", lambda number: FIRST + number, "ids", marks=pytest.mark.full),
    ],
)
def test_no_byte_is_left_of_what_is_erased_and_all_else_is(tmp_path, form, named, mode):
    rows, store = fill(tmp_path, form, named, mode)
    # One that others went for, one that went for another, and one family whole.
    gone = [rows[0], rows[6], *rows[20:24]]
    others = [row for row in rows if row not in gone]
    kept_shingles = {each for row in others for each in list_traces(row)[1]}
    traces = [
        (own, [each for each in shingles if each not in kept_shingles]) for own, shingles in map(list_traces, gone)
    ]
    before = find(tmp_path, [trace for own, shingles in traces for trace in (*own[:2], *shingles[:3])])
    assert sum(map(bool, before.values())) > len(gone)
    left = {name: PublishedOutput(f"{tmp_path}/{name}") for name in ("out0", "out1", "out2")}
    texts = {name: each.find([row["id"] for row in others]) for name, each in left.items()}

    sizes = {name: size_page(tmp_path / name) for name in left}
    receipt = store.erase([row["id"] for row in gone])

    assert (receipt["documents"], receipt["absent"], receipt["outputs_missing"]) == (6, 0, [])
    found = find(tmp_path, [trace for own, shingles in traces for trace in (*own, *shingles)])
    assert {trace: names for trace, names in found.items() if names} == {}
    after = {name: PublishedOutput(f"{tmp_path}/{name}") for name in left}
    assert {name: each.find([row["id"] for row in rows]) for name, each in after.items()} == texts
    ids = Snapshot(tables=Tables(str(store.path)), state=read_state(Tables(str(store.path)))).read("documents", ["id"])
    assert {*ids["id"].to_pylist()} == {row["id"] for row in others}
    assert store.check(hours=0) == []
    assert all(size_page(tmp_path / name) > 0.9 * sizes[name] for name in left)
    # The same again, as after a crash, finds nothing to do.
    again = store.erase([row["id"] for row in gone])
    assert (again["documents"], again["absent"], again["files"]) == (0, 6, [])


@pytest.mark.parametrize(
    ("mode", "make", "kind"),
    [
        # Each with each other once.
        ("filter", pa.ipc.new_file, pa.string()),
        ("filter", pa.ipc.new_stream, pa.string_view()),
        ("annotate", pa.ipc.new_file, pa.string_view()),
        ("annotate", pa.ipc.new_stream, pa.string()),
    ],
)
def test_nothing_is_left_in_what_buffers_of_arrow_hold_besides(tmp_path, kind, make, mode):
    rows = make_rows(lambda number: f"id{number}x")
    names = ("id", "text")
    table = pa.table([pa.array([row[name] for row in rows], kind) for name in names], names=names)
    with make(tmp_path / "rows.arrow", table.schema) as writer:
        # Slices of larger arrays, of which pyarrow writes more than their values.
        writer.write_table(table, max_chunksize=3)
    store, out = Store(tmp_path / "store"), tmp_path / "out"
    store.add(f"{tmp_path}/rows.arrow", "b", out, id_column="id", settings={"output.mode": mode}, engine="memory")
    gone, stay = rows[12::12], [row for number, row in enumerate(rows) if number % 12 or not number]
    store.erase([row["id"] for row in gone])
    left = b"".join(read_all(out).values())
    assert not [row["id"] for row in gone if row["id"].encode() in left or row["text"].encode() in left]
    assert all(row["id"].encode() in left for row in stay)


@pytest.mark.parametrize(("gone", "left"), [([FIRST], 2), ([FIRST, 1], 0)])
def test_an_id_that_the_store_lacks_counts_as_one_of_every_output(filled, gone, left):
    folder, _, store = filled
    store.erase(gone)

    assert len([*folder.glob("out*/sketch")]) == left


def test_documents_are_chosen_by_source_and_by_text_too(filled):
    folder, rows, store = filled
    assert store.erase(where={"source": "s1"})["documents"] == 16
    assert store.erase(where={"batch": "b0", "source": "s2"})["documents"] == 4
    receipt = store.erase(texts=[rows[2]["text"].upper() + "!", "nothing like it"])

    assert (receipt["documents"], receipt["selection"]) == (1, "texts")
    kept = (
        pq.read_table(folder / "out2/kept")["id"].to_pylist() + pq.read_table(folder / "out2/removed")["id"].to_pylist()
    )
    assert rows[2]["id"] not in kept
    assert rows[5]["id"] not in kept
    assert rows[14]["id"] in kept
    with pytest.raises(ConfigError, match="needs one of ids, where and texts"):
        store.erase()
    for batch, said in (("b00", "did you mean b0"), ("2026-11", "it has b0, b1, b2")):
        with pytest.raises(ConfigError, match=rf"where: batch must be one of the store \(got '{batch}'; {said}"):
            store.erase(where={"batch": batch})


def test_a_receipt_is_kept_by_a_call_that_finds_nothing_more(filled, capsys):
    folder, rows, store = filled
    (folder / "gone.txt").write_text(f"{rows[4]['id']}\n")
    for _ in range(3):
        assert cli.main([str(store.path), "--ids", f"{folder}/gone.txt"]) == 0

    told = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("receipt")]
    assert [json.loads(Path(each).read_text())["documents"] for each in told] == [1, 0, 0]
    assert len({*told}) == 3


def test_a_receipt_that_cannot_be_written_is_printed(filled, capsys):
    folder, rows, store = filled
    (folder / "gone.txt").write_text(f"{rows[4]['id']}\n")
    receipt = f"{folder}/gone.txt/receipt.json"
    assert cli.main([str(store.path), "--ids", f"{folder}/gone.txt", "--receipt", receipt]) == 2

    told = capsys.readouterr()
    assert json.loads(told.out)["documents"] == 1
    assert receipt in told.err


def test_a_receipt_tells_a_change_and_names_nobody(filled, capsys):
    folder, rows, store = filled
    key = folder / "key"
    key.write_text("a secret of more than 16 bytes")
    key.chmod(0o600)
    pq.write_table(pa.table({"id": [rows[4]["id"], rows[7]["id"]]}), folder / "gone.parquet")
    arguments = [str(store.path), "--ids", f"{folder}/gone.parquet", "--sign-with", str(key)]
    assert cli.main([*arguments, "--receipt", f"{folder}/receipt.json"]) == 0
    assert "documents                  2" in capsys.readouterr().out
    assert cli.main([*arguments, "--receipt", f"{folder}/receipt.json"]) == 2
    assert "receipt.json: must not exist yet (it does), as a receipt is never replaced" in capsys.readouterr().err
    content = (folder / "receipt.json").read_text()
    receipt = json.loads(content)

    assert erasing.is_signed(receipt, key.read_bytes().strip())
    assert not erasing.is_signed({**receipt, "documents": 3}, key.read_bytes().strip())
    assert not erasing.is_signed(receipt, b"another key of 16 bytes")
    assert not any(str(row["id"]) in content for row in rows)
    changed = {entry["file"]: entry for entry in receipt["files"]}
    assert all(not Path(name).exists() for name, entry in changed.items() if entry["after"] is None)
    present = {name: entry["after"] for name, entry in changed.items() if entry["after"]}
    assert present
    assert all(erasing.digest_file(erasing.Storage(), name) == digest for name, digest in present.items())


def test_outputs_that_were_moved_are_told_and_can_be_given(filled):
    folder, rows, store = filled
    (folder / "out1").rename(folder / "moved")
    receipt = store.erase([rows[1]["id"]])
    assert receipt["outputs_missing"] == [f"{folder}/out1"]
    assert rows[1]["id"] in PublishedOutput(f"{folder}/moved").find([rows[1]["id"]])

    store.erase([rows[1]["id"]], outputs=[folder / "moved"])
    assert not PublishedOutput(f"{folder}/moved").find([rows[1]["id"]])


def test_files_that_an_erasure_was_killed_amid_are_gone_after_the_next(tmp_path):
    rows, store = fill(tmp_path, "jsonl", lambda number: FIRST + number, "filter")
    left = tmp_path / "out0" / "kept" / ".0123456789abcdef.tmp"
    left.write_text(rows[0]["text"])
    store.erase([rows[0]["id"]])
    assert not left.exists()


def test_an_output_that_the_store_knows_can_be_given_from_where_one_is(filled, monkeypatch):
    folder, rows, store = filled
    monkeypatch.chdir(folder)
    assert store.erase([rows[1]["id"]], outputs=["out1"])["outputs"].count(f"{folder}/out1") == 1


def test_a_batch_written_once_more_is_known_by_both_outputs(filled):
    folder, rows, store = filled
    deduplicate(f"{folder}/in2", f"{folder}/more", store=store.path, batch="b2", id_column="id", source_column="source")

    assert store.erase([rows[2]["id"]])["outputs"].count(f"{folder}/more") == 1
    assert not PublishedOutput(f"{folder}/more").find([rows[2]["id"]])


def test_an_id_that_was_deleted_and_came_again_is_erased_where_it_was_first(tmp_path):
    rows, store = make_rows(lambda number: FIRST + number), Store(tmp_path / "store")
    given = {"id_column": "id", "engine": "memory"}
    store.add(rows[:8], "a", tmp_path / "a", **given)
    store.delete([rows[0]["id"]])
    store.add([{**rows[0], "text": rows[20]["text"]}, rows[24]], "b", tmp_path / "b", **given)

    store.erase([rows[0]["id"]])

    own = list_traces(rows[0])[0]
    assert [path for path, content in read_all(tmp_path).items() if any(each in content for each in own)] == []


@pytest.mark.parametrize("name", ["id", "text"])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_categories_are_refused_before_anything_is_erased(tmp_path, name, form):
    """Their files have the values of rows that are gone."""
    rows, store = make_rows(lambda number: f"document {number}"), Store(tmp_path / "store")
    table = pa.Table.from_pylist(rows[:8])
    place = table.schema.get_field_index(name)
    table = table.set_column(place, name, table[name].dictionary_encode())
    (tmp_path / "in").mkdir()
    if form == "parquet":
        pq.write_table(table, tmp_path / "in" / "rows.parquet")
    else:
        pa.feather.write_feather(table, tmp_path / "in" / "rows.arrow", compression="uncompressed")
    store.add(tmp_path / "in", "a", tmp_path / "out", id_column="id", engine="memory")
    before = read_all(tmp_path)

    with pytest.raises(DataError, match=rf"column '{name}' must not be of categories"):
        store.erase([rows[0]["id"]])

    assert read_all(tmp_path) == before


def test_rows_that_notes_move_are_found(tmp_path):
    """Notes that are cleared make lines of JSON shorter, whose numbers are the bytes at which they begin."""
    texts = [row["text"] for row in make_rows(str)]
    numbers, chosen = (500, 900, 100, 950, 960), (0, 4, 0, 8, 12)
    rows = [{"id": FIRST + n, "text": texts[of]} for n, of in zip(numbers, chosen, strict=True)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    store, settings = Store(tmp_path / "store"), {"output.mode": "annotate"}
    store.add(tmp_path / "in", "a", tmp_path / "out", id_column="id", settings=settings, engine="memory")

    store.erase([FIRST + 100])

    left = [json.loads(line)["id"] for line in (tmp_path / "out/annotated/rows.jsonl").read_text().splitlines()]
    assert left == [FIRST + n for n in numbers if n != 100]


@pytest.mark.parametrize("layers", [["near"], ["exact", "near"]])
def test_copies_without_an_id_column_are_erased_with_the_first(tmp_path, layers):
    store, rows = Store(tmp_path / "store"), [{"text": row["text"]} for row in make_rows(str)]
    for number, part in enumerate((rows[:4], rows[2:6])):
        (tmp_path / f"in{number}").mkdir()
        write(tmp_path / f"in{number}" / "rows", part, "jsonl")
        store.add(tmp_path / f"in{number}", f"{number}", tmp_path / f"{number}", settings={"layers": layers})

    store.erase(texts=[rows[3]["text"]])

    left = read_all(tmp_path)
    assert [path for path, content in left.items() if rows[3]["text"].encode() in content] == []
    assert any(rows[4]["text"].encode() in content for content in left.values())


def test_what_was_admitted_is_erased_too(filled):
    folder, _, store = filled
    row = {"id": 8_000_000_001, "text": " ".join(f"admitted{place}" for place in range(30))}
    store.admit([row["text"]], ids=[row["id"]])
    own, shingles = list_traces(row)
    assert any(find(folder, shingles).values())

    assert store.erase([row["id"]])["documents"] == 1
    assert not any(find(folder, [*own, *shingles]).values())


def test_no_byte_is_left_of_what_other_layers_tell_of_it(tmp_path):
    store = Store(tmp_path / "store")
    settings = {
        "passages.tokens": 10,
        "passages.action": "mark",
        "lines.documents": 1,
        "lines.min_characters": 5,
        "lines.action": "mark",
        "semantic.vector_column": "v",
        "semantic.threshold": 0.99,
    }
    rows = [
        {"id": FIRST + number, "text": f"line of {number // 2}\n" + " ".join(f"w{number // 2}x{k}" for k in range(20))}
        for number in range(12)
    ]
    rows = [row | {"v": [1.0, float(number // 2), 0.1 * (number % 2)]} for number, row in enumerate(rows)]
    layers = ["lines", "passages", "semantic"]
    for part in range(2):
        write(tmp_path / f"in{part}", rows[part::2], "parquet")
        options = {"id_column": "id", "layers": layers, "engine": "memory", "settings": settings}
        store.add(f"{tmp_path}/in{part}.parquet", f"b{part}", f"{tmp_path}/out{part}", **options)
    gone = rows[4:6]
    traces = [str(row["id"]).encode() for row in gone] + [b"line of 2", b"w2x3 w2x4"]
    before = find(tmp_path, traces)
    assert all("report.json" in names for names in before.values())
    assert "vectors" in {path.parent.parent.name for path in read_all(tmp_path)}

    store.erase([row["id"] for row in gone])

    assert {trace: names for trace, names in find(tmp_path, traces).items() if names} == {}
    report = json.loads((tmp_path / "out1" / "report.json").read_text())
    shown = {layer["layer"]: layer["details"] for layer in report["layers"]}
    assert shown["semantic"]["pairs_near_the_threshold"]
