"""Recall, precision and the comparison of settings, held against runs of the job and against the oracle."""

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dedup.evaluate.corpus
import dedup.evaluate.sample
from dedup.errors import ConfigError, DataError, StorageError
from dedup.evaluate import judgement
from dedup.evaluate.dispatch import evaluate
from dedup.evaluate.evaluation import EvaluationQuestion, check_comparable
from dedup.evaluate.pairs import Pairs
from dedup.evaluate.show import to_table
from dedup.evaluate.truth import Truth
from dedup.run import opening
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from tests import oracles
from tests.test_pipeline import make_texts

SETTINGS = ["input.id_column=id"]
# 4 bands of 4 rows miss an eighth of the pairs at .8, and 126 values serve both.
WEAK = ["lsh.bands=4", "lsh.rows=4"]


@pytest.fixture(scope="module")
def corpus():
    return {f"doc {number:03}": text for number, text in enumerate(make_texts(9, originals=60, copies=5, length=90))}


@pytest.fixture(scope="module")
def source(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "in.parquet"
    pq.write_table(pa.table({"id": list(corpus), "text": list(corpus.values())}), path)
    return str(path)


@pytest.fixture(scope="module")
def truth(corpus):
    """Return the similarity of every pair of documents from .5 up."""
    sets = {key: found for key, text in corpus.items() if (found := oracles.shingle_set(text, 5))}
    return {pair: float(exact) for pair, exact in oracles.similar_pairs(sets, 0.5).items()}


@pytest.fixture(scope="module")
def answer(_session, source, tmp_path_factory):
    """Return what an exact search in the whole corpus says of the defaults and of a weak setting."""
    output = str(tmp_path_factory.mktemp("answer") / "out")
    other = load_config(None, None, [*SETTINGS, *WEAK])
    question = EvaluationQuestion(inputs=[source], config=load_config(None, None, SETTINGS), other=other, output=output)
    found = evaluate(_session, question)
    assert json.loads((Path(output) / "evaluation.json").read_text("utf-8")) == json.loads(json.dumps(found))
    with pytest.raises(StorageError, match=r"evaluation.json: must not exist yet"):
        evaluate(_session, question)
    return found


def removed(output):
    return set(ds.dataset(f"{output}/duplicates").to_table()["id"].to_pylist())


def count_joined(pairs, output):
    """Return how many pairs have both documents in one component of a run's result."""
    duplicates = ds.dataset(f"{output}/duplicates").to_table().to_pylist()
    kept = {row["id"]: row["representative_id"] for row in duplicates}
    return sum(kept.get(left, left) == kept.get(right, right) for left, right in pairs)


@pytest.fixture(scope="module")
def labels(truth, corpus, tmp_path_factory):
    """Return a file of labels: what is alike, the opposite for two pairs, and three of documents that are not there."""
    names = list(corpus)
    alike = [pair for pair, jaccard in truth.items() if jaccard >= 0.6]
    unlike = [(names[10], names[60]), (names[11], names[61])]
    rows = [{"left_id": right, "right_id": left, "duplicate": True} for left, right in alike + unlike]
    rows += [{"left_id": left, "right_id": right, "duplicate": False} for left, right in [("doc 004", "doc 005")]]
    rows = [row for row in rows if (row["right_id"], row["left_id"]) != ("doc 004", "doc 005")]
    rows += [{"left_id": "none", "right_id": name, "duplicate": True} for name in names[:3]]
    path = tmp_path_factory.mktemp("labels") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    true = [(row["right_id"], row["left_id"]) for row in rows if row["duplicate"] and row["left_id"] != "none"]
    return str(path), true


@pytest.fixture(scope="module")
def result(_session, source, labels, tmp_path_factory):
    """Return the report and the output of a run with labels."""
    output = tmp_path_factory.mktemp("result") / "out"
    # Its numbers are asked here, not who searches: the driver is sooner done with it.
    given = ["driver.search_bytes=1_000_000_000", f"evaluation.labeled_pairs={labels[0]}"]
    config = load_config(None, None, [*SETTINGS, *given])
    return run(_session, Job(inputs=[source], output=str(output), config=config)), output


def test_the_pairs_are_those_of_the_oracle(answer, truth, corpus):
    assert (answer["truth"], answer["drawn"], answer["alike"]) == ("exact search", len(corpus), 0)
    assert answer["pairs"] == len(truth)
    assert answer["pairs_identical"] == sum(jaccard == 1 for jaccard in truth.values())
    for tried in answer["trials"].values():
        assert sum(each["pairs"] for each in tried["bins"]) == len(truth)
        for each in tried["bins"]:
            inside = [each["from"] <= jaccard < each["to"] or jaccard == each["from"] for jaccard in truth.values()]
            assert each["pairs"] == sum(inside) > 0


def test_a_setting_does_on_the_whole_corpus_what_its_run_does(answer, truth, result):
    """The first setting takes all values of the signature, so not a bit may differ."""
    first = answer["trials"]["first"]
    report, output = result
    true = [pair for pair, jaccard in truth.items() if jaccard >= 0.8]

    assert first["as_in_a_run"]
    assert not answer["trials"]["second"]["as_in_a_run"]
    assert first["removed"]["count"] == report["removed"] > 40
    assert first["cost"]["sample_candidates"] == report["pairs"]["candidates"]
    assert first["cost"]["sample_pairs_distinct"] == report["pairs"]["distinct"]
    assert first["cost"]["sample_pairs_in_buckets"] == report["pairs"]["in_buckets"]
    assert first["cost"]["sample_edges"] == report["pairs"]["edges"]
    assert first["recall"]["removals"]["of"] == len(true)
    assert first["recall"]["removals"]["count"] == count_joined(true, output)
    sides = answer["sides"]
    assert sides["removed_by_first_only"]["documents"] > 0
    assert {each["id"] for each in sides["removed_by_first_only"]["examples"]} <= removed(output)
    assert not {each["id"] for each in sides["removed_by_second_only"]["examples"]} & removed(output)


def test_the_estimate_is_off_by_as_much_as_chance_makes_it(answer, truth):
    for tried in answer["trials"].values():
        found = tried["jaccard_estimate_bias"]
        assert found["pairs"] == sum(jaccard < 1 for jaccard in truth.values())
        assert 0 < found["error"] < 0.1
        assert 0 < abs(found["bias"]) < 4 * found["error"]


def test_the_bias_of_the_estimate_is_its_mean_difference(monkeypatch):
    """Of estimates .1 too high in one family of two pairs, and .3 too low in another of one pair."""
    jaccard = np.array([0.5, 0.6, 0.7, 1.0])
    pairs = Pairs(left=np.array([0, 0, 3, 5]), right=np.array([1, 2, 4, 6]), jaccard=jaccard)
    truth = Truth(pairs=pairs, labels=None, families=np.array([0, 0, 1, 2]))
    sample = SimpleNamespace(signatures=np.zeros((7, 4), np.uint64))
    monkeypatch.setattr(judgement.filters, "estimate_pairs", lambda *_: np.array([0.6, 0.7, 0.4]))

    found = judgement._measure_bias(sample, truth, 4)

    assert found["pairs"] == 3
    assert found["bias"] == pytest.approx(-0.1 / 3)
    differences = [0.2 + 0.2 / 3, -0.3 + 0.1 / 3]
    assert found["error"] == pytest.approx(math.hypot(*differences) / 3)
    identical = Pairs(left=pairs.left[3:], right=pairs.right[3:], jaccard=jaccard[3:])
    nothing = Truth(pairs=identical, labels=None, families=np.array([0]))
    assert judgement._measure_bias(sample, nothing, 4) == {"pairs": 0, "bias": None, "error": None}


def test_shares_and_misses_add_up(answer, truth, corpus):
    second = answer["trials"]["second"]
    recall = second["recall"]
    assert recall["candidates"]["count"] >= recall["edges"]["count"] <= recall["removals"]["count"]
    assert recall["edges"]["count"] + second["missed_count"] == recall["edges"]["of"]
    assert 0 < second["missed_count"] == len(second["missed"])
    curve = [1 - (1 - jaccard**4) ** 4 for jaccard in truth.values() if jaccard >= 0.8]
    assert second["recall_by_curve"] == pytest.approx(math.fsum(curve) / len(curve))
    assert recall["candidates"]["low"] < second["recall_by_curve"]
    assert second["precision"]["edges"]["share"] == second["precision"]["removals"]["share"] == 1
    assert second["precision"]["candidates"]["count"] <= second["cost"]["sample_edges"]
    assert second["removed"]["count"] < second["removed_exactly"]["count"]
    for each in second["missed"]:
        assert truth[tuple(sorted((each["left_id"], each["right_id"])))] == each["jaccard"] >= 0.8
        assert each["reason"] == "no bucket in common" or each["reason"].startswith("estimated at ")
        assert each["shared"].removesuffix("...").rsplit(" ", 1)[0] in corpus[each["left_id"]].lower()
    joined = [each["joined_by_others"] for each in second["missed"]]
    assert joined == sorted(joined)


def test_a_sample_brings_its_families_along(source, truth, corpus, spark, monkeypatch):
    monkeypatch.setattr(dedup.evaluate.sample, "NEIGHBOURS", 3)
    config = load_config(None, None, SETTINGS)
    found = evaluate(spark, EvaluationQuestion(inputs=[source], config=config, sample=40))
    again = evaluate(spark, EvaluationQuestion(inputs=[source], config=config, sample=40))

    assert found["drawn"] == 40
    # Drawn by themselves 40 of so many would keep a pair in 25 and fewer.
    assert found["pairs"] > len(truth) * (40 / len(corpus)) ** 2 * 2
    assert 10 < found["alike"] <= 120
    assert {**found, "trials": None, "seconds": None} == {**again, "trials": None, "seconds": None}
    first = found["trials"]["first"]
    assert first["removed"]["of"] == 40
    assert first["cost"]["candidates_per_document"] > 0
    assert first["cost"]["pairs_per_document"] >= first["cost"]["candidates_per_document"]
    assert found["sides"] is None


@pytest.mark.parametrize("kind", ["exact", "planted", "pairs", "sample"])
def test_the_answer_without_spark_is_that_with_it(*, source, labels, corpus, spark, tmp_path, monkeypatch, kind):
    """Files of integer ids and of strings, read in many splits by several processes."""
    monkeypatch.setattr(dedup.evaluate.corpus, "SPLIT_BYTES", 1000)
    monkeypatch.setattr(opening, "ALONE_BYTES", 0)
    if kind == "exact":
        source = str(tmp_path / "in")
        Path(source).mkdir()
        for part in range(3):
            rows = {"id": range(part, len(corpus), 3), "text": [*corpus.values()][part::3]}
            pq.write_table(pa.table({**rows, "id": [*rows["id"]]}), f"{source}/{part}.parquet", row_group_size=20)
    given = {"planted": {"planted": 30}, "pairs": {"pairs": labels[0]}, "sample": {"sample": 40}}.get(kind, {})
    settings = {"config": load_config(None, None, SETTINGS), "other": load_config(None, None, [*SETTINGS, *WEAK])}
    question = EvaluationQuestion(inputs=[source], **settings, **given)

    found, expected = evaluate(None, question), evaluate(spark, question)

    for answer in (found, expected):
        del answer["seconds"]
        for tried in answer["trials"].values():
            del tried["cost"]["sample_seconds"]
    assert found == expected


def test_planted_copies_are_the_truth_where_wanted(source, spark):
    found = evaluate(
        spark, EvaluationQuestion(inputs=[source], config=load_config(None, None, SETTINGS), planted=60, sample=30)
    )
    first = found["trials"]["first"]

    assert (found["truth"], found["planted"], found["pairs"]) == ("planted copies", 60, 60)
    assert len(first["bins"]) > 6
    assert first["recall"]["removals"]["of"] == sum(each["pairs"] for each in first["bins"] if each["from"] >= 0.8)
    assert first["recall"]["removals"]["share"] == 1
    assert first["removed"]["of"] == 30


def test_labelled_pairs_are_the_truth_where_given(source, labels, spark):
    path, true = labels
    found = evaluate(spark, EvaluationQuestion(inputs=[source], config=load_config(None, None, SETTINGS), pairs=path))
    first = found["trials"]["first"]

    assert (found["truth"], found["pairs"], found["pairs_unknown"]) == ("labelled pairs", len(true) + 1, 3)
    assert first["recall"]["removals"]["of"] == len(true)
    reasons = {each["reason"] for each in first["missed"]}
    assert "below the threshold of 0.8" in reasons
    assert first["wrong_count"] == 1
    assert {first["wrong"][0]["left_id"], first["wrong"][0]["right_id"]} == {"doc 004", "doc 005"}
    precision = first["precision"]["removals"]
    assert (precision["count"], precision["of"]) == (precision["of"] - 1, first["recall"]["removals"]["count"] + 1)
    assert first["cost"]["candidates_per_document"] is None


def test_a_run_reports_its_recall_of_labelled_pairs(result, labels):
    report, output = result
    true = labels[1]
    joined = count_joined(true, output)

    assert report["labeled_pairs"] == {"given": len(true) + 3, "known": len(true), "joined": joined}
    assert report["recall_on_labeled_set"] == joined / len(true) < 1
    assert f"\ndedup_recall_on_labeled_set {joined / len(true)}\n" in (output / "metrics.prom").read_text()


def test_labels_of_other_documents_are_refused(source, spark, tmp_path):
    nobody = tmp_path / "nobody.csv"
    nobody.write_text("left_id,right_id\nx,y\n")
    config = load_config(None, None, [*SETTINGS, f"evaluation.labeled_pairs={nobody}"])
    with pytest.raises(DataError, match=r"evaluation.labeled_pairs: must hold duplicates of the input \(got 1, "):
        run(spark, Job(inputs=[source], output=str(tmp_path / "nobody"), config=config))
    with pytest.raises(DataError, match=r"--pairs .*: must hold pairs of the input \(got 1, "):
        evaluate(
            spark, EvaluationQuestion(inputs=[source], config=load_config(None, None, SETTINGS), pairs=str(nobody))
        )


def test_the_table_says_what_was_found_and_cannot_command_the_terminal(answer):
    table = to_table(answer)
    first, second = answer["trials"].values()

    for words in ("21 x 6, threshold 0.8", "4 x 4, threshold 0.8", "1-(1-J^4)^4", "removed by first only"):
        assert words in table
    assert f"duplicates without an edge, second: {second['missed_count']}" in table
    assert f"{first['recall']['edges']['share']:.4f} ({first['recall']['edges']['low']:.4f} to " in table
    second["missed"][0]["shared"] = "\x1b[31mred\n"
    assert "\x1b" not in to_table(answer)
    assert r"\x1b[31mred\n" in to_table(answer)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("shingles.shingle_size=6", r"shingles.shingle_size must be that of the first setting.*\(got 5 and 6\)"),
        ("seed=2", r"seed must be that of the first"),
        ("mode=exact", r"--against: mode must be that of the first"),
        ("input.text_column=body", r"input.text_column must be"),
        ("output.mode=ids", r"one of threshold, lsh.bands.* must differ"),
    ],
)
def test_settings_that_share_no_signatures_are_refused(override, words):
    with pytest.raises(ConfigError, match=words):
        check_comparable(load_config(), load_config(None, None, [override]))


def test_settings_that_share_signatures_may_differ_in_all_else():
    overrides = ["threshold=0.7", "lsh.bands=14", "lsh.rows=8", "buckets.max_bucket=50", "output.mode=ids"]
    check_comparable(load_config(), load_config(None, None, overrides))
    check_comparable(load_config(), None)
    with pytest.raises(ConfigError, match=r"mode must be \"lsh\""):
        check_comparable(dataclasses.replace(load_config(), mode="exact"), None)


def test_settings_that_remove_other_documents_than_an_evaluation_are_named(source):
    settings = ["layers=exact,near", "keep.order=longest", "cluster.max_component=3", "keep.drop=all"]
    plain, other = (
        evaluate(
            None, EvaluationQuestion(inputs=[source], config=load_config(None, None, [*SETTINGS, *given]), sample=20)
        )
        for given in ([], settings)
    )

    assert plain["left_out"] == []
    assert other["left_out"] == ["cluster.max_component", "keep.drop", "keep.order", "layers"]
    assert " left out: " not in to_table(plain)
    assert "caution      cluster.max_component, keep.drop, keep.order, layers left out: near alone" in to_table(other)


def test_an_answer_is_not_written_into_what_is_read(tmp_path):
    pq.write_table(pa.table({"id": [1], "text": ["a text"]}), tmp_path / "a.parquet")
    for inputs in ([str(tmp_path)], [f"{tmp_path}/*.json", f"{tmp_path}/a.parquet"]):
        question = EvaluationQuestion(inputs=inputs, config=load_config(None, None, SETTINGS), output=str(tmp_path))
        with pytest.raises(StorageError, match=r"evaluation\.json: must lie apart from every input"):
            evaluate(None, question)


def test_pairs_are_counted_alike_in_components_of_both_groupings():
    from dedup.evaluate.judgement import _count_agreeing  # noqa: PLC0415

    chance = np.random.default_rng(3)
    groups, others, drawn = chance.integers(0, 6, 60), chance.integers(0, 4, 60), chance.random(60) < 0.3
    expected = {}
    for left in range(60):
        for right in range(left):
            if groups[left] == groups[right] and (drawn[left] or drawn[right]):
                same, every = expected.get(groups[left], (0, 0))
                expected[groups[left]] = (same + int(others[left] == others[right]), every + 1)

    same, every = _count_agreeing(groups, others, drawn)

    assert list(zip(same.tolist(), every.tolist(), strict=True)) == [expected[group] for group in sorted(expected)]


def write_chain(folder, length=20):
    """Write documents of which each resembles the two before it, and the first and last have nothing in common."""
    words = [f"w{number}" for number in range(200 + 10 * length)]
    texts = [" ".join(words[10 * number : 10 * number + 200]) for number in range(length)]
    pq.write_table(pa.table({"id": range(length), "text": texts}), folder / "chain.parquet")
    return str(folder / "chain.parquet")


def test_components_come_along_whole(tmp_path, monkeypatch):
    question = EvaluationQuestion(inputs=[write_chain(tmp_path)], config=load_config(None, None, SETTINGS), sample=1)
    found = evaluate(None, question)

    assert (found["drawn"], found["alike"], found["left_open"]) == (1, 19, 0)
    assert found["trials"]["first"]["removed"]["count"] == found["trials"]["first"]["removed_exactly"]["count"]
    assert "caution      0" not in to_table(found)
    monkeypatch.setattr(dedup.evaluate.sample, "ROUNDS", 1)
    cut = evaluate(None, question)
    assert 0 < cut["alike"] < 19
    assert f"caution      {cut['left_open']:,} documents are in components that the sample holds in part" in to_table(
        cut
    )
