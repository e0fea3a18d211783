"""Connected components against union-find."""

import numpy as np
from hypothesis import example, given

from dedup.kernels.components import connect
from tests import oracles, strategies


def connect_pairs(pairs):
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    ids, component_ids = connect(left, right)
    assert ids.dtype == component_ids.dtype == np.int64
    return ids.tolist(), component_ids.tolist()


@given(strategies.edges())
@example([])
@example([(7, 7)])
@example([(2**63 - 1, -(2**63)), (0, 2**63 - 1)])
# As many equal edges as wrap an 8-bit count around to none.
@example([(5, -3)] * 256)
def test_every_end_of_an_edge_gets_the_least_id_of_its_component(pairs):
    expected = oracles.components(pairs)

    ids, component_ids = connect_pairs(pairs)

    assert ids == sorted(expected)
    assert component_ids == [expected[vertex] for vertex in ids]


def test_a_long_path_in_any_order_is_one_component():
    order = np.random.default_rng(1).permutation(20_000)
    ids, component_ids = connect_pairs(np.column_stack((order[:-1], order[1:])))

    assert ids == list(range(20_000))
    assert set(component_ids) == {0}
