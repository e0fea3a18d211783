"""Documents of one shingle set, and ids of several rows."""

import random
from collections import Counter

import pytest

from dedup.stages.identical import find_shared, select_heads, select_identical, select_repeated
from dedup.tables import schemas
from tests.stages import draw_ids, make_signatures, rows, settings


def sign(spark, documents):
    """Return SIGNATURES of (doc_id, shingle_count, digest_high, digest_low)."""
    return make_signatures(spark, [(doc_id, doc_id, *rest) for doc_id, *rest in documents], partitions=3)


def find(signatures, partitions=3):
    """Return IDENTICAL and REPEATED."""
    # Both, and the heads, are selected of it.
    shared = signatures.sparkSession.createDataFrame(find_shared(signatures, partitions=partitions).toArrow())
    return select_identical(shared), select_repeated(shared)


def test_every_copy_points_to_the_least_id_of_its_set(spark):
    signatures = sign(
        spark,
        [
            *[(doc_id, 4, 1, 1) for doc_id in (10, 9, -5, 2**62)],
            # Either half of the digest tells sets apart.
            (11, 4, 1, 2),
            (12, 4, 2, 1),
            *[(doc_id, 1, -1, -1) for doc_id in (21, 20)],
        ],
    )

    identical, repeated = find(signatures)

    assert identical.columns == schemas.IDENTICAL.names
    assert rows(identical) == sorted([(10, -5), (9, -5), (2**62, -5), (21, 20)], key=repr)
    assert rows(repeated) == []
    assert sorted(row.doc_id for row in select_heads(signatures, identical).collect()) == [-5, 11, 12, 20]


@pytest.mark.parametrize(("partitions", "batch"), [(1, 4096), (7, 5)])
def test_sets_and_rows_meet_wherever_they_come_from(spark, partitions, batch):
    chance = random.Random(6)
    digests = [(chance.choice([-(2**63), -1, 5]), half) for half in draw_ids(chance, 30)]
    documents = [(doc_id, 3, *chance.choice(digests)) for doc_id in draw_ids(chance, 80)]
    documents += documents[:9] + documents[:4]
    sets = {}
    for doc_id, _, *digest in documents:
        sets.setdefault(tuple(digest), set()).add(doc_id)
    copies = [(doc_id, min(ids)) for ids in sets.values() for doc_id in ids if doc_id != min(ids)]
    several = [(doc_id, count) for doc_id, count in Counter(row[0] for row in documents).items() if count > 1]

    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": batch}):
        identical, repeated = map(rows, find(sign(spark, documents), partitions))

    assert identical == sorted(copies, key=repr)
    assert repeated == sorted(several, key=repr)


def test_documents_without_a_shingle_are_identical_to_none_and_head_no_set(spark):
    signatures = sign(spark, [(1, 0, 7, 7), (2, 0, 7, 7), (2, 0, 7, 7), (3, 1, 8, 8)])

    identical, repeated = find(signatures)

    assert rows(identical) == []
    assert rows(repeated) == [(2, 2)]
    assert [row.doc_id for row in select_heads(signatures, identical).collect()] == [3]


def test_rows_of_one_id_are_one_document_and_counted(spark):
    """Wholly equal rows without an id column share their id."""
    signatures = sign(spark, [*[(1, 2, 5, 5)] * 2, *[(2, 2, 5, 5)] * 3, *[(3, 2, 6, 6)] * 2, (4, 2, 7, 7)])

    identical, repeated = find(signatures)

    assert rows(identical) == [(2, 1)]
    assert repeated.columns == schemas.REPEATED.names
    assert rows(repeated) == [(1, 2), (2, 3), (3, 2)]
    assert {row.doc_id for row in select_heads(signatures, identical).collect()} == {1, 3, 4}


def test_an_id_is_repeated_whatever_its_rows_hold(spark):
    assert rows(find(sign(spark, [(3, 2, 1, 1), (3, 2, 9, 9), (4, 2, 9, 8), (3, 0, 0, 0)]))[1]) == [(3, 3)]


def test_null_ids_are_left_out(spark):
    identical, repeated = find(sign(spark, [(None, 2, 5, 5), (None, 2, 5, 5), (1, 2, 5, 5), (2, 2, 5, 5)]))

    assert (rows(identical), rows(repeated)) == ([(2, 1)], [])


def test_nothing_shared_is_nothing_found(spark):
    alone = sign(spark, [(1, 2, 5, 5), (2, 2, 6, 6)])

    for signatures in (alone, alone.limit(0)):
        assert [rows(found) for found in find(signatures)] == [[], []]
