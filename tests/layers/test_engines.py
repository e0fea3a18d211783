"""Layers in whole runs: two engines, one answer, from which the input can be had again."""

import json
from functools import partial
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup.layers import contamination
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config

WORDS = [f"w{number}" for number in range(900)]
QUESTION = "Which of these rivers flows through no city of more than a million people at all?"


def make_rows(rng):
    """Return documents with boilerplate, questions in other case, parts of one another, and equal rows."""
    texts = []
    for number in range(60):
        lines = [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(rng.randint(1, 8))]
        if number % 6 == 0:
            lines.insert(rng.randint(0, len(lines)), f"é «{QUESTION.upper()}»")
        texts.append(
            "\n".join(
                ["Home | About | Contact all of us | What we do with your data", *lines, "\uff21ll rights reserved.\r"]
            )
        )
    texts += ["\n".join(text.split("\n")[1:-1]) for text in texts[:12]]
    texts += [text.rsplit("\n", 3)[0] for text in texts[12:24]]
    texts += [*texts[:3], "", ""]
    rng.shuffle(texts)
    return texts


@pytest.fixture
def folder(tmp_path):
    texts = make_rows(Random(5))
    columns = {"text": texts, "site": [f"s{len(text) % 4}" for text in texts]}
    for number in range(2):
        half = {name: values[number::2] for name, values in columns.items()}
        pq.write_table(pa.table(half), tmp_path / f"plain{number}.parquet")
        half["key"] = [f"k{place * 2 + number}" for place in range(len(half["text"]))]
        pq.write_table(pa.table(half), tmp_path / f"named{number}.parquet")
    (tmp_path / "quiz.jsonl").write_text(json.dumps({"q": QUESTION}) + "\n" + json.dumps({"q": WORDS[7]}) + "\n")
    return tmp_path


def make_job(folder, output, names, **settings):
    settings = {
        "contamination.sets": [f"quiz:q:{folder}/quiz.jsonl"],
        "lines.documents": 20,
        "containment.threshold": 0.8,
        "containment.min_shingles": 5,
        "shingles.shingle_size": 3,
    } | settings
    config = load_config(settings=settings)
    return Job(inputs=[f"{folder}/{names}*.parquet"], output=str(folder / output), config=config)


def read(folder, name):
    table = ds.dataset(folder / name).to_table()
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


NAMED = {"input.id_column": "key", "input.source_column": "site", "keep.order": ["longest"]}


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        pytest.param(
            "named",
            NAMED | {"layers": ["lines", "containment", "contamination"]},
            marks=pytest.mark.full,
        ),
        pytest.param(
            "plain",
            {
                "layers": ["contamination", "near", "lines", "containment"],
                "contamination.action": "cut",
                "contamination.margin": 1,
                "lines.action": "ignore",
                "lines.compare": "text",
            },
            marks=pytest.mark.full,
        ),
        ("named", NAMED | {"layers": ["contamination", "containment", "passages"], "passages.tokens": 10}),
    ],
)
def test_both_engines_find_the_same(spark, folder, monkeypatch, names, settings):
    if names == "plain":
        monkeypatch.setattr(contamination, "BROADCAST_GRAMS", 0)
    run_in_memory(make_job(folder, "memory", names, **settings))
    run(spark, make_job(folder, "spark", names, **settings))
    reports = [json.loads((folder / engine / "report.json").read_text()) for engine in ("memory", "spark")]
    assert [each["layer"] for each in reports[0]["layers"]] == settings["layers"]
    assert reports[0]["layers"] == reports[1]["layers"]
    assert all(each["removed"] or each["spans"] for each in reports[0]["layers"])
    for table in ("kept", "duplicates", "spans"):
        assert read(folder / "memory", table) == read(folder / "spark", table)
    assert len({ds.dataset(folder / engine / "spans").schema.to_string() for engine in ("memory", "spark")}) == 1


def test_texts_of_spans_are_strings_as_the_table_says(folder):
    run_in_memory(make_job(folder, "out", "named", **NAMED, layers=["lines"]))
    assert ds.dataset(folder / "out" / "spans").schema.field("text").type == pa.string()


@pytest.mark.parametrize("action", ["cut", "ignore", "mark"])
def test_what_is_cut_out_of_texts_can_be_put_back(folder, action):
    layers = {"layers": ["lines", "contamination"], "lines.action": action, "contamination.action": "cut"}
    run_in_memory(make_job(folder, "out", "named", **NAMED | layers))
    before = {row[2]: row[0] for number in range(2) for row in read(folder, f"named{number}.parquet")}
    spans = ds.dataset(folder / "out" / "spans").to_table().to_pylist()
    assert {(row["layer"], row["effect"]) for row in spans} == {("lines", action), ("contamination", "cut")}
    after = {row[2]: row[0] for row in read(folder / "out", "kept")}
    assert after.keys() == before.keys()
    for row in sorted((row for row in spans if row["effect"] == "cut"), key=lambda row: row["begin"]):
        text = after[row["id"]]
        after[row["id"]] = text[: row["begin"]] + row["text"] + text[row["begin"] :]
    assert after == before
    assert all(before[row["id"]][row["begin"] : row["end"]] == row["text"] for row in spans)


@pytest.mark.full
def test_nothing_left_is_nothing_to_search(spark, folder):
    (folder / "quiz.jsonl").write_text(json.dumps({"q": "about"}) + "\n")
    pq.write_table(pa.table({"text": ["all about it", "and about that"]}), folder / "plain0.parquet")
    (folder / "plain1.parquet").unlink()
    told = []
    for name, start in (("memory", run_in_memory), ("spark", partial(run, spark))):
        told.append(start(make_job(folder, name, "plain", layers=["contamination", "near", "exact"])))
        assert ds.dataset(f"{folder}/{name}/removed").count_rows() == 2

    assert [layer["documents"] for layer in told[0]["layers"]] == [0, 0, 0]
    assert told[0]["layers"] == told[1]["layers"]


@pytest.mark.full
def test_rows_that_spark_reads_lose_the_same_spans(spark, folder, tmp_path):
    settings = {"lines.documents": 20, "input.id_column": "key"}
    job = make_job(folder, "files", "named", layers=["lines", "near"], **settings)
    run_in_memory(job)
    frame = spark.read.parquet(f"{folder}/named0.parquet", f"{folder}/named1.parquet")
    config = load_config(settings={"layers": ["lines", "near"], "shingles.shingle_size": 3, **settings})
    told = run(spark, Job(inputs=[], output=str(tmp_path / "rows"), config=config, table=frame))

    for name in ("kept", "removed", "duplicates", "spans"):
        one, other = (
            sorted(map(repr, ds.dataset(f"{each}/{name}").to_table().to_pylist()))
            for each in (folder / "files", tmp_path / "rows")
        )
        assert one == other, name
    kept = ds.dataset(f"{tmp_path}/rows/kept").to_table(columns=["text"])["text"].to_pylist()
    assert told["layers"][-1]["text_bytes"] == sum(len(text.encode()) for text in kept)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layers": ["contamination"], "contamination.sets": []}, "contamination.sets: must name sets of texts"),
        ({"layers": ["url"]}, "url.column: must name the column"),
    ],
)
def test_a_layer_that_lacks_a_setting_is_refused(folder, settings, said):
    with pytest.raises(ValueError, match=said):
        run_in_memory(make_job(folder, "out", "plain", **settings))
