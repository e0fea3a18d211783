"""Pairs of holders, and the election among sets that contain others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.sets.containment import elect, pair_holders


@given(runs=st.lists(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=6), max_size=5))
def test_every_holder_that_seeks_meets_the_open_ones_before_it(runs):
    keys = np.repeat(np.arange(len(runs)), [*map(len, runs)])
    flags = np.array([flags for run in runs for flags in run], dtype=bool).reshape(-1, 2)
    ones, others = pair_holders(keys, *flags.T)
    expected, begin = [], 0
    for run in runs:
        for place, (seeks, _) in enumerate(run):
            expected += [(begin + place, begin + other) for other in range(place) if seeks and run[other][1]]
        begin += len(run)
    assert [*zip(ones.tolist(), others.tolist(), strict=True)] == expected


def test_the_order_of_the_edges_does_not_matter():
    rng = np.random.default_rng(1)
    sizes, ranks = rng.integers(1, 5, 30), rng.permutation(30)
    left, right = rng.integers(0, 30, (2, 80))
    left, right = left[left != right], right[left != right]
    shuffled, fixed = rng.permutation(left.size), rng.random(30) < 0.2
    first = elect(left, right, sizes, ranks, fixed)
    second = elect(right[shuffled], left[shuffled], sizes, ranks, fixed)
    assert first.owners.tolist() == second.owners.tolist()
    gone = first.edges >= 0
    assert (first.owners[~gone] == np.flatnonzero(~gone)).all()
    assert not gone[first.owners[gone]].any()
    assert not gone[fixed].any()
