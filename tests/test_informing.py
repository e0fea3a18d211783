"""What only informs ends no run: it is left out of the report, which says so."""

import json
import logging
import os
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup.engine.workers import _CONTEXT, _Beside
from dedup.informing import BASELINE, LONGEST, LOSS, NEAR_MISSES, PLOTS, RECALL, SOURCES, TEXTS, Inform
from dedup.report.page import to_html
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from tests.reports import make_report
from tests.store.sides import Side
from tests.templates import make_family

REPORT = {
    "dedup.run.execution.read_sample": "the sample of tokens",
    "dedup.report.build.turn_dial": "other thresholds",
    "dedup.report.build.show_doubtful": "the most doubtful removals",
    "dedup.report.build._count_missed": "pairs missed by the bands",
    "dedup.report.build.hold_against": "the comparison with the baseline",
    "dedup.report.build.measure_drift": "the drift since the baseline",
    "dedup.report.summary.rank_tokens": "the frequencies of tokens",
    "dedup.report.summary.draw_plots": PLOTS,
    "dedup.run.execution.to_metrics": "metrics.prom",
    "dedup.run.execution.to_html": "report.html",
}
OUTPUT = {
    "dedup.output.result_tables.count_sources": SOURCES,
    "dedup.output.result_tables._name_misses": NEAR_MISSES,
    "dedup.output.file_output.FileOutput.read_texts": TEXTS,
}
NEAR = {
    "dedup.layers.near.layer.verify_sample": LOSS,
    "dedup.layers.near.labels.Labels.measure_recall": RECALL,
    "dedup.layers.near.comparison.select_near_misses": NEAR_MISSES,
}
GROWN = {
    "dedup.run.arriving.remember": BASELINE,
    "dedup.store.adding.estimate_loss": LOSS,
    "dedup.layers.near.comparison.select_near_misses": NEAR_MISSES,
}
SETTINGS = {
    "input.id_column": "id",
    "input.source_column": "site",
    "threshold": 0.6,
    "buckets.max_bucket": 2,
    "shingles.shingle_size": 2,
}


def fail(*_, **__):
    raise OverflowError("math range error")


@pytest.fixture
def disturb(monkeypatch):
    """Return a function that lets work that only informs fail."""

    def act(works):
        for work in works:
            monkeypatch.setattr(work, fail)

    return act


@pytest.fixture
def corpus(tmp_path):
    """Return the folder of documents of a template, of which some pairs are left uncompared."""
    texts = make_family(24, words=60, edits=5, seed=4)
    table = pa.table({"id": range(len(texts)), "text": texts, "site": [f"site{n % 3}" for n in range(len(texts))]})
    pq.write_table(table, tmp_path / "in.parquet")
    pq.write_table(pa.table({"left_id": [0, 2], "right_id": [1, 3]}), tmp_path / "pairs.parquet")
    return tmp_path


def deduplicate(folder, name, spark=None, **options):
    config = load_config(settings=SETTINGS | {"evaluation.labeled_pairs": f"{folder}/pairs.parquet"})
    job = Job(inputs=[f"{folder}/in.parquet"], output=f"{folder}/{name}", config=config, **options)
    return run_in_memory(job) if spark is None else run(spark, job)


def read(folder):
    return [
        sorted(map(repr, ds.dataset(folder / name).to_table().to_pylist()))
        for name in ("kept", "removed", "duplicates")
    ]


def check(folder, report, works, caplog):
    """Assert that the report lacks what these would make, and says so where it can."""
    left_out = dict.fromkeys(works.values(), "OverflowError: math range error")
    assert report["left_out"] == json.loads((folder / "report.json").read_text())["left_out"] == left_out
    assert sorted(caplog.messages) == sorted(f"left out of the report: {name} ({left_out[name]})" for name in left_out)
    assert not (folder / "metrics.prom").exists()
    assert not (folder / "report.html").exists()
    uncompared = report["pairs"]["uncompared"]
    assert uncompared > 0
    assert report["uncompared"]["lost_at_most"] == report["uncompared"]["documents_lost_at_most"] == uncompared


@pytest.mark.parametrize("engine", ["memory", pytest.param("spark", marks=pytest.mark.full)])
def test_a_run_of_which_all_that_informs_fails_has_the_same_result(corpus, disturb, caplog, request, engine):
    spark = None if engine == "memory" else request.getfixturevalue("spark")
    whole = deduplicate(corpus, "whole")
    assert whole["left_out"] == {}
    assert whole["uncompared"]["lost_at_most"] < whole["pairs"]["uncompared"]
    caplog.clear()
    works = REPORT | NEAR | OUTPUT
    disturb(works)

    report = deduplicate(corpus, "less", spark, baseline=f"{corpus}/whole")

    assert 3 < whole["removed"] == report["removed"]
    assert read(corpus / "less") == read(corpus / "whole")
    check(corpus / "less", report, works, caplog)
    assert (report["survival_by_source"], report["recall_on_labeled_set"]) == (None, None)
    assert ds.dataset(corpus / "less" / "near_misses").schema == ds.dataset(corpus / "whole" / "near_misses").schema


@pytest.mark.parametrize("engine", ["memory", pytest.param("spark", marks=pytest.mark.full)])
def test_a_batch_of_which_all_that_informs_fails_is_added_all_the_same(corpus, disturb, caplog, request, engine):
    spark = None if engine == "memory" else request.getfixturevalue("spark")
    sides = [Side(corpus / name, SETTINGS) for name in ("whole", "less")]
    table = pq.read_table(corpus / "in.parquet")
    pq.write_table(table.slice(0, 2), corpus / "first.parquet")
    pq.write_table(table.slice(2), corpus / "in.parquet")
    for side in sides:
        side.add("first", corpus / "first.parquet")
    sides[0].add("batch", corpus / "in.parquet")
    caplog.clear()
    works = REPORT | OUTPUT | GROWN
    # There is no earlier report without what fails.
    works.pop("dedup.report.build.hold_against")
    works.pop("dedup.report.build.measure_drift")
    disturb(works)

    report = sides[1].add("batch", corpus / "in.parquet", spark)

    assert read(corpus / "less" / "batch") == read(corpus / "whole" / "batch")
    assert sides[0].rows() == sides[1].rows()
    check(corpus / "less" / "batch", report, works, caplog)


def test_a_plotting_process_that_is_killed_costs_the_plots(corpus, monkeypatch):
    def open_killed(_):
        pool = _Beside(1, mp_context=_CONTEXT)
        with suppress(BrokenProcessPool):
            pool.submit(os._exit, 9).result()
        return pool

    monkeypatch.setattr("dedup.run.execution.open_beside", open_killed)
    report = deduplicate(corpus, "out")

    assert [*report["left_out"]] == [PLOTS]
    assert report["left_out"][PLOTS].startswith("BrokenProcessPool: ")
    page = (corpus / "out" / "report.html").read_text()
    assert "<li>the plots (BrokenProcessPool: " in page
    assert "(not drawn)" in page


def test_one_plot_that_fails_costs_no_other(disturb):
    from dedup.report.plots import draw_plots  # noqa: PLC0415 - not as other tests leave it

    disturb(["dedup.report.axes.plot_dial"])
    inform = Inform()
    drawn = draw_plots(make_report(), {}, inform)

    assert inform.left_out == {"the plot of dial": "OverflowError: math range error"}
    assert [name for name, svg in drawn.items() if not svg] == ["dial"]
    assert to_html(make_report(), drawn).count("(not drawn)") == 1


def test_bands_that_find_nothing_of_low_similarity_are_told():
    """Of a similarity of .001 the probability to share 128 rows is 0 in double precision."""
    assert make_report("threshold=0.001", "lsh.bands=1", "lsh.rows=128")["missed_by_bands"] > 0


def test_a_cause_is_one_line_without_secrets_told_once(caplog):
    def lose(url):
        raise OSError(f"{url} is gone\nand a second line")

    inform = Inform()
    assert inform("a plot", sum, [1, 2]) == 3
    for _ in range(2):
        assert inform("a plot", lose, "s3://key:secret@bucket/\x1b" + "x" * LONGEST) is None

    [cause] = inform.left_out.values()
    assert cause.startswith("OSError: s3://bucket/\\x1bxxx")
    assert len(cause) == LONGEST
    assert caplog.record_tuples == [("dedup.informing", logging.WARNING, f"left out of the report: a plot ({cause})")]


def test_an_interrupt_ends_what_only_informs():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Inform()("a plot", interrupt)
