"""Which sources answer for removals, and what their limit spares."""

import numpy as np

from dedup.kernels.source_limits import spare


def test_a_source_removes_as_many_as_its_limit_and_the_least_of_them():
    documents, sources = np.array([5, 3, 9, 3, 7]), np.array([1, 1, 1, 2, 2])

    assert spare(documents, sources, 2).tolist() == [9]
    assert spare(documents, sources, 1).tolist() == [5, 7, 9]
    assert spare(documents, sources, 3).tolist() == []
