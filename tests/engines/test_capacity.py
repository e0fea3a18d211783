"""What the memory engine takes, estimated beforehand and checked on the way."""

import tracemalloc
from dataclasses import fields, replace

import pyarrow as pa
import pytest

from dedup.engines.capacity import KEY_BYTES, PAIR_BYTES, SHINGLE_BYTES, USUAL, check_fits, estimate_bytes
from dedup.engines.memory import find
from dedup.errors import DedupError
from tests.corpora import Corpus as Generator
from tests.engines import SEARCH, Corpus, Row
from tests.test_pipeline import make_texts


def generate(count):
    return Generator(mean_tokens=150).chunk(count)[0].to_pylist()


def measure_peak(corpus, search):
    """Return the bytes that a search takes at its peak, features and sets included, and the shingles of the corpus."""
    features = corpus.features(search)
    columns = [getattr(features, each.name) for each in fields(features)]
    held = sum(column.nbytes for column in columns if column is not None)
    corpus.find(search)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        found = find(features, corpus.sets_of, search)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.verified.rows
    return held + peak + pa.total_allocated_bytes() - before, int(features.shingle_counts.sum())


@pytest.mark.parametrize("mode", ["lsh", "exact"])
@pytest.mark.parametrize("texts", [generate(3000), make_texts(3, originals=1000)], ids=["few copies", "many copies"])
def test_a_search_takes_less_than_estimated(texts, mode):
    search = replace(SEARCH, mode=mode)
    corpus = Corpus([Row(number, text) for number, text in enumerate(texts)])
    peak, shingles = measure_peak(corpus, search)
    size = {"documents": len(texts), "bands": 21, "rows": 6, "mode": mode}

    assert peak < estimate_bytes(**size, shingles=shingles)
    assert peak < estimate_bytes(**size, text_bytes=sum(len(text.encode()) for text in texts))
    # An estimate of ten times as much would send corpora to Spark that fit.
    assert peak > estimate_bytes(**size, shingles=shingles) / 10


def test_keys_that_many_have_are_checked_before_they_are_brought_together():
    corpus = Corpus([Row(number, f"{' '.join(f'w{place}' for place in range(60))} z{number}") for number in range(60)])
    search = replace(SEARCH, max_bucket=2)

    with pytest.raises(DedupError, match='set engine = "spark"'):
        corpus.find(search, free_bytes=60 * 15 * KEY_BYTES)


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
def test_pairs_and_sets_that_show_only_on_the_way_are_checked_before_they_are_made(mode):
    words = [f"w{number}" for number in range(60)]
    corpus = Corpus([Row(number, " ".join([*words, f"z{number}"])) for number in range(60)])
    search = replace(SEARCH, mode=mode)
    pairs, shingles = 60 * 59 // 2, 60 * 57
    sets = shingles * SHINGLE_BYTES[mode]

    corpus.find(search, free_bytes=max(pairs * PAIR_BYTES * 25, sets))
    for free in (pairs * PAIR_BYTES - 1, sets - 1):
        with pytest.raises(DedupError, match='set engine = "spark"'):
            corpus.find(search, free_bytes=free)
