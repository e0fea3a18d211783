"""Exact similarity against the oracle, and how far a shingle set travels for it."""

import random
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import types as T

import dedup.stages.exchange
from dedup.kernels.curve import NEAR_MISS
from dedup.kernels.sets.jaccard import BINS, CLOSEST
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.stages.documents import Rows
from dedup.stages.edges import collect_near_misses, collect_sets, select_edges, select_near_misses, verify
from dedup.stages.exchange import Counters, meet
from dedup.stages.placement import Meeting
from dedup.tables import schemas
from tests import oracles
from tests.stages import draw_ids, make_sets, make_table, rows, settings, shingles, unpack

TEXTS = {
    5: "The quick brown fox jumps over the lazy dog.",
    -5: "",
    2**63 - 1: "two words",
    -(2**63): "again again again again again again again 漢字かな",
    7: "Äpfel und ﬁsche, " * 9,
}


def draw_sets(seed, documents=16):
    """Return random sets, some of them near copies of others, under ids from the whole range."""
    chance = random.Random(seed)
    ids = draw_ids(chance, documents)
    sets = {}
    for doc_id in ids:
        if sets and chance.random() < 0.7:
            members = set(chance.choice(list(sets.values())))
            members -= set(chance.sample(sorted(members), min(len(members) - 1, chance.randint(0, 3))))
        else:
            members = {chance.randrange(2**64)}
        sets[doc_id] = frozenset(members | {chance.randrange(2**64) for _ in range(chance.choice([0, 0, 1, 4]))})
    return sets


def pair_up(spark, pairs, partitions=3):
    return make_table(spark, [(*pair, None) for pair in pairs], schemas.CANDIDATES).repartition(partitions)


def expect(sets, pairs, threshold):
    similar = oracles.similar_pairs(sets, threshold)
    return sorted(((*pair, float(similar[pair])) for pair in pairs if pair in similar), key=repr)


@pytest.mark.parametrize("broadcast", [True, False])
def test_sets_are_made_of_the_wanted_documents_alone(spark, monkeypatch, broadcast):
    documents = spark.createDataFrame(
        [(doc_id, str(doc_id), text.encode()) for doc_id, text in TEXTS.items()], "doc_id long, id string, text binary"
    ).repartition(2)
    monkeypatch.setattr(dedup.stages.exchange, "PIECE_BYTES", 20)

    for wanted in ([7, -5, 2**63 - 1], [*TEXTS]):
        # An id that is wanted twice is of one set.
        ids = spark.createDataFrame([(doc_id,) for doc_id in [*wanted, wanted[0]]], "doc_id long")
        table = collect_sets(
            Rows(documents=documents),
            documents,
            ids,
            tokenizer=UnicodeWords(seed=3),
            shingle_size=4,
            broadcast=broadcast,
        )
        found = [(row.doc_id, unpack(row.shingles)) for row in table.collect()]
        assert sorted(found) == sorted((doc_id, shingles(TEXTS[doc_id], 4, 3)) for doc_id in wanted)


@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_edges_are_the_pairs_that_reach_the_threshold(spark, threshold):
    sets = draw_sets(1, documents=30)
    pairs = list(combinations(sorted(sets), 2))
    expected = expect(sets, pairs, threshold)
    assert len(expected) > 0

    found = rows(
        verify(
            pair_up(spark, pairs),
            make_sets(spark, sets),
            threshold=threshold,
            meeting=Meeting(groups=2, broadcast=True, whole=True),
        )
    )

    assert found == expected
    assert threshold > 0 or len(found) == len(pairs)


# 7 / 10 and the like: a quotient of integers is the double nearest to it, and so is the threshold's literal.
@pytest.mark.parametrize(("threshold", "shared", "whole"), [(0.55, 11, 20), (0.8, 4, 5)])
def test_a_pair_at_the_threshold_is_an_edge(spark, threshold, shared, whole):
    sets = {1: range(whole), 2: range(shared), 3: range(shared - 1)}

    found = verify(
        pair_up(spark, [(1, 2), (1, 3)]),
        make_sets(spark, sets),
        threshold=threshold,
        meeting=Meeting(groups=1, broadcast=True, whole=True),
    )

    assert rows(found) == [(1, 2, threshold)]


@pytest.mark.parametrize(("groups", "broadcast"), [(1, False), (2, True), (5, False)])
def test_the_way_to_the_meeting_changes_nothing(spark, groups, broadcast):
    sets = draw_sets(2)
    chance = random.Random(3)
    pairs = chance.sample(list(combinations(sorted(sets), 2)), 60)

    # Batches of two rows: some hold only pairs, some only sets. A pair or a set that comes twice counts once.
    table = make_sets(spark, sets)
    table = table.unionByName(table.limit(5))
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 2}):
        found = verify(
            pair_up(spark, [*pairs, *pairs[:20]]),
            table,
            threshold=0.4,
            meeting=Meeting(groups=groups, broadcast=broadcast, whole=broadcast),
        )
        assert rows(found) == expect(sets, pairs, 0.4)


def test_near_misses_are_the_closest_below_the_threshold_however_many_cells_there_are(spark):
    sets, threshold = draw_sets(4, documents=30), 0.6
    pairs = list(combinations(sorted(sets), 2))
    exact = {pair: float(oracles.jaccard(sets[pair[0]], sets[pair[1]])) for pair in pairs}
    below = [pair for pair in pairs if threshold > exact[pair] >= threshold - NEAR_MISS]
    expected = set()
    for doc_id in sets:
        own = sorted((pair for pair in below if doc_id in pair), key=lambda pair: (-exact[pair], pair))
        expected |= set(own[:CLOSEST])
    # Some documents have more than the closest, which therefore are chosen.
    assert 10 < len(expected) < len(below)
    counters = Counters(spark)

    compared = verify(
        pair_up(spark, pairs),
        make_sets(spark, sets),
        threshold=threshold,
        meeting=Meeting(groups=3, broadcast=True, whole=True),
        near_misses=True,
        counters=counters,
    ).persist()

    told = sorted(((*pair, exact[pair]) for pair in expected), key=repr)
    assert rows(select_near_misses(compared, threshold=threshold)) == told
    collected = collect_near_misses(compared, threshold=threshold)
    assert [tuple(row.values()) for row in collected.to_pylist()] == sorted(told)
    assert rows(select_edges(compared, threshold=threshold)) == expect(sets, pairs, threshold)
    counted = Counter(min(int(oracles.jaccard(sets[left], sets[right]) * BINS), BINS - 1) for left, right in pairs)
    assert counters.values() == {"similarities": {str(number): counted[number] for number in counted}}


def test_a_similarity_at_a_bound_is_in_the_bin_above_it(spark):
    counters = Counters(spark)
    sets = {-1: range(BINS), **{numerator: range(numerator) for numerator in range(BINS + 1)}}

    verify(
        pair_up(spark, [(-1, numerator) for numerator in range(BINS + 1)]),
        make_sets(spark, sets),
        threshold=0.0,
        meeting=Meeting(groups=1, broadcast=True, whole=True),
        counters=counters,
    ).collect()

    assert counters.values() == {"similarities": {str(n): 2 if n == BINS - 1 else 1 for n in range(BINS)}}


def test_no_candidate_gives_no_edge(spark):
    sets = make_sets(spark, {1: [1], 2: [1]})

    assert (
        rows(verify(pair_up(spark, []), sets, threshold=0.8, meeting=Meeting(groups=3, broadcast=True, whole=True)))
        == []
    )


@pytest.mark.parametrize("groups", [1, 5])
def test_a_document_travels_once_to_each_cell_of_its_group(spark, groups):
    ids = list(range(80))
    pairs = list(combinations(ids[:-10], 2))
    payload = spark.createDataFrame([(doc_id, f"payload {doc_id}") for doc_id in ids], "doc_id long, load string")
    source = spark.createDataFrame(pairs, "left_id long, right_id long").repartition(4)

    def pairs_of(batch):
        yield batch["left_id"].to_numpy(), batch["right_id"].to_numpy()

    def compare(documents, pairs, numbers):
        loads = documents["load"].to_pylist()
        for ends, places in zip(pairs, numbers, strict=True):
            assert [loads[place] for place in places] == [f"payload {doc_id}" for doc_id in ends]
        arrived = np.concatenate((documents["doc_id"].to_numpy(), np.full(1, -pairs[0].size)))
        return pa.record_batch({"arrived": arrived})

    met = meet(
        source,
        pairs_of,
        payload,
        compare,
        T.StructType().add("arrived", "long"),
        meeting=Meeting(groups=groups, broadcast=False, whole=False),
    )
    found = [row.arrived for row in met.collect()]

    # Everyone meets everyone, so a document goes to all cells of its group; one without a pair goes nowhere.
    assert Counter(number for number in found if number >= 0) == dict.fromkeys(ids[:-10], groups)
    cells = [-number for number in found if number < 0]
    assert sum(cells) == len(pairs)
    assert len(cells) == groups * (groups + 1) // 2


def test_a_document_without_its_set_is_no_other(spark):
    sets = make_sets(spark, {1: range(9), 3: range(9)})

    with pytest.raises(PythonException, match=r"must have a payload \(got none of 2\)"):
        verify(
            pair_up(spark, [(1, 2)]), sets, threshold=0.8, meeting=Meeting(groups=1, broadcast=True, whole=True)
        ).collect()
