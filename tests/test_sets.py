"""Sets of elements in place of texts, and texts of several columns, through whole runs beside all pairs."""

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dedup
from dedup import deduplicate
from dedup.cli import lookup
from dedup.engine.expressions import write_text
from dedup.errors import ConfigError, DataError, DedupError, SchemaError
from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.files.conversion import join_columns, to_text
from dedup.kernels.text.set_elements import SetElements
from dedup.kernels.text.text_columns import TextColumns
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from tests import oracles

SETS = {"shingles.unit": "set", "shingles.shingle_size": 1, "input.id_column": "id", "input.text_column": "tags"}
LISTS = st.lists(
    st.none() | st.lists(st.none() | st.sampled_from(["", "a", "a\0", "\0", "\\0", "\n", "\\n", "\\", "é b"]))
)


def draw(count=60, seed=3):
    """Return sets, of which many resemble others; null, empty and repeated elements among them."""
    chance = random.Random(seed)
    families = [
        [
            chance.choice(["", "\\", "a\nb", "é"]) + str(chance.randrange(500)) + chance.choice(["", "\0"])
            for _ in range(12)
        ]
        for _ in "abcdef"
    ]
    found = []
    for number in range(count):
        own = [each for each in families[number % 6] if chance.random() < 0.9]
        chance.shuffle(own)
        found.append([*own, *own[:2], None])
    return [*found, [], None, [None]]


def find_pairs(sets, threshold):
    whole = [{each for each in own or () if each is not None} for own in sets]
    return {
        (left, right): len(one & other) / len(one | other)
        for left, one in enumerate(whole)
        for right, other in enumerate(whole[left + 1 :], left + 1)
        if one and other and len(one & other) / len(one | other) >= threshold
    }


def write(path, sets):
    """Write sets as parquet, or as JSON lines."""
    ids = [*range(len(sets))]
    if path.suffix == ".jsonl":
        path.write_text(
            "".join(json.dumps({"id": i, "tags": own, "x": 1}) + "\n" for i, own in zip(ids, sets, strict=True))
        )
    else:
        pq.write_table(pa.table({"id": ids, "tags": sets, "x": [1] * len(sets)}), path)
    return str(path)


@pytest.mark.parametrize("mode", ["lsh", "exact"])
@pytest.mark.parametrize(("suffix", "is_number"), [("parquet", False), ("jsonl", False), ("parquet", True)])
def test_the_components_are_those_of_all_pairs_of_sets(tmp_path, suffix, is_number, mode):
    sets = draw()
    if is_number:
        names = sorted({each for own in sets for each in own or () if each})
        sets = [own and [each and names.index(each) - 9 for each in own] for own in sets]
    path = write(tmp_path / f"in.{suffix}", sets)
    given = SETS | {"mode": mode, "threshold": 0.7, "lsh.bands": 150, "lsh.rows": 2}

    found = deduplicate(path, str(tmp_path / "out"), engine="memory", settings=given)

    expected = find_pairs(sets, 0.7)
    edges = {(row["left_id"], row["right_id"]): row["jaccard"] for row in found.edges.to_table().to_pylist()}
    assert {pair: pytest.approx(expected[pair]) for pair in edges} == edges
    assert oracles.components([*edges]) == oracles.components([*expected])
    kept, removed = (rows.to_table().to_pylist() for rows in (found.kept, found.removed))
    assert {row["id"] for row in kept} >= {60, 61, 62}
    assert len(removed) > 40
    assert {row["id"]: row["tags"] for row in [*kept, *removed]} == dict(enumerate(sets))


@settings(max_examples=60)
@given(LISTS)
def test_elements_are_hashed_as_they_are(lists):
    texts = to_text(pa.array(lists, pa.list_(pa.string())))

    for key in (b"", b"k" * 16):
        tokenizer = SetElements(key=key)
        hashes, bounds = tokenizer.hash(texts)
        kept = [[each for each in own or () if each is not None] for own in lists]
        assert np.diff(bounds).tolist() == [len(own) for own in kept]
        named = {}
        for element, hashed in zip((each for own in kept for each in own), hashes.tolist(), strict=True):
            assert named.setdefault(element, hashed) == hashed
        assert len({*named.values()}) == len(named)
        # A text given by hand may lack the last end of a line.
        short = pa.array([each[:-1] if each[:-1] and each[-2:] != "\n\n" else each for each in texts.to_pylist()])
        assert tokenizer.hash(short)[0].tolist() == hashes.tolist()


def test_what_is_shown_of_two_sets_is_their_elements(tmp_path):
    path = write(tmp_path / "in.parquet", [["b c", "a", "d", "e", "f"], ["f", "e", "d", "a", "b c", "g"]])
    found = deduplicate(path, str(tmp_path / "out"), engine="memory", settings=SETS | {"threshold": 0.8})

    pair = explain(PublishedOutput(str(tmp_path / "out")), "1", "0").direct

    assert (pair.comparison.shared, pair.comparison.left_only, pair.comparison.right_only) == (5, 1, 0)
    assert [(each.shared, each.left) for each in pair.comparison.pieces] == [
        (True, ("a\n", "b c\n", "d\n", "e\n", "f\n")),
        (False, ("g\n",)),
    ]
    assert found.report.to_dict()["doubtful"][0]["difference"][-1] == ["removed", "g"]


@pytest.mark.parametrize("stored", [True, False])
def test_a_store_knows_sets(tmp_path, capsys, stored):
    store, sets = dedup.Store(str(tmp_path / "store")), draw()
    given = SETS | {"shingles.stored": stored}
    for batch, own in (("one", sets[:40]), ("two", sets[40:])):
        path = str(tmp_path / f"{batch}.parquet")
        pq.write_table(pa.table({"id": [f"{batch}{n}" for n in range(len(own))], "tags": own}), path)
        found = store.add(path, batch, str(tmp_path / f"out_{batch}"), engine="memory", settings=given)

    assert found.duplicates.count_rows() > 10
    texts = to_text(pa.array(sets[3:4])).to_pylist()
    [[match, *_]] = store.lookup(texts)
    assert match.jaccard == 1
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(json.dumps({"id": "x", "text": sets[3]}) + "\n")
    for asked in ("in", "in/a.jsonl"):
        assert lookup.main([store.path, "--input", str(tmp_path / asked)]) == 0
        assert f"{match.id} (1.0000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"shingles.shingle_size": 5}, ConfigError, r"shingles.shingle_size: must be 1"),
        (
            {"layers": ["near", "lines"]},
            ConfigError,
            r"layers: must be some of url, near, containment with .*\"lines\"",
        ),
        ({"text.case": "keep"}, ConfigError, "text: must be as by default"),
        ({"input.text_column": "x"}, SchemaError, "column 'x' must be a list of strings or integers"),
        ({"shingles.unit": "tokens"}, SchemaError, "column 'tags' must be a string"),
        (
            {"profile": [{"name": "a", "when": {"x": 1}, "shingles": {"unit": "tokens"}}]},
            ConfigError,
            "in all profiles or in none",
        ),
    ],
)
def test_what_needs_texts_is_refused(tmp_path, given, error, message):
    path = write(tmp_path / "in.parquet", [["a"]])

    with pytest.raises(error, match=message):
        deduplicate(path, str(tmp_path / "out"), engine="memory", settings=SETS | given)

    assert not (tmp_path / "out").exists()


def test_elements_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": 1, "tags": ["a", 2]}\n{"id": 2, "tags": [0.0]}\n')

    with pytest.raises(DataError, match=r"'tags' must be a list of strings or integers.* \(got 0.0 in a list\)"):
        deduplicate(str(path), str(tmp_path / "out"), engine="memory", settings=SETS)


COLUMNS = {"input.columns": ["title", "body"], "input.id_column": "id", "shingles.shingle_size": 2, "threshold": 0.6}
SURE = {"lsh.bands": 150, "lsh.rows": 2}
"""Bands of which a pair at the threshold shares one in all but e^-90 of cases."""


def draw_columns(count=70, seed=4):
    """Return titles and bodies, of which many resemble others; some are empty, null or in the other column."""
    chance = random.Random(seed)
    families = [[[f"w{chance.randrange(200)}" for _ in range(length)] for length in (6, 16)] for _ in range(7)]
    rows = []
    for number in range(count):
        texts = [[each for each in words if chance.random() < 0.93] for words in families[number % 7]]
        title, body = (chance.choice(["{}", "{}", "{}!\x1e"]).format(" ".join(words)) for words in texts)
        kind = chance.random()
        title, body = (
            (body, title) if kind < 0.1 else (None, body) if kind < 0.2 else (title, "" if kind < 0.25 else body)
        )
        rows.append({"id": number, "title": title, "body": body})
    return [*rows, {"id": count, "title": None, "body": ""}, {"id": count + 1, "title": "?", "body": None}]


def list_fields(rows, size=2):
    """Return the shingle sets of both columns of each row."""
    return [[oracles.shingle_set(row[name] or "", size) for name in ("title", "body")] for row in rows]


def count_elements(rows, weights):
    """Return for each row the set of its shingles, each as often as its column weighs."""
    return [
        {
            (number, copy, each)
            for number, (of, weight) in enumerate(zip(fields, weights, strict=True))
            for copy in range(weight)
            for each in of
        }
        for fields in list_fields(rows)
    ]


def write_rows(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


@pytest.mark.parametrize("weights", [[1, 1], [3, 1]], ids=["equal", "weighted"])
@pytest.mark.parametrize("settings", [SURE, {"mode": "exact"}], ids=["lsh", "exact"])
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_shingles_of_two_columns_are_one_set(tmp_path, suffix, settings, weights):
    rows = draw_columns()
    path = write_rows(tmp_path / f"in.{suffix}", rows)

    columns = {"input.columns": [f"title * {weights[0]}", "body"]}

    found = deduplicate(path, str(tmp_path / "out"), engine="memory", settings=COLUMNS | settings | columns)

    expected = find_pairs(count_elements(rows, weights), 0.6)
    edges = {(row["left_id"], row["right_id"]): row["jaccard"] for row in found.edges.to_table().to_pylist()}
    assert {pair: pytest.approx(expected[pair]) for pair in edges} == edges
    assert oracles.components([*edges]) == oracles.components([*expected]) != {}
    assert {row["id"]: row for table in (found.kept, found.removed) for row in table.to_table().to_pylist()} == {
        row["id"]: row for row in rows
    }


@pytest.mark.parametrize(
    ("chosen", "given"),
    [
        pytest.param(SETS, "table", id="sets of a table"),
        pytest.param(SETS, "files", id="sets of files", marks=pytest.mark.full),
        pytest.param(COLUMNS, "table", id="columns of a table", marks=pytest.mark.full),
        pytest.param(COLUMNS, "files", id="columns of files", marks=pytest.mark.full),
    ],
)
def test_spark_finds_what_memory_does(tmp_path, spark, chosen, given):
    """Of files tasks read what the processes of the memory engine do."""
    save, rows = (write, draw()) if chosen is SETS else (write_rows, draw_columns())
    path = save(tmp_path / "in.parquet", rows)
    expected = deduplicate(path, str(tmp_path / "memory"), engine="memory", settings=chosen)
    frame = spark.read.parquet(path)
    source = {"inputs": [], "table": frame} if given == "table" else {"inputs": [path]}

    config = load_config(settings=chosen | {"driver.search_bytes": 0})
    report = run(spark, Job(output=str(tmp_path / "spark"), config=config, **source))

    for name in ("duplicates", "edges"):
        tables = [ds.dataset(tmp_path / run / name).to_table() for run in ("memory", "spark")]
        one, other = [sorted(tuple(row.values()) for row in table.to_pylist()) for table in tables]
        assert one == other != []
    assert report["text_bytes"] == expected.report.to_dict()["text_bytes"]


def test_spark_writes_what_memory_reads(tmp_path, spark):
    sets, rows = draw(), draw_columns()
    columns = [pa.array([row[name] for row in rows], pa.string()) for name in ("title", "body")]
    for path, names, expected in (
        (write(tmp_path / "sets", sets), ["tags"], to_text(pa.array(sets))),
        (write_rows(tmp_path / "rows", rows), ["title", "body"], join_columns(columns)),
    ):
        frame = spark.read.parquet(path)
        found = frame.select("id", write_text(frame, names).alias("text")).collect()
        assert {row.id: row.text or "" for row in found} == dict(enumerate(each or "" for each in expected.to_pylist()))


@settings(max_examples=60)
@given(st.lists(st.lists(st.none() | st.text("ab \x1eé", max_size=6), min_size=3, max_size=3)))
def test_columns_are_parted_as_they_were_joined(rows):
    columns = [pa.array([row[number] for row in rows], pa.string()) for number in range(3)]
    joined = join_columns(columns)

    parts = TextColumns(tokenizer=UnicodeWords(), weights=(1, 1, 1)).part
    parted = parts(joined)

    assert parted.to_pylist() == [(each or "").replace("\x1e", " ") for row in rows for each in row]
    assert parts(joined.slice(1)).to_pylist() == parted.to_pylist()[3:]


def test_several_columns_are_refused_where_one_is_needed(tmp_path):
    path = write_rows(tmp_path / "in.parquet", draw_columns())
    for wrong, message in (
        ({"layers": ["exact", "near"]}, r"layers: must be some of url, near, containment with input.columns"),
        ({"input.columns": ["title"]}, "input.columns: must be two names or more, each once"),
        ({"input.columns": ["title", "title * 2"]}, "input.columns: must be two names or more, each once"),
        ({"input.columns": ["title * 60", "body * 5"]}, "input.columns: .* of at most 64 in all"),
        ({"input.columns": ["title", "tags"]}, "input.columns: must be the name of one column of the input"),
    ):
        with pytest.raises(DedupError, match=message):
            deduplicate(path, str(tmp_path / "out"), engine="memory", settings=COLUMNS | wrong)


@pytest.mark.parametrize("stored", [True, False])
def test_a_store_knows_columns(tmp_path, stored):
    rows, store = draw_columns(), dedup.Store(str(tmp_path / "store"))
    given = COLUMNS | {"shingles.stored": stored, "input.columns": ["title * 2", "body"]} | SURE
    removed = set()
    for batch, own in (("one", rows[:40]), ("two", rows[40:])):
        path = write_rows(tmp_path / f"{batch}.parquet", own)
        found = store.add(path, batch, str(tmp_path / f"out_{batch}"), engine="memory", settings=given)
        removed |= {row["id"] for row in found.duplicates.to_table().to_pylist()}

    component = oracles.components([*find_pairs(count_elements(rows, [2, 1]), 0.6)])
    others = {number for number, least in component.items() if number != least}
    # What the first batch kept stays, if a document of the second resembles two.
    assert {number for number in others if number >= 40} <= removed <= others
    own = rows[3]
    [[match, *_], swapped] = store.lookup([f"{own['title']}\x1e{own['body']}", f"{own['body']}\x1e{own['title']}"])
    assert match.jaccard == 1
    assert all(each.jaccard < 1 for each in swapped)
    with pytest.raises(ConfigError, match="columns must be"):
        store.add(path, "three", str(tmp_path / "out"), engine="memory", settings=given | COLUMNS)
