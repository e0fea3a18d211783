"""The whole job: what it promises, on corpora small enough for an oracle."""

import dataclasses
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from unittest.mock import ANY

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dedup.run.spreading
from dedup.errors import AlertError, DataError, StorageError
from dedup.explain.result import Result
from dedup.kernels.curve import NEAR_MISS
from dedup.kernels.text import key_fingerprint
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.settings.contract import load_contract
from dedup.settings.files import load_config
from dedup.settings.hashspec import HashSpec
from dedup.stages import edges, placement, representatives, signatures
from tests import oracles

TABLES = ("kept", "removed", "duplicates", "edges", "near_misses")
WORDS = [f"word{number}" for number in range(200)] + ["café", "Ωmega", "漢字", "ไทย"]
# An example is three runs of the job, so few are tried and none is shrunk; they share nothing but the Spark session.
slow = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


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


def deduplicate(spark, source: str, output: str, *overrides: str) -> dict:
    config = load_config(None, None, ["input.id_column=id", *overrides])
    return run(spark, Job(inputs=[source], output=output, config=config, overwrite=True))


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


@slow
@given(seed=st.integers(0, 2**32))
def test_result_is_true_and_independent_of_order_files_and_partitions(spark, tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("corpus")
    texts = make_texts(seed)
    documents = [{"id": f"doc {number}", "text": text} for number, text in enumerate(texts)]
    report = deduplicate(spark, write(folder / "a", documents), str(folder / "out-a"))
    check(str(folder / "out-a"), {row["id"]: row["text"] for row in documents})
    assert report["documents"] == len(documents)
    assert report["documents_empty"] == 2
    assert report["documents_short"] == 4
    assert report["recall_on_labeled_set"] is report["labeled_pairs"] is None
    assert "labels" not in report["stages"]

    random.Random(seed).shuffle(documents)
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        deduplicate(spark, write(folder / "b", documents, files=3), str(folder / "out-b"))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "3")
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "4096")
    for name in TABLES:
        assert rows(str(folder / "out-b"), name) == rows(str(folder / "out-a"), name)

    copied = next(row for row in documents if len(row["text"]) > 20)
    documents.append({"id": "a copy", "text": copied["text"]})
    again = deduplicate(spark, write(folder / "c", documents), str(folder / "out-c"))
    assert again["removed"] == report["removed"] + 1
    assert again["kept"] == report["kept"]


def test_cells_and_partitions_do_not_change_the_result(spark, tmp_path, monkeypatch):
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(5, originals=20))]
    source = write(tmp_path / "in", documents)
    deduplicate(spark, source, str(tmp_path / "whole"))
    limits = {"TASK_BYTES": 4096, "BAND_BYTES": 4096, "CELL_BYTES": 4096, "CELL_PAIRS": 20, "BROADCAST_ROWS": 0}
    for name, value in limits.items():
        monkeypatch.setattr(placement, name, value)
    deduplicate(spark, source, str(tmp_path / "split"))

    for name in TABLES:
        assert rows(str(tmp_path / "split"), name) == rows(str(tmp_path / "whole"), name)
    assert rows(str(tmp_path / "whole"), "near_misses")


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_exact_mode_finds_every_pair(spark, tmp_path, threshold):
    texts = make_texts(3, originals=25)
    documents = dict(enumerate(texts))
    source = write(tmp_path / "in", [{"id": number, "text": text} for number, text in documents.items()])
    output = str(tmp_path / "out")
    report = deduplicate(spark, source, output, "mode=exact", f"threshold={threshold}")
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


def test_engines_give_one_answer(spark, tmp_path):
    documents = [{"id": f"{number}", "text": text} for number, text in enumerate(make_texts(8, originals=20))]
    source = write(tmp_path / "in", documents)
    engines = ["driver", "graphframes"]
    reports = [deduplicate(spark, source, str(tmp_path / engine), f"components.engine={engine}") for engine in engines]
    assert [report["components_engine"] for report in reports] == engines
    for name in ("kept", "duplicates", "edges"):
        assert rows(str(tmp_path / "driver"), name) == rows(str(tmp_path / "graphframes"), name)


def test_auto_sends_large_forests_to_graphframes(spark, tmp_path):
    words = [" ".join(WORDS[:40])] + [" ".join([*WORDS[:39], f"end{number}"]) for number in range(6)]
    source = write(tmp_path / "in", [{"id": number, "text": text} for number, text in enumerate(words)])
    # 21 edges contract to a forest of 6.
    assert deduplicate(spark, source, str(tmp_path / "6"), "components.driver_edges=6")["components_engine"] == "driver"
    assert (
        deduplicate(spark, source, str(tmp_path / "5"), "components.driver_edges=5")["components_engine"]
        == "graphframes"
    )


def test_equal_rows_without_an_id_column_leave_one(spark, tmp_path):
    near = " ".join(WORDS[:40])
    texts = ["alone here with nobody", "twin"] + ["twin"] * 2 + ["", ""] + [near, near, near + " more"]
    source = write(tmp_path / "in", [{"text": text, "n": None if text else 1} for text in texts])
    report = deduplicate(spark, source, str(tmp_path / "out"), "input.id_column=")
    kept = [row[0] for row in rows(str(tmp_path / "out"), "kept")]
    assert Counter(kept) - Counter(texts) == Counter()
    assert {"alone here with nobody", "twin", ""} < set(kept)
    assert (report["kept"], report["removed"], len(kept)) == (4, 5, 4)
    removed = [row[0] for row in rows(str(tmp_path / "out"), "removed")]
    assert Counter(kept + removed) == Counter(texts)
    duplicates = ds.dataset(str(tmp_path / "out" / "duplicates")).to_table().to_pylist()
    assert Counter(row["kind"] for row in duplicates)["identical"] in (3, 4)
    assert len(duplicates) == 5

    deduplicate(spark, source, str(tmp_path / "all"), "input.id_column=", "output.mode=annotate")
    annotated = ds.dataset(str(tmp_path / "all" / "annotated")).to_table().to_pylist()
    assert Counter(row["text"] for row in annotated) == Counter(texts)
    assert Counter(row["text"] for row in annotated if row["dedup_kept"]) == Counter(kept)
    assert not (tmp_path / "all" / "removed").exists()
    for name in ("out", "all"):
        result = Result(str(tmp_path / name))
        [near_id] = {row["id"] for row in duplicates if row["jaccard"] < 1}
        assert result.find([near_id, "nobody"])[near_id] in {near, near + " more"}


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_kept_and_removed_rows_are_the_input_in_its_format(spark, tmp_path, kind):
    text = 'a "quoted", text\nof two lines ' + " ".join(WORDS[:30])
    documents = [
        {"id": "1", "a.b c": "x", "_dedup_removed": "kept", "text": text},
        {"id": "2", "a.b c": None, "_dedup_removed": "a", "text": text + "!"},
        {"id": "3", "a.b c": "y`z", "_dedup_removed": "=", "text": "другой"},
    ]
    frame = spark.createDataFrame(documents, "id string, `a.b c` string, _dedup_removed string, text string")
    source = str(tmp_path / f"in.{kind}")
    if kind == "csv":
        frame.coalesce(1).write.csv(source, header=True, escape='"')
    else:
        getattr(frame.coalesce(1).write, {"jsonl": "json"}.get(kind, kind))(source)
    report = deduplicate(spark, source, str(tmp_path / "out"), f"input.format={kind}")
    assert (report["kept"], report["identical"]) == (2, 1)

    read = spark.read
    read_rows = {
        "parquet": read.parquet,
        "jsonl": read.json,
        "csv": lambda path: read.csv(path, header=True, multiLine=True, escape='"'),
    }[kind]
    found = {}
    columns = set(documents[0])
    for name in ("kept", "removed"):
        table = read_rows(str(tmp_path / "out" / name))
        # Of JSON lines, fields that are null in every row are not written.
        assert set(table.columns) == columns - ({"a.b c"} if (kind, name) == ("jsonl", "removed") else set())
        found[name] = [dict.fromkeys(documents[0]) | row.asDict() for row in table.collect()]
    assert sorted(found["kept"], key=repr) == [documents[0], documents[2]]
    assert found["removed"] == [documents[1]]
    assert Result(str(tmp_path / "out")).find(["1", "2", "4"]) == {row["id"]: row["text"] for row in documents[:2]}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_corpus_without_duplicates_is_kept_and_its_removed_rows_can_be_read(spark, tmp_path, kind):
    source = write(tmp_path / "in", [{"id": 1, "text": "a text"}, {"id": 2, "text": "another"}])
    report = deduplicate(spark, source, str(tmp_path / "out"), f"output.format={kind}")

    assert report["stages"]["output"] == {
        "rows": 2,
        "kept": 2,
        "removed": 0,
        "edges": 0,
        "near_misses": 0,
        "quarantined": 0,
        "text_bytes_kept": 13,
        "shuffle_bytes": ANY,
        "seconds": ANY,
    }
    for name, count in (("kept", 2), ("removed", 0)):
        table = ds.dataset(str(tmp_path / "out" / name), format=kind).to_table()
        assert (table.column_names, table.num_rows) == (["id", "text"], count)


def test_text_files_are_documents_and_their_paths_ids(spark, tmp_path):
    folder = tmp_path / "files"
    (folder / "sub dir").mkdir(parents=True)
    names = ["a+b 100%.txt", "sub dir/ü.txt", "other.txt", "ignored.log"]
    for name in names:
        (folder / name).write_text(" ".join(WORDS[:50]) if name != "other.txt" else "something else", "utf-8")
    report = deduplicate(
        spark, str(folder), str(tmp_path / "out"), "input.id_column=", "input.format=text", "input.name_filter=*.txt"
    )
    assert (report["documents"], report["kept"], report["identical"]) == (3, 2, 1)
    for name, gone in zip(names[:3], (False, True, False), strict=True):
        assert (tmp_path / "out" / "kept" / name).exists() != gone
        assert (tmp_path / "out" / "removed" / name).exists() == gone
    paths = [str(folder / name) for name in names]
    assert Result(str(tmp_path / "out")).find(paths) == {path: Path(path).read_text("utf-8") for path in paths[:3]}


def test_ids_mode_writes_ids_alone(spark, tmp_path):
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(2))]
    source = write(tmp_path / "in", documents)
    deduplicate(spark, source, str(tmp_path / "whole"))
    deduplicate(spark, source, str(tmp_path / "ids"), "output.mode=ids")
    assert rows(str(tmp_path / "ids"), "kept") == [(row[0],) for row in rows(str(tmp_path / "whole"), "kept")]
    assert not (tmp_path / "ids" / "removed").exists()
    assert Result(str(tmp_path / "ids")).find([row["id"] for row in documents]).keys() == {
        row[0] for row in rows(str(tmp_path / "ids"), "kept")
    }


def test_interrupted_run_goes_on_where_it_stopped(spark, tmp_path, monkeypatch):
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(4))]
    source, output = write(tmp_path / "in", documents), str(tmp_path / "out")
    config = load_config(None, None, ["input.id_column=id"])
    job = Job(inputs=[source], output=output, config=config)
    undisturbed = run(spark, Job(inputs=[source], output=str(tmp_path / "other"), config=config))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("pulled the plug")

    for stage, work in ((representatives, "join_members"), (dedup.run.spreading, "find_fates")):
        with monkeypatch.context() as patch:
            patch.setattr(stage, work, fail)
            with pytest.raises(RuntimeError, match="pulled"):
                run(spark, job)
        assert not Path(output).exists()

    with monkeypatch.context() as patch:
        patch.setattr(signatures, "sign_documents", fail)
        patch.setattr(representatives, "join_members", fail)
        report = run(spark, job)
    for name in ("removed", "bucket_sizes", "component_sizes"):
        assert report[name] == undisturbed[name]
    for name in TABLES:
        assert rows(output, name) == rows(str(tmp_path / "other"), name)
    # What an earlier try shuffled, nobody counts any more.
    assert report["similarities"] == undisturbed["similarities"]
    assert report["stages"]["edges"] == {**undisturbed["stages"]["edges"], "seconds": ANY, "shuffle_bytes": 0}
    assert not Path(f"{output}.partial").exists()


@pytest.fixture(scope="module")
def crash(_session, tmp_path_factory):
    """Make a run that crashed in the midst; return its job and the rows that it would have kept."""
    folder = tmp_path_factory.mktemp("crash")
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(8, originals=20))]
    source = write(folder / "in", documents)
    deduplicate(_session, source, str(folder / "other"))
    job = Job(inputs=[source], output=str(folder / "out"), config=load_config(None, None, ["input.id_column=id"]))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("pulled the plug")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "verify", fail)
        with pytest.raises(RuntimeError, match="pulled"):
            run(_session, job)
    return job, rows(str(folder / "other"), "kept")


@pytest.fixture
def crashed(crash, tmp_path):
    """Return the job of the crash with what it left for another output, and the rows that it would have kept."""
    job, kept = crash
    shutil.copytree(f"{job.output}.partial", tmp_path / "out.partial")
    return dataclasses.replace(job, output=str(tmp_path / "out")), kept


def test_an_unfinished_run_of_other_settings_is_refused_by_their_name(spark, crashed):
    job, _ = crashed
    other = load_config(None, None, ["input.id_column=id", "threshold=0.7"])

    with pytest.raises(
        StorageError, match=r"unfinished run with another setting threshold \(it had 0\.8, this run has 0\.7\)"
    ):
        run(spark, dataclasses.replace(job, config=other))


def test_a_damaged_record_is_of_an_unfinished_table(spark, crashed):
    job, kept = crashed
    record = Path(f"{job.output}.partial") / "stages" / "candidates.json"
    record.write_text(record.read_text().replace("1", "2"))
    assert record.with_name(".candidates.json.crc").exists()

    run(spark, job)

    assert rows(job.output, "kept") == kept


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


def test_signatures_of_another_key_are_not_gone_on_with(spark, crashed, keyed, caplog):
    job, kept = crashed
    record = Path(f"{job.output}.partial") / "run.json"
    record.with_name(".run.json.crc").unlink()
    record.write_text(json.dumps(json.loads(record.read_text()) | {"hash key": key_fingerprint(KEY.encode())}))
    report = run(spark, dataclasses.replace(job, config=keyed))

    assert "signatures: the table of an earlier try is damaged; it is made again" in caplog.messages
    assert report["hash"] == HashSpec.of(keyed, load_contract(keyed)).to_dict()
    assert report["hash"]["key"] == key_fingerprint(KEY.encode())
    assert rows(job.output, "kept") == kept
    assert not [path for path in Path(job.output).rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_a_breach_publishes_nothing_and_another_limit_goes_on(spark, crash, crashed, monkeypatch):
    job, kept = crashed
    partial, earlier = Path(f"{job.output}.partial"), str(Path(crash[0].output).with_name("other"))

    def limited(*limits):
        config = load_config(None, None, ["input.id_column=id", *(f"alerts.{limit}" for limit in limits)])
        return dataclasses.replace(job, config=config, baseline=earlier)

    with pytest.raises(
        AlertError, match=r"removal_rate is 0\.\d+, above its limit of 0\.01; nothing was published"
    ) as caught:
        run(spark, limited("removal_rate_above=0.01", "on_breach=fail"))
    assert f"{partial}/report/report.html" in str(caught.value)
    assert not Path(job.output).exists()
    assert {path.name for path in (partial / "report").iterdir()} >= {"report.html", "report.json", "metrics.prom"}
    assert [each["alert"] for each in json.loads((partial / "report" / "report.json").read_text())["alerts"]] == [
        "removal_rate_above"
    ]

    monkeypatch.setattr(representatives, "join_members", None)
    report = run(spark, limited("removal_rate_change_above=0", "empty_rate_above=0"))
    assert rows(job.output, "kept") == kept
    assert not partial.exists()
    # The same corpus twice, so only the other limit is passed.
    assert [each["alert"] for each in report["alerts"]] == ["empty_rate_above"]
    assert report["baseline"]["numbers"]["kept"] == report["kept"]


def flip(file):
    content = bytearray(file.read_bytes())
    column = pq.read_metadata(file).row_group(0).column(0)
    last = column.data_page_offset + column.total_compressed_size - 1
    content[last] = 255 - content[last]
    file.write_bytes(content)


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


def shorten(file):
    table = pq.read_table(file)
    pq.write_table(table.slice(0, table.num_rows - 1), file, compression="none")


def without_checksum(harm):
    def both(file):
        harm(file)
        file.with_name(f".{file.name}.crc").unlink()

    return both


@pytest.mark.parametrize(
    ("table", "harm"),
    [
        ("signatures", flip),
        ("candidates", without_checksum(flip)),
        ("signatures", without_checksum(truncate)),
        ("signatures", without_checksum(shorten)),
        ("candidates", Path.unlink),
    ],
    ids=["flipped", "flipped unseen", "truncated", "rows gone", "file gone"],
)
def test_a_damaged_table_is_made_again(spark, crashed, caplog, table, harm):
    job, kept = crashed
    folder = Path(f"{job.output}.partial") / "stages" / table
    harm(max(folder.glob("part-*.parquet"), key=lambda path: path.stat().st_size))

    run(spark, job)

    assert f"{table}: the table of an earlier try is damaged; it is made again" in caplog.messages
    assert rows(job.output, "kept") == kept


def test_existing_output_is_not_overwritten_unasked(spark, tmp_path):
    source, output = write(tmp_path / "in", [{"id": 1, "text": "a text"}]), tmp_path / "out"
    output.mkdir()
    (output / "precious").write_text("data")
    job = Job(inputs=[source], output=str(output), config=load_config(None, None, ["input.id_column=id"]))
    with pytest.raises(StorageError, match="must not exist yet"):
        run(spark, job)
    assert (output / "precious").read_text() == "data"


def test_repeated_and_null_ids_are_refused(spark, tmp_path):
    twice = write(tmp_path / "twice", [{"id": "x", "text": "a"}, {"id": "x", "text": "b"}, {"id": "y", "text": "c"}])
    with pytest.raises(DataError, match=r"must be unique \(got 1 repeated ids: 'x' \(2 rows\)\)"):
        deduplicate(spark, twice, str(tmp_path / "out"))
    null = write(tmp_path / "null", [{"id": None, "text": "an orphan"}, {"id": 1, "text": "b"}])
    with pytest.raises(DataError, match="1 nulls; their texts begin 'an orphan'"):
        deduplicate(spark, null, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_hot_bucket_is_capped_counted_and_still_one_component(spark, tmp_path):
    base = WORDS[:100]
    texts = [" ".join([*base, f"tail{number}", f"end{number}"]) for number in range(60)]
    source = write(tmp_path / "in", [{"id": number, "text": text} for number, text in enumerate(texts)])
    report = deduplicate(spark, source, str(tmp_path / "out"), "buckets.max_bucket=10")
    sizes = {int(size): count for size, count in report["bucket_sizes"].items()}
    capped = {size: count for size, count in sizes.items() if size > 10}
    assert capped
    assert report["pairs"]["uncompared"] == sum(
        count * (size * (size - 1) // 2 - size * 5) for size, count in capped.items()
    )
    assert (report["kept"], report["near"]) == (1, 59)
    assert report["uncompared"]["sampled"] > 1000
    # All are alike, and connected by others.
    assert report["uncompared"]["similar"] == report["uncompared"]["sampled"]
    assert report["uncompared"]["lost"] == 0 < report["uncompared"]["lost_share_at_most"] < 0.003


def test_what_a_cap_loses_is_estimated_by_exact_comparison(spark, tmp_path):
    """Thirty pairs of copies share their first words: compared with one neighbour each, most do not meet their own."""
    shared = WORDS[:60]
    texts = [" ".join([*shared, *[f"{number}x{place}" for place in range(25)]]) for number in range(30) for _ in "ab"]
    documents = [{"id": number, "text": f"{text} end{number}"} for number, text in enumerate(texts)]
    source = write(tmp_path / "in", documents)

    settings = ("buckets.max_bucket=2", "lsh.bands=2", "lsh.rows=1", "lsh.seed=3", "candidates.estimate_sigmas=100")
    report = deduplicate(spark, source, str(tmp_path / "out"), *settings)

    uncompared = report["uncompared"]
    # Drawn with replacement, so some of the 30 pairs that did not meet may be missing, and none is added.
    assert 5 < uncompared["lost"] <= 30 - report["near"]
    assert uncompared["lost"] < uncompared["similar"] <= uncompared["sampled"]
    assert uncompared["lost_share_at_most"] > uncompared["lost"] / uncompared["sampled"]


def test_a_source_removes_no_more_of_others_than_its_limit(spark, tmp_path):
    texts = make_texts(11, originals=20, copies=0)[6:]
    planted = [{"id": number, "text": text, "feed": "spam"} for number, text in enumerate(texts[:10])]
    victims = [{"id": 100 + number, "text": text, "feed": "news"} for number, text in enumerate(texts)]
    own = [{"id": 50, "text": texts[0], "feed": "spam"}, {"id": 200, "text": texts[15], "feed": None}]
    source, output = write(tmp_path / "in", [*planted, *victims, *own]), str(tmp_path / "out")
    settings_ = ("input.source_column=feed", "limits.per_source=3")
    report = deduplicate(spark, source, output, *settings_)

    duplicates = ds.dataset(f"{output}/duplicates").to_table().to_pylist()
    assert {row["id"]: row["representative_id"] for row in duplicates} == {50: 0, 100: 0, 101: 1, 102: 2, 200: 115}
    assert len(rows(output, "kept")) == report["kept"] == 32 - 5
    assert (report["identical"], report["near"], report["spared"]) == (5, 0, 7)
    assert report["survival_by_source"] == {
        "news": {"documents": 20, "kept": 17},
        "spam": {"documents": 11, "kept": 10},
        "(none)": {"documents": 1, "kept": 0},
    }


def test_report_counts_add_up(spark, tmp_path):
    documents = [{"id": number, "text": text} for number, text in enumerate(make_texts(11, originals=20))]
    report = deduplicate(spark, write(tmp_path / "in", documents), str(tmp_path / "out"))
    stored = json.loads((tmp_path / "out" / "report.json").read_text())
    assert stored["kept"] == report["kept"] == len(rows(str(tmp_path / "out"), "kept"))
    assert report["kept"] + report["identical"] + report["near"] == report["documents"] == len(documents)
    assert report["components"] == sum(report["component_sizes"].values())
    assert report["removed"] == sum((size - 1) * count for size, count in report["component_sizes"].items())
    pairs, similarities = report["pairs"], report["similarities"]
    assert (len(similarities), sum(similarities), sum(similarities[16:])) == (20, pairs["candidates"], pairs["edges"])
    assert pairs["in_buckets"] >= pairs["distinct"] >= pairs["candidates"] >= pairs["edges"] == report["edges"]
    assert {"signatures", "identical", "buckets", "candidates", "edges", "components", "output"} < set(report["stages"])
    again = load_config(str(tmp_path / "out" / "dedup.toml"))
    assert again.input.id_column == "id"
    kept = {row[0] for row in rows(str(tmp_path / "out"), "kept")}
    assert report["text_bytes_removed"] == sum(len(row["text"].encode()) for row in documents if row["id"] not in kept)
    assert report["index_bytes"] == 16 * 21 * (
        len(documents) - report["documents_empty"] - report["stages"]["identical"]["rows"]
    )
    assert 0 < report["signature_bytes"] < 1e6
    shuffled = {name: stage["shuffle_bytes"] for name, stage in report["stages"].items()}
    assert shuffled["signatures"] == 0 < shuffled["buckets"]
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
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"{report['removed']:,} of {report['documents']:,} documents removed" in " ".join(page.split())
