"""Texts looked up in a store."""

import gzip
import io
import json
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

import dedup
from dedup.cli import lookup as cli
from dedup.errors import ConfigError, DataError, StorageError
from dedup.kernels.sets.jaccard import jaccard
from dedup.store.lookup import View
from dedup.store.tables import Tables
from tests.engine import SEARCH, Corpus, Row
from tests.store import add, take_down
from tests.strategies import runs
from tests.test_pipeline import make_texts

# So many bands that none at the threshold is missed.
SEARCH = replace(SEARCH, bands=40, rows=2)
TEXTS = ["one two three four five six seven", "another text of some other words", "one two three four five six seven!"]


@pytest.fixture
def tables(tmp_path):
    tables = Tables(str(tmp_path / "store"))
    add(tables, "first", [Row(number, text) for number, text in enumerate(TEXTS)], SEARCH)
    return tables


@runs(2)
@given(seed=st.integers(0, 2**32))
def test_a_text_finds_what_it_resembles_and_nothing_else(tmp_path_factory, seed):
    tables = Tables(str(tmp_path_factory.mktemp("store")))
    rows = [Row(number, text) for number, text in enumerate(make_texts(seed, originals=6))]
    for number in range(3):
        add(tables, f"{number}", rows[number::3], SEARCH)
    texts = [*[row.text for row in rows], "nothing like it at all", ""]
    found = dedup.lookup(tables.path, texts)

    shingles, offsets = Corpus(rows).sets(texts)
    for number, matches in enumerate(found):
        others = np.arange(len(rows))
        exact = dict(enumerate(jaccard(shingles, offsets, np.full(len(rows), number), others).tolist()))
        full = offsets[number + 1] > offsets[number]
        similar = {user_id: value for user_id, value in exact.items() if value >= 0.8 and full}
        assert {match.id: match.jaccard for match in matches} == similar
        assert [match.jaccard for match in matches] == sorted((match.jaccard for match in matches), reverse=True)
        assert all(match.batch == f"{match.id % 3}" for match in matches)


def test_a_match_says_whether_the_document_is_kept(tables):
    assert dedup.lookup(tables.path, [TEXTS[0]]) == [
        [dedup.Match(0, 1.0, "first", kept=True), dedup.Match(2, 1.0, "first", kept=False)]
    ]
    assert dedup.lookup(tables.path, [f"{TEXTS[0]} eight"], threshold=0.9) == [[]]
    assert len(dedup.lookup(tables.path, [f"{TEXTS[0]} eight"], threshold=0.7)[0]) == 2


@pytest.mark.parametrize(("options", "told"), [(["--json"], '"id": "\\u00fc\\u4e2d"'), ([], "\\xfc\\u4e2d\t")])
def test_an_id_is_told_by_escapes_where_the_terminal_lacks_its_characters(tables, tmp_path, monkeypatch, options, told):
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "ü中", "text": TEXTS[0]}))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))

    assert cli.main([tables.path, "--input", str(tmp_path / "a.jsonl"), *options]) == 0

    assert told in written.getvalue().decode()


def test_texts_pass_in_parts_of_bounded_memory(tables, monkeypatch):
    monkeypatch.setattr("dedup.store.lookup.TOGETHER", 2)
    sizes = []
    inner = View.shingle
    monkeypatch.setattr(View, "shingle", lambda self, texts: sizes.append(len(texts)) or inner(self, texts))
    found = dedup.lookup(tables.path, (text for text in [*TEXTS, "new", TEXTS[1]]))

    assert sizes == [2, 2, 1]
    assert [[match.id for match in matches] for matches in found] == [[0, 2], [1], [0, 2], [], [1]]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl.gz", "arrow", "folder"])
def test_documents_of_every_format_are_looked_up_by_their_columns(tables, tmp_path, capsys, form):
    table = pa.table({"id": ["x", "y"], "text": [TEXTS[0].upper(), "no such text"]})
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / f"a.{'parquet' if form == 'folder' else form}"
    if form in {"parquet", "folder"}:
        pq.write_table(table.cast(pa.schema({"id": pa.string(), "text": pa.binary()})), path)
    elif form == "csv":
        csv.write_csv(table, path)
    elif form == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()))

    assert cli.main([tables.path, "--input", str(path.parent if form == "folder" else path)]) == 0
    assert capsys.readouterr().out == "x\t0 (1.0000, first, kept), 2 (1.0000, first, removed)\ny\t-\n"


def test_rows_without_one_column_of_texts_or_with_torn_ids_are_refused_by_name(tables, tmp_path, capsys):
    pq.write_table(pa.table({"id": [1], "body": ["x"]}), tmp_path / "a.parquet")
    assert cli.main([tables.path, "--input", f"{tmp_path}/a.parquet"]) == 2
    assert "must have one column 'text' (got id, body)" in capsys.readouterr().err
    (tmp_path / "b.csv").write_text("id,text,id\n1,x,2\n")
    assert cli.main([tables.path, "--input", f"{tmp_path}/b.csv"]) == 2
    assert "must have one column 'id' (got id, text, id)" in capsys.readouterr().err
    torn = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    pq.write_table(pa.table({"id": torn, "text": ["x"]}), tmp_path / "c.parquet")
    assert cli.main([tables.path, "--input", f"{tmp_path}/c.parquet"]) == 2
    assert "ids must be UTF-8" in capsys.readouterr().err


def test_values_of_json_lines_in_a_folder_need_not_be_of_one_type(tables, tmp_path, capsys):
    rows = [{"id": 1, "text": TEXTS[1], "x": 1}, {"id": "b", "text": 5, "x": 2**70}, {"text": TEXTS[1], "x": []}]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert cli.main([tables.path, "--input", str(tmp_path / "in")]) == 0
    assert capsys.readouterr().out == "1\t1 (1.0000, first, kept)\nb\t-\n3\t1 (1.0000, first, kept)\n"


def test_texts_are_strings_and_halves_of_surrogate_pairs_are_replaced_in_them(tables):
    view = View.open(tables.path)
    whole = [*view.look_up([f"{TEXTS[0]} \ufffd"])]

    assert [*view.look_up([f"{TEXTS[0]} \ud800"])] == whole
    with pytest.raises(DataError, match=r"texts: must be strings \(got 5\)"):
        [*view.look_up(["a \ud800", 5])]


def test_what_is_deleted_is_not_found(tables):
    take_down(tables, [0, 1])

    assert [[match.id for match in matches] for matches in dedup.lookup(tables.path, TEXTS)] == [[2], [], [2]]


def test_an_opened_store_shows_the_moment_it_was_opened_at(tables):
    opened = View.open(tables.path)
    take_down(tables, [0, 1, 2])

    assert len(next(opened.look_up([TEXTS[0]]))) == 2


def test_the_command_reads_lines_and_json(tables, tmp_path, capsys):
    lines = [TEXTS[0], json.dumps({"id": "x", "text": TEXTS[1], "more": 1}), "", json.dumps({"text": None})]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n", "utf-8")

    assert cli.main([tables.path, "--input", str(tmp_path / "in.jsonl")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1\t0 (1.0000, first, kept), 2 (1.0000, first, removed)",
        "x\t1 (1.0000, first, kept)",
        "3\t-",
        "4\t-",
    ]
    assert cli.main([tables.path, "--input", str(tmp_path / "in.jsonl"), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[1] == {"id": "x", "matches": [{"id": 1, "jaccard": 1.0, "batch": "first", "kept": True}]}


def test_only_a_line_feed_and_the_carriage_return_before_it_end_a_line(tables, tmp_path, capsys):
    lines = [TEXTS[0].replace(" ", "\r"), f"{TEXTS[1]}\r", '{"id": "a\\tb\\ud800", "text": "\\ud800"}']
    (tmp_path / "in").write_text("\n".join(lines), "utf-8", newline="")

    assert cli.main([tables.path, "--input", str(tmp_path / "in")]) == 0
    assert [line.partition(" (")[0] for line in capsys.readouterr().out.splitlines()] == [
        "1\t0",
        "2\t1",
        "a\\tb\\ud800\t-",
    ]


def test_halves_of_surrogate_pairs_in_names_are_replaced_in_json(tables, tmp_path, capsys):
    (tmp_path / "in").write_text('{"id": ["\\ud800"], "text": "a"}\n', "utf-8")

    assert cli.main([tables.path, "--input", str(tmp_path / "in"), "--json"]) == 0
    assert capsys.readouterr().out.encode() == '{"id": ["�"], "matches": []}\n'.encode()


def test_the_command_says_what_is_wrong_in_one_line(tables, tmp_path, capsys):
    (tmp_path / "in.jsonl").write_text("{no json\n", "utf-8")

    assert cli.main([tables.path, "--input", str(tmp_path / "in.jsonl")]) == 2
    assert "line 1 must be a JSON object, since it begins with a brace (got '{no json')" in capsys.readouterr().err
    assert cli.main([str(tmp_path / "none"), "--input", str(tmp_path / "in.jsonl")]) == 2
    assert "must be a store" in capsys.readouterr().err


def test_a_key_for_a_store_without_one_is_refused(tables):
    with pytest.raises(ConfigError, match=r"^--key-file must be left out, .*/store have no key \(got mine\)"):
        dedup.lookup(tables.path, TEXTS, key_file="mine")


def test_a_store_of_another_unicode_or_key_is_refused(tables, monkeypatch):
    monkeypatch.setattr("dedup.settings.hashspec.unicodedata.unidata_version", "1.0")
    with pytest.raises(ConfigError, match="unicode must be"):
        dedup.lookup(tables.path, TEXTS)


def test_no_store_is_said_to_be_none(tmp_path):
    with pytest.raises(StorageError, match="must be a store"):
        dedup.lookup(str(tmp_path / "none"), TEXTS)
