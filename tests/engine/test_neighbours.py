"""Documents that resemble those drawn, and how many they would be compared with, against the oracle."""

import numpy as np
import pyarrow as pa
import pytest

from dedup.evaluate import rows
from dedup.kernels import sample_search
from dedup.kernels.hashing import mix
from dedup.kernels.neighbours import Seeds, select_least
from dedup.kernels.sets import exact, minhash
from dedup.kernels.sets.shingles import shingle
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.settings.options import Config
from tests import oracles
from tests.engine.tables import settings
from tests.test_pipeline import make_texts

SETTINGS = [
    sample_search.Setting(threshold=0.8, bands=21, rows=6, max_bucket=150, estimate_sigmas=4.0),
    sample_search.Setting(threshold=0.5, bands=30, rows=2, max_bucket=150, estimate_sigmas=1.0),
]


@pytest.mark.parametrize("most", [1000, 2])
def test_neighbours_are_those_at_the_floor_and_pairs_are_counted(spark, monkeypatch, most):
    texts = [*make_texts(6, originals=20), None]
    doc_ids = np.arange(len(texts)) * 5 - 40
    drawn = np.arange(0, len(texts), 3)
    sets = shingle(*UnicodeWords().hash(pa.array(texts)), 5, UnicodeWords())
    taken = exact.take(*sets, drawn)
    seeds = Seeds(
        doc_ids=doc_ids[drawn],
        index=exact.index(*taken, 0.4),
        signatures=minhash.sign(*taken, 126, 3),
        signature_seed=3,
        settings=SETTINGS,
    )
    documents = spark.createDataFrame(
        [*zip(doc_ids.tolist(), texts, strict=True), (None, "a null id")], "doc_id long, text string"
    ).repartition(3)
    monkeypatch.setattr(rows, "PIECE_BYTES", 2000)
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 7}):
        found = rows.RowCorpus(rows=documents).find_neighbours(seeds, most=most, config=Config())

    oracle = [oracles.shingle_set(text, 5) for text in texts]
    expected = {
        (seed, int(doc_ids[other]))
        for seed, place in enumerate(drawn)
        for other in range(len(texts))
        if oracles.jaccard(oracle[place], oracle[other]) >= oracles.Fraction("0.4")
    }
    pairs = set(zip(found.seeds.tolist(), found.doc_ids.tolist(), strict=True))
    assert len(pairs) == found.seeds.size
    if most == 1000:
        assert pairs == expected
    else:
        # Every task gives its least two, so they hold the least two of all.
        assert pairs < expected
        assert (
            set(zip(*(side.tolist() for side in select_least(*np.array(sorted(expected)).T, 2)), strict=True)) <= pairs
        )
    signatures = minhash.sign(*sets, 126, 3)
    low, sizes = minhash.low_bytes(signatures), np.diff(sets[1])
    assert found.counts["documents"] == len(texts)
    for number, setting in enumerate(SETTINGS):
        keys = sample_search.band_keys(signatures, setting)
        shared = [
            (place, other)
            for place in drawn
            for other in range(len(texts))
            if place != other and oracle[place] and oracle[other] and (keys[place] == keys[other]).any()
        ]
        left, right = np.array(shared).T
        likely = sample_search.select_likely(sizes, low[:, : setting.size], left, right, setting)
        assert 0 < likely.size < left.size
        assert found.counts[f"paired {number}"] == left.size
        assert found.counts[f"compared {number}"] == likely.size


def test_the_least_hashes_stay_whatever_the_order():
    seeds, doc_ids = np.repeat([5, 2], 30), np.tile(np.arange(30), 2)
    hashes = mix(np.arange(30).view(np.uint64))
    expected = {(seed, int(doc_id)) for seed in (2, 5) for doc_id in np.argsort(hashes)[:4]}
    order = np.random.default_rng(1).permutation(60)

    found = select_least(seeds[order], doc_ids[order], 4)

    assert set(zip(*(side.tolist() for side in found), strict=True)) == expected
