"""Fast Similarity Sketching against its definition and its theory, and the estimate from stored signatures."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.kernels import loops
from dedup.kernels.curve import standard_error
from dedup.kernels.hashing import EMPTY, expand, mix
from dedup.kernels.sets.minhash import WIDTHS, estimate, low_bytes, pack, sign
from tests import oracles, strategies
from tests.kernels import draw_pairs, ragged, sign_sets

PUBLISHED = [2005232499, 7718305949, 1424578761, 17478786629, 8696282304, 18105753880]
"""Of the shingles 1 and 2 with six rows and seed 1, in version 1 of the hash specification."""
sizes = st.integers(1, 12)

# members of the union, members shared, rows, pairs drawn
UNIONS = [
    (2, 1, 126, 3000),
    (10, 5, 126, 3000),
    (10, 8, 126, 3000),
    (100, 80, 126, 2000),
    (250, 200, 126, 2000),
    (1000, 200, 126, 1000),
    (2500, 2000, 126, 400),
    (5, 4, 16, 4000),
    (200, 100, 16, 4000),
]
STANDARD_ERRORS = 4


@given(strategies.hash_sets(members=20), sizes, strategies.seeds)
@example([], 3, 1)
@example([[]], 3, 1)
@example([[7], [], [7, 8]], 12, 0)
def test_signatures_are_those_of_the_definition(sets, size, seed):
    signatures = sign(*ragged(sets), size, seed)

    assert (signatures.shape, signatures.dtype) == ((len(sets), size), np.uint64)
    assert signatures.tolist() == [oracles.signature(members, size, seed) for members in sets]


def test_long_documents_are_signed_by_the_definition_too():
    sets = [range(3000), range(100), range(50, 3000), [5]]

    assert sign(*ragged(sets), 30, 9).tolist() == [oracles.signature(members, 30, 9) for members in sets]


def test_a_signature_keeps_its_published_values():
    assert sign(*ragged([[1, 2]]), 6, 1).tolist() == [PUBLISHED]


@given(strategies.hash_sets(), sizes, st.randoms(use_true_random=False))
def test_signatures_depend_neither_on_neighbours_nor_on_order(sets, size, random):
    together = sign(*ragged(sets), size, 1)
    shuffled = [random.sample(members, len(members)) for members in sets]

    assert sign(*ragged(shuffled), size, 1).tolist() == together.tolist()
    assert [sign(*ragged([members]), size, 1)[0].tolist() for members in sets] == together.tolist()


@given(strategies.hash_sets(max_size=2), strategies.hash_sets(max_size=2), sizes)
def test_the_signature_of_a_union_is_the_least_of_both(left, right, size):
    left, right = (sorted({value for members in sets for value in members}) for sets in (left, right))

    signatures = sign(*ragged([left, right, sorted({*left, *right})]), size, 1)

    assert np.minimum(signatures[0], signatures[1]).tolist() == signatures[2].tolist()


def test_a_long_and_a_short_document_merge_though_they_leave_in_different_rounds():
    values = np.random.default_rng(3).integers(0, 2**64, 3000, dtype=np.uint64).tolist()
    for split in (1, 2, 30, 1500):
        signatures = sign(*ragged([values[:split], values[split:], values]), 126, 1)

        assert np.array_equal(np.minimum(signatures[0], signatures[1]), signatures[2])


@pytest.mark.parametrize("members", [1, 2, 3, 125, 1000])
@pytest.mark.parametrize("size", [1, 126, 1024])
def test_one_shingle_is_enough_to_fill_every_row(members, size):
    assert EMPTY not in sign(*ragged([range(members)] * 2), size, 1)


def test_a_long_document_leaves_once_its_rows_are_full(monkeypatch):
    hashed = []

    def record(value):
        hashed.append(value)
        return mix(np.array([value]))[0]

    monkeypatch.setattr(loops.sets, "mix", record)
    # 1,000 shingles for every row: one round leaves a row empty once in e^1000 / 10 documents.
    shingles, _ = ragged([range(10_000)])
    loops.sets.sign_set.py_func(shingles, 0, shingles.size, expand(1, 20), np.full(10, EMPTY))

    assert len(hashed) == 10_000


def test_a_document_without_shingles_has_only_empty_rows():
    assert (sign(*ragged([[], [1], []]), 9, 1)[::2] == EMPTY).all()


def test_signing_leaves_the_shingles_alone():
    values, offsets = ragged([[3, 1], [], [2]])
    sign(values, offsets, 5, 1)

    assert (values.tolist(), offsets.tolist()) == ([3, 1, 2], [0, 2, 2, 3])


@cache
def agreements(union, shared, size, pairs):
    """Return the share of equal rows of every pair of random sets, whose Jaccard similarity is shared / union."""
    left, right = (sign_sets(sets, size) for sets in draw_pairs(union, shared, pairs))
    return np.count_nonzero(left == right, axis=1) / size


def relative_error_of_variance(jaccard, size, pairs):
    """Return the standard error, relative to it, of a variance measured over `pairs` binomial shares about their mean.

    The mean is known, so the relative variance of a squared deviation is the kurtosis less 1, and a binomial's is
    3 + (1 - 6 p q) / (n p q).
    """
    spread = jaccard * (1 - jaccard)
    return math.sqrt((2 + (1 - 6 * spread) / (size * spread)) / pairs)


@pytest.mark.parametrize(("union", "shared", "size", "pairs"), UNIONS)
def test_the_share_of_equal_rows_is_an_unbiased_estimate(union, shared, size, pairs):
    jaccard = shared / union
    # The bound on the variance is the next test's.
    tolerance = STANDARD_ERRORS * standard_error(jaccard, size) / math.sqrt(pairs)

    assert agreements(union, shared, size, pairs).mean() == pytest.approx(jaccard, abs=tolerance, rel=0)


@pytest.mark.parametrize(("union", "shared", "size", "pairs"), UNIONS)
def test_its_variance_is_at_most_that_of_independent_permutations(union, shared, size, pairs):
    jaccard = shared / union
    variance = np.mean((agreements(union, shared, size, pairs) - jaccard) ** 2)
    bound = standard_error(jaccard, size) ** 2
    error = relative_error_of_variance(jaccard, size, pairs)

    assert bound == pytest.approx(jaccard * (1 - jaccard) / size)
    assert variance <= bound * (1 + STANDARD_ERRORS * error)
    if union < size:
        # Measured .47 to .56 of it; that it is below 3/4 is beyond chance.
        assert variance * (1 + STANDARD_ERRORS * error) <= 0.75 * bound


def test_two_seeds_are_two_independent_estimates():
    (left, right) = draw_pairs(20, 10, 3000)
    first, second = (
        np.count_nonzero(sign_sets(left, 30, seed) == sign_sets(right, 30, seed), axis=1) for seed in (1, 2)
    )

    # The correlation of independent samples has a standard error of 1 / sqrt(samples).
    assert abs(np.corrcoef(first, second)[0, 1]) < STANDARD_ERRORS / math.sqrt(3000)


@given(st.integers(1, 300), st.data())
def test_the_estimate_is_the_agreement_corrected_for_chance(size, data):
    equal = data.draw(st.integers(0, size))
    left = np.zeros((1, size), dtype=np.uint8)
    right = np.where(np.arange(size) < equal, 0, 1 + np.arange(size) % 255).astype(np.uint8)[None]

    # Of a share J of equal rows and 1/256 of the others, J.
    assert estimate(left, right)[0] == pytest.approx((256 * equal / size - 1) / 255)
    assert estimate(right, left)[0] == estimate(left, right)[0]


@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from(WIDTHS))
def test_a_packed_signature_has_the_lowest_bits_of_all_values_in_their_order(seed, size, bits):
    low = np.random.default_rng(seed).integers(0, 256, (3, size), dtype=np.uint8)

    assert [row.tobytes() for row in pack(low, bits)] == [oracles.pack(row, bits) for row in low.tolist()]


@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from(WIDTHS))
def test_the_estimate_from_packed_signatures_counts_the_values_that_agree(seed, size, bits):
    left, right = np.random.default_rng(seed).integers(0, 256, (2, 5, size), dtype=np.uint8)
    agreed = ((left ^ right) & 2**bits - 1 == 0).mean(axis=1)

    found = estimate(pack(left, bits), pack(right, bits), size=size, bits=bits)
    assert found == pytest.approx((agreed * 2**bits - 1) / (2**bits - 1), abs=1e-12)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize(("union", "shared"), [(500, 0), (500, 150), (500, 400), (20, 16)])
def test_the_estimate_from_stored_signatures_is_unbiased(union, shared, bits):
    size, pairs = 126, 3000
    packed = [pack(low_bytes(sign_sets(sets, size)), bits) for sets in draw_pairs(union, shared, pairs)]
    jaccard = shared / union
    tolerance = STANDARD_ERRORS * standard_error(jaccard, size, bits) / math.sqrt(pairs)

    estimates = estimate(*packed, size=size, bits=bits)

    assert estimates.shape == (pairs,)
    assert estimates.mean() == pytest.approx(jaccard, abs=tolerance, rel=0)
    # Never more than independent permutations, but for the error of a measured variance.
    assert estimates.std() <= standard_error(jaccard, size, bits) * (1 + STANDARD_ERRORS / math.sqrt(2 * pairs))
