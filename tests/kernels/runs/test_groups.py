"""Groups of rows in a stream of batches."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.runs.groups import drop_repeated, join_groups, rank_groups

keys_of_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=30).map(sorted)
cuts_of_rows = st.lists(st.integers(0, 30), max_size=8).map(sorted)


def split(keys, cuts):
    """Return rows with these keys and their number, in batches."""
    rows = pa.table({"a": pa.array([a for a, _ in keys], pa.int64()), "b": pa.array([b for _, b in keys], pa.int64())})
    rows = rows.append_column("n", pa.array(range(len(keys)), pa.int64()))
    begins = [0, *cuts]
    return [
        batch
        for begin, end in zip(begins, [*cuts, len(keys)], strict=True)
        for batch in rows.slice(begin, max(end - begin, 0)).to_batches()
    ]


@given(keys=keys_of_rows, cuts=cuts_of_rows)
def test_the_first_of_equal_rows_is_left(keys, cuts):
    found = drop_repeated(iter(split(keys, cuts)), ["a", "b"])

    told = [(row["a"], row["b"], row["n"]) for batch in found for row in batch.to_pylist()]
    assert told == [(*key, keys.index(key)) for key in sorted(set(keys))]


@given(keys=keys_of_rows, cuts=cuts_of_rows)
def test_batches_hold_whole_groups_in_the_same_order(keys, cuts):
    batches = split(keys, cuts)
    joined = list(join_groups(iter(batches), ["a", "b"]))
    assert [row["n"] for batch in joined for row in batch.to_pylist()] == list(range(len(keys)))
    seen = [{(row["a"], row["b"]) for row in batch.to_pylist()} for batch in joined]
    assert sum(map(len, seen)) == len(set(keys))


@given(st.lists(st.integers(0, 4)).map(sorted), st.integers(1, 5))
def test_ranks_go_on_in_the_next_batch(keys, size):
    table = pa.table({"key": pa.array(keys, pa.int64())})
    batches = [pa.RecordBatch.from_pylist([], table.schema), *table.to_batches(size)]
    found = [rank for batch, ranks in rank_groups(batches, "key") for rank in ranks.tolist()]
    assert found == [keys[:place].count(key) for place, key in enumerate(keys)]
