"""What drops a pair before its exact comparison, and what must not."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.sets.filters import select_possible

sizes = st.lists(st.tuples(st.integers(1, 200), st.integers(1, 200)), max_size=50)


@given(sizes, st.integers(1, 100))
def test_sizes_allow_a_threshold_if_the_lesser_is_its_share_of_the_greater(pairs, percent):
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    expected = [place for place, pair in enumerate(pairs) if Fraction(min(pair), max(pair)) >= Fraction(percent, 100)]

    assert select_possible(left, right, percent / 100).tolist() == expected
    assert select_possible(right, left, percent / 100).tolist() == expected


# .55 x 20 is 11.000000000000002 and .55 x 100 is 55.00000000000001.
@pytest.mark.parametrize(("least", "greatest", "threshold"), [(11, 20, 0.55), (55, 100, 0.55), (7, 7, 1.0)])
def test_the_error_of_a_product_costs_no_pair(least, greatest, threshold):
    assert select_possible(np.array([least]), np.array([greatest]), threshold).tolist() == [0]
    assert select_possible(np.array([least - 1]), np.array([greatest]), threshold).tolist() == []
