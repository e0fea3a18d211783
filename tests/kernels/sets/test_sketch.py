"""Sketches: the same from any parts, those of a slow oracle, and estimates beside the truth."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.sets import sketch
from dedup.kernels.sets.sketch import ALL, ShingleSample, Sketch, Sketcher, choose_bound, compare

KEPT = 6
hashes = st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 2))
documents = st.lists(st.tuples(st.lists(hashes, max_size=6), st.sampled_from([None, "", "a", "b"])), max_size=20)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(sketch, "KEPT", KEPT)


def add(sketcher, rows):
    values = np.array([each for own, _ in rows for each in own], np.uint64)
    sizes = np.array([len(own) for own, _ in rows], np.int64)
    sketcher.add(values, sizes, pa.array([source for _, source in rows], pa.string()))


def tell(found: Sketch):
    return [*zip(found.hashes.tolist(), found.sources.to_pylist(), strict=True)], found.bound


@given(documents, st.sampled_from([ALL, 1 << 62, 5]), st.randoms(use_true_random=False))
def test_any_parts_give_the_least_pairs_and_the_first_that_is_left_out(rows, bound, chance):
    pairs = sorted({(each, source) for own, source in rows for each in own if each < bound}, key=lambda one: one[0])
    least = min(bound, pairs[KEPT][0]) if len(pairs) > KEPT else bound
    expected = sorted((one for one in pairs if one[0] < least), key=lambda one: (one[0], one[1] is None, one[1] or ""))

    whole = Sketcher(bound)
    parts = [Sketcher(bound) for _ in range(3)]
    for row in rows:
        add(chance.choice(parts), [row])
    add(whole, rows)
    merged = Sketcher()
    for part in chance.sample(parts, 3):
        merged.merge(part.finish())

    assert tell(merged.finish()) == tell(whole.finish()) == (expected, least)


@given(st.sets(hashes, max_size=30), st.sets(hashes, max_size=30))
def test_what_is_held_whole_is_counted(one, other):
    found = compare(*(ShingleSample(np.array(sorted(each), np.uint64), ALL) for each in (one, other)))

    union, shared = len(one | other), len(one & other)
    assert (found.union, found.union_error, found.jaccard_error, found.share_error) == pytest.approx(
        (union, 0, 0 if union else np.nan, 0 if one else np.nan), nan_ok=True
    )
    assert found.jaccard == pytest.approx(shared / union if union else np.nan, nan_ok=True)
    assert found.share == pytest.approx(shared / len(one) if one else np.nan, nan_ok=True)


def test_estimates_miss_the_truth_by_their_standard_errors(monkeypatch):
    monkeypatch.setattr(sketch, "KEPT", 400)
    missed = []
    for seed in range(60):
        chance = random.Random(seed)
        values = [chance.getrandbits(64) for _ in range(6000)]
        sides = {"a": values[:3000], "b": values[2000:5000]}
        sketcher = Sketcher()
        for source, own in sides.items():
            add(sketcher, [(own, source)])
        found = sketcher.finish()
        one, other = (found.sample(source) for source in sides)
        told = compare(one, other)
        size, error = one.estimate_size()
        missed.append(
            [
                (size - 3000) / error,
                (told.union - 5000) / told.union_error,
                (told.jaccard - 1 / 5) / told.jaccard_error,
                (told.share - 1 / 3) / told.share_error,
            ]
        )
        assert np.array_equal(found.sample().hashes, np.union1d(one.hashes, other.hashes))
    # Sixty draws of a standard normal: their mean square is within 1 +- 4 * sqrt(2 / 60).
    assert np.mean(np.square(missed), axis=0) == pytest.approx(np.ones(4), abs=4 * (2 / 60) ** 0.5)
    assert np.abs(np.mean(missed, axis=0)).max() < 4 / 60**0.5


@pytest.mark.parametrize(("size", "share"), [(0, 1), (200, 1), (1 << 40, 8 * KEPT * 6 / 2**40), (1 << 62, 1)])
def test_large_inputs_have_a_bound_from_the_beginning(size, share):
    assert choose_bound(size) / ALL == pytest.approx(share)
