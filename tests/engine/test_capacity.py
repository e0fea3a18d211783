"""What the memory engine takes, estimated beforehand and checked on the way."""

import tracemalloc
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from dedup.engine.capacity import PAIR_BYTES, USUAL, check_fits, estimate_bytes
from dedup.errors import DedupError
from tests.corpora import Corpus as Generator
from tests.engine import SEARCH, Corpus, Row
from tests.test_pipeline import make_texts


def generate(count):
    return Generator(mean_tokens=150).chunk(count)[0].to_pylist()


POOLS = []
"""Pools, which must outlive what was allocated from them."""


def measure_peak(corpus, search):
    """Return the bytes that a search takes at its peak, at most, what it searches included, and the shingles."""
    corpus.find(search)
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    POOLS.append(pool)
    held = []

    def begin(rows):
        held.append(rows.nbytes)
        pa.set_memory_pool(pool)
        tracemalloc.start()

    try:
        found = corpus.find(search, begin=begin)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert found.verified.rows
    return held[0] + peak + pool.max_memory(), found.signed.shingles


@pytest.mark.parametrize("mode", ["lsh", "exact"])
@pytest.mark.parametrize(
    "make", [partial(generate, 3000), partial(make_texts, 3, originals=1000)], ids=["few copies", "many copies"]
)
def test_a_search_takes_less_than_estimated(make, mode):
    texts, search = make(), replace(SEARCH, mode=mode)
    corpus = Corpus([Row(number, text) for number, text in enumerate(texts)])
    peak, shingles = measure_peak(corpus, search)
    size = {"documents": len(texts), "bands": 21, "rows": 6, "mode": mode}

    assert peak < estimate_bytes(**size, shingles=shingles)
    assert peak < estimate_bytes(**size, text_bytes=sum(len(text.encode()) for text in texts))
    # An estimate of ten times as much would send corpora to Spark that fit.
    assert peak > estimate_bytes(**size, shingles=shingles) / 10


def test_what_most_corpora_take_is_less_than_what_few_exceed():
    size = {"documents": 1000, "bands": 21, "rows": 6, "text_bytes": 1_400_000}

    assert estimate_bytes(**size, assumed=USUAL) < estimate_bytes(**size) / 2


def test_what_does_not_fit_is_refused_in_a_line_that_says_what_to_do():
    check_fits(10, 10)
    check_fits(10**15, None)

    with pytest.raises(DedupError) as error:
        check_fits(4_200_000_000, 3_100_000_000)
    assert str(error.value) == (
        'engine: "memory" must have 4.2 GB of memory free (got 3.1 GB); set engine = "spark", which works in parts'
    )


@pytest.mark.parametrize("mode", ["lsh", "exact"])
def test_what_shows_only_on_the_way_is_checked_before_it_is_made(monkeypatch, mode):
    words = [f"w{number}" for number in range(60)]
    corpus = Corpus([Row(number, " ".join([*words, f"z{number}"])) for number in range(60)])
    search = replace(SEARCH, mode=mode)
    pairs = 60 * 59 // 2
    checked = []

    def check(needed, free):
        checked.append(needed)
        check_fits(needed, free)

    monkeypatch.setattr("dedup.engine.memory.check_fits", check)
    corpus.find(search)
    # Rows that come together, twice for each shuffle, sets that are read, and pairs.
    assert pairs * PAIR_BYTES in checked
    for most in {0, pairs * PAIR_BYTES - 1, max(checked) - 1}:
        monkeypatch.setattr("dedup.engine.memory.free_bytes", lambda most=most: most)
        with pytest.raises(DedupError, match='set engine = "spark"'):
            corpus.find(search)
    monkeypatch.setattr("dedup.engine.memory.free_bytes", lambda: max(checked))
    corpus.find(search)
