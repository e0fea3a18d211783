"""How far removals can be doubted: told of parts as of the whole, and counted at every threshold."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.removal_statistics import (
    DESCRIBED,
    DOUBTFUL,
    choose_thresholds,
    complete_joined,
    count_joined,
    list_own,
    list_reached,
    merge_removals,
    summarise_removals,
)
from tests import oracles

members = st.lists(
    st.tuples(st.integers(-4, 4), st.integers(5, 8), st.sampled_from(["near", "identical"]), st.floats(0, 1)),
    max_size=40,
)


def make_removed(rows):
    """Return removals; those of equal sets and kept documents are equally similar."""
    similarity = {(left, right): each for left, right, _, each in rows}
    columns = [
        (number, f"{number}", right, f"{right}", kind, similarity[left, right], left, right)
        for number, (left, right, kind, _) in enumerate(rows)
    ]
    names = dict(zip(DESCRIBED, zip(*columns, strict=True) if rows else [()] * len(DESCRIBED), strict=True))
    kinds = [pa.int64(), pa.string(), pa.int64(), pa.string(), pa.string(), pa.float64(), pa.int64(), pa.int64()]
    return pa.table({name: pa.array(names[name], kind) for name, kind in zip(DESCRIBED, kinds, strict=True)})


@given(members, st.integers(0, 40))
def test_parts_tell_what_the_whole_tells(rows, cut):
    removed = make_removed(rows)

    whole = summarise_removals(removed, 0.8)

    assert (
        merge_removals([summarise_removals(removed.slice(cut), 0.8), summarise_removals(removed.slice(0, cut), 0.8)])
        == whole
    )
    assert merge_removals([whole]) == whole
    assert len(whole["doubtful"]) <= DOUBTFUL
    seen = [(each["jaccard"], each["doc_id"]) for each in whole["doubtful"]]
    assert seen == sorted(seen)
    # Each pair of sets once, and none less similar than the least of those told.
    near = {(row["left_id"], row["right_id"]) for row in removed.to_pylist() if row["kind"] == "near"}
    assert len(seen) == min(len(near), DOUBTFUL)


@given(st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9), st.sampled_from([0.7, 0.75, 0.8, 0.9])), max_size=30))
def test_joined_are_all_but_one_of_every_component(pairs):
    thresholds = (0.7, 0.72, 0.8, 0.9, 0.95)
    left, right = (np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))

    joined = count_joined(left, right, np.array([pair[2] for pair in pairs]), thresholds)

    for threshold, count in zip(thresholds, joined, strict=True):
        places = oracles.components([pair[:2] for pair in pairs if pair[2] >= threshold])
        assert count == len(places) - len(set(places.values()))
    assert all(more >= fewer for more, fewer in pairwise(joined))


@pytest.mark.parametrize(
    ("threshold", "reached", "own"),
    [
        (0.8, [0.7, 0.75], [0.8, 0.85, 0.9, 0.95]),
        (0.83, [0.7, 0.75, 0.8], [0.83, 0.85, 0.9, 0.95]),
        (0.95, [0.75, 0.8, 0.85, 0.9], [0.95]),
        (0.5, [], [0.5, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]),
    ],
)
def test_near_misses_reach_some_way_below_the_threshold(threshold, reached, own):
    assert list_reached(threshold) == reached
    assert list_own(threshold) == own
    known = complete_joined(range(10, 10 - len(own), -1), range(len(reached), 0, -1), threshold)
    assert len(known) == len(choose_thresholds(threshold))
    assert [*known[-len(own) :]] == [*range(10, 10 - len(own), -1)]
    told = [each for each in known[: -len(own)] if each is not None]
    assert told == [10 + each for each in range(len(reached), 0, -1)]
    assert complete_joined([3] * len(own), None, threshold)[: -len(own)] == [None] * (len(known) - len(own))
