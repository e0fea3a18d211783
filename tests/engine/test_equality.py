"""Two engines, one answer: what Spark's stages write is what the memory engine finds."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.kernels.sets import lsh
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from tests.corpora import forge
from tests.engine import SEARCH, Corpus, Row
from tests.strategies import runs
from tests.templates import make_family, make_templates
from tests.test_pipeline import make_texts

RULES = [("longest", ""), ("source", "two"), ("highest", "value"), ("earliest", "value"), ("smallest_id", "")]
searches = st.builds(
    replace,
    st.just(SEARCH),
    threshold=st.sampled_from([0.5, 0.7, 0.8]),
    mode=st.sampled_from(["lsh", "lsh", "exact"]),
    bands=st.sampled_from([8, 21]),
    rows=st.sampled_from([2, 6]),
    max_bucket=st.sampled_from([3, 150]),
    per_source=st.integers(0, 4),
    rules=st.lists(st.sampled_from(RULES), max_size=3).map(tuple),
    by_representative=st.booleans(),
    max_component=st.sampled_from([0, 4]),
)


def run_on_spark(spark, folder: Path, corpus: Corpus, search, *, with_ids: bool, labels: list[tuple]) -> dict:
    """Run the job on the corpus and return its report."""
    source, output = folder / "in.parquet", folder / "out"
    columns = {"text": [row.text for row in corpus.rows], "origin": [row.source for row in corpus.rows]}
    columns["value"] = pa.array([row.value for row in corpus.rows], pa.float64())
    if with_ids:
        columns["id"] = [row.id for row in corpus.rows]
    pq.write_table(pa.table(columns), source)
    chosen = {
        "threshold": search.threshold,
        "mode": search.mode,
        "lsh.bands": search.bands,
        "lsh.rows": search.rows,
        "buckets.max_bucket": search.max_bucket,
        "limits.per_source": search.per_source,
        "cluster.linkage": "representative" if search.by_representative else "component",
        "cluster.max_component": search.max_component,
        "keep.order": [":".join(filter(None, rule)) for rule in search.rules],
        "input.source_column": "origin",
        "input.id_column": "id" if with_ids else "",
    }
    if labels:
        pq.write_table(
            pa.table(dict(zip(("left_id", "right_id"), zip(*labels, strict=True), strict=True))), folder / "l.parquet"
        )
        chosen["evaluation.labeled_pairs"] = str(folder / "l.parquet")
    config = load_config(None, None, [f"{name}={value}" for name, value in chosen.items()])
    run(spark, Job(inputs=[str(source)], output=str(output), config=config))
    return json.loads((output / "report.json").read_text())


def rows_of(output: Path, name: str, columns: Sequence[str] | None = None) -> list[tuple]:
    table = ds.dataset(output / name).to_table(columns=columns and [*columns])
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@runs(0)
@given(seed=st.integers(0, 2**32), search=searches, of_strings=st.booleans(), labelled=st.booleans())
# Of buckets over the cap with few members one engine compared all pairs.
@example(seed=4547, search=replace(SEARCH, bands=21, rows=2, max_bucket=3), of_strings=True, labelled=False)
def test_both_engines_find_the_same(spark, tmp_path_factory, *, seed, search, of_strings, labelled):
    folder, chance = tmp_path_factory.mktemp("equality"), Random(seed)
    texts = make_texts(seed, originals=8, copies=6)
    numbers = chance.sample(range(-100, 100), len(texts))
    ids = [f"é{number}" for number in numbers] if of_strings else numbers
    corpus = Corpus(
        [
            Row(user_id, text, chance.choice(["one", "two", None]), chance.choice([None, -1.5, 0.0, 2.0]))
            for user_id, text in zip(ids, texts, strict=True)
        ]
    )
    labels = [tuple(chance.sample(ids, 2)) for _ in range(40)] if labelled else []
    report = run_on_spark(spark, folder, corpus, search, with_ids=True, labels=labels)

    doc_ids = {row.id: row.doc_id for row in corpus.rows}
    placed = sorted({tuple(sorted((doc_ids[left], doc_ids[right]))) for left, right in labels})
    found = corpus.find(search, placed or None)
    names = {doc_id: user_id for user_id, doc_id in doc_ids.items()}
    members = found.members.to_pylist()
    duplicates = [row for row in members if row["kind"] != "kept"]
    told = ("id", "representative_id", "component_id", "kind", "jaccard")
    assert rows_of(folder / "out", "duplicates", told) == sorted(
        (tuple((row | {"component_id": row["component"]})[name] for name in told) for row in duplicates), key=repr
    )
    kept = {row[0] for row in rows_of(folder / "out", "kept", ["id"])}
    assert kept == set(ids) - {row["id"] for row in duplicates}
    same = [(row["doc_id"], row["set_id"], 1.0) for row in found.identical.to_pylist()]
    named = {
        "edges": [*(tuple(row.values()) for row in found.edges.to_pylist()), *same],
        "near_misses": [tuple(row.values()) for row in found.near_misses.to_pylist()],
    }
    for name, pairs in named.items():
        expected = [(*sorted((names[left], names[right])), similarity) for left, right, similarity in pairs]
        assert rows_of(folder / "out", name) == sorted(expected, key=repr), name
    assert_counts_agree(report, found)


def assert_counts_agree(report, found) -> None:
    """Hold the counts of the report against those of the memory engine."""
    stages, paired, elected = report["stages"], found.paired, found.elected
    assert report["pairs"] | {"all": 0} == {
        "all": 0,
        "in_buckets": paired.pairs_in_buckets,
        "uncompared": paired.pairs_uncompared,
        "settled": paired.pairs_settled,
        "distinct": paired.pairs_distinct,
        "candidates": paired.rows,
        "edges": found.verified.rows,
    }
    assert stages["candidates"]["pairs_after_length"] == paired.pairs_after_length
    assert stages["identical"]["rows"] == found.collapsed.rows
    buckets = found.bucketed
    counted = {name: stages["buckets"][name] for name in ("rows", "members", "band_rows")}
    assert counted == {"rows": buckets.rows, "members": buckets.members, "band_rows": buckets.band_rows}
    assert report["bucket_sizes"] == {str(size): count for size, count in buckets.sizes.items()}
    assert report["similarities"] == found.verified.similarities
    assert report["component_sizes"] == {str(size): count for size, count in elected.sizes.items()}
    assert stages["components"]["rows"] == found.connected.rows
    counted = ("near", "chained", "spared", "relinked")
    assert {name: report[name] for name in counted} == {name: getattr(elected, name) for name in counted}
    assert (report["least_similarity"], report["decided"]) == (elected.least, elected.rules)
    assert report["removal_similarities"] == elected.similarities
    assert [point["joined"] for point in report["dial"]] == elected.joined
    assert report["kept_by_representative"] == report["kept"] + elected.parted
    assert report["removers"] == [
        {"source": each["source"] or "(none)", "by": each["by"] or "(none)", "documents": each["documents"]}
        for each in elected.removers
    ]
    told = [(each["id"], each["representative_id"], each["jaccard"]) for each in elected.doubtful]
    assert [(each["id"], each["representative_id"], each["jaccard"]) for each in report["doubtful"]] == told
    lost = asdict(found.lost)
    assert {name: report["uncompared"][name] for name in lost} == lost
    shown = [
        (each["documents"], each["component_id"], [example["id"] for example in each["examples"]])
        for each in report["largest_components"]
    ]
    assert shown == [
        (each["documents"], each["component_id"], [example["id"] for example in each["examples"]])
        for each in elected.largest
    ]
    assert report["recall_measured"] == [
        {**point, "jaccard": pytest.approx(point["jaccard"], rel=1e-15)} for point in found.recall
    ]


@pytest.mark.full
@pytest.mark.parametrize("mode", ["lsh", "exact"])
def test_both_engines_count_equal_rows_alike(spark, tmp_path, mode):
    # Ids are not Spark's here, so no count may depend on which document is the least.
    texts = make_texts(9, originals=6)[6:]
    texts += texts[:12]
    search = replace(SEARCH, mode=mode)
    corpus = Corpus([Row(text, text) for text in texts])
    report = run_on_spark(spark, tmp_path, corpus, search, with_ids=False, labels=[])
    found = corpus.find(search)

    stages = report["stages"]
    # Rows that share an id count once.
    assert report["documents"] == len(texts)
    assert stages["identical"]["rows"] == found.collapsed.rows
    counted = {name: stages["buckets"][name] for name in ("rows", "members", "band_rows")}
    assert counted["band_rows"] == found.bucketed.band_rows
    assert (counted["rows"], counted["members"]) == (found.bucketed.rows, found.bucketed.members)
    assert report["pairs"]["edges"] == found.verified.rows
    assert report["component_sizes"] == {str(size): count for size, count in found.elected.sizes.items()}


@pytest.mark.full
@pytest.mark.parametrize("mode", ["lsh", "exact"])
def test_both_engines_find_the_same_in_what_templates_make(spark, tmp_path, monkeypatch, mode):
    monkeypatch.setattr(lsh, "SAMPLED_PAIRS", 2000)
    texts = make_templates(300, common=120, own=18, copies=20).texts
    texts += make_templates(100, common=120, own=5, seed=2).texts
    texts += make_templates(200, common=120, own=18, templates=3, mixed=True, seed=3).texts
    texts += make_family(120, words=120, edits=2)
    search = replace(SEARCH, mode=mode, max_bucket=16 if mode == "lsh" else 2)
    corpus = Corpus([Row(number, text) for number, text in enumerate(texts)])
    report = run_on_spark(spark, tmp_path, corpus, search, with_ids=True, labels=[])
    found = corpus.find(search)

    assert found.paired.pairs_settled > 2000
    assert (0 < found.lost.verified < found.lost.possible) == (found.paired.pairs_uncompared > 0)
    edges = (tuple(row.values()) for row in found.edges.to_pylist())
    assert rows_of(tmp_path / "out", "edges") == sorted(edges, key=repr)
    assert_counts_agree(report, found)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["lsh", "exact"])
def test_a_forged_id_costs_no_document(spark, tmp_path, mode):
    own = [" ".join(f"{name}{number}" for number in range(40)) for name in "ab"]
    texts = [*own, *(f"{text} more" for text in own), *make_texts(5, originals=8, copies=4)]
    ids = [*forge(), "x", "y", *(f"z {number}" for number in range(len(texts) - 4))]
    assert Row(ids[0], "").doc_id == Row(ids[1], "").doc_id
    corpus = Corpus([Row(*row) for row in zip(ids, texts, strict=True)])
    report = run_on_spark(spark, tmp_path, corpus, replace(SEARCH, mode=mode), with_ids=True, labels=[])
    config = load_config(None, None, ["input.id_column=id", f"mode={mode}", "input.source_column=origin"])
    told = run_in_memory(Job(inputs=[str(tmp_path / "in.parquet")], output=str(tmp_path / "memory"), config=config))

    assert report["kept"] == told["kept"]
    for name in ("kept", "removed", "duplicates", "edges"):
        assert rows_of(tmp_path / "out", name) == rows_of(tmp_path / "memory", name)
    written = [row[-1] for name in ("kept", "removed") for row in rows_of(tmp_path / "out", name)]
    assert sorted(written) == sorted(ids)
    pairs = {frozenset(row) for row in rows_of(tmp_path / "out", "duplicates", ["id", "representative_id"])}
    assert {frozenset((ids[0], "x")), frozenset((ids[1], "y"))} <= pairs
