"""Order of keys that threads sort in ranges, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.runs import argsort
from tests.strategies import int64s


@pytest.mark.parametrize("values", [int64s, st.integers(0, 3)])
@pytest.mark.parametrize("threads", [1, 2, 3])
@given(st.data())
def test_ranges_are_in_order_and_equal_keys_as_they_were(values, threads, data):
    keys = np.array(data.draw(st.lists(values, max_size=200)), np.int64)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(argsort, "SORTED", 16)
        found = argsort.argsort(keys, threads)
    assert np.array_equal(found, np.argsort(keys, kind="stable"))
