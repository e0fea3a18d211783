"""Values read apart from their groups are those of the file; one that does not tell their places is read by groups."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.errors import StorageError
from dedup.files.storage import Storage
from dedup.store import snapshot, tables
from dedup.store.extents import SIZES
from dedup.store.schemas import list_layouts
from dedup.store.snapshot import Snapshot
from dedup.store.state import State
from dedup.store.tables import Tables
from tests.stores import serve_bucket

COUNT = 200


def write(path, monkeypatch, *, group=7, group_bytes=1 << 26, page_bytes=1 << 30):
    """Write a table of sets, every third number missing; return a snapshot of it, and the sets by number."""
    layouts = {name: each._replace(group=group, together=3 * group) for name, each in list_layouts(pa.int64()).items()}
    monkeypatch.setattr(snapshot, "list_layouts", lambda *_, **__: layouts)
    monkeypatch.setattr(tables, "GROUP_BYTES", group_bytes)
    monkeypatch.setattr(tables, "PAGE_BYTES", page_bytes)
    chance = np.random.default_rng(group)
    numbers = np.arange(0, 3 * COUNT, 3)
    # Of none to some ten thousand bytes, so that some are read together and some are not.
    values = [chance.bytes(int(size)) for size in chance.geometric(0.0002, COUNT) - 1]
    rows = pa.table({"set": numbers, "digest_high": -numbers, "digest_low": numbers, "shingles": values})
    store = Tables(str(path))
    parts = [rows.slice(begin, 11) for begin in range(0, COUNT, 11)]
    files = store.write("sets", "1", layouts["sets"], parts)
    found = Snapshot(tables=store, state=State(number=1, log=0, id_type="int64"), extra={"sets": files}, threads=1)
    return found, dict(zip(numbers.tolist(), values, strict=True))


def place(found):
    [file] = found.list_files("sets")
    return f"{found.tables.path}/sets/{file.path}"


def watch(monkeypatch):
    """Return a list of the ranges that are read from now on."""
    ranges, read = [], Storage.read_ranges
    monkeypatch.setattr(Storage, "read_ranges", lambda *args: ranges.extend(args[-1]) or read(*args))
    return ranges


@pytest.mark.parametrize("size", [1, 5, 60, 400])
@pytest.mark.parametrize("group_bytes", [1 << 26, 20_000], ids=["whole groups", "groups of many bytes"])
def test_values_are_those_of_the_file(tmp_path, monkeypatch, group_bytes, size):
    found, values = write(tmp_path, monkeypatch, group_bytes=group_bytes)
    ranges, wanted = watch(monkeypatch), np.sort(np.random.default_rng(size).choice(3 * COUNT, size, replace=False))

    rows = found.find("sets", wanted, ["shingles", "set"])
    assert dict(zip(rows["set"].to_pylist(), rows["shingles"].to_pylist(), strict=True)) == {
        number: values[number] for number in wanted.tolist() if number in values
    }
    assert rows.schema.names == ["shingles", "set"]
    assert bool(ranges) == bool(rows.num_rows)
    groups = pq.read_metadata(place(found)).num_row_groups
    assert (groups > -(-COUNT // 7)) == (group_bytes == 20_000)


def test_a_part_of_an_array_holds_a_bounded_number_of_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("dedup.store.extents.PART_BYTES", 30_000)
    found, values = write(tmp_path, monkeypatch, group=100)
    rows = found.find("sets", np.arange(3 * COUNT))

    assert rows["shingles"].to_pylist() == [*values.values()]
    assert rows["shingles"].num_chunks > 10


def test_near_values_are_read_together_and_far_ones_alone(tmp_path, monkeypatch):
    found, values = write(tmp_path, monkeypatch)
    ranges = watch(monkeypatch)
    found.find("sets", np.array([0, 3, 60]))

    first, last = (sum(len(values[number]) + 4 for number in own) for own in ([0, 3], [60]))
    assert [end - begin for begin, end in ranges] == [first, last]


def test_other_columns_are_read_by_groups(tmp_path, monkeypatch):
    found, _ = write(tmp_path, monkeypatch)
    ranges = watch(monkeypatch)

    assert found.find("sets", np.array([6, 7, 300]), ["digest_high", "set"])["digest_high"].to_pylist() == [-6, -300]
    assert ranges == []


@pytest.mark.parametrize("is_old", [False, True], ids=["several pages", "an earlier release"])
def test_a_file_that_does_not_tell_places_is_read_by_groups(tmp_path, monkeypatch, is_old):
    found, values = write(tmp_path, monkeypatch, page_bytes=1 << 30 if is_old else 1000)
    if is_old:
        told = {name: value for name, value in pq.read_metadata(place(found)).metadata.items() if name != SIZES}
        rows = pq.read_table(place(found)).replace_schema_metadata()
        with pq.ParquetWriter(place(found), rows.schema) as writer:
            writer.write_table(rows, row_group_size=7)
            writer.add_key_value_metadata(told)
    ranges = watch(monkeypatch)

    assert found.find("sets", np.array([0, 3, 597]))["shingles"].to_pylist() == [values[each] for each in (0, 3, 597)]
    assert ranges == []


def test_a_value_that_is_not_where_it_should_be_is_an_error_of_its_file(tmp_path, monkeypatch):
    found, values = write(tmp_path, monkeypatch)
    path, number = Path(place(found)), max(values, key=lambda each: len(values[each]))
    content = bytearray(path.read_bytes())
    content[content.index(values[number]) - 4] ^= 1
    path.write_bytes(content)

    with pytest.raises(StorageError, match=r"part-\w+\.parquet: .*a value does not lie where its size puts it"):
        found.find("sets", np.array([number]))


def test_an_object_store_gives_the_same(monkeypatch):
    with serve_bucket() as bucket:
        found, values = write(f"{bucket}/store", monkeypatch)
        rows = found.find("sets", np.arange(0, 3 * COUNT, 15))
        path = place(found)
        size = Storage().look(path).size

        assert rows["shingles"].to_pylist() == [values[each] for each in range(0, 3 * COUNT, 15)]
        assert Storage().read_ranges(path, [(0, 4), (size - 4, size + 9)]) == [b"PAR1", b"PAR1"]
