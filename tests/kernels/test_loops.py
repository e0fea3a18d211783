"""Each compiled loop and its oracle in NumPy give the same bits."""

import os
import shutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels import loops
from dedup.kernels.hashing import weigh
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.sets import exact, filters, jaccard, lsh, minhash, shingles, templates
from dedup.kernels.text import passages
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.run.session import ROOT
from tests.kernels import oracles, ragged
from tests.strategies import seeds

randoms = st.integers(0, 2**32).map(np.random.default_rng)


def same(found, expected):
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def draw_lists(random, values):
    """Return lists of up to 700 of so many hashes, end to end, and their offsets."""
    sizes = random.choice([0, 1, 2, 5, 40, 700], random.integers(0, 12))
    hashes = random.integers(0, 2**64, values, dtype=np.uint64)
    return ragged(hashes[random.integers(0, values, size)].tolist() for size in sizes)


def draw_sets(random, values):
    lists, offsets = draw_lists(random, values)
    return ragged(np.unique(lists[begin:end]).tolist() for begin, end in pairwise(offsets.tolist()))


def draw_numbers(random, sets):
    return random.integers(0, max(sets, 1), (2, 30 if sets else 0))


@given(randoms, st.sampled_from([3, 50, 5000]), st.integers(1, 9), seeds, st.sampled_from([b"", b"key"]))
def test_shingles(random, values, size, seed, key):
    tokens = draw_lists(random, values)

    found = shingles.shingle(*tokens, size, UnicodeWords(seed=seed, key=key))

    assert same(found, oracles.shingle(*tokens, weigh(size, seed, key)))


@given(randoms, st.sampled_from([(1, 1), (7, 1), (21, 6)]), seeds)
def test_signatures_and_band_keys(random, banding, seed):
    sets = draw_sets(random, 5000)
    bands, rows = banding

    signatures = minhash.sign(*sets, bands * rows, seed)

    assert same([signatures], [oracles.sign(*sets, bands * rows, seed)])
    assert same([lsh.band_keys(signatures, bands, rows)], [oracles.band_keys(signatures, bands, rows)])


@given(randoms)
def test_shared_shingles_and_equal_rows_of_pairs(random):
    sets = draw_sets(random, 900)
    count = sets[1].size - 1
    left, right = draw_numbers(random, count)
    low = random.integers(0, 2, (count, 40), dtype=np.uint8)

    assert same([jaccard.count_shared(*sets, left, right)], [oracles.count_shared(*sets, left, right)])
    assert same([filters.estimate_pairs(low, left, right)], [minhash.estimate(low[left], low[right])])


@given(randoms)
def test_sets_copied_to_their_places(random):
    sets = draw_sets(random, 900)
    numbers, _ = draw_numbers(random, sets[1].size - 1)
    begins = np.cumsum([3, *(np.diff(sets[1])[numbers] + 2)])
    found, expected = np.zeros((2, begins[-1]), dtype=np.uint64)

    exact.place(*sets, numbers, begins[:-1], found)
    oracles.place(*sets, numbers, begins[:-1], expected)

    assert same([found], [expected])


@given(randoms, st.sampled_from([5, 60, 900]), st.integers(1, 6), st.sampled_from([0.5, 0.8, 0.95]))
def test_rare_and_hot_shingles(random, values, most, threshold):
    sets = draw_sets(random, values)
    sizes = np.diff(sets[1])
    items = templates.Items(*sets, sizes + random.integers(0, 4, sizes.size))
    chosen = np.flatnonzero(random.integers(0, 2, sizes.size))

    slots = templates.count_slots(items.shingles, most)
    cut = templates.cut_items(items, slots, threshold, most)

    assert same(slots, oracles.count_slots(items.shingles, most))
    assert same(cut, oracles.cut_items(items, slots, threshold, most))
    assert same([templates.mark_hot(items, chosen, slots, most)], [oracles.mark_hot(items, chosen, slots, most)])


@given(randoms, st.sampled_from([2, 6, 5000]), st.sampled_from([2, 3, 10, 50]), seeds)
def test_windows_and_selected_grams(random, values, length, seed):
    tokens, offsets = draw_lists(random, values)
    words = UnicodeWords(seed=seed)
    size = passages.gram_size(length)
    base = int(weigh(1, seed, b"")[0]) & ~7 | 5

    assert same([passages.roll(tokens, offsets, length, words)], [oracles.roll(tokens, offsets, length, base)])
    grams = oracles.roll(tokens, offsets, size, base)
    selected = [
        oracles.winnow(grams[begin : max(end - size + 1, begin)], length - size + 1)
        for begin, end in pairwise(offsets.tolist())
    ]
    _, places, bounds = passages.select_grams(tokens, offsets, length, words)
    assert same([places, bounds], [np.concatenate([bounds[:0], *selected]), np.cumsum([0, *map(len, selected)])])


def draw_texts(random, values):
    """Return lists of so many hashes, of which parts come again."""
    texts = []
    for size in random.choice([0, 1, 5, 40, 300], random.integers(0, 6)):
        text = random.integers(0, 2**64, values, dtype=np.uint64)[random.integers(0, values, size)]
        begin, end = np.sort(random.integers(0, size + 1, 2))
        texts.append(np.concatenate((text, np.tile(text[begin:end], random.integers(0, 9)))).tolist())
    return ragged(texts)


@given(randoms, st.sampled_from([1, 2, 6, 5000]), st.sampled_from([2, 3, 10, 50]), st.booleans())
def test_recurring_windows_and_pieces(random, values, length, keep_first):
    tokens, offsets = draw_texts(random, values)
    words = UnicodeWords()
    _, places, bounds = passages.select_grams(tokens, offsets, length, words)
    documents = np.repeat(np.arange(offsets.size - 1), np.diff(bounds))
    asked = passages.find_asked(places, documents, np.diff(offsets), length)
    hashes = passages.roll(tokens, offsets, length, words)

    found = passages.find_recurring(hashes, offsets, asked)

    assert same(found, oracles.find_recurring(hashes, offsets, asked))
    (of, begins, times), (run_of, run_begins, counts, backs) = found.windows.T, found.runs.T
    # Each window with the first of its hash, and the first with the next.
    values = hashes[offsets[of] + begins]
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(mark_firsts(values[order]))
    sizes = np.diff(np.append(starts, order.size))
    firsts, others = order[starts], np.empty_like(order)
    others[order] = np.repeat(firsts, sizes)
    several = sizes > 1
    others[firsts[several]] = order[starts[several] + 1]
    sums = np.zeros_like(times)
    sums[firsts] = np.add.reduceat(times[order], starts) if order.size else []
    rows = np.flatnonzero(np.isin(np.arange(order.size), firsts[~several], invert=True))
    columns = [
        np.concatenate(pair)
        for pair in zip(
            (of[rows], begins[rows], of[others[rows]], begins[others[rows]], sums[rows]),
            (run_of, run_begins, run_of, run_begins - backs, -counts),
            strict=True,
        )
    ]
    order = np.lexsort((columns[1], columns[0]))
    columns = [column[order] for column in columns]
    windows = passages.repeat_windows(*columns)
    assert same(windows, oracles.repeat_windows(columns))
    *columns, sums = windows
    options = {"length": length, "keep_first": keep_first}
    assert same(passages.find_pieces(*columns, sums > 0, **options), oracles.find_pieces(*columns, sums > 0, **options))


@given(randoms, st.sampled_from([1, 2, 5]))
def test_runs_of_tokens_that_differ(random, values):
    widths = np.concatenate(([0], np.cumsum(random.integers(1, 3, 60))))
    tokens = random.integers(0, values, widths[-1], dtype=np.uint8)
    begins, sizes = random.integers(0, 50, 40), random.integers(0, 10, 40)
    differs = np.ones(40, dtype=bool)

    loops.tokens.compare(tokens, widths, begins, begins + sizes, differs)

    assert same([differs], [oracles.differ(tokens, widths, begins, begins + sizes)])


ROLL = """
import numpy as np
from dedup.kernels.loops.passages import roll

hashes = np.zeros(3, dtype=np.uint64)
roll(np.arange(3, dtype=np.uint64), np.array([0, 3]), 2, np.uint64(5), hashes)
print(hashes)
"""


def test_a_loop_that_another_version_has_kept_is_compiled_anew(tmp_path):
    shutil.copytree(ROOT / "dedup", tmp_path / "dedup", ignore=shutil.ignore_patterns("__pycache__"))
    mix = tmp_path / "dedup" / "kernels" / "loops" / "hashing.py"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}

    def run():
        return subprocess.check_output([sys.executable, "-c", ROLL], cwd=tmp_path, env=environment, text=True)

    before = run()
    assert list(mix.parent.glob("__pycache__/passages.roll*.nbc"))
    assert run() == before
    mix.write_text(mix.read_text("utf-8").replace("np.uint64(27)", "np.uint64(28)"), "utf-8")

    assert run() != before
