"""Pairs of holders, and the election among sets that contain others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.sets.containment import elect, pair_holders


@given(
    runs=st.lists(st.lists(st.booleans(), min_size=1, max_size=6), max_size=5),
    most=st.integers(1, 4),
    before=st.integers(0, 3),
)
def test_every_chosen_holder_meets_the_first_before_it(runs, most, before):
    keys = np.repeat(np.arange(len(runs)), [*map(len, runs)])
    chosen = np.array([flag for run in runs for flag in run], dtype=bool)
    ones, others, missed = pair_holders(keys, chosen, before, most)
    expected, left_out, begin = [], [], 0
    for number, run in enumerate(runs):
        for place, flag in enumerate(run):
            expected += [(begin + place, begin + other) for other in range(min(place, most)) if flag]
            left_out.append(max(place + (before if number == 0 else 0) - most, 0) if flag else 0)
        begin += len(run)
    assert [*zip(ones.tolist(), others.tolist(), strict=True)] == expected
    assert missed.tolist() == left_out


def test_the_order_of_the_edges_does_not_matter():
    rng = np.random.default_rng(1)
    sizes, ranks = rng.integers(1, 5, 30), rng.permutation(30)
    left, right = rng.integers(0, 30, (2, 80))
    left, right = left[left != right], right[left != right]
    shuffled = rng.permutation(left.size)
    first = elect(left, right, sizes, ranks)
    second = elect(right[shuffled], left[shuffled], sizes, ranks)
    assert first.owners.tolist() == second.owners.tolist()
    gone = first.edges >= 0
    assert (first.owners[~gone] == np.flatnonzero(~gone)).all()
    assert not gone[first.owners[gone]].any()
