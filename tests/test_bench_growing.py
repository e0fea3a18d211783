"""The benchmark of a corpus that grows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests import bench_growing
from tests.measured import record_growing, render


def test_batches_part_the_documents_and_planted_pairs_lie_across_them(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_growing, "SMALL", 10)
    bench_growing._prepare(tmp_path, 1000)
    parts = [pq.read_table(tmp_path / f"{number}")["doc_id"].to_numpy() for number in range(22)]

    assert [part.size for part in parts] == [1000, *[10] * 20, 10]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1210))
    truth = pq.read_table(tmp_path / "truth.parquet")
    across = np.isin(truth["left"].to_numpy(), parts[0]) != np.isin(truth["right"].to_numpy(), parts[0])
    assert 0 < np.count_nonzero(across) < truth.num_rows


def test_recall_counts_pairs_that_others_join(tmp_path):
    pairs = {"left": [1, 2, 3, 8], "right": [2, 4, 5, 9], "jaccard": [0.9, 0.8, 0.8, 0.7]}
    pq.write_table(pa.table(pairs), tmp_path / "truth.parquet")

    # 1 and 2 meet in 7; 2 and 4 do not meet; 3 and 5 are a pair; 8 and 9 are below the threshold.
    assert bench_growing._recall(tmp_path, np.array([1, 2, 3]), np.array([7, 7, 5])) == 2 / 3


def test_a_run_takes_the_place_of_one_of_the_same_command_and_is_rendered():
    took = {"seconds": 5.0, "cpu_seconds": 3.7, "bytes": 15_000_000, "stages": {"one": 1.0, "other": 0.5}}
    full = {"seconds": 20.0, "cpu_seconds": 37.0, "stages": {"one": 30.0}}
    store = {"full": full, "first": took, "batches": [took] * 20, "small": took, "rows": 11_000}
    entry = {"documents": 8_000, "batch_documents": 80, "memory": {**store, "held_bytes": 11_000_000, "recall": 0.99}}
    machine = {"cores": 2, "memory_bytes": 2**34}
    runs = [{"command": "a", "commit": "1", "corpora": []}, {"command": "b", "commit": "1"}]
    record_growing(runs, {"command": "a", "commit": "2", "date": "2026-11-22", "machine": machine, "corpora": [entry]})
    assert [(run["command"], run["commit"]) for run in runs] == [("b", "1"), ("a", "2")]

    page = render("<!-- measured: growing -->\n<!-- end -->", {"growing": runs[1:]})
    assert "| the store | 3.7 | 3.7 | 3.7 | 3.7 | 3.7 | 5.0 | 1,500 | 0.9900 |" in page
    assert "A batch takes 10.0% of that from start to end, and 5.0% of the seconds of its stages." in page
    assert "are 1,000 B of a document" in page
    assert "- 2, 2026-11-22, 2 cores, 16 GiB, : `a`" in page
