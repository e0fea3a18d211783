"""A corpus that is a table of Delta Lake, whose jar Spark downloads."""

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

from tests.chaos.conftest import finish, start


def test_a_table_of_delta_lake_is_read_as_it_is_now(corpus, tmp_path):
    """Rows that were deleted from it still lie in its older files."""
    table = tmp_path / "table"
    rows = ds.dataset(corpus).to_table()
    given = rows["doc_id"].to_numpy()
    write_deltalake(table, rows.append_column("part", pa.array(given % 3 + 1)), partition_by=["part"])
    DeltaTable(table).delete("doc_id % 7 = 0")

    status, said = finish(start(f"delta.`{table}`", tmp_path / "out"))

    assert (status, said) == (0, "")
    written = [
        row for name in ("kept", "removed") for row in ds.dataset(tmp_path / "out" / name).to_table().to_pylist()
    ]
    assert sorted(row["doc_id"] for row in written) == sorted(given[given % 7 > 0].tolist())
    assert {row["part"] for row in written} == {1, 2, 3}
