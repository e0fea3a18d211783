"""Characters and token ids in place of words, through whole runs, beside the oracle of all pairs."""

import pickle
import re
import shutil
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import dedup
from dedup import deduplicate
from dedup.errors import ConfigError, DedupError
from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.kernels.text.token_ids import TokenIds
from dedup.plan.answer import answer as plan
from dedup.plan.question import PlanQuestion
from dedup.plan.show import to_text
from dedup.run.execution import identify
from dedup.run.growing import Growth
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.run.start import start
from dedup.settings.contract import load_tokenizer
from dedup.settings.files import load_config
from dedup.settings.hashspec import HashSpec
from tests import oracles
from tests.truth import DATA

ROWS = pq.read_table(DATA / "history.parquet").slice(1000, 160)
TEXTS = ROWS["text"].to_pylist()
SURE = {"lsh.bands": 150, "lsh.rows": 2}
"""Bands of which a pair at the threshold shares one in all but e^-150 of cases."""


def train(path, seed=0, **model):
    """Write a tokenizer of bytes paired by their frequency in the corpus."""
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600 + seed, show_progress=False, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    # What a model asks for must not reach a shingle.
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(path))
    return str(path)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return train(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture
def corpus(tmp_path):
    pq.write_table(ROWS, tmp_path / "in.parquet")
    return str(tmp_path / "in.parquet")


def list_ids(text, file):
    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer.encode(oracles.decode(text), add_special_tokens=False).ids


def choose(unit, file, **settings):
    own = {"shingles.unit": unit, "shingles.shingle_size": 7, "input.id_column": "doc_id", "threshold": 0.7}
    return own | ({"shingles.tokenizer_file": file} if unit == "ids" else {}) | settings


def cut_by(unit, file):
    return oracles.characters if unit == "char" else partial(list_ids, file=file)


@cache
def find_expected(unit, file):
    """Return how many sets the texts have, and the similar pairs among them."""
    sets = {}
    for doc_id, text in zip(ROWS["doc_id"].to_pylist(), TEXTS, strict=True):
        sets.setdefault(oracles.shingle_set(text, 7, cut_by(unit, file)), doc_id)
    return len(sets), oracles.similar_pairs({doc_id: each for each, doc_id in sets.items() if each}, 0.7)


def read(table):
    return sorted(tuple(row.values()) for row in table.to_table().to_pylist())


@pytest.mark.parametrize("settings", [SURE, {"mode": "exact"}], ids=["lsh", "exact"])
@pytest.mark.parametrize("unit", ["char", "ids"])
def test_the_edges_are_the_pairs_that_the_oracle_finds_among_all(tmp_path, corpus, file, unit, settings):
    found = deduplicate(corpus, str(tmp_path / "out"), engine="memory", settings=choose(unit, file) | settings)

    sets, expected = find_expected(unit, file)
    edges = {(row["left_id"], row["right_id"]): row["jaccard"] for row in found.edges.to_table().to_pylist()}
    assert len(expected) > 50
    edges = {pair: jaccard for pair, jaccard in edges.items() if jaccard < 1}
    assert found.report.identical == len(TEXTS) - sets
    assert edges == {pair: pytest.approx(float(jaccard), abs=1e-12) for pair, jaccard in expected.items()}


def test_tasks_of_spark_have_the_tokenizer(spark, file):
    tokenizer = TokenIds(content=Path(file).read_bytes())

    def work(batches):
        for batch in batches:
            yield pa.record_batch({"hash": tokenizer.hash(batch["text"])[0].view(np.int64)})

    found = spark.createDataFrame([(text,) for text in TEXTS], "text string").mapInArrow(work, "hash long").toArrow()

    assert found["hash"].to_numpy().tolist() == tokenizer.hash(pa.array(TEXTS))[0].view(np.int64).tolist()


@pytest.mark.full
@pytest.mark.parametrize("unit", ["char", "ids"])
def test_tasks_of_spark_give_what_memory_gives(tmp_path, spark, corpus, file, unit):
    settings = choose(unit, file, **{"driver.search_bytes": 0})
    expected = deduplicate(corpus, str(tmp_path / "memory"), engine="memory", settings=settings)

    run(spark, Job(inputs=[corpus], output=str(tmp_path / "spark"), config=load_config(settings=settings)))

    for name in ("duplicates", "edges"):
        assert read(ds.dataset(tmp_path / "spark" / name)) == read(getattr(expected, name)) != []


def test_other_units_and_tokenizers_are_told_apart(tmp_path, corpus, file):
    store, config = str(tmp_path / "store"), choose("ids", file)

    def add(batch, settings):
        work = Growth(store=store, batch=batch)
        start(Job(inputs=[corpus], output=str(tmp_path / batch), config=load_config(settings=settings)), work=work)

    add("first", config)
    [[match, *_]] = dedup.lookup(store, [TEXTS[3]])
    assert match.jaccard == 1
    for settings, name in (
        (choose("char", file), "unit"),
        (choose("ids", train(tmp_path / "other.json", seed=20)), "basis"),
    ):
        with pytest.raises(ConfigError, match=f"--store: hash specification: {name} must be "):
            add("second", settings)
    moved = shutil.move(file, tmp_path / "moved.json")
    with pytest.raises(ConfigError, match=r"must be the JSON of a Hugging Face tokenizer \(got No such"):
        dedup.lookup(store, [""])
    shutil.move(moved, file)

    store = str(tmp_path / "characters")
    add("third", choose("char", file))
    assert dedup.lookup(store, [TEXTS[3], "?"])[1] == []


def test_an_unfinished_run_does_not_go_on_with_another_tokenizer(file):
    job = Job(inputs=["in"], output="out", config=load_config(settings=choose("ids", file)))
    tokenizer = load_tokenizer(job.config)
    other = replace(tokenizer, content=tokenizer.content + b" ")

    mine, theirs = (identify(job, [HashSpec.of(job.config, each)], "") for each in (tokenizer, other))

    assert [key for key in mine if mine[key] != theirs[key]] == ["hash basis"]
    assert "shingles.tokenizer_file" not in "".join(mine)


@pytest.mark.parametrize("unit", ["char", "ids"])
def test_an_explanation_counts_the_shingles_of_the_unit(tmp_path, corpus, file, unit):
    deduplicate(corpus, str(tmp_path / "out"), engine="memory", settings=choose(unit, file))
    output = PublishedOutput(str(tmp_path / "out"))
    row = next(row for row in output.duplicates.to_pylist() if row["jaccard"] < 1)

    pair = explain(output, str(row["id"]), str(row["representative_id"])).direct

    texts = dict(zip(ROWS["doc_id"].to_pylist(), TEXTS, strict=True))
    left, right = (oracles.shingle_set(texts[row[name]], 7, cut_by(unit, file)) for name in ("id", "representative_id"))
    assert pair.comparison.shared == len(left & right)
    assert pair.comparison.jaccard == row["jaccard"]


def test_places_of_ids_are_those_of_their_characters(file):
    texts = [*TEXTS[:20], "", None, "é漢 \U0001d11e  x", b"\xffa".decode("utf-8", "replace")]
    tokenizer = TokenIds(content=Path(file).read_bytes())
    array = pa.array(texts, pa.string())
    places, (hashes, offsets) = tokenizer.locate(array), tokenizer.hash(array)

    assert places.offsets.tolist() == offsets.tolist()
    assert [hashes[low:high].size for low, high in pairwise(offsets)] == [len(list_ids(text, file)) for text in texts]
    for text, low, high in zip(texts, offsets, offsets[1:], strict=False):
        begins, ends = places.begins[low:high], places.ends[low:high]
        assert {*range(len(text or ""))} == {at for span in zip(begins, ends, strict=True) for at in range(*span)}
    raw = pa.array([b"a\xff", None], pa.large_binary())
    assert tokenizer.hash(raw)[0].tolist() == tokenizer.hash(pa.array(["a\ufffd"]))[0].tolist()
    assert tokenizer == pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - our own


def test_passages_are_cut_between_token_ids(tmp_path, file):
    shared = " ".join(TEXTS[5].split()[:60])
    texts = [f"Alpha beta {shared} gamma delta", f"Quite another opening, {shared} and another end of it all"]
    pq.write_table(pa.table({"doc_id": [1, 2], "text": texts}), tmp_path / "in.parquet")
    settings = choose("ids", file, layers=["passages"])

    found = deduplicate(str(tmp_path / "in.parquet"), str(tmp_path / "out"), engine="memory", settings=settings)

    [span] = found.spans.to_table().to_pylist()
    assert (span["id"], shared[4:-4] in texts[1][span["begin"] : span["end"]]) == (2, True)
    assert found.kept.to_table()["text"].to_pylist()[1] == texts[1][: span["begin"]] + texts[1][span["end"] :]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": ["passages"], "passages.tokens": 99}, "passages.tokens: must be at least 100 with shingles.unit"),
        ({"layers": ["passages"], "passages.tokens": 200}, 'passages.action: must not be "cut" with shingles.unit'),
        ({"layers": ["contamination"]}, "contamination.match_tokens: must be at least 40 with"),
    ],
)
def test_lengths_in_words_are_refused_where_tokens_are_characters(tmp_path, corpus, settings, message):
    sets = {"contamination.sets": [f"a:text:{corpus}"]} if "contamination" in settings["layers"] else {}
    with pytest.raises(ConfigError, match=re.escape(message)):
        deduplicate(corpus, str(tmp_path / "out"), engine="memory", settings=choose("char", "") | settings | sets)


def test_passages_of_characters_remove_what_repeats(tmp_path):
    shared = " ".join(TEXTS[5].split()[:60])
    pq.write_table(
        pa.table({"doc_id": [1, 2], "text": [shared, shared.upper().replace(" ", " - ")]}), tmp_path / "in.parquet"
    )
    settings = {"layers": ["passages"], "passages.tokens": 200, "passages.action": "drop"}

    found = deduplicate(
        str(tmp_path / "in.parquet"), str(tmp_path / "out"), engine="memory", settings=choose("char", "") | settings
    )

    assert found.kept.to_table()["doc_id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shingles.tokenizer_file": ""}, 'it must be the JSON of a Hugging Face tokenizer (got "")'),
        ({"shingles.unit": "char"}, 'shingles.tokenizer_file: must be empty unless unit is "ids"'),
        ({"text.case": "keep"}, 'text: only markup may be set with shingles.unit = "ids"'),
    ],
)
def test_settings_at_odds_are_refused(file, change, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_tokenizer(load_config(settings=choose("ids", file) | change))


def test_a_file_that_is_no_tokenizer_or_one_of_chance_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    for path, reason in ((str(tmp_path / "a.json"), "got"), (train(tmp_path / "b.json", dropout=0.1), "at random")):
        with pytest.raises(ConfigError, match=f"must be the JSON of a Hugging Face tokenizer .*{reason}"):
            load_tokenizer(load_config(settings=choose("ids", path)))


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, file):
    monkeypatch.setattr("dedup.extras.find_spec", lambda _: None)
    with pytest.raises(DedupError, match=r"shingles\.unit: tokenizers must be installed .*\[ids\]"):
        load_tokenizer(load_config(settings=choose("ids", file)))


def test_a_plan_warns_of_what_unrelated_texts_share(corpus):
    config = load_config(settings=choose("char", "", **{"shingles.shingle_size": 5}))
    measured = plan(PlanQuestion(config=config, sample=corpus))
    assumed = plan(PlanQuestion(config=config, mean_tokens=100_000.0))

    sets = [oracles.shingle_set(text, 5, oracles.characters) for text in TEXTS]
    sets = [*dict.fromkeys(sets)]
    exact = [float(oracles.jaccard(one, other)) for one, other in combinations(sets, 2)]
    mean = sum(exact) / len(exact)
    assert measured["corpus"]["mean_jaccard"] == pytest.approx(mean, rel=1e-6)
    assert f"two of these documents have a similarity of {mean:.4f}" in " ".join(to_text(measured).split())
    assert assumed["corpus"]["mean_jaccard"] == pytest.approx(0.2213, abs=0.001)
    assert (
        assumed["choices"][0]["candidates"] > 100 * plan(PlanQuestion(config=load_config()))["choices"][0]["candidates"]
    )
    assert "characters" not in to_text(plan(PlanQuestion(config=load_config())))


def test_a_profile_has_characters_of_its_own(tmp_path):
    rows = [(number, kind, TEXTS[number // 2]) for number in range(40) for kind in ("a", "b")]
    ids = range(len(rows))
    table = pa.table({"id": ids, "kind": [row[1] for row in rows], "text": [row[2] for row in rows]})
    pq.write_table(table, tmp_path / "in.parquet")
    alone = {"input.id_column": "id", "shingles.shingle_size": 9, "shingles.unit": "char"}
    profile = {"name": "own", "when": {"kind": "a"}, "shingles": {"unit": "char", "shingle_size": 9}}

    both = deduplicate(
        str(tmp_path / "in.parquet"), str(tmp_path / "out"), engine="memory", id_column="id", profile=[profile]
    )

    pq.write_table(table.filter(pc.equal(table["kind"], "a")), tmp_path / "a.parquet")
    expected = deduplicate(str(tmp_path / "a.parquet"), str(tmp_path / "a"), engine="memory", settings=alone)
    assert [row for row in read(both.edges) if row[0] % 2 == 0 and row[1] % 2 == 0] == read(expected.edges)
