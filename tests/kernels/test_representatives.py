"""Who is least of its component, and which similarity an edge gives, one document at a time."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.kernels.representatives import elect, look_up
from tests import strategies

few = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))


@given(st.lists(st.tuples(few, few), max_size=30))
@example([])
@example([(-5, 2**63 - 1)])
def test_the_first_of_the_least_in_rank_stands_for_its_component(documents):
    expected = [
        min(place for place, document in enumerate(documents) if document == min(d for d in documents if d[0] == own))
        for own, _ in documents
    ]

    elected = elect(*np.array(documents, dtype=np.int64).reshape(-1, 2).T)

    assert elected.dtype == np.int64
    assert elected.tolist() == expected


@given(strategies.edges(), strategies.edges(), st.data())
@example([], [], None)
@example([], [(5, 5), (5, 6)], None)
@example([(1, 4), (2, 3)], [(1, 3), (2, 4), (3, 3), (1, 4), (2, 3)], None)
# Ends that no edge has, on either side of those it has.
@example([(0, 1)], [(-(2**63), 2**63 - 1), (0, 2**63 - 1), (-(2**63), 1), (0, 1)], None)
def test_a_pair_has_the_similarity_of_its_edge_and_only_of_that(edges, pairs, data):
    joined = list(dict.fromkeys((min(edge), max(edge)) for edge in edges if edge[0] != edge[1]))
    jaccard = dict(zip(joined, np.linspace(0.5, 0.99, len(joined)).tolist(), strict=True))
    wanted = [(min(pair), max(pair)) for pair in pairs]
    if data and joined:
        wanted += data.draw(st.lists(st.sampled_from(joined), max_size=10))

    left, right = np.array(wanted, dtype=np.int64).reshape(-1, 2).T
    lefts, rights = np.array(joined, dtype=np.int64).reshape(-1, 2).T
    found = look_up(left, right, (lefts, rights, np.array([*jaccard.values()], dtype=np.float64)))

    expected = [1.0 if pair[0] == pair[1] else jaccard.get(pair, np.nan) for pair in wanted]
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float64))
