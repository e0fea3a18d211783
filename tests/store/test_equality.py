"""A store grown by batches has the edges, components and verdicts of one run over all of its documents."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dedup.store.tables import Tables
from tests.engines import SEARCH, Row
from tests.store import add, edges_of, find_union, list_edges, list_members, members_of
from tests.strategies import runs
from tests.test_pipeline import make_texts

RULES = [("longest", ""), ("source", "two"), ("highest", "value"), ("smallest_id", "")]
searches = st.builds(
    replace,
    st.just(SEARCH),
    threshold=st.sampled_from([0.5, 0.7, 0.8]),
    bands=st.sampled_from([8, 21]),
    rows=st.sampled_from([2, 6]),
    max_bucket=st.sampled_from([2, 3, 150]),
    estimate_sigmas=st.sampled_from([0.5, 4.0]),
    rules=st.lists(st.sampled_from(RULES), max_size=3).map(tuple),
    by_representative=st.booleans(),
    max_component=st.sampled_from([0, 4]),
    copies=st.sampled_from([1, 1, 2]),
    copies_per_source=st.sampled_from([0, 0, 1]),
)


def make_rows(seed: int, count: int = 12) -> list[Row]:
    chance = Random(seed)
    texts = make_texts(seed, originals=count // 2, copies=4)
    texts += [*chance.sample(texts, 4), "", ""]
    ids = chance.sample(range(-100, 100), len(texts))
    return [
        Row(user_id, text, chance.choice(["one", "two", None]), chance.choice([None, -1.5, 0.0, 2.0]))
        for user_id, text in zip(ids, texts, strict=True)
    ]


def cut(rows: list[Row], chance: Random, most: int = 5) -> list[list[Row]]:
    chance.shuffle(rows)
    bounds = sorted(chance.sample(range(1, len(rows)), chance.randint(1, most - 1)))
    return [rows[begin:end] for begin, end in zip([0, *bounds], [*bounds, len(rows)], strict=True)]


@runs(60)
@given(seed=st.integers(0, 2**32), search=searches)
def test_batches_in_any_order_make_what_one_run_makes(tmp_path_factory, seed, search):
    tables, rows = Tables(str(tmp_path_factory.mktemp("store"))), make_rows(seed)
    for number, part in enumerate(cut(rows, Random(seed))):
        add(tables, f"{number}", part, search, anew=True)

    union = find_union(rows, search)
    assert list_edges(tables) == edges_of(union)
    assert list_members(tables) == members_of(union)
