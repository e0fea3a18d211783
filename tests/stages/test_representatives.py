"""Who is kept of a component, and how the others resemble the one that is."""

import pytest

from dedup import schemas
from dedup.stages.representatives import elect, explain, find_distant, list_members
from tests.stages import make_signatures, rows


def make_members(spark, kind, documents):
    """Return MEMBERS of (doc_id, id, set_id, component_id)."""
    return spark.createDataFrame(documents, f"doc_id long, id {kind}, set_id long, component_id long").repartition(3)


@pytest.mark.parametrize(
    ("kind", "components"),
    [
        ("long", [[9, 10], [-1, 2, 100], [-(2**63), 2**63 - 1]]),
        ("tinyint", [[9, 10], [-100, 2]]),
        ("string", [["10", "9"], ["B", "a"], ["z", "é"], ["", "0"], ["a", "ab"], ["￿", "😀"]]),
    ],
)
def test_the_smallest_id_in_the_users_own_order_is_kept(spark, kind, components):
    # Document ids run against the order of the ids.
    documents = [
        (number * 10 - place, each, number * 10 - place, number)
        for number, ids in enumerate(components)
        for place, each in enumerate(ids)
    ]

    found = elect(make_members(spark, kind, documents), policy="smallest_id").collect()

    assert {row.component_id: row.representative.id for row in found} == {
        number: ids[0] for number, ids in enumerate(components)
    }
    assert sorted(row.doc_id for row in found) == sorted(
        doc_id for doc_id, each, _, number in documents if each != components[number][0]
    )


def test_members_are_the_ends_of_edges_and_the_documents_of_their_sets(spark):
    signatures = make_signatures(
        spark, [(doc_id, -doc_id, 1, 0, 0, b"") for doc_id in (1, 2, 2, 3, 4, 5, 5, 6, 7, 7, 8)], partitions=3
    )
    components = spark.createDataFrame([(1, 1), (2, 1)], schemas.COMPONENTS)
    identical = spark.createDataFrame([(3, 2), (5, 4), (6, 4)], schemas.IDENTICAL)

    members = list_members(components, identical, signatures)

    # 3 joins the component of its set; 4, 5, 6 have one of their own; rows of one id (2, 5) are one document.
    assert rows(members) == [(1, -1, 1, 1), (2, -2, 2, 1), (3, -3, 2, 1), (4, -4, 4, 4), (5, -5, 4, 4), (6, -6, 4, 4)]


def test_each_duplicate_is_explained_by_its_similarity_to_the_one_kept(spark):
    documents = [
        # A chain of sets 10 - 20 - 30 whose representative is a copy of the last set.
        (10, "m", 10, 10),
        (11, "l", 10, 10),
        (20, "k", 20, 10),
        (30, "z", 30, 10),
        (31, "c", 30, 10),
        # Copies without an edge.
        (40, "b", 40, 40),
        (41, "a", 40, 40),
        (42, "é", 40, 40),
        # Two sets, the greater one kept.
        (50, "y", 50, 50),
        (60, "x", 60, 50),
    ]
    edges = [(10, 20, 0.9), (20, 30, 0.85), (50, 60, 0.8)]
    elected = elect(make_members(spark, "string", documents), policy="smallest_id")
    edges = spark.createDataFrame(edges, schemas.EDGES)

    distant = find_distant(elected, edges)
    measured = distant.selectExpr("left_id", "right_id", "0.75D AS jaccard")
    duplicates = explain(elected, edges, measured)

    # Both documents of set 10 need one comparison.
    assert rows(distant) == [(10, 30)]
    assert duplicates.columns == schemas.duplicates(elected.schema["id"].dataType).names
    assert rows(duplicates) == [
        (10, "m", "c", 10, "near", 0.75),
        (11, "l", "c", 10, "near", 0.75),
        (20, "k", "c", 10, "near", 0.85),
        (30, "z", "c", 10, "identical", 1.0),
        (40, "b", "a", 40, "identical", 1.0),
        (42, "é", "a", 40, "identical", 1.0),
        (50, "y", "x", 50, "near", 0.8),
    ]
