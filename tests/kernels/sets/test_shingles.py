"""Shingle sets and the digest that tells equal ones."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.kernels.loops import sets
from dedup.kernels.sets.shingles import digest, shingle
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import oracles, strategies
from tests.kernels import ragged, unragged

PUBLISHED = [3907658418646337571, 14533986033343641385]
"""Of tokens with the hashes 1, 2, 3, 4, 5 and of 1, 2, in version 2 of the hash specification."""
documents = st.lists(st.lists(st.one_of(st.integers(1, 3), strategies.uint64s), max_size=12), max_size=6)


def shingles_of(tokens, size):
    """Return the shingle hashes of every document as lists."""
    hashes, offsets = shingle(*ragged(tokens), size, UnicodeWords())
    assert (hashes.dtype, offsets.dtype) == (np.uint64, np.int64)
    return unragged(hashes, offsets)


@given(documents, st.integers(1, 7))
@example([[1, 2]], 5)
@example([[1, 2, 3]], 5)
@example([[], [1], [], []], 5)
@example([], 5)
def test_shingles_are_the_distinct_windows_of_each_document(tokens, size):
    assert shingles_of(tokens, size) == [oracles.shingle_hashes(document, size) for document in tokens]


@given(documents, st.integers(1, 7))
def test_shingles_do_not_depend_on_the_neighbours(tokens, size):
    assert shingles_of(tokens, size) == [shingles_of([document], size)[0] for document in tokens]


@given(strategies.documents(), st.integers(1, 6))
def test_hashes_stand_for_the_shingles_of_the_texts(texts, size):
    hashes, offsets = shingle(*UnicodeWords().hash(pa.array(texts, pa.string())), size, UnicodeWords())
    names: dict[int, tuple[str, ...]] = {
        oracles.shingle_hash([oracles.token_hash(token, 1) for token in words]): words
        for text in texts
        for words in oracles.shingle_set(text, size)
    }

    named = [frozenset(names[value] for value in values) for values in unragged(hashes, offsets)]

    assert named == [oracles.shingle_set(text, size) for text in texts]


RELATION = [
    *(1, -1, 0, 1, 0, -1, 1, -1, -1, 0, 1, 0, -1, 1, -1, -1, -1, 0, -1, -1, 1, -1),
    *(1, -1, -1, 0, 0, -1, 0, 0, -1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, -1, -1, -1),
    *(1, 0, 1, 0, 0, -1, 1, 1, 0, 0, -1, -1, -1, -1, 1, 0, -1, 0, 0, 1),
]
"""Factors of powers of version 1's multiplier, from the first on, whose sum is 0: found in a minute."""
KEYS = st.sampled_from([b"", b"a secret of 16 bytes", b"another of 16 bytes."])


@given(documents, st.integers(1, 7), st.integers(0, 2**63), KEYS)
def test_seed_and_key_weigh_the_places(tokens, size, seed, key):
    hashes, offsets = shingle(*ragged(tokens), size, UnicodeWords(seed=seed, key=key))

    assert unragged(hashes, offsets) == [oracles.shingle_hashes(each, size, seed, key) for each in tokens]


@pytest.mark.parametrize("key", [b"", b"a secret of 16 bytes"])
def test_relations_between_powers_of_one_number_make_no_two_windows_equal(key):
    # Its powers weighed the places in version 1.
    multiplier, relation = 0xD1342543DE82EF95, RELATION
    assert sum(factor * multiplier**place for place, factor in enumerate(relation)) % 2**64 == 0
    # Tokens with a hash h where the factor is 1, and g where it is -1, against the same with both exchanged.
    one, other = ([5 if factor == sign else 3 for factor in reversed(relation)] for sign in (1, -1))

    assert len({value for (value,) in shingles_of_keyed([one, other], len(relation), key)}) == 2


def shingles_of_keyed(tokens, size, key):
    return unragged(*shingle(*ragged(tokens), size, UnicodeWords(key=key)))


def test_order_and_number_of_tokens_count():
    distinct = shingles_of([[1, 2, 3], [3, 2, 1], [1, 2], [0, 1, 2], [1, 2, 0], [0], [0, 0], [0, 0, 0]], 5)

    assert len({only for (only,) in distinct}) == 8


def test_shingling_leaves_the_tokens_alone():
    tokens, offsets = ragged([[5, 4, 3], [2, 1]])
    shingle(tokens, offsets, 2, UnicodeWords())

    assert (tokens.tolist(), offsets.tolist()) == ([5, 4, 3, 2, 1], [0, 3, 5])


def test_shingles_keep_their_published_hashes():
    assert shingles_of([[1, 2, 3, 4, 5], [1, 2]], 5) == [[value] for value in PUBLISHED]


@given(strategies.hash_sets())
@example([])
@example([[], []])
def test_a_digest_is_xxh3_of_the_little_endian_shingles(sets):
    ordered = [sorted(members) for members in sets]

    expected = [
        xxhash.xxh3_128(b"".join(value.to_bytes(8, "little") for value in values)).digest() for values in ordered
    ]
    assert digest(*ragged(ordered)) == expected


@pytest.mark.parametrize("first", [0, 1])
def test_offsets_of_a_digest_may_begin_anywhere(first):
    values, offsets = ragged([[1, 2], [3]])

    assert digest(values, offsets[first:]) == digest(*ragged([[1, 2], [3]][first:]))


@pytest.mark.parametrize("size", [300, 30_000])
@pytest.mark.parametrize("shift", [0, 40, 60])
def test_sets_whose_leading_bits_are_alike_are_sorted_too(shift, size):
    values = np.random.default_rng(shift).integers(0, 2**64, size, dtype=np.uint64) >> np.uint64(shift)
    expected = np.unique(values)
    counts = np.empty((1 << sets.MOST_BITS) + 1, dtype=np.int64)

    end = sets.sort_set(values, 0, values.size, np.empty_like(values), counts)

    assert values[:end].tolist() == expected.tolist()
