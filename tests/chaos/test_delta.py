"""A corpus that is a table of Delta Lake, whose jar Spark downloads."""

import os
import subprocess
import sys

import pyarrow.dataset as ds

from dedup.run.session import DELTA
from tests.chaos.conftest import finish, start

MAKE = """
import sys
from dedup.run.session import open_session
spark = open_session(with_delta=True)
rows = spark.read.parquet(sys.argv[1]).selectExpr("*", "doc_id % 3 + 1 AS part")
rows.write.format("delta").partitionBy("part").save(sys.argv[2])
spark.sql(f"DELETE FROM delta.`{sys.argv[2]}` WHERE doc_id % 7 = 0")
"""


def test_a_table_of_delta_lake_is_read_as_it_is_now(corpus, tmp_path):
    """Rows that were deleted from it still lie in its older files."""
    table = tmp_path / "table"
    subprocess.run([sys.executable, "-c", MAKE, str(corpus), str(table)], check=True, timeout=300, env={**os.environ})

    status, said = finish(start(table, tmp_path / "out", "--format", "delta"))

    assert (status, said) == (0, "")
    assert DELTA
    given = ds.dataset(corpus).to_table(columns=["doc_id"])["doc_id"].to_pylist()
    written = [
        row for name in ("kept", "removed") for row in ds.dataset(tmp_path / "out" / name).to_table().to_pylist()
    ]
    assert sorted(row["doc_id"] for row in written) == sorted(each for each in given if each % 7)
    assert {row["part"] for row in written} == {1, 2, 3}


def test_a_folder_that_is_no_table_of_delta_lake_is_refused(corpus, tmp_path):
    status, said = finish(start(corpus, tmp_path / "out", "--format", "delta"))

    assert status == 2
    [line] = said.splitlines()
    assert line.startswith(f"dedup: --input {corpus}: must be Delta Lake, with its jar among Spark's (")
