"""What a plan says a run takes, against runs of the job, whose tables are weighed and whose shuffles Spark counts."""

from dataclasses import replace
from itertools import pairwise, takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.engine import placement
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers.near import buckets
from dedup.plan.answer import answer
from dedup.plan.model import measure as add_up
from dedup.plan.model import plan
from dedup.plan.question import PlanQuestion
from dedup.plan.rates import Rates
from dedup.plan.sample import measure_corpus
from dedup.plan.trial import search_drawn
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.run.workspace import Workspace
from dedup.settings.files import load_config
from tests.corpora import Corpus
from tests.engine.tables import settings
from tests.plan.families import make_chains, make_templates

STAGES = {
    "repeated": "signatures",
    **dict.fromkeys(("template_members", "template_sets", "circled", "linked", "undecided"), "templates"),
    **dict.fromkeys(("ends", "sets", "near_misses"), "edges"),
    "drawn": "uncompared",
    **dict.fromkeys(("members", "asked", "answered"), "representatives"),
    "output_decisions": "output",
}
"""Of tables that are not named as their stage."""
TOLERANCE = 0.2
FAMILY_TOLERANCE = 0.3


def make_texts(count: int) -> list[str]:
    return Corpus(seed=3, mean_tokens=120).chunk(count)[0].to_pylist()


def write(folder: Path, texts: list[str]) -> str:
    folder.mkdir()
    ids = [f"{number:08}" for number in range(len(texts))]
    pq.write_table(pa.table({"id": ids, "text": texts}), folder / "a.parquet")
    return str(folder)


def list_stages(spark):
    """Yield the stages of the session, the newest first."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    none = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.double, 0)
    stages = context.statusStore().stageList(None, False, False, none, None).iterator()
    while stages.hasNext():
        yield stages.next()


def shuffled(spark, begin: int) -> int:
    """Return the bytes that stages newer than this one wrote to shuffles."""
    recent = takewhile(lambda stage: stage.stageId() > begin, list_stages(spark))
    return sum(stage.shuffleWriteBytes() for stage in recent)


def measure(spark, monkeypatch, source, output, config):
    """Run the job; return the bytes, the files and the shuffled bytes of every stage."""
    weighed, files, marks = {}, {}, [("", 0)]
    begin = next((stage.stageId() for stage in list_stages(spark)), -1)
    finish = Workspace.finish

    def record(workspace, name, measured):
        found = [path.stat().st_size for path in Path(workspace.table(name)).glob("[!._]*.parquet")]
        # Rounds of the election are numbered.
        table = name.removeprefix("near_").rstrip("0123456789")
        stage = STAGES.get(table, table)
        weighed[stage] = weighed.get(stage, 0) + sum(found)
        if stage == table:
            files[stage] = len(found)
        marks.append((stage, shuffled(spark, begin)))
        finish(workspace, name, measured)

    monkeypatch.setattr(Workspace, "finish", record)
    # As users have it, other than in conftest.py.
    with settings(spark, **{"spark.sql.adaptive.enabled": "true"}):
        run(spark, Job(inputs=[source], output=output, config=config))
    marks.append(("output", shuffled(spark, begin)))
    moved = dict.fromkeys((stage for stage, _ in marks[1:]), 0)
    for (_, before), (stage, after) in pairwise(marks):
        moved[stage] += after - before
    return weighed, files, moved


def compare(spark, monkeypatch, tmp_path, texts, *, searched=False):
    """Run the job on documents and return what was planned, and what it took."""
    config = load_config(None, None, ["input.id_column=id"])
    source = write(tmp_path / "in", texts)
    corpus = measure_corpus(
        source, text_columns=["text"], drawn=len(texts), tokenizer=UnicodeWords(), shingle_size=5, id_bytes=12
    )
    trial = search_drawn(corpus.drawn, config, len(texts), ranges=False) if searched else None
    planned = plan(config, corpus, 2, Rates(), trial=trial)
    return planned, *measure(spark, monkeypatch, source, str(tmp_path / "out"), config)


def check(planned, weighed, moved):
    total = add_up(planned.stages)
    assert total["table_bytes"] == pytest.approx(sum(weighed.values()), rel=TOLERANCE)
    assert total["shuffle_bytes"] == pytest.approx(sum(moved.values()), rel=TOLERANCE)
    large = sum(moved.values()) / 20
    for stage in planned.stages:
        if moved.get(stage.name, 0) > large:
            # Hundreds of documents have tens of pairs, so the parts are less sure than their sum.
            assert add_up([stage])["shuffle_bytes"] == pytest.approx(moved[stage.name], rel=2 * TOLERANCE), stage.name


@pytest.mark.classic
def test_a_few_hundred_documents_take_what_was_planned(spark, tmp_path, monkeypatch):
    planned, weighed, _, moved = compare(spark, monkeypatch, tmp_path, make_texts(400))

    check(planned, weighed, moved)


@pytest.mark.parametrize(("make", "over_cap"), [(make_chains, False), (make_templates, True)])
@pytest.mark.full
def test_families_take_what_a_search_of_them_says(spark, tmp_path, monkeypatch, make, over_cap):
    planned, weighed, _, moved = compare(spark, monkeypatch, tmp_path, make(900), searched=True)

    rows = planned.rows
    assert rows["distant"] > 0
    assert [rows[name] > 0 for name in ("hot", "linked", "uncompared")] == [over_cap] * 3
    assert {"templates", "uncompared"} & moved.keys() == ({"templates", "uncompared"} if over_cap else set())
    for stage in planned.stages:
        for name, measured in (("shuffle_bytes", moved), ("table_bytes", weighed)):
            if measured.get(stage.name, 0) > sum(measured.values()) / 20:
                assert add_up([stage])[name] == pytest.approx(measured[stage.name], rel=FAMILY_TOLERANCE), stage.name


@pytest.mark.full
def test_a_large_corpus_takes_what_was_planned(spark, tmp_path, monkeypatch):
    # What is too much for one task and for a broadcast comes to thousands of documents: all paths of large corpora.
    small = {"BROADCAST_ROWS": 0, "READ_BYTES": 0, "WHOLE_BYTES": 0}
    small |= {"BAND_BYTES": 1 << 16, "CELL_BYTES": 1 << 17, "CELL_PAIRS": 500}
    for name, value in small.items():
        monkeypatch.setattr(placement, name, value)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        planned, weighed, files, moved = compare(spark, monkeypatch, tmp_path, make_texts(3000))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")

    check(planned, weighed, moved)
    partitions = {stage.name: stage.partitions for stage in planned.stages}
    for stage in ("identical", "buckets", "candidates", "edges"):
        assert files[stage] == partitions[stage], stage
    assert min(partitions[stage] for stage in ("identical", "candidates", "edges")) > 1


def ask(**options):
    return answer(PlanQuestion(config=load_config(), **options))["capacity"]


def test_the_arithmetic_adds_up():
    found = ask(documents=10**9, price_per_core_hour=0.05, executors=20, cores=8)

    for key, items in (("shuffle_bytes", "shuffle"), ("table_bytes", "tables")):
        for stage in found["stages"]:
            assert stage[key] == pytest.approx(sum(item["count"] * item["each"] for item in stage[items]))
        assert found[key] == pytest.approx(sum(stage[key] for stage in found["stages"]))
    working = sum(stage["core_hours"] for stage in found["stages"])
    assert found["core_hours"] == pytest.approx(working + found["start_core_hours"])
    assert found["start_core_hours"] == pytest.approx(Rates().start / 3600)
    assert found["core_hours_per_terabyte"] == pytest.approx(found["core_hours"] / (found["text_bytes"] / 1e12))
    assert found["hours"] == pytest.approx(working / 160 / 0.4 + Rates().fixed / 3600)
    assert found["price"] == pytest.approx(found["hours"] * 160 * 0.05)
    assert found["price_of_work"] == pytest.approx(found["core_hours"] * 0.05)


def test_a_row_weighs_what_the_schema_of_its_shuffle_says(monkeypatch):
    plain = ask(documents=10**6)
    wider = buckets.COLLAPSE.emitted.append(pa.field("more", pa.int64()))
    monkeypatch.setattr(buckets, "COLLAPSE", replace(buckets.COLLAPSE, emitted=wider))
    more = ask(documents=10**6)

    for one, other in zip(plain["stages"], more["stages"], strict=True):
        wanted = 8 * 10**6 if one["name"] == "identical" else 0
        assert other["shuffle_bytes"] - one["shuffle_bytes"] == pytest.approx(wanted, rel=1e-3), one["name"]


def test_every_decade_is_planned_for():
    found = ask(documents=3 * 10**7)

    assert [each["documents"] for each in found["sizes"]] == [10**6, 10**7, 3 * 10**7, 10**8, 10**9, 10**10]
    for less, more in pairwise(found["sizes"]):
        growth = more["documents"] / less["documents"]
        # Once ids no longer fit into every executor, the text is shuffled as well.
        assert growth * 0.99 <= more["shuffle_bytes"] / less["shuffle_bytes"] < 30
        assert more["table_bytes"] / less["table_bytes"] == pytest.approx(growth, rel=0.05)


def test_more_bands_and_longer_texts_cost_more():
    plain = ask(documents=10**8)
    banded = answer(PlanQuestion(config=load_config(None, None, ["lsh.bands=42"]), documents=10**8))["capacity"]
    longer = ask(documents=10**8, mean_tokens=400)

    assert banded["stages"][2]["shuffle_bytes"] > 1.8 * plain["stages"][2]["shuffle_bytes"]
    assert longer["text_bytes"] == 2 * plain["text_bytes"]
    assert longer["core_hours"] > 1.4 * plain["core_hours"]


def test_cores_do_not_help_a_stage_that_has_one_task():
    few, many = (ask(documents=10**6, executors=1, cores=cores, efficiency=1.0) for cores in (8, 800))

    [connected] = [stage for stage in many["stages"] if stage["name"] == "components"]
    assert (many["engine"], connected["partitions"]) == ("driver", 1)
    assert many["hours"] > connected["core_hours"] + Rates().fixed / 3600
    assert few["hours"] < few["core_hours"]
