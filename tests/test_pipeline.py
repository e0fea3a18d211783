"""The whole job: what it promises, on corpora small enough for an oracle.

A run on Spark takes seconds and one in memory a fraction of one. So what settings do is tried in memory, and a run on
Spark is one that Spark could do otherwise: it is compared with that in memory, row by row.
"""

import csv
import dataclasses
import json
import os
import random
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from unittest.mock import ANY

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dedup.output.result_tables
from dedup.engine import placement
from dedup.engine import spark as spark_engine
from dedup.engine.file_corpus import Files
from dedup.engine.sorting import shuffle_rows
from dedup.errors import AlertError, StorageError
from dedup.explain.result import PublishedOutput
from dedup.files.storage import Storage as FileStorage
from dedup.kernels.curve import NEAR_MISS
from dedup.kernels.hashing import key_fingerprint
from dedup.kernels.sets.sketch import KEPT
from dedup.layers.near import comparison
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.run.workspace import Workspace
from dedup.settings.contract import load_tokenizer
from dedup.settings.files import load_config
from dedup.settings.hashspec import HashSpec
from tests import oracles
from tests.conftest import ON_CONNECT
from tests.corpora import forge
from tests.damage import flip
from tests.engine.tables import settings
from tests.strategies import runs
from tests.templates import make_family

TABLES = ("kept", "removed", "duplicates", "edges", "near_misses")
WORDS = [f"word{number}" for number in range(200)] + ["café", "Ωmega", "漢字", "ไทย"]


def make_texts(seed: int, originals: int = 12, copies: int = 4, length: int = 60) -> list[str]:
    """Families of edited copies, exact copies, unrelated documents, short and empty ones."""
    chance = random.Random(seed)
    texts = ["", " \n", "one", "one", "two words", "Two, words!"]
    for _ in range(originals):
        words = chance.choices(WORDS, k=chance.randint(length // 3, length))
        texts.append(" ".join(words))
        for _ in range(chance.randint(0, copies)):
            edited = list(words)
            for _ in range(chance.randint(0, 3)):
                edited[chance.randrange(len(edited))] = chance.choice(WORDS)
            texts.append(" ".join(edited))
    return texts


def write(path: Path, rows: list[dict], files: int = 1) -> str:
    path.mkdir()
    for number in range(files):
        pq.write_table(
            pa.Table.from_pylist(rows[number::files], pa.Table.from_pylist(rows).schema), path / f"{number}.parquet"
        )
    return str(path)


def make_job(source: str, output: str, *overrides: str) -> Job:
    config = load_config(None, None, ["input.id_column=id", *overrides])
    return Job(inputs=[source], output=output, config=config, overwrite=True)


def deduplicate(source: str, output: str, *overrides: str) -> dict:
    """Run the job in memory."""
    return run_in_memory(make_job(source, output, *overrides))


def deduplicate_on_spark(spark, source: str, output: str, *overrides: str) -> dict:
    return run(spark, make_job(source, output, *overrides))


def assert_equal(one: Path, other: Path, names=TABLES) -> None:
    """Hold the results of two runs against each other, row by row."""
    for name in names:
        assert rows(str(one), name) == rows(str(other), name), name


def rows(output: str, name: str) -> list[tuple]:
    """Return the rows of a result in an order of their own."""
    found = ds.dataset(f"{output}/{name}").to_table().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def check(output: str, documents: dict, threshold: float = 0.8, size: int = 5) -> None:
    """Hold a result against the oracle: a partition, true edges, true reasons, connected removals."""
    sets = {key: oracles.shingle_set(text, size) for key, text in documents.items()}
    kept = [row[0] for row in rows(output, "kept")]
    duplicates = ds.dataset(f"{output}/duplicates").to_table().to_pylist()
    edges = ds.dataset(f"{output}/edges").to_table().to_pylist()
    assert Counter(kept + [row["id"] for row in duplicates]) == Counter(list(documents))
    removed = [row["id"] for row in duplicates]
    for name, ids in (("kept", kept), ("removed", removed)):
        assert rows(output, name) == sorted(((each, documents[each]) for each in ids), key=repr)

    for edge in edges:
        exact = oracles.jaccard(sets[edge["left_id"]], sets[edge["right_id"]])
        assert edge["left_id"] < edge["right_id"]
        assert edge["jaccard"] == float(exact)
        assert exact >= oracles.Fraction(str(threshold))
    for pair in ds.dataset(f"{output}/near_misses").to_table().to_pylist():
        exact = oracles.jaccard(sets[pair["left_id"]], sets[pair["right_id"]])
        assert pair["left_id"] < pair["right_id"]
        assert pair["jaccard"] == float(exact)
        assert threshold - NEAR_MISS <= float(exact) < threshold
    numbers = {key: number for number, key in enumerate(documents)}
    place = oracles.components((numbers[edge["left_id"]], numbers[edge["right_id"]]) for edge in edges)
    for row in duplicates:
        exact = oracles.jaccard(sets[row["id"]], sets[row["representative_id"]])
        assert row["jaccard"] == float(exact)
        assert row["layer"] == "near"
        assert row["kind"] == ("identical" if exact == 1 else "near")
        assert row["representative_id"] in kept
        assert place[numbers[row["id"]]] == place[numbers[row["representative_id"]]]
        assert row["representative_id"] < row["id"]


def check_report(output: Path, report: dict, documents: list[dict]) -> None:
    """See that the counts of a report add up."""
    stored = json.loads((output / "report.json").read_text())
    assert stored["kept"] == report["kept"] == len(rows(str(output), "kept"))
    assert report["kept"] + report["identical"] + report["near"] == report["documents"] == len(documents)
    assert report["components"] == sum(report["component_sizes"].values())
    assert report["removed"] == sum((size - 1) * count for size, count in report["component_sizes"].items())
    pairs, similarities = report["pairs"], report["similarities"]
    assert (len(similarities), sum(similarities), sum(similarities[16:])) == (20, pairs["candidates"], pairs["edges"])
    assert pairs["in_buckets"] >= pairs["distinct"] >= pairs["candidates"] >= pairs["edges"] == report["edges"]
    assert {"signatures", "identical", "buckets", "candidates", "edges", "components", "output"} < set(report["stages"])
    again = load_config(str(output / "dedup.toml"))
    assert again.input.id_column == "id"
    kept = {row[0] for row in rows(str(output), "kept")}
    assert report["text_bytes_removed"] == sum(len(row["text"].encode()) for row in documents if row["id"] not in kept)
    assert report["index_bytes"] == 16 * 21 * (
        len(documents) - report["documents_empty"] - report["stages"]["identical"]["rows"]
    )
    assert 0 < report["signature_bytes"] < 1e6
    shuffled = {name: stage["shuffle_bytes"] for name, stage in report["stages"].items()}
    if not ON_CONNECT:
        assert 0 < shuffled["signatures"] < shuffled["buckets"]
        # Packed, and compressed as it is shuffled.
        assert 0.3 < shuffled["buckets"] / report["index_bytes"] < 1.5
    texts = {row["id"]: row["text"] for row in documents}
    for component in report["largest_components"]:
        assert component["representative_id"] == component["examples"][0]["id"] in kept
        for example in component["examples"]:
            assert example["text"] == " ".join(texts[example["id"]][:200].split())
    assert [one["documents"] for one in report["largest_components"]] == sorted(
        (size for size, count in report["component_sizes"].items() for _ in range(count)), reverse=True
    )[:5]
    page = (output / "report.html").read_text()
    assert f"{report['removed']:,} of {report['documents']:,} documents removed" in " ".join(page.split())


@runs(2)
@given(seed=st.integers(0, 2**32))
def test_a_result_is_true_and_a_copy_more_is_one_removed_more(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("corpus")
    documents = [{"id": f"doc {number}", "text": text} for number, text in enumerate(make_texts(seed))]
    report = deduplicate(write(folder / "a", documents), str(folder / "out-a"))
    check(str(folder / "out-a"), {row["id"]: row["text"] for row in documents})
    assert report["documents"] == len(documents)
    assert report["documents_empty"] == 2
    assert report["documents_short"] == 4
    assert report["recall_on_labeled_set"] is report["labeled_pairs"] is None
    assert "labels" not in report["stages"]

    copied = next(row for row in documents if len(row["text"]) > 20)
    documents.append({"id": "a copy", "text": copied["text"]})
    again = deduplicate(write(folder / "b", documents), str(folder / "out-b"))
    assert again["removed"] == report["removed"] + 1
    assert again["kept"] == report["kept"]


@runs(1)
@given(seed=st.integers(0, 2**32))
def test_spark_gives_one_result_for_any_order_and_parts_and_its_counts_add_up(spark, tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("corpus")
    documents = [{"id": f"doc {number}", "text": text} for number, text in enumerate(make_texts(seed))]
    deduplicate(write(folder / "a", documents), str(folder / "out-a"))
    random.Random(seed).shuffle(documents)
    source = write(folder / "b", documents, files=3)
    changed = {"spark.sql.shuffle.partitions": 5, "spark.sql.execution.arrow.maxRecordsPerBatch": 7}
    # As users have it, other than in conftest.py.
    changed |= {"spark.sql.adaptive.enabled": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

    with settings(spark, **changed):
        report = deduplicate_on_spark(spark, source, str(folder / "out-b"))

    check(str(folder / "out-b"), {row["id"]: row["text"] for row in documents})
    assert_equal(folder / "out-b", folder / "out-a")
    check_report(folder / "out-b", report, documents)
    assert "labels" not in report["stages"]


@pytest.mark.full
def test_cells_partitions_and_graphframes_do_not_change_the_result(spark, tmp_path, monkeypatch):
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(5, originals=20))]
    source = write(tmp_path / "in", documents)
    deduplicate(source, str(tmp_path / "whole"))
    limits = {"TASK_BYTES": 4096, "BAND_BYTES": 4096, "CELL_BYTES": 4096, "CELL_PAIRS": 20}
    limits |= {"BROADCAST_ROWS": 0, "READ_BYTES": 0}
    for name, value in limits.items():
        monkeypatch.setattr(placement, name, value)
    report = deduplicate_on_spark(spark, source, str(tmp_path / "split"), "components.engine=graphframes")

    assert report["components_engine"] == "graphframes"
    assert_equal(tmp_path / "split", tmp_path / "whole")
    assert rows(str(tmp_path / "whole"), "near_misses")


def test_documents_read_again_by_tasks_are_without_what_layers_before_took(spark, tmp_path):
    """Of two files some documents go whole, and all but short ones lose a line; near compares what is left."""
    notice = "this notice stands in each of the documents of this corpus"
    texts = [f"{notice}\n{text}" if len(text) > 20 else text for text in make_texts(8, originals=8)]
    # Two ids of one hash cost no document, and a sketch is cut.
    own = [f"{notice}\n" + " ".join(f"{name}{number}" for number in range(40)) for name in "ab"]
    named = dict(zip([*forge(), "x", "y"], [*own, *(f"{text} more" for text in own)], strict=True))
    texts += [" ".join(f"{number}x{place}" for place in range(200)) for number in range(100)]
    named |= {f"z {number}": text for number, text in enumerate([*texts, texts[8]])}
    documents = [{"id": name, "text": text, "site": "ab"[len(text) % 2]} for name, text in named.items()]
    source = write(tmp_path / "in", documents, 2)
    settings = ['layers=["exact", "lines", "near"]', "lines.documents=5", "input.source_column=site"]
    deduplicate(source, str(tmp_path / "memory"), *settings)
    report = deduplicate_on_spark(spark, source, str(tmp_path / "tasks"), *settings)

    assert report["search"] == "tasks"
    assert_equal(tmp_path / "tasks", tmp_path / "memory", (*TABLES, "sketch"))
    assert len(rows(str(tmp_path / "tasks"), "sketch")) == KEPT
    pairs = {frozenset(row[:2]) for row in rows(str(tmp_path / "tasks"), "edges")}
    assert {frozenset(pair) for pair in zip([*named][:2], "xy", strict=True)} <= pairs
    assert len({row[-1] for row in rows(str(tmp_path / "tasks"), "edges")}) > 1
    assert not any(notice in row[1] for row in rows(str(tmp_path / "tasks"), "kept"))


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_exact_mode_finds_every_pair(tmp_path, threshold):
    texts = make_texts(3, originals=25)
    documents = dict(enumerate(texts))
    source = write(tmp_path / "in", [{"id": number, "text": text} for number, text in documents.items()])
    output = str(tmp_path / "out")
    report = deduplicate(source, output, "mode=exact", f"threshold={threshold}")
    check(output, documents, threshold)

    sets = {key: found for key, text in documents.items() if (found := oracles.shingle_set(text, 5))}
    true = oracles.similar_pairs(sets, threshold)
    place = oracles.components(true)
    assert report["kept"] == len(documents) - len(place) + len(set(place.values()))
    heads = {}
    for key in sorted(sets):
        heads.setdefault(sets[key], key)
    between_sets = {pair: float(exact) for pair, exact in true.items() if all(heads[sets[key]] == key for key in pair)}
    found = {(left, right): jaccard for left, right, jaccard in rows(output, "edges")}
    assert between_sets.items() <= found.items()


def test_equal_rows_without_an_id_column_leave_one(spark, tmp_path):
    near = " ".join(WORDS[:40])
    texts = ["alone here with nobody", "twin"] + ["twin"] * 2 + ["", ""] + [near, near, near + " more"]
    source = write(tmp_path / "in", [{"text": text, "n": None if text else 1} for text in texts])
    report = deduplicate(source, str(tmp_path / "out"), "input.id_column=")
    kept = [row[0] for row in rows(str(tmp_path / "out"), "kept")]
    assert Counter(kept) - Counter(texts) == Counter()
    assert {"alone here with nobody", "twin", ""} < set(kept)
    assert (report["kept"], report["removed"], len(kept)) == (4, 5, 4)
    removed = [row[0] for row in rows(str(tmp_path / "out"), "removed")]
    assert Counter(kept + removed) == Counter(texts)
    duplicates = ds.dataset(str(tmp_path / "out" / "duplicates")).to_table().to_pylist()
    assert Counter(row["kind"] for row in duplicates)["identical"] in (3, 4)
    assert len(duplicates) == 5

    deduplicate_on_spark(spark, source, str(tmp_path / "all"), "input.id_column=", "output.mode=annotate")
    assert_equal(tmp_path / "all", tmp_path / "out", ("duplicates", "edges", "near_misses"))
    annotated = ds.dataset(str(tmp_path / "all" / "annotated")).to_table().to_pylist()
    assert Counter(row["text"] for row in annotated) == Counter(texts)
    assert Counter(row["text"] for row in annotated if row["dedup_kept"]) == Counter(kept)
    assert not (tmp_path / "all" / "removed").exists()
    for name in ("out", "all"):
        result = PublishedOutput(str(tmp_path / name))
        [near_id] = {row["id"] for row in duplicates if row["jaccard"] < 1}
        assert result.find([near_id, "nobody"])[near_id] in {near, near + " more"}


def write_rows(path: Path, documents: list[dict]) -> None:
    """Write rows as the name ends; what is null is an empty cell of CSV."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(documents), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in documents))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, documents[0].keys())
            writer.writeheader()
            writer.writerows(documents)


def read_rows(path: Path) -> list[dict]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return [{name: cell or None for name, cell in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.csv"])
def test_kept_and_removed_rows_are_the_input_in_its_format(tmp_path, name):
    text = 'a "quoted", text\nof two lines ' + " ".join(WORDS[:30])
    documents = [
        {"id": "1", "a.b c": "x", "_dedup_removed": "kept", "text": text},
        {"id": "2", "a.b c": None, "_dedup_removed": "a", "text": text + "!"},
        {"id": "3", "a.b c": "y`z", "_dedup_removed": "=", "text": "другой"},
    ]
    write_rows(tmp_path / name, documents)

    report = deduplicate(str(tmp_path / name), str(tmp_path / "out"))

    assert (report["kept"], report["identical"]) == (2, 1)
    assert read_rows(tmp_path / "out" / "kept" / name) == [documents[0], documents[2]]
    assert read_rows(tmp_path / "out" / "removed" / name) == [documents[1]]
    assert PublishedOutput(str(tmp_path / "out")).find(["1", "2", "4"]) == {
        row["id"]: row["text"] for row in documents[:2]
    }


@pytest.fixture(params=["memory", "spark"])
def on_either(request):
    """Return a function that runs the job on one of the engines."""
    if request.param == "memory":
        return deduplicate
    # What is written is asked, not who searches: the driver is sooner done with it.
    on_spark = partial(deduplicate_on_spark, request.getfixturevalue("spark"))
    return lambda *arguments: on_spark(*arguments, "driver.search_bytes=1_000_000_000")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_corpus_without_duplicates_is_kept_and_its_removed_rows_can_be_read(tmp_path, kind):
    source = write(tmp_path / "in", [{"id": 1, "text": "a text"}, {"id": 2, "text": "another"}])
    report = deduplicate(source, str(tmp_path / "out"), f"output.format={kind}")

    assert report["stages"]["output"] == {
        "rows": 2,
        "kept": 2,
        "removed": 0,
        "edges": 0,
        "near_misses": 0,
        "quarantined": 0,
        "spans": 0,
        "text_bytes_kept": 13,
        "seconds": ANY,
    }
    for name, count in (("kept", 2), ("removed", 0)):
        table = ds.dataset(str(tmp_path / "out" / name), format=kind).to_table()
        assert (table.column_names, table.num_rows) == (["id", "text"], count)


def test_text_files_are_documents_and_their_paths_ids(on_either, tmp_path):
    folder = tmp_path / "files"
    (folder / "sub dir").mkdir(parents=True)
    names = ["a+b 100%.txt", "sub dir/ü.txt", "other.txt", "ignored.log"]
    for name in names:
        (folder / name).write_text(" ".join(WORDS[:50]) if name != "other.txt" else "something else", "utf-8")
    report = on_either(
        str(folder), str(tmp_path / "out"), "input.id_column=", "input.format=text", "input.name_filter=*.txt"
    )
    assert (report["documents"], report["kept"], report["identical"]) == (3, 2, 1)
    for name, gone in zip(names[:3], (False, True, False), strict=True):
        assert (tmp_path / "out" / "kept" / name).exists() != gone
        assert (tmp_path / "out" / "removed" / name).exists() == gone
    paths = [str(folder / name) for name in names]
    assert PublishedOutput(str(tmp_path / "out")).find(paths) == {
        path: Path(path).read_text("utf-8") for path in paths[:3]
    }


def test_ids_mode_writes_ids_alone(on_either, tmp_path):
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(2))]
    source = write(tmp_path / "in", documents)
    deduplicate(source, str(tmp_path / "whole"))
    on_either(source, str(tmp_path / "ids"), "output.mode=ids")
    assert rows(str(tmp_path / "ids"), "kept") == [(row[0],) for row in rows(str(tmp_path / "whole"), "kept")]
    assert not (tmp_path / "ids" / "removed").exists()
    assert PublishedOutput(str(tmp_path / "ids")).find([row["id"] for row in documents]).keys() == {
        row[0] for row in rows(str(tmp_path / "ids"), "kept")
    }


@pytest.fixture(scope="module")
def crash(_session, tmp_path_factory):
    """Make a run that crashed in the midst; return its job and the output of an undisturbed one."""
    folder = tmp_path_factory.mktemp("crash")
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(8, originals=20))]
    source = write(folder / "in", documents)
    deduplicate(source, str(folder / "other"))
    job = Job(inputs=[source], output=str(folder / "out"), config=load_config(None, None, ["input.id_column=id"]))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("pulled the plug")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "verify", fail)
        with pytest.raises(RuntimeError, match="pulled"):
            run(_session, job)
    return job, str(folder / "other")


@pytest.fixture
def crashed(crash, tmp_path):
    """Return the job of the crash with what it left for another output, and the output of an undisturbed run."""
    job, undisturbed = crash
    shutil.copytree(f"{job.output}.partial", tmp_path / "out.partial")
    return dataclasses.replace(job, output=str(tmp_path / "out")), undisturbed


@pytest.mark.classic
def test_interrupted_run_goes_on_where_it_stopped(spark, crashed, monkeypatch):
    job, other = crashed
    output = job.output

    def limited(*limits: str) -> Job:
        config = load_config(None, None, ["input.id_column=id", *(f"alerts.{limit}" for limit in limits)])
        return dataclasses.replace(job, config=config, baseline=other)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("pulled the plug")

    def fail_election(rows, shuffle, *rest):
        return fail() if "charged" in shuffle.schema.names else shuffle_rows(rows, shuffle, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(dedup.output.result_tables, "decide", fail)
        with pytest.raises(RuntimeError, match="pulled"):
            run(spark, limited())
    assert not Path(output).exists()

    # A breach leaves what is finished for a try with another limit.
    monkeypatch.setattr(Files, "scan", fail)
    monkeypatch.setattr(spark_engine, "shuffle_rows", fail_election)
    partial_output = Path(f"{output}.partial")
    with pytest.raises(AlertError, match=r"removal_rate is 0\.\d+, above its limit of 0\.01") as caught:
        run(spark, limited("removal_rate_above=0.01", "on_breach=fail"))
    assert f"{partial_output}/report/report.html" in str(caught.value)
    assert not Path(output).exists()
    report = run(spark, limited("removal_rate_change_above=0", "empty_rate_above=0"))

    undisturbed = json.loads(Path(other, "report.json").read_text())
    told = json.loads(Path(output, "report.json").read_text())
    for name in ("removed", "bucket_sizes", "component_sizes", "similarities"):
        assert told[name] == undisturbed[name]
    assert_equal(Path(output), Path(other))
    # What an earlier try shuffled, nobody counts any more.
    assert report["stages"]["edges"]["rows"] == undisturbed["stages"]["edges"]["rows"] > 0
    assert report["stages"]["edges"]["shuffle_bytes"] == 0
    # The same corpus twice, so only the other limit is passed.
    assert [each["alert"] for each in report["alerts"]] == ["empty_rate_above"]
    assert report["baseline"]["numbers"]["kept"] == report["kept"]
    assert not partial_output.exists()


def test_an_unfinished_run_of_other_settings_is_refused_by_their_name(spark, crashed):
    job, _ = crashed
    other = load_config(None, None, ["input.id_column=id", "threshold=0.7"])

    with pytest.raises(
        StorageError, match=r"unfinished run with another setting threshold \(it had 0\.8, this run has 0\.7\)"
    ):
        run(spark, dataclasses.replace(job, config=other))


def test_an_input_that_changed_after_a_crash_is_not_mixed_with_the_old(spark, crashed):
    job, _ = crashed
    file = Path(job.inputs[0]) / "0.parquet"
    before, times = file.read_bytes(), file.stat()
    shorten(file)
    try:
        with pytest.raises(StorageError, match="holds an unfinished run with another input"):
            run(spark, job)
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


KEY = "a secret of 24 characters"


@pytest.fixture
def keyed(tmp_path):
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(f"{KEY}\n")
    return load_config(None, None, ["input.id_column=id", f"hash.key_file={file}"])


def test_another_key_is_refused_by_its_fingerprint(spark, crashed, keyed):
    with pytest.raises(
        StorageError, match=rf"another hash key \(it had '', this run has '{key_fingerprint(KEY.encode())}'"
    ):
        run(spark, dataclasses.replace(crashed[0], config=keyed))


@pytest.mark.classic
def test_signatures_of_another_key_are_not_gone_on_with(spark, crashed, keyed, caplog):
    job, other = crashed
    record = Path(f"{job.output}.partial") / "run.json"
    identity = json.loads(record.read_text()) | {"hash key": key_fingerprint(KEY.encode())}
    record.write_text(json.dumps(identity))
    forged = Workspace(FileStorage(), job.output)
    forged._identity = {"made_by": "dedup", **identity}
    for stage in record.parent.glob("stages/*.json"):
        seen = {key: value for key, value in json.loads(stage.read_text()).items() if key != "check"}
        stage.write_text(json.dumps(seen | {"check": forged._sign(seen)}))
    report = run(spark, dataclasses.replace(job, config=keyed))

    assert "near_signatures: the table of an earlier try is damaged; it is made again" in caplog.messages
    assert report["hash"] == HashSpec.of(keyed, load_tokenizer(keyed)).to_dict()
    assert report["hash"]["key"] == key_fingerprint(KEY.encode())
    assert rows(job.output, "kept") == rows(other, "kept")
    assert not [path for path in Path(job.output).rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def shorten(file):
    table = pq.read_table(file)
    pq.write_table(table.slice(0, table.num_rows - 1), file, compression="none")


@pytest.mark.full
@pytest.mark.classic
def test_damaged_tables_and_records_are_made_again(spark, crashed, caplog):
    """How a table can be damaged: tests/test_storage.py."""
    job, other = crashed
    stages = Path(f"{job.output}.partial") / "stages"
    flip(max(stages.glob("near_signatures-*/*.parquet"), key=lambda path: path.stat().st_size))
    record = stages / "near_candidates.json"
    record.write_text(record.read_text().replace("1", "2"))

    run(spark, job)

    assert [each for each in caplog.messages if "made again" in each] == [
        "near_signatures: the table of an earlier try is damaged; it is made again"
    ]
    assert rows(job.output, "kept") == rows(other, "kept")


def test_existing_output_is_not_overwritten_unasked(spark, tmp_path):
    source, output = write(tmp_path / "in", [{"id": 1, "text": "a text"}]), tmp_path / "out"
    output.mkdir()
    (output / "precious").write_text("data")
    job = Job(inputs=[source], output=str(output), config=load_config(None, None, ["input.id_column=id"]))
    with pytest.raises(StorageError, match="must not exist yet"):
        run(spark, job)
    assert (output / "precious").read_text() == "data"


def test_pages_of_one_template_are_one_component_without_comparing_all(tmp_path):
    base = WORDS[:100]
    texts = [" ".join([*base, f"tail{number}", f"end{number}"]) for number in range(60)]
    source = write(tmp_path / "in", [{"id": number, "text": text} for number, text in enumerate(texts)])
    report = deduplicate(source, str(tmp_path / "out"), "buckets.max_bucket=10")
    sizes = {int(size): count for size, count in report["bucket_sizes"].items()}
    assert max(sizes) > 10
    assert (report["kept"], report["near"]) == (1, 59)
    pairs = report["pairs"]
    assert (pairs["uncompared"], report["uncompared"]["lost_at_most"]) == (0, 0)
    assert pairs["settled"] == sum(count * size * (size - 1) // 2 for size, count in sizes.items() if size > 10)
    assert pairs["distinct"] < 600


def test_what_a_cap_loses_of_a_family_is_estimated_by_exact_comparison(tmp_path):
    texts = make_family(100, words=200, edits=1)
    source = write(tmp_path / "in", [{"id": number, "text": text} for number, text in enumerate(texts)])
    report = deduplicate(source, str(tmp_path / "out"), "buckets.max_bucket=10")
    assert report["pairs"]["uncompared"] > 10_000
    assert (report["kept"], report["near"]) == (1, 99)
    assert report["uncompared"]["drawn"] > 1000
    # Nearly all are alike, and connected by others.
    assert report["uncompared"]["possible"] == 0
    assert report["uncompared"]["lost"] == 0 < report["uncompared"]["lost_share_at_most"] < 0.003
    assert 0 < report["uncompared"]["lost_at_most"] < 0.003 * report["pairs"]["uncompared"] + 1


def test_a_template_hides_no_copy(tmp_path):
    """Thirty pairs of copies share their first words."""
    shared = WORDS[:60]
    texts = [" ".join([*shared, *[f"{number}x{place}" for place in range(25)]]) for number in range(30) for _ in "ab"]
    documents = [{"id": number, "text": f"{text} end{number}"} for number, text in enumerate(texts)]
    source = write(tmp_path / "in", documents)

    settings = ("buckets.max_bucket=2", "lsh.bands=2", "lsh.rows=1", "seed=3")
    report = deduplicate(source, str(tmp_path / "out"), *settings)

    assert report["near"] == 30
    assert report["pairs"]["uncompared"] == 0


def test_a_source_removes_no_more_of_others_than_its_limit(tmp_path):
    texts = make_texts(11, originals=20, copies=0)[6:]
    planted = [{"id": number, "text": text, "feed": "spam"} for number, text in enumerate(texts[:10])]
    victims = [{"id": 100 + number, "text": text, "feed": "news"} for number, text in enumerate(texts)]
    own = [{"id": 50, "text": texts[0], "feed": "spam"}, {"id": 200, "text": texts[15], "feed": None}]
    source, output = write(tmp_path / "in", [*planted, *victims, *own]), str(tmp_path / "out")
    settings_ = ("input.source_column=feed", "limits.per_source=3")
    report = deduplicate(source, output, *settings_)

    duplicates = ds.dataset(f"{output}/duplicates").to_table().to_pylist()
    assert {row["id"]: row["representative_id"] for row in duplicates} == {50: 0, 100: 0, 101: 1, 102: 2, 200: 115}
    assert len(rows(output, "kept")) == report["kept"] == 32 - 5
    assert (report["identical"], report["near"], report["spared"]) == (5, 0, 7)
    assert report["survival_by_source"] == {
        "news": {"documents": 20, "kept": 17},
        "spam": {"documents": 11, "kept": 10},
        "(none)": {"documents": 1, "kept": 0},
    }
