"""Documents in several rows, beside the same documents in one row each."""

import json
import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dedup
from dedup import deduplicate
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.evaluate.evaluation import check_comparable
from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.kernels.sets.minhash import sign
from dedup.layers.near import signing
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.settings.files import load_config

PARTS = {"input.part_of": "book", "shingles.shingle_size": 3, "threshold": 0.7}
WHOLE = {"input.id_column": "book", "shingles.shingle_size": 3, "threshold": 0.7}
TABLES = ("duplicates", "edges", "near_misses")


def draw_pages(books=40, seed=5):
    """Return pages of books of which many resemble others, in one order of all; some have few words or none."""
    chance = random.Random(seed)
    families = [[f"w{chance.randrange(900)}" for _ in range(60)] for _ in range(8)]
    texts = {f"b{number}": [w for w in families[number % 8] if chance.random() < 0.96] for number in range(books)}
    texts |= {"short": ["a", "b"], "none": []}
    cuts = {book: sorted(chance.randrange(len(words) + 1) for _ in range(4)) for book, words in texts.items()}
    pages = []
    for book, words in texts.items():
        bounds = [0, *cuts[book], len(words)]
        pages += [
            {"book": book, "page": number, "text": " ".join(words[begin:end]) or chance.choice([None, "?!"])}
            for number, (begin, end) in enumerate(pairwise(bounds))
        ]
    return sorted(pages, key=lambda page: (page["page"], chance.random()))


def join_pages(pages):
    whole = {}
    for page in pages:
        whole.setdefault(page["book"], []).append(page["text"] or "")
    return [{"book": book, "text": "\n".join(texts)} for book, texts in whole.items()]


def write(path, rows, files=1):
    """Write rows as so many files of parquet, in order, and return their folder."""
    path.mkdir()
    for number in range(files):
        own = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        pq.write_table(pa.Table.from_pylist(own), path / f"{number}.parquet")
    return str(path)


def read(output, name):
    return sorted(map(repr, ds.dataset(f"{output}/{name}").to_table().to_pylist()))


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"mode": "exact"},
        {"buckets.max_bucket": 2, "keep.order": ["longest"]},
        {"cluster.linkage": "representative", "keep.drop": "all"},
    ],
    ids=["default", "exact", "capped", "representative"],
)
def test_parts_go_and_stay_as_their_whole_documents_do(tmp_path, monkeypatch, chosen):
    monkeypatch.setattr(signing, "PIECE_BYTES", 1000)
    pages = draw_pages()
    parts = deduplicate(
        write(tmp_path / "in", pages, 3), str(tmp_path / "parts"), engine="memory", settings=PARTS | chosen
    )
    whole = deduplicate(
        write(tmp_path / "whole_in", join_pages(pages)),
        str(tmp_path / "whole"),
        engine="memory",
        settings=WHOLE | chosen,
    )

    one, other = parts.report.to_dict(), whole.report.to_dict()
    same = ("documents", "kept", "removed", "near", "identical", "tokens", "documents_short", "documents_empty")
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    assert one["removed"] > 10
    assert one["components"] == other["components"]
    for name in TABLES:
        assert read(tmp_path / "parts", name) == read(tmp_path / "whole", name)
    kept, removed = (rows.to_table().to_pylist() for rows in (parts.kept, parts.removed))
    assert sorted(map(repr, [*kept, *removed])) == sorted(map(repr, pages))
    assert {row["book"] for row in kept} == {row["book"] for row in whole.kept.to_table().to_pylist()}
    assert one["parts"] == {"kept": len(kept), "removed": len(removed)}
    assert other["parts"] is None


def test_spark_joins_parts_as_memory_does(tmp_path, spark):
    pages = draw_pages()
    path = write(tmp_path / "in", pages, 3)
    expected = deduplicate(path, str(tmp_path / "memory"), engine="memory", settings=PARTS)

    for name, search_bytes in (("driver", 10**9), ("tasks", 0)):
        config = load_config(settings=PARTS | {"driver.search_bytes": search_bytes})
        run(spark, Job(inputs=[path], output=str(tmp_path / name), config=config))

    for name in (*TABLES, "kept", "removed"):
        assert read(tmp_path / "memory", name) == read(tmp_path / "driver", name) == read(tmp_path / "tasks", name)
    with pytest.raises(ConfigError, match="a table: serves documents of one row alone"):
        deduplicate(spark.read.parquet(path), str(tmp_path / "rows"), settings=PARTS)
    told = json.loads((tmp_path / "tasks/report.json").read_text())
    of_memory = expected.report.to_dict()
    same = ("documents", "kept", "removed", "parts", "tokens", "text_bytes", "text_bytes_removed", "doubtful")
    assert {name: told[name] for name in same} == {name: of_memory[name] for name in same}


def test_sets_in_several_rows_are_united(tmp_path):
    rows = [
        {"book": number % 3, "tags": [f"{number % 3 // 2}{tag}" for tag in "abcdefgh"[number // 3 :]]}
        for number in range(9)
    ]
    chosen = {"input.text_column": "tags", "shingles.unit": "set", "shingles.shingle_size": 1}

    found = deduplicate(write(tmp_path / "in", rows), str(tmp_path / "out"), engine="memory", settings=PARTS | chosen)

    assert found.edges.to_table().to_pylist() == [{"left_id": 0, "right_id": 1, "jaccard": 1.0}]
    assert sorted(row["book"] for row in found.removed.to_table().to_pylist()) == [1, 1, 1]
    comparison = explain(PublishedOutput(str(tmp_path / "out")), "1", "0").direct.comparison
    assert (comparison.shared, comparison.jaccard) == (8, 1)


def test_rows_are_annotated_and_documents_explained(tmp_path):
    pages = draw_pages(16)
    chosen = PARTS | {"output.mode": "annotate"}
    found = deduplicate(write(tmp_path / "in", pages), str(tmp_path / "out"), engine="memory", settings=chosen)

    gone = found.duplicates.to_table().to_pylist()
    rows = ds.dataset(tmp_path / "out/annotated").to_table().to_pylist()
    assert [row["book"] for row in rows if not row["dedup_kept"]] == [
        page["book"] for page in pages if page["book"] in {each["id"] for each in gone}
    ]
    pair = explain(PublishedOutput(str(tmp_path / "out")), gone[0]["id"], gone[0]["representative_id"]).direct
    [jaccard] = {each["jaccard"] for each in gone if each["id"] == gone[0]["id"]}
    assert pair.comparison.jaccard == pytest.approx(jaccard)


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ({"layers": ["exact", "near"]}, ConfigError, r"input.part_of: needs layers"),
        ({"shingles.unit": "char"}, ConfigError, r"input.part_of: needs layers .* and char"),
        ({"input.id_column": "page"}, ConfigError, "input.id_column: serves documents of one row alone"),
        ({"keep.merge": ["count"]}, ConfigError, "keep.merge: serves documents of one row alone"),
        ({"output.mode": "ids"}, ConfigError, "output.mode: serves documents of one row alone"),
        ({"input.part_of": "volume"}, SchemaError, "input.part_of: must be the name of one column"),
    ],
)
def test_what_does_not_serve_parts_is_refused(tmp_path, chosen, error, message):
    path = write(tmp_path / "in", draw_pages(2))

    with pytest.raises(error, match=message):
        deduplicate(path, str(tmp_path / "out"), engine="memory", settings=PARTS | chosen)

    assert not (tmp_path / "out").exists()


def test_parts_need_a_document_and_files(tmp_path):
    path = write(tmp_path / "in", [{"book": None, "text": "a b c"}, {"book": "x", "text": "d"}])
    with pytest.raises(
        DataError, match=r"input.part_of: the column must not be null .got 1 nulls; their texts begin 'a b c'"
    ):
        deduplicate(path, str(tmp_path / "out"), engine="memory", settings=PARTS)
    with pytest.raises(ConfigError, match=r"input.part_of works in single runs only"):
        dedup.Store(str(tmp_path / "store")).add(path, "a", str(tmp_path / "out"), engine="memory", settings=PARTS)
    with pytest.raises(ConfigError, match=r"input.part_of: must be empty to be evaluated"):
        check_comparable(load_config(settings=PARTS), None)


@settings(max_examples=40)
@given(
    st.lists(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=30), min_size=2, max_size=4), st.integers(1, 40)
)
def test_the_least_of_partial_signatures_is_that_of_the_union(parts, size):
    def sign_each(sets):
        values = [sorted(each) for each in sets]
        offsets = np.cumsum([0, *map(len, values)])
        return sign(np.array([each for own in values for each in own], np.uint64), offsets, size, 1)

    assert sign_each(parts).min(axis=0).tolist() == sign_each([set().union(*parts)])[0].tolist()
