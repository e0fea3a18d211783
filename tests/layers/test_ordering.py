"""Ranks of documents in the order of `keep.order`, wherever they lie."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.engine.engine import describe
from dedup.layers import ordering
from dedup.layers.ordering import ordered, rank_documents
from tests.layers.tiny import TinyEngine

TEXTS = st.sampled_from(["", "a", "b", "aa", "é", "aaa"])
KEYS = st.sampled_from([0.0, 1.0, -2.5])
RULES = {
    "smallest_id": lambda row, _key: row[0],
    "longest": lambda row, _key: (-len(row[1].encode()), row[0]),
    "highest": lambda row, key: (key, row[0]),
}


def rank(rows, rule, keys, id_type, seed):
    rules = [(rule, "x")] if rule == "highest" else [(rule, "")] if rule != "smallest_id" else []
    numbers = {each: [key] for each, key in keys.items()} if rule == "highest" else {}
    engine = TinyEngine(rows, id_type, numbers, seed, rules=rules)
    schema = ordered(id_type)
    documents = describe(engine, "documents", lambda _batch: {}, pa.schema([]))
    found = rank_documents(engine, documents.select(schema.names), schema, rules)
    ranks = dict(zip(found["rank"].to_pylist(), found["id"].to_pylist(), strict=True))
    assert rule == "smallest_id" or len(ranks) == found.num_rows
    return [ranks[each] for each in sorted(ranks)]


@pytest.mark.parametrize("rule", RULES)
@given(st.data(), st.integers(0, 9))
def test_ranks_are_in_the_order_of_the_rules(rule, data, seed):
    ids, id_type = data.draw(
        st.sampled_from([(st.integers(-5, 20), pa.int64()), (st.text("aé.", max_size=3), pa.string())])
    )
    rows = data.draw(st.dictionaries(ids, TEXTS, max_size=20).map(lambda found: list(found.items())))
    keys = {each: data.draw(KEYS) for each, _ in rows}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "SAMPLE", 3)
        found = rank(rows, rule, keys, id_type, seed)

    # Strings are in the order of their bytes, as code points are.
    assert found == [row[0] for row in sorted(rows, key=lambda row: RULES[rule](row, keys[row[0]]))]


def test_equal_rows_are_one_document():
    assert rank([(1, "a"), (0, "b"), (1, "a")], "longest", {}, pa.int64(), 0) == [0, 1]
