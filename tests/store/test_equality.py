"""A store grown by batches has the edges, components and verdicts of one run over all of its documents."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.store.tables import Tables
from tests.engine import SEARCH, Row
from tests.store import add, edges_of, find_union, list_edges, list_members, members_of, take_down
from tests.strategies import runs
from tests.templates import make_family
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


@runs(2, nightly=12)
@given(seed=st.integers(0, 2**32), search=searches)
def test_batches_in_any_order_with_deletes_between_make_what_one_run_makes(tmp_path_factory, seed, search):
    tables, rows, chance = Tables(str(tmp_path_factory.mktemp("store"))), make_rows(seed), Random(seed)
    left: list[Row] = []
    for number, part in enumerate(cut(rows, chance)):
        add(tables, f"{number}", part, search, anew=True)
        left += part
        if chance.random() < 0.6:
            gone = chance.sample(left, chance.randint(1, max(len(left) // 4, 1)))
            take_down(tables, [row.id for row in gone], readmit=chance.random() < 0.5)
            left = [row for row in left if row not in gone]
            assert list_edges(tables) == (edges_of(find_union(left, search)) if left else [])
    add(tables, "last", [Row(1000, "")], search, anew=True)

    union = find_union([*left, Row(1000, "")], search)
    assert list_edges(tables) == edges_of(union)
    assert list_members(tables) == members_of(union)


@runs(2)
@given(seed=st.integers(0, 2**32), search=searches)
def test_without_a_new_election_edges_are_those_of_one_run_and_no_lot_changes(tmp_path_factory, seed, search):
    tables, rows, chance = Tables(str(tmp_path_factory.mktemp("store"))), make_rows(seed), Random(seed)
    kept: dict[int, bool] = {}
    for number, part in enumerate(cut(rows, chance)):
        add(tables, f"{number}", part, search)
        found = {row.id: True for row in rows if row.id in kept or row in part}
        found |= {doc_id: told[1] for doc_id, told in list_members(tables).items()}
        assert {doc_id: found[doc_id] for doc_id in kept} == kept
        kept = found

    assert list_edges(tables) == edges_of(find_union(rows, search))
    for told in list_members(tables).values():
        assert kept[told[2]]


@pytest.mark.parametrize("seed", [4, pytest.param(5, marks=pytest.mark.full)])
def test_buckets_that_grow_over_the_cap_and_shrink_below_it_have_the_edges_of_one_run(tmp_path, seed):
    chance = Random(seed)
    # Each differs in its own words, so a bucket over the cap leaves pairs to a centre or a circle.
    family = make_family(16, words=60, edits=2, seed=seed)
    ids = chance.sample(range(100, 200), 16)
    left = [Row(user_id, text) for user_id, text in zip(ids, family, strict=True)]
    copies = [Row(number, row.text) for number, row in enumerate(chance.sample(left, 3))]
    search = replace(SEARCH, bands=21, rows=2, threshold=0.6, max_bucket=4)
    tables = Tables(str(tmp_path / "store"))
    add(tables, "a", left[:6], search)
    add(tables, "b", left[6:], search)
    assert list_edges(tables) == edges_of(find_union(left, search))
    assert len(list_edges(tables)) < 16 * 15 // 2
    left += copies
    # Sets get another least document, and nothing else happens.
    add(tables, "c", copies, search)
    assert list_edges(tables) == edges_of(find_union(left, search))
    while len(left) > 2:
        gone, left = left[:3], left[3:]
        take_down(tables, [row.id for row in gone])
        assert list_edges(tables) == edges_of(find_union(left, search))
