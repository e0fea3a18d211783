from hashlib import blake2b
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dedup.kernels.digests import digest_each, digest_runs, number_names


@pytest.mark.parametrize("key", [b"", b"k", bytes(range(64))])
def test_digests_are_those_of_the_library(key):
    draw = Random(1)
    sizes = [*range(5), 127, 128, 129, 255, 256, 257, 1000, *(draw.randrange(400) for _ in range(50))]
    values = [draw.randbytes(size) for size in sizes]
    found = digest_runs(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *sizes]), key)
    assert found.tobytes() == b"".join(blake2b(each, digest_size=16, key=key).digest() for each in values)


def test_null_counts_as_empty_and_slices_as_they_stand():
    values = pa.array(["left out", "\u00e9", None, "", "b"])[1:]
    assert digest_each(values).tolist() == digest_each(pa.array(["\u00e9", "", "", "b"], pa.large_string())).tolist()
    assert digest_each(pa.array([], pa.binary())).shape == (0, 2)


def test_names_are_told_apart_by_numbers_that_are_the_same_in_all_places():
    one, other = (number_names(pa.array(names, pa.string())).tolist() for names in (["", None, "a"], ["a", None]))

    assert one[::-1][:2] == other
    assert len({*one}) == 3
