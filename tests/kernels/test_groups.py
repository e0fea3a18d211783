"""Groups of rows in a stream of batches."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.groups import join_groups


@given(
    keys=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=30).map(sorted),
    cuts=st.lists(st.integers(0, 30), max_size=8).map(sorted),
)
def test_batches_hold_whole_groups_in_the_same_order(keys, cuts):
    rows = pa.table({"a": pa.array([a for a, _ in keys], pa.int64()), "b": pa.array([b for _, b in keys], pa.int64())})
    rows = rows.append_column("n", pa.array(range(len(keys)), pa.int64()))
    begins = [0, *cuts]
    batches = [
        batch
        for begin, end in zip(begins, [*cuts, len(keys)], strict=True)
        for batch in rows.slice(begin, max(end - begin, 0)).to_batches()
    ]
    joined = list(join_groups(iter(batches), ["a", "b"]))
    assert [row["n"] for batch in joined for row in batch.to_pylist()] == list(range(len(keys)))
    seen = [{(row["a"], row["b"]) for row in batch.to_pylist()} for batch in joined]
    assert sum(map(len, seen)) == len(set(keys))
