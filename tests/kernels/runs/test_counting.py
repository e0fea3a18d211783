"""Counts of groups, whatever the batches."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.runs.counting import count_groups

NAMES = ("key", "doc_id")
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=40).map(sorted)


def in_batches(rows, cuts, names=NAMES):
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    table = pa.table({name: pa.array(column, pa.int64()) for name, column in zip(names, columns, strict=True)})
    return (
        batch
        for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)
        for batch in table.slice(begin, max(end - begin, 0)).to_batches()
    )


@given(rows=ROWS, cuts=st.lists(st.integers(0, 40), max_size=9).map(sorted), enough=st.integers(1, 9))
def test_every_row_comes_with_what_its_group_counts(rows, cuts, enough):
    found = []
    for batch, counts in count_groups(in_batches(rows, cuts), ["key"], enough):
        found += zip(map(tuple, batch.to_pandas().to_numpy().tolist()), counts.tolist(), strict=True)
    assert [row for row, _ in found] == rows
    for (key, _), count in found:
        assert count == min(len({row for row in rows if row[0] == key}), enough)


def test_a_group_is_held_back_no_longer_than_its_count_is_open():
    batches = in_batches([(0, n) for n in range(100)], range(1, 100))
    taken = 0

    def watch():
        nonlocal taken
        for batch in batches:
            taken += 1
            yield batch

    for number, _ in enumerate(count_groups(watch(), ["key"], 3)):
        assert taken <= max(number + 1, 3)
