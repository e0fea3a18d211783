"""All features in one call: what the kernels give one by one."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.kernels import features
from dedup.kernels.sets import lsh, minhash, shingles
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import strategies


@settings(max_examples=100)
@given(strategies.cells(), st.integers(1, 6), st.sampled_from([(21, 6), (2, 3), (0, 6)]), strategies.seeds)
def test_features_are_those_of_the_kernels(cells, shingle_size, banding, seed):
    texts, tokenizer, (bands, rows) = pa.array(cells, pa.binary()), UnicodeWords(seed=seed), banding
    tokens, token_bounds = tokenizer.hash(texts)
    values, offsets = shingles.shingle(tokens, token_bounds, shingle_size, tokenizer)
    signatures = minhash.sign(values, offsets, bands * rows, seed)

    found = features.compute(texts, tokenizer, shingle_size=shingle_size, bands=bands, rows=rows, seed=seed)

    assert found.token_counts.tolist() == np.diff(token_bounds).tolist()
    assert found.shingle_counts.tolist() == np.diff(offsets).tolist()
    for number, (start, end) in enumerate(pairwise(offsets)):
        digest = xxhash.xxh3_128_intdigest(values[start:end].astype("<u8").tobytes())
        halves = [int(half[number]) % 2**64 for half in (found.digest_high, found.digest_low)]
        assert halves == [digest >> 64, digest % 2**64]
    np.testing.assert_array_equal(found.keys, lsh.band_keys(signatures, bands, rows))
    np.testing.assert_array_equal(found.low, minhash.low_bytes(signatures))
    assert (found.keys.shape, found.low.shape) == ((len(cells), bands), (len(cells), bands * rows))
