"""Chains of edges against all simple paths."""

from itertools import pairwise, permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.chains import count_steps, find_chain

VERTICES = 6
graphs = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(3, VERTICES - 1)) | st.sampled_from([(0, 1), (3, 4), (4, 5)]),
    st.sampled_from([0.5, 0.6, 0.7, 0.8, 1.0]),
)


def columns(graph):
    left, right = np.array(list(graph), dtype=np.int64).reshape(-1, 2).T
    return left, right, np.array(list(graph.values()), dtype=np.float64)


def list_paths(graph, start, end):
    """Return all simple paths as (edges, minus the least similarity, vertices from the end)."""
    both = graph | {(right, left): value for (left, right), value in graph.items()}
    inner = [vertex for vertex in range(VERTICES) if vertex not in (start, end)]
    for count in range(len(inner) + 1):
        for middle in permutations(inner, count):
            path = (start, *middle, end)
            if all(step in both for step in pairwise(path)):
                yield len(path) - 1, -min(both[step] for step in pairwise(path)), path[::-1]


@given(graphs, st.sets(st.integers(0, VERTICES - 1)))
def test_steps_lead_to_the_nearest_source(graph, sources):
    left, right, _ = columns(graph)

    steps = count_steps(left, right, VERTICES, np.array(sorted(sources), dtype=np.int64))

    for vertex, count in enumerate(steps.tolist()):
        lengths = [path[0] for source in sources for path in list_paths(graph, vertex, source) if vertex != source]
        assert count == (0 if vertex in sources else min(lengths, default=-1))


@given(graphs, st.permutations(range(VERTICES)))
def test_a_chain_is_the_strongest_of_the_shortest(graph, order):
    start, end = order[:2]
    paths = sorted(list_paths(graph, start, end))

    chain = find_chain(*columns(graph), vertices=VERTICES, start=start, end=end)

    if not paths:
        assert chain == []
        return
    both = graph | {(right, left): value for (left, right), value in graph.items()}
    assert (chain[0], chain[-1]) == (start, end)
    assert (len(chain) - 1, -min(both[step] for step in pairwise(chain))) == paths[0][:2]


def test_a_long_chain_takes_no_time():
    path = np.random.default_rng(1).permutation(20_000)

    chain = find_chain(
        path[:-1], path[1:], np.full(19_999, 0.9), vertices=20_000, start=int(path[0]), end=int(path[-1])
    )

    assert chain == path.tolist()
