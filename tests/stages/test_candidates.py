"""Pairs of buckets, the filters they pass, and what is counted."""

import random
from functools import partial
from itertools import combinations

import pytest

from dedup.kernels.curve import least_estimate
from dedup.kernels.sets import lsh
from dedup.stages.candidates import pair_documents
from dedup.stages.exchange import Counters
from dedup.stages.placement import Meeting
from dedup.tables import schemas
from tests.stages import draw_ids, low_bytes, make_signatures, make_table, pack, rows, settings

SIZE = 16
DEFAULTS = {
    "threshold": 0.8,
    "signature_size": SIZE,
    "estimate_sigmas": None,
    "pairs_of": partial(lsh.pairs, max_bucket=None, most=1 << 20),
    "meeting": Meeting(groups=2, broadcast=True, whole=False),
}


def pair(spark, buckets, documents, **changes):
    """Return candidates and counts for buckets, as lists of ids, and documents, as id -> (shingles, signature)."""
    table = make_table(
        spark, [(number, len(ids), pack(sorted(ids), "<i8")) for number, ids in enumerate(buckets)], schemas.BUCKETS
    )
    signed = [(doc_id, doc_id, count, 0, 0, b"", low_bytes(values)) for doc_id, (count, values) in documents.items()]
    # Equal rows without an id column are one document that comes several times.
    signed += signed[:3]
    counters = Counters(spark)
    found = pair_documents(
        table.repartition(3), make_signatures(spark, signed), **{**DEFAULTS, **changes}, counters=counters
    )
    return rows(found), {**counts(0, 0), **counters.values()}


def alike(ids, count=10):
    return {doc_id: (count, [0] * SIZE) for doc_id in ids}


def counts(distinct, after_length):
    return {"pairs_distinct": distinct, "pairs_after_length": after_length}


@pytest.mark.parametrize(("groups", "broadcast"), [(1, False), (2, True), (5, False)])
def test_every_pair_of_a_bucket_comes_once_with_its_estimate_wherever_it_meets(spark, groups, broadcast):
    chance = random.Random(4)
    ids = draw_ids(chance, 20)
    buckets = [chance.sample(ids, chance.randint(2, 6)) for _ in range(20)]
    pairs = {tuple(sorted(ends)) for bucket in buckets for ends in combinations(bucket, 2)}
    assert len(pairs) < sum(len(bucket) * (len(bucket) - 1) // 2 for bucket in buckets)
    # Values that differ above the lowest byte agree in the estimate.
    drawn = {doc_id: (10, [chance.choice([0, 1, 256]) for _ in range(SIZE)]) for doc_id in ids}
    # A document outside all buckets meets nobody.
    drawn[next(number for number in range(100) if number not in ids)] = (10, [0] * SIZE)
    expected = []
    for left, right in sorted(pairs, key=repr):
        shared = sum(a % 256 == b % 256 for a, b in zip(drawn[left][1], drawn[right][1], strict=True)) / SIZE
        expected.append((left, right, pytest.approx((shared - 1 / 256) / (1 - 1 / 256))))

    # In batches of three rows: some hold pairs only, some documents only, some both.
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 3}):
        found, counted = pair(
            spark,
            buckets,
            drawn,
            estimate_sigmas=99.0,
            meeting=Meeting(groups=groups, broadcast=broadcast, whole=broadcast),
        )

    assert found == expected
    assert counted == counts(len(pairs), len(pairs))


def test_without_an_estimate_there_is_none(spark):
    found, counted = pair(spark, [[1, 2, 3], [3, 4]], {number: (10, [number] * SIZE) for number in range(1, 5)})

    assert found == [(1, 2, None), (1, 3, None), (2, 3, None), (3, 4, None)]
    assert counted == counts(4, 4)


def test_sizes_alone_rule_a_pair_out_only_when_they_must(spark):
    # 0.55 x 20 is 11.000000000000002 and 0.55 x 100 is 55.00000000000001: the product's error must not cost a pair.
    threshold, possible, impossible = 0.55, [(11, 20), (100, 55), (1, 1)], [(100, 54), (10, 20), (1, 2)]
    buckets = [[2 * number, 2 * number + 1] for number in range(len(possible + impossible))]
    sizes = [size for sizes in possible + impossible for size in sizes]

    found, counted = pair(
        spark, buckets, {number: (size, [0] * SIZE) for number, size in enumerate(sizes)}, threshold=threshold
    )

    assert sorted(row[0] // 2 for row in found) == list(range(len(possible)))
    assert counted == counts(len(buckets), len(possible))


def test_a_pair_is_dropped_once_its_estimate_is_too_many_errors_below(spark):
    sigmas = 1.0
    base = [0] * SIZE
    documents = {number: (10, [1] * number + base[number:]) for number in range(SIZE + 1)}
    floor = least_estimate(0.8, SIZE, sigmas)
    agreeing = [number for number in range(1, SIZE + 1) if ((SIZE - number) / SIZE - 1 / 256) / (1 - 1 / 256) >= floor]
    buckets = [[0, number] for number in range(1, SIZE + 1)]
    # The length filter comes first, so what it drops counts there, and the places of the others move up.
    documents[-1] = (1, base)

    found, counted = pair(spark, [*buckets, [0, -1]], documents, estimate_sigmas=sigmas)

    assert sorted(row[1] for row in found) == agreeing
    assert 0 < len(agreeing) < SIZE
    assert counted == counts(SIZE + 1, SIZE)


def test_a_hot_bucket_gives_every_member_its_share_of_partners(spark):
    hot, ordinary = range(40), range(100, 107)

    found, counted = pair(
        spark, [hot, ordinary], alike([*hot, *ordinary]), pairs_of=partial(lsh.pairs, max_bucket=7, most=1 << 20)
    )

    assert [row[:2] for row in found if row[0] >= 100] == list(combinations(ordinary, 2))
    partners = [end for row in found if row[0] < 100 for end in row[:2]]
    assert all(partners.count(member) == 6 for member in hot)
    assert counted == counts(40 * 3 + 21, 40 * 3 + 21)


def test_no_bucket_gives_no_candidate(spark):
    assert pair(spark, [], alike([1, 2]), estimate_sigmas=4.0) == ([], counts(0, 0))
