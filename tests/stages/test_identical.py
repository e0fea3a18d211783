"""Documents of one shingle set."""

from dedup.stages.identical import find_identical, select_heads
from tests.stages import make_signatures, rows


def sign(spark, documents):
    """Return SIGNATURES of (doc_id, shingle_count, digest_high, digest_low)."""
    return make_signatures(spark, [(doc_id, doc_id, *rest, b"") for doc_id, *rest in documents], partitions=3)


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

    identical = find_identical(signatures)

    assert rows(identical) == sorted([(10, -5), (9, -5), (2**62, -5), (21, 20)], key=repr)
    assert sorted(row.doc_id for row in select_heads(signatures, identical).collect()) == [-5, 11, 12, 20]


def test_documents_without_a_shingle_are_identical_to_none_and_head_no_set(spark):
    signatures = sign(spark, [(1, 0, 7, 7), (2, 0, 7, 7), (3, 1, 8, 8)])

    identical = find_identical(signatures)

    assert rows(identical) == []
    assert [row.doc_id for row in select_heads(signatures, identical).collect()] == [3]


def test_rows_of_one_id_are_one_document(spark):
    """Wholly equal rows without an id column share their id."""
    signatures = sign(spark, [*[(1, 2, 5, 5)] * 2, *[(2, 2, 5, 5)] * 3, *[(3, 2, 6, 6)] * 2])

    identical = find_identical(signatures)

    assert rows(identical) == [(2, 1)]
    assert {row.doc_id for row in select_heads(signatures, identical).collect()} == {1, 3}
