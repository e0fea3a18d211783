"""A corpus and an output that are tables of Delta Lake and of Iceberg, whose jars Spark downloads."""

from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from io import StringIO
from multiprocessing import get_context

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake

from dedup.cli.run import main
from tests.chaos.conftest import finish, rows_of, start, write_words

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
ENDS = {"": "kept", "_removed": "removed", "_duplicates": "duplicates"}


@pytest.fixture(scope="module")
def act():
    """Return a function that runs the job in another process, always the same, whose JVM has the jar of Delta Lake."""
    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        yield lambda *given: beside.submit(run, write_words(*given)).result()


def run(words):
    """Return the status of the job, and what it said on stderr."""
    with redirect_stderr(StringIO()) as said:
        return main(words), said.getvalue()


def test_a_table_of_delta_lake_is_read_as_it_is_now(act, corpus, tmp_path):
    """Rows that were deleted from it still lie in its older files."""
    table = tmp_path / "table"
    rows = ds.dataset(corpus).to_table()
    given = rows["doc_id"].to_numpy()
    write_deltalake(table, rows.append_column("part", pa.array(given % 3 + 1)), partition_by=["part"])
    DeltaTable(table).delete("doc_id % 7 = 0")

    assert act(f"delta.`{table}`", tmp_path / "out") == (0, "")
    written = [
        row for name in ("kept", "removed") for row in ds.dataset(tmp_path / "out" / name).to_table().to_pylist()
    ]
    assert sorted(row["doc_id"] for row in written) == sorted(given[given % 7 > 0].tolist())
    assert {row["part"] for row in written} == {1, 2, 3}


def test_rows_become_tables_of_delta_lake_that_nothing_replaces_unasked(act, corpus, undisturbed, tmp_path):
    table = f"parquet.`{corpus}`"
    arguments = [table, tmp_path / "out", "--output-table", f"delta.`{tmp_path}/clean`"]

    assert act(*arguments) == (0, "")
    for end, name in ENDS.items():
        assert rows_of(DeltaTable(f"{tmp_path}/clean{end}").to_pyarrow_dataset()) == undisturbed[name]
    assert not (tmp_path / "out" / "kept").exists()
    assert act(*arguments)[0] == 0, "it is finished"

    status, said = act(table, tmp_path / "other", *arguments[2:])
    assert (status, "clean_removed` must not exist yet (it does); pass --overwrite" in said) == (2, True)
    assert DeltaTable(f"{tmp_path}/clean").version() == 0
    assert act(*arguments, "--overwrite", "--set", "threshold=1") == (0, "")
    written = DeltaTable(f"{tmp_path}/clean")
    assert written.version() == 1
    assert written.to_pyarrow_dataset().count_rows() > len(undisturbed["kept"])


def test_rows_become_tables_of_iceberg(corpus, undisturbed, tmp_path):
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": tmp_path / "warehouse"}
    given = " ".join(f"--conf spark.sql.catalog.ice{key}={value}" for key, value in settings.items())
    submit = f"--packages {ICEBERG} {given} pyspark-shell"

    started = start(f"parquet.`{corpus}`", tmp_path / "out", "--output-table", "ice.clean", PYSPARK_SUBMIT_ARGS=submit)
    assert finish(started) == (0, "")

    for end, name in ENDS.items():
        written = ds.dataset(tmp_path / "warehouse" / f"clean{end}" / "data")
        assert rows_of(written) == undisturbed[name]
