"""The experiments: what they compare is what they say."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.kernels.hashing import EMPTY, expand, mix
from dedup.kernels.sets import minhash
from dedup.kernels.sets.pairs import decode
from tests.experiments import adverts, estimates, probes, simhash, skew, widths
from tests.experiments.corpora import Sets, count_lost, search, shingle


@pytest.mark.parametrize(("union", "similarity"), [(10, 0.8), (11, 0.5), (7, 1.0)])
def test_pairs_have_the_similarity_that_is_told(union, similarity):
    shingles, offsets, exact = estimates.draw(union, similarity, 3, np.random.default_rng(1))
    sets = [set(shingles[begin:end].tolist()) for begin, end in pairwise(offsets)]

    for one, other in zip(sets[::2], sets[1::2], strict=True):
        assert len(one | other) == union
        assert len(one & other) / union == exact == pytest.approx(similarity, abs=0.05)


@pytest.mark.parametrize("size", [1, 16, 126])
def test_one_permutation_fills_all_rows_but_of_empty_sets(size):
    shingles, offsets = np.array([3, 5, 8], np.uint64), np.array([0, 0, 1, 3])
    found = estimates.sign_once(shingles, offsets, size, 1)

    assert (found[0] == EMPTY).all()
    assert (found[1:] != EMPTY).all()
    assert len({*found[1].tolist()}) == 1


@pytest.mark.parametrize("sign", estimates.KINDS.values(), ids=estimates.KINDS)
def test_estimates_lie_about_the_similarity(sign):
    agreed, exact = estimates.agree(sign, 100, 0.8, 64, pairs=1000, seed=1)

    assert agreed.shape == (1000, 64)
    assert agreed.mean() == pytest.approx(exact, abs=0.01)


def make_buckets(sizes):
    members = np.concatenate([np.arange(size) for size in sizes])
    return np.arange(len(sizes), dtype=np.uint64), members, np.concatenate(([0], np.cumsum(sizes)))


def make_sets(documents, chance):
    shingles = chance.integers(0, 1 << 64, documents * 20, dtype=np.uint64)
    return Sets(shingles, np.arange(0, documents * 20 + 1, 20), np.array([0]), np.array([1]))


def test_the_largest_buckets_are_dropped():
    _, _, offsets = skew.drop(make_buckets([3, 900, 2, 700]), make_sets(900, np.random.default_rng(1)), 10_000)

    assert np.diff(offsets).tolist() == [3, 2, 700]


def test_large_buckets_are_split_until_they_are_small():
    keys, members, offsets = skew.split(make_buckets([3, 900]), make_sets(900, np.random.default_rng(1)), 2)

    sizes = np.diff(offsets)
    assert sizes.max() <= skew.CAP
    assert members.size == offsets[-1]
    assert keys.size == sizes.size


def test_a_pair_is_lost_that_no_chain_joins():
    sets = Sets(np.empty(0, np.uint64), np.zeros(6, np.int64), np.array([0, 0, 3]), np.array([1, 2, 4]))

    assert count_lost(sets, np.array([0, 1]), np.array([1, 2])) == 1


def test_probes_join_pairs_that_one_row_keeps_apart():
    least = np.arange(12, dtype=np.uint64).reshape(1, 12).repeat(2, axis=0)
    second = least + np.uint64(100)
    # In the first band they differ in a row, where the second least of one is the least of the other.
    least[1, 2], second[1, 2] = second[0, 2], second[0, 2] + np.uint64(1)
    second[:, [0, 1, 3, 4, 5]] += np.uint64(1000)
    least[1, 6:] += np.uint64(500)
    second[1, 6:] += np.uint64(500)
    sets = Sets(np.empty(0, np.uint64), np.zeros(3, np.int64), np.array([0]), np.array([1]))

    assert probes._share(sets, probes._make_keys(least, second, 2, 0)) == 0
    assert probes._share(sets, probes._make_keys(least, second, 2, 1)) == 1
    assert probes._meet(sets, probes._make_keys(least, second, 2, 1))["candidates"] == 1


@pytest.mark.parametrize("bits", minhash.WIDTHS)
def test_words_of_narrow_values_give_the_estimates_of_the_specification(bits):
    chance = np.random.default_rng(bits)
    packed = minhash.pack(chance.integers(0, 256, (20, widths.SIZE), dtype=np.uint8), bits)
    left, right = chance.integers(0, 20, (2, 50))

    expected = minhash.estimate(packed[left], packed[right], size=widths.SIZE, bits=bits)
    assert widths.estimate_pairs(packed, left, right, bits) == pytest.approx(expected, abs=1e-12)


def test_advertisements_are_short_and_each_has_many_that_are_half_like_it(tmp_path):
    adverts.write_adverts(tmp_path / "documents", 3000)
    texts = pq.read_table(tmp_path / "documents")["text"].combine_chunks()
    words = [len(text.split()) for text in texts.to_pylist()]
    left, _ = search(*shingle(texts), adverts.THRESHOLD)

    assert (min(words), max(words)) == (17, 28)
    assert 10 < left.size / 3000 < 30


def test_bits_of_a_simhash_are_those_that_most_shingles_have():
    shingles, offsets = np.random.default_rng(1).integers(0, 1 << 64, 30, dtype=np.uint64), np.array([0, 7, 30])
    words = simhash.sign_bits(Sets(shingles, offsets, offsets, offsets), bits=100)

    hashes = mix(shingles[:, None] ^ expand(1, 2))
    bits = np.unpackbits(hashes.view(np.uint8), axis=1, bitorder="little").astype(int)
    expected = [2 * bits[begin:end].sum(axis=0) > end - begin for begin, end in pairwise(offsets)]
    assert np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").tolist() == np.array(expected).tolist()


def test_simhash_estimates_lie_about_the_similarity():
    shingles, offsets, exact = estimates.draw(200, 0.8, 200, np.random.default_rng(1))
    words = simhash.sign_bits(Sets(shingles, offsets, offsets, offsets), bits=512)

    pairs = np.arange(0, 400, 2)
    assert simhash.estimate_bits(words, pairs, pairs + 1).mean() == pytest.approx(exact, abs=0.02)


def test_neighbours_are_those_within_the_window():
    found = simhash.slide(simhash.sort(None, pa.array(["b", "A", "d", "c"]), orders=1), window=2)

    assert np.stack(decode(found), axis=1).tolist() == [[0, 1], [0, 3], [2, 3]]
