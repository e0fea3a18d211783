"""Runs with the layer of passages: one output on both engines, from which the input comes back."""

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.explain.show import Style, to_text
from dedup.explain.spans import restore
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from tests.layers.test_passages import passage

TABLES = ("kept", "removed", "spans", "duplicates")


def write_texts(folder, *, named):
    """Write texts that share passages, in files of several row groups; without a name some rows are equal."""
    texts = [
        f"Number {n}. {passage(n % 7, 30)}. {'文' * 30}{chr(0x4E00 + n)} " + passage(100 + n, n)
        if n % 3
        else passage(200 + n, 25) + "\n" + passage(n % 5, 40)
        for n in range(60)
    ]
    texts += [f"Whole {passage(1, 30)}"] * 5 + ["", "ÉCLAIR " + passage(2, 30).upper()]
    names = [f"id {len(texts) - n}" for n in range(len(texts))]
    columns = {"text": texts, "size": [n % 4 for n in range(len(texts))]}
    table = pa.table({"name": names} | columns if named else columns)
    for part in range(3):
        pq.write_table(table.slice(part * 25, 25), folder / f"{part}.parquet", row_group_size=10)
    return dict(zip(names, texts, strict=True))


def tell(output):
    """Return all tables of an output, and what its report says of the layers."""
    tables = {}
    for name in TABLES:
        rows = ds.dataset(output / name).to_table().to_pylist() if (output / name).exists() else []
        tables[name] = sorted(map(repr, rows))
    return tables, json.loads((output / "report.json").read_text("utf-8"))["layers"]


@pytest.mark.parametrize(
    "options",
    [
        # Rows are known by their digests, of which some are equal.
        pytest.param(
            ["layers=['passages']", "passages.ends=sentence", "passages.min_tokens_left=8"], marks=pytest.mark.full
        ),
        pytest.param(
            [
                *("layers=['near', 'passages']", "input.id_column=name", "passages.keep_first=false"),
                "keep.order=['highest:size', 'longest']",
            ],
            marks=pytest.mark.full,
        ),
    ],
    ids=["alone", "after near"],
)
def test_both_engines_write_one_output(options, spark, tmp_path):
    (tmp_path / "in").mkdir()
    write_texts(tmp_path / "in", named="input.id_column=name" in options)
    config = load_config(None, None, ["passages.tokens=12", *options])
    for engine in ("memory", "spark"):
        job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / engine), config=config)
        run_in_memory(job) if engine == "memory" else run(spark, job)

    one, other = (tell(tmp_path / engine) for engine in ("memory", "spark"))
    assert one[0]["spans"]
    assert one == other


@pytest.mark.parametrize("action", ["cut", "mark"])
@pytest.mark.parametrize("ends", ["token", "sentence"])
def test_kept_texts_and_spans_give_the_input_back(action, ends, tmp_path):
    (tmp_path / "in").mkdir()
    texts = write_texts(tmp_path / "in", named=True)
    settings = [
        "passages.tokens=12",
        f"passages.action={action}",
        f"passages.ends={ends}",
        "passages.min_tokens_left=0",
    ]
    config = load_config(None, None, ["layers=['passages']", "input.id_column=name", *settings])
    run_in_memory(Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=config))

    kept = {row["name"]: row["text"] for row in pq.read_table(tmp_path / "out" / "kept").to_pylist()}
    assert kept.keys() == texts.keys()
    assert (kept != texts) == (action == "cut")
    spans = {}
    for span in pq.read_table(tmp_path / "out" / "spans").to_pylist():
        assert texts[span["id"]][span["begin"] : span["end"]] == span["text"]
        spans.setdefault(span["id"], []).append(span)
    if action == "cut":
        kept = {name: restore(text, spans.get(name, [])) for name, text in kept.items()}
    assert kept == texts


def test_an_explanation_shows_the_text_with_what_was_cut(tmp_path):
    (tmp_path / "in").mkdir()
    texts = write_texts(tmp_path / "in", named=True)
    settings = ["layers=['passages']", "input.id_column=name", "passages.tokens=12", "passages.min_tokens_left=0"]
    job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=load_config(None, None, settings))
    run_in_memory(job)

    result = PublishedOutput(str(tmp_path / "out"))
    spans = pq.read_table(tmp_path / "out" / "spans").to_pylist()
    assert {span["id"] for span in spans} < texts.keys()
    for name, text in texts.items():
        found = explain(result, name)
        own = [span for span in spans if span["id"] == name]
        if not own:
            assert found.text == ()
            continue
        assert "".join("".join(piece.left) for piece in found.text) == text
        cut = sorted((span["begin"], span["text"]) for span in own)
        assert "".join("".join(piece.left) for piece in found.text if not piece.shared) == "".join(
            part for _, part in cut
        )
        shown = " ".join(to_text(found, Style(full=True)).split())
        assert f"[-{' '.join(cut[0][1].split())}"[:40] in shown
