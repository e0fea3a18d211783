"""Order of rows by sorted numbers, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.runs import argsort
from tests.strategies import int64s

LEAST, MOST = -(2**63), 2**63 - 1
KEYS = [
    int64s,
    st.integers(0, 3),
    # Alike in all bits but the last.
    st.integers(MOST - 3, MOST),
    st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST]),
]


@given(st.data())
def test_rows_are_in_order_and_equal_rows_as_they_were(data):
    rows = data.draw(st.integers(0, 60))
    columns = st.sampled_from(KEYS).flatmap(lambda values: st.lists(values, min_size=rows, max_size=rows))
    keys = [np.array(each, np.int64) for each in data.draw(st.lists(columns, min_size=1, max_size=4))]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(argsort, "FEW", 1)
        patched.setattr(argsort, "PART_ROWS", 16)
        found = argsort.argsort(keys)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.lexsort(keys[::-1]))
    assert np.array_equal(argsort.argsort(keys), found)


@pytest.mark.parametrize("bits", [0, 20, 40, 63])
def test_many_rows_whose_keys_differ_in_hidden_bits_are_in_order(bits):
    chance = np.random.default_rng(3)
    # Few far away, so that the leading bits tell the others apart by so little.
    key = np.where(
        chance.random(50_000) < 0.001, chance.integers(LEAST, MOST, 50_000), chance.integers(0, 1 << bits, 50_000)
    )
    again = chance.integers(0, 3, key.size)

    assert np.array_equal(argsort.argsort([key, again]), np.lexsort((again, key)))
    assert np.array_equal(argsort.argsort([again, key]), np.lexsort((key, again)))
