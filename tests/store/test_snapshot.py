"""A snapshot reads no more than it must, and all that it must."""

import numpy as np
import pyarrow as pa
import pytest

from dedup.store import snapshot as module
from dedup.store.schemas import list_layouts
from dedup.store.snapshot import Snapshot
from dedup.store.state import State
from dedup.store.tables import Tables


@pytest.mark.parametrize("whole", [0, 4], ids=["group by group", "as a whole"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_found_by_their_keys_wherever_groups_begin(tmp_path, monkeypatch, seed, whole):
    monkeypatch.setattr(module, "WHOLE", whole)
    layouts = {name: each._replace(group=3, together=2) for name, each in list_layouts(pa.int64()).items()}
    monkeypatch.setattr(module, "list_layouts", lambda *_, **__: layouts)
    chance, tables, rows = np.random.default_rng(seed), Tables(str(tmp_path)), []
    snapshot = Snapshot(tables=tables, state=State(number=1, log=0, id_type="int64"))
    for number in range(3):
        # Many rows of one key, over several groups.
        keys = np.sort(np.repeat(chance.choice(40, 8, replace=False), chance.integers(1, 9, 8)))
        sets = chance.permutation(keys.size)
        rows += zip(keys.tolist(), sets.tolist(), strict=True)
        table = pa.table({"key": keys, "set": sets})
        snapshot.extra.setdefault("bands", []).extend(tables.write("bands", f"{number}", layouts["bands"], [table]))
    for size in (0, 1, 3, 20):
        wanted = np.sort(chance.choice(42, size, replace=False))
        found = snapshot.find("bands", wanted)
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(
            row for row in rows if row[0] in wanted
        )


@pytest.mark.parametrize("whole", [0, 4], ids=["group by group", "as a whole"])
def test_words_of_rows_are_found_where_groups_have_other_words(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(module, "WHOLE", whole)
    [layout] = [each._replace(group=3, together=2) for each in [list_layouts(pa.int64())["documents"]]]
    monkeypatch.setattr(module, "list_layouts", lambda *_, **__: {"documents": layout})
    tables = Tables(str(tmp_path))
    snapshot = Snapshot(tables=tables, state=State(number=1, log=0, id_type="int64"))
    # Each group has words of its own, and the last none.
    sources = ["a", "b", "a", "c", None, "d", "b", "e", None, None, None, None]
    rows = pa.table({"doc_id": np.arange(12), "source": sources, "batch": [f"{number // 5}" for number in range(12)]})
    absent = {each.name: pa.nulls(12, each.type) for each in layout.schema if each.name not in rows.schema.names}
    documents = pa.table(absent | dict(zip(rows.column_names, rows.columns, strict=True))).select(layout.schema.names)
    snapshot.extra["documents"] = tables.write("documents", "0", layout, [documents.cast(layout.schema)])
    for wanted in (range(12), (4, 7), (1, 3, 11), (10,)):
        found = snapshot.find("documents", np.array(wanted), rows.column_names).sort_by(layout.key)
        assert found.equals(rows.take(list(wanted)).cast(found.schema))
        assert found.schema.field("source").type == pa.string()
