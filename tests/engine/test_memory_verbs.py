"""Verbs of the memory engine on tables, against plain Python."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.engine import memory
from dedup.engine.engine import Tally
from dedup.engine.memory import MemoryEngine
from dedup.engine.workers import Processes

ENGINE = MemoryEngine(workers=Processes(1, None), splits=[], id_type=pa.int64(), id_column="doc_id", threads=2)
PART = pa.schema([("keys", pa.list_(pa.int64())), ("places", pa.list_(pa.int64()))])
small = st.integers(-3, 3)


def gather(batches):
    """Yield the rows of a piece as one."""
    keys, places = [], []
    for batch in batches:
        keys += batch["key"].to_pylist()
        places += batch["place"].to_pylist()
    yield pa.RecordBatch.from_arrays([pa.array([keys], PART[0].type), pa.array([places], PART[1].type)], schema=PART)


@given(st.lists(small, max_size=40), st.integers(1, 7), st.integers(1, 4))
def test_pieces_of_a_sort_are_ranges_of_its_key(keys, pieces, chunks):
    rows = pa.table({"key": pa.array(keys, pa.int64()), "place": np.arange(len(keys))})
    rows = pa.concat_tables(rows.slice(begin, chunks) for begin in range(0, max(len(keys), 1), chunks))

    found = ENGINE.sort(rows, "key", gather, PART, pieces=pieces)

    parts = found["keys"].to_pylist()
    assert len(parts) == (1 if pieces == 1 or pieces > len(keys) else pieces + pieces % 2)
    assert [*chain(*parts)] == sorted(keys)
    # Equal rows stay as they were, in one piece.
    assert [*chain(*found["places"].to_pylist())] == sorted(range(len(keys)), key=lambda place: keys[place])
    assert sum(map(len, map(set, parts))) == len(set(keys))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@given(st.lists(small, max_size=6), st.lists(small, max_size=3), st.integers(1, 20))
def test_a_join_is_that_of_the_words_however_many_the_others_are(how, values, others, times):
    # Of others with equal keys the first is taken, as all are alike.
    keys = [*range(10, 10 + times), *others]
    table = pa.table({"key": pa.array(keys, pa.int64()), "more": pa.array([2 * key for key in keys], pa.int64())})
    rows = pa.table({"value": pa.array(values, pa.int64()), "row": np.arange(len(values))})

    found = ENGINE.join(rows, table, "value", key="key", how=how)

    expected = []
    for row, value in enumerate(values):
        known = value in others
        if how in {"semi", "anti"}:
            expected += [{"value": value, "row": row}] * (known == (how == "semi"))
        elif known or how == "left":
            expected.append({"value": value, "row": row, "more": 2 * value if known else None})
    assert found.to_pylist() == expected


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 4))
def test_threads_that_share_a_map_see_each_row_once_and_leave_them_in_their_order(count, chunks, threads):
    rows = pa.table({"key": np.arange(count), "place": np.arange(count)})
    rows = pa.concat_tables(rows.slice(begin, chunks) for begin in range(0, max(count, 1), chunks))
    engine = replace(ENGINE, threads=threads)

    def work(batches):
        for found in gather(batches):
            yield Tally(rows_seen=len(found["keys"][0]))
            yield found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "BATCH_ROWS", 5)
        found = engine.map(rows, work, PART)

    parts = found["keys"].to_pylist()
    assert len(parts) == (threads if count > 5 else 1)
    assert [*chain(*parts)] == [*range(count)]
    assert engine.tally(found).get("rows_seen", 0) == count
