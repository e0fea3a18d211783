"""Documents and corpora of sizes that take a while."""

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config
from tests.conftest import PROFILE

TEXT = "one text of several words that is long enough for a few shingles"


@pytest.fixture
def deduplicate(tmp_path):
    """Return a function that runs the job in memory; Spark's workers read with the same code."""
    (tmp_path / "in").mkdir()

    def act(id_column="id"):
        config = load_config(None, None, [f"input.id_column={id_column}"])
        return run_in_memory(Job(inputs=[str(tmp_path / "in")], output=str(tmp_path / "out"), config=config))

    return act


def write_parquet(tmp_path, **columns):
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")


def read(tmp_path, name):
    return ds.dataset(tmp_path / "out" / name).to_table().to_pylist()


def test_a_hundred_thousand_copies_are_one(deduplicate, tmp_path):
    count = 100_000
    write_parquet(tmp_path, id=list(range(count)), text=[TEXT] * count)

    report = deduplicate()

    assert (report["kept"], report["identical"], report["near"]) == (1, count - 1, 0)
    assert [row["id"] for row in read(tmp_path, "kept")] == [0]
    assert {row["representative_id"] for row in read(tmp_path, "duplicates")} == {0}


def test_a_document_of_50_megabytes_stands_beside_ordinary_ones(deduplicate, tmp_path):
    large = " ".join(f"word{number % 100_003}x{number % 7}" for number in range(4_300_000))
    assert len(large) > 50e6
    write_parquet(tmp_path, id=[1, 2, 3, 4], text=[TEXT, large, f"{large} end", TEXT])

    report = deduplicate()

    assert (report["kept"], report["identical"], report["near"]) == (2, 1, 1)


def test_thousands_of_files_are_one_corpus(deduplicate, tmp_path):
    """More than a process may have open."""
    count = 10_000 if PROFILE == "full" else 2_000
    for number in range(count):
        (tmp_path / "in" / f"{number}.txt").write_text(" ".join(f"{number // 2}x{place}" for place in range(8)))

    report = deduplicate(id_column="")

    assert (report["documents"], report["identical"]) == (count, count // 2)
