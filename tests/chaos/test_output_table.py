"""The output as tables of Delta Lake and of Iceberg, whose jars Spark downloads."""

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from tests.chaos.conftest import finish, start

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
ENDS = {"": "kept", "_removed": "removed", "_duplicates": "duplicates"}


@pytest.fixture(scope="session")
def files(corpus, tmp_path_factory):
    """Return the rows of a run that writes files, by folder."""
    output = tmp_path_factory.mktemp("files") / "out"
    assert finish(start(corpus, output)) == (0, "")
    return {name: rows_of(ds.dataset(output / name)) for name in ENDS.values()}


def rows_of(dataset):
    return sorted(dataset.to_table().to_pylist(), key=repr)


def test_rows_become_tables_of_delta_lake_that_nothing_replaces_unasked(corpus, files, tmp_path):
    table = f"parquet.`{corpus}`"
    arguments = [table, tmp_path / "out", "--output-table", f"delta.`{tmp_path}/clean`"]

    assert finish(start(*arguments)) == (0, "")
    for end, name in ENDS.items():
        assert rows_of(DeltaTable(f"{tmp_path}/clean{end}").to_pyarrow_dataset()) == files[name]
    assert not (tmp_path / "out" / "kept").exists()
    assert finish(start(*arguments))[0] == 0, "it is finished"

    status, said = finish(start(table, tmp_path / "other", *arguments[2:]))
    assert (status, "clean_removed` must not exist yet (it does); pass --overwrite" in said) == (2, True)
    assert DeltaTable(f"{tmp_path}/clean").version() == 0
    assert finish(start(*arguments, "--overwrite", "--set", "threshold=1")) == (0, "")
    written = DeltaTable(f"{tmp_path}/clean")
    assert written.version() == 1
    assert written.to_pyarrow_dataset().count_rows() > len(files["kept"])


def test_rows_become_tables_of_iceberg(corpus, files, tmp_path):
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": tmp_path / "warehouse"}
    given = " ".join(f"--conf spark.sql.catalog.ice{key}={value}" for key, value in settings.items())
    submit = f"--packages {ICEBERG} {given} pyspark-shell"

    started = start(f"parquet.`{corpus}`", tmp_path / "out", "--output-table", "ice.clean", PYSPARK_SUBMIT_ARGS=submit)
    assert finish(started) == (0, "")

    for end, name in ENDS.items():
        written = ds.dataset(tmp_path / "warehouse" / f"clean{end}" / "data")
        assert rows_of(written) == files[name]
