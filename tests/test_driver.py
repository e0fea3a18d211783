"""A run on Spark whose driver searches: the passes over the files are made by tasks, the result is that of memory."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.engine import tasks
from dedup.errors import CapacityError, DataError
from dedup.run import opening
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from tests.test_pipeline import make_texts

CHOOSE_BYTES = opening.choose_bytes
ALONE = "driver.search_bytes=1_000_000_000"


def write(folder):
    """Write texts of which many are alike, in files of two folders."""
    texts = [*make_texts(5, originals=12, copies=3), *make_texts(5, originals=2, copies=1), "", "short"]
    for part in range(3):
        path = folder / f"of={part % 2}" / f"{part}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = texts[part::3]
        table = pa.table(
            {"name": [f"id {part} {n}" for n in range(len(own))], "text": own, "size": [len(text) % 5 for text in own]}
        )
        pq.write_table(table, path, row_group_size=4)


def read_all(output):
    """Return the files of an output by name, but what tells of the run itself; Hadoop's own are hidden."""
    files = (path for path in output.rglob("*") if path.is_file() and path.parent != output)
    return {str(path.relative_to(output)): path.read_bytes() for path in files if path.name[0] != "."}


@pytest.mark.parametrize(
    "options",
    [
        ["input.id_column=name", "keep.order=['highest:size']", "keep.merge=['max:size']"],
        ["mode=exact", "output.mode=annotate"],
        ["output.mode=ids"],
        ["output.files=2", "output.format=jsonl", "layers=['exact', 'near', 'passages']", "passages.tokens=10"],
    ],
    ids=["merged", "annotated", "ids", "packed"],
)
def test_the_driver_writes_what_the_memory_engine_writes(options, spark, tmp_path):
    write(tmp_path / "in")
    config = load_config(None, None, [ALONE, *options])
    reports = []
    for engine in ("memory", "spark"):
        job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / engine), config=config)
        reports.append(run_in_memory(job) if engine == "memory" else run(spark, job))

    written = read_all(tmp_path / "memory")
    assert len(written) >= 4
    assert read_all(tmp_path / "spark") == written
    same = [{key: each[key] for key in ("documents", "kept", "pairs", "layers", "search")} for each in reports]
    assert same[0] == same[1]
    assert [each["engine"] for each in reports] == ["memory", "spark"]
    assert same[0]["search"] == "process"


@pytest.mark.parametrize("layer", [pytest.param("near", marks=pytest.mark.full), "exact"])
def test_tasks_search_where_the_driver_lacks_memory_after_all(*, layer, spark, tmp_path, monkeypatch, caplog):
    write(tmp_path / "in")
    config = load_config(None, None, [ALONE, f"layers=['{layer}']"])
    job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=config)
    monkeypatch.setattr("dedup.engine.memory.free_bytes", lambda: 1)

    report = run(spark, job)

    assert report["search"] == "tasks"
    assert "the driver lacks memory" in caplog.text
    assert report["kept"] < report["documents"] == sum(1 for _ in _rows(tmp_path / "in"))


def _rows(folder):
    for path in folder.rglob("*.parquet"):
        yield from range(pq.read_metadata(path).num_rows)


def test_the_memory_engine_refuses_by_an_error_of_its_own(tmp_path, monkeypatch):
    write(tmp_path / "in")
    job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=load_config(None, None, []))
    monkeypatch.setattr("dedup.engine.memory.free_bytes", lambda: 1)

    with pytest.raises(CapacityError, match='set engine = "spark"'):
        run_in_memory(job)


@pytest.mark.classic
@pytest.mark.parametrize(
    ("master", "given", "need", "fits"),
    [
        ("local[2]", '"auto"', 50, True),
        ("local[2]", '"auto"', 51, False),
        ("spark://somewhere:7077", '"auto"', opening.CLUSTER_BYTES, True),
        ("spark://somewhere:7077", '"auto"', opening.CLUSTER_BYTES + 1, False),
        ("spark://somewhere:7077", "3_000_000_000", 3_000_000_000, True),
        ("local[2]", "0", 1, False),
    ],
)
def test_the_driver_takes_what_the_settings_give_it(spark, monkeypatch, *, master, given, need, fits):
    monkeypatch.setattr(opening, "choose_bytes", CHOOSE_BYTES)
    monkeypatch.setattr(opening, "free_bytes", lambda: 100)
    monkeypatch.setattr(spark.sparkContext, "master", master)
    config = load_config(None, None, [f"driver.search_bytes={given}"])

    assert opening.fits_driver(spark, config, need) is fits


@pytest.mark.classic
def test_files_of_a_caller_s_session_are_searched_by_its_driver(spark, tmp_path):
    write(tmp_path / "in")
    before = sorted(spark.sparkContext.getConf().getAll())
    job = Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=load_config(None, None, [ALONE]))

    run(spark, job)

    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert (report["engine"], report["search"], report["reader"]) == ("spark", "process", "files")
    assert report["versions"]["spark"] == spark.version
    assert sorted(spark.sparkContext.getConf().getAll()) == before


def test_tasks_give_their_values_in_order_and_tell_how_far_they_are(spark, monkeypatch):
    monkeypatch.setattr(tasks, "JOBS", 8)
    told = []
    with tasks.Tasks(spark, 100, watch=lambda *each: told.append(each)) as workers:
        assert list(workers.map(_add, range(9))) == [100 + n for n in range(9)]
        assert list(workers.map(_add, [])) == []

        assert told == [(0, 9), (4, 9), (8, 9), (9, 9), (0, 0)]
        assert list(workers.map(_add, range(100))) == [100 + n for n in range(100)]

    # Many small ones have few jobs.
    assert len(told) == 5 + 1 + 8


def _add(held, item):
    return held + item


def test_what_is_wrong_with_a_record_is_told_as_by_the_memory_engine(spark, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": "b"\n', "utf-8")
    job = Job(
        inputs=[str(tmp_path / "in.jsonl")], output=str(tmp_path / "out"), config=load_config(None, None, [ALONE])
    )

    said = []
    for start in (run_in_memory, lambda each: run(spark, each)):
        with pytest.raises(DataError) as caught:
            start(job)
        said.append(str(caught.value))

    assert said[0] == said[1]
    assert f"{tmp_path / 'in.jsonl'}" in said[0]
    assert not [path for path in Path(tmp_path).iterdir() if path.name != "in.jsonl"]
