"""The benchmark: what is counted, and the tables that it makes."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import bench_copy, bench_scale
from tests.bench_cost import to_cost_table, to_peers_table, weigh_margin, weigh_paid
from tests.bench_judge import judge_removals
from tests.bench_processes import spend
from tests.measured import render

BURN = """
import os, signal, time
def burn():
    while time.process_time() < 0.4: pass
    os._exit(0)
"""
LEAVING = f"""{BURN}
if os.fork() == 0:
    if os.fork() == 0:
        burn()
    os._exit(0)
"""
IGNORING = f"""{BURN}
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    burn()
try:
    os.wait()
except ChildProcessError:
    pass
"""
KILLING = f"""{BURN}
told, tell = os.pipe()
child = os.fork()
if child == 0:
    while True:
        if time.process_time() > 0.4: os.write(tell, b"burnt")
os.read(told, 5)
os.kill(child, signal.SIGKILL)
"""


def took(seconds):
    return dict.fromkeys(("median", "min", "max"), seconds)


def contender(seconds, cpu_seconds, **found):
    spread = {"seconds": took(seconds), "cpu_seconds": took(cpu_seconds), "ratio_to_copy": took(seconds / 10)}
    return {**spread, **found}


def entry(documents, **contenders):
    return {"corpus": "plain", "documents": documents, "text_bytes": documents * 1500, "rounds": 1, **contenders}


SMALL = entry(100_000, pyarrow=contender(1, 1), copy=contender(10, 15), memory=contender(5, 8), tasks=contender(30, 40))
LARGE = entry(
    1_000_000, pyarrow=contender(4, 8), copy=contender(10, 30), memory=contender(20, 35), tasks=contender(60, 94)
)


@pytest.mark.parametrize("program", [LEAVING, IGNORING, KILLING], ids=["left", "ignored", "killed"])
def test_seconds_of_processes_that_nobody_waits_for_are_counted(program):
    found = spend([sys.executable, "-c", program], {})

    assert found["returncode"] == 0
    assert found["finished"]
    assert found["cpu_seconds"] > 0.35


def test_a_command_is_stopped_with_what_it_has_started():
    found = spend([sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '60'])"], {}, most_seconds=0.5)

    assert not found["finished"]
    assert found["seconds"] < 30


def test_a_copy_has_the_rows_of_its_source(tmp_path, monkeypatch):
    (tmp_path / "documents").mkdir()
    tables = [pa.table({"doc_id": [first, first + 1], "text": ["a", "b"]}) for first in (0, 2)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / "documents" / f"{number}.parquet")
    monkeypatch.setattr(sys, "argv", ["bench_copy", str(tmp_path / "documents"), str(tmp_path / "out")])
    bench_copy.main()

    assert pq.read_table(tmp_path / "out") == pa.concat_tables(tables)


def test_a_removal_is_wrong_by_what_is_kept_and_by_what_there_is(tmp_path):
    words = [f"w{number}" for number in range(60)]
    text = " ".join(words)
    first, second = (" ".join(["x", *words[1:]]), " ".join([*words[:-1], "y"]))
    texts = [text, first, second, "nothing of the kind is anywhere else"]
    pq.write_table(pa.table({"doc_id": range(4), "text": texts}), tmp_path / "documents.parquet")
    pq.write_table(pa.table({"doc_id": [1]}), tmp_path / "kept.parquet")

    # 56 shingles each: 0 is similar to both others (55 of 57), and these are to one another (54 of 58).
    found = judge_removals(tmp_path / "documents.parquet", tmp_path / "kept.parquet")
    assert found == {"removed": 3, "bereft": 1, "alone": 1}
    pq.write_table(pa.table({"doc_id": [3]}), tmp_path / "kept.parquet")
    found = judge_removals(tmp_path / "documents.parquet", tmp_path / "kept.parquet")
    assert found == {"removed": 3, "bereft": 3, "alone": 0}


def test_the_margin_leaves_out_what_is_paid_once():
    # 54 seconds of the processor for 900,000 documents of 1.5 kB.
    assert weigh_margin(SMALL, LARGE, "tasks") == pytest.approx(54 / 3600 / 1.35e-3)
    assert weigh_paid(LARGE, "tasks", 2) == pytest.approx(120 / 3600 / 1.5e-3)
    assert "| Spark, tasks search | 30.0 s | 60.0 s | 6.00 | 15.0 | 94.0 | 60.0 | 11.1 | 0.56 |" in to_cost_table(
        SMALL, LARGE
    )


def test_peers_stand_beside_the_job_with_what_they_removed():
    rensa = contender(2.5, 3.0, removed=1_234, recall=0.95, bereft=7, alone=5)
    stopped = contender(600, 9, finished=False)
    table = to_peers_table([entry(100_000, rensa=rensa, gaoya=stopped, memory=contender(5, 8, removed=9, recall=1.0))])

    assert "| dedup, in memory | 100,000 | 5.0 | 8.0 | 9 | 1.0000 |  |  |" in table
    assert "| rensa 0.5.0 | 100,000 | 2.5 | 3.0 | 1,234 | 0.9500 | 7 | 5 |" in table
    assert "| gaoya 0.2.2 | 100,000 | over 600.0 | 9.0 |  |  |  |  |" in table


def test_costs_stand_beside_those_that_others_publish():
    others = {"run": "other", "source": "https://other.example", "text": "pages", "verified": "no", "terabytes": 2.0}
    machine = {"cores": 2, "memory_bytes": 2**34}
    run = {"commit": "abcdef1", "date": "2026-11-24", "machine": machine, "command": "b", "corpora": [SMALL, LARGE]}
    measured = {
        "bench": {"runs": [run]},
        "published": {"runs": [{**others, "machines": [[100, 3.0], [50, 2.0]]}], "note": "What differs."},
    }
    page = render("<!-- measured: cost -->\n<!-- end --> <!-- measured: margin -->\n<!-- end -->", measured)

    text = "generated, 1,000,000 documents of 1.5 kB"
    assert f"| dedup, in memory | {text} | each, exactly | 2 | 7 | 0.37 |" in page
    assert "| [other](https://other.example) | pages | no | 100 | 200 | 10.00 |" in page
    assert "What differs. abcdef1, 2026-11-24, 2 cores, 16 GiB, : `b`" in page
    assert "| a copy by Spark | 10.0 s | 10.0 s | 1.00 | 2.5 | 30.0 | 16.7 | 3.1 | 0.15 |" in page


def test_a_chain_is_similar_to_the_five_before_and_to_no_others(tmp_path):
    folder = bench_scale.prepare(tmp_path, "chains", 4 * bench_scale.CHAIN)
    rows = pq.read_table(folder / "documents").sort_by("doc_id")
    texts = [text.split() for text in rows["text"].to_pylist()]
    sets = [{tuple(words[at : at + 5]) for at in range(len(words) - 4)} for words in texts]

    similar = {
        (left, right)
        for right in range(len(sets))
        for left in range(max(0, right - 9), right)
        if len(sets[left] & sets[right]) >= 0.8 * len(sets[left] | sets[right])
    }
    assert similar == {
        (right - back, right)
        for right in range(len(sets))
        for back in range(1, 6)
        if right // bench_scale.CHAIN == (right - back) // bench_scale.CHAIN and right >= back
    }
    assert {word for words in texts[: bench_scale.CHAIN] for word in words}.isdisjoint(
        word for words in texts[bench_scale.CHAIN :] for word in words
    )


def test_a_corpus_several_times_has_its_pairs_as_often_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_scale, "GENERATED", 500)
    once, twice = (bench_scale.prepare(tmp_path, "cluster", size) for size in (500, 1000))
    texts = pq.read_table(twice / "documents").sort_by("doc_id")["text"].to_pylist()
    pairs = [list(zip(*pq.read_table(at / "truth.parquet").to_pydict().values(), strict=True)) for at in (once, twice)]

    assert len(pairs[1]) == 2 * len(pairs[0]) > 0
    for left, right, jaccard in pairs[1]:
        words = [texts[at].split() for at in (left, right)]
        first, second = ({tuple(each[at : at + 5]) for at in range(len(each) - 4)} for each in words)
        assert len(first & second) / len(first | second) == pytest.approx(jaccard)
    assert {word for text in texts[:500] for word in text.split()[1:]}.isdisjoint(
        word for text in texts[500:] for word in text.split()[1:]
    )


def test_a_corpus_that_grows_is_in_batches_whole_and_once(tmp_path, monkeypatch):
    for name, size in (("GENERATED", 300), ("BATCH", 200), ("LAST_BATCH", 20)):
        monkeypatch.setattr(bench_scale, name, size)
    folder = bench_scale.prepare(tmp_path, "growth", 400)
    batches = [pq.read_table(path)["doc_id"].to_pylist() for path in sorted((folder / "documents").iterdir())]
    truth = pq.read_table(folder / "truth.parquet")

    assert [len(batch) for batch in batches] == [180, 200, 20]
    assert sorted(each for batch in batches for each in batch) == list(range(400))
    assert max(truth["left"].to_pylist() + truth["right"].to_pylist()) < 400


@pytest.mark.full
def test_what_is_planted_in_different_batches_is_found(tmp_path, monkeypatch):
    for name, size in (("GENERATED", 300), ("BATCH", 200), ("LAST_BATCH", 20)):
        monkeypatch.setattr(bench_scale, name, size)
    folder = bench_scale.prepare(tmp_path, "growth", 400)

    found = bench_scale.grow(folder, tmp_path / "out", ["shingles.stored=false"])

    assert [batch["returncode"] for batch in found["batches"]] == [0, 0, 0]
    assert found["recall"] > 0.98


@pytest.mark.parametrize(("case", "files", "groups"), [("files", 50, 50), ("splits", 2, 100), ("row-group", 1, 1)])
def test_a_case_has_the_files_and_row_groups_that_it_names(tmp_path, case, files, groups):
    paths = list((bench_scale.prepare(tmp_path, case, 200) / "documents").iterdir())

    assert len(paths) == files
    assert sum(pq.read_metadata(path).num_row_groups for path in paths) == groups
    assert pq.read_table(paths).num_rows == 200
