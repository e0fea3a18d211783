"""The exercise of the literature, held against the formula and against the page that shows it."""

import pyarrow as pa
import pyarrow.parquet as pq

from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.session import ROOT
from dedup.settings.files import load_config
from tests import exercise

PAGE = ROOT / "docs" / "how-it-works.md"


def test_misses_follow_the_formula():
    rows = exercise.measure(exercise.make_documents())
    assert sum(row["pairs"] for row in rows) > 0.95 * 200 * 45
    for row in rows:
        # Rows of Fast Similarity Sketching agree a little less independently than the formula assumes, which makes the
        # curve steeper: more misses where most pairs are missed, fewer where it matters.
        assert abs(row["missed"] - row["theory"]) < 0.015, row
        if row["low"] >= 0.7:
            assert row["missed"] <= row["theory"] + 4 * row["error"], row
    assert f"{exercise.to_markdown(rows)}\n" in PAGE.read_text("utf-8")


def test_candidates_are_a_small_share_of_all_pairs(tmp_path):
    documents = exercise.make_documents()
    source = str(tmp_path / "in.parquet")
    pq.write_table(pa.table({"id": range(len(documents)), "text": documents}), source)
    config = load_config(None, None, ["input.id_column=id"])
    report = run_in_memory(Job(inputs=[source], output=str(tmp_path / "out"), config=config))
    pairs = report["pairs"]
    assert pairs["candidates"] < 0.003 * pairs["all"]
    sentence = (
        f"{pairs['distinct']:,} of {pairs['all']:,} pairs share a bucket ({pairs['distinct'] / pairs['all']:.2%}), "
        f"{pairs['candidates']:,} are compared exactly and {pairs['edges']:,} are edges"
    )
    assert sentence in " ".join(PAGE.read_text("utf-8").split())
