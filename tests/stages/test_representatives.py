"""Who is kept of a component, and how the others resemble the one that is."""

import json

import pytest
from pyspark.sql import types as T

from dedup.kernels.election import Policy
from dedup.stages import representatives
from dedup.stages.exchange import Counters
from dedup.stages.representatives import Choice, find_distant, measure, select_removals
from dedup.tables import schemas
from tests.stages import make_signatures, make_table, rows, settings

KINDS = {"long": T.LongType(), "tinyint": T.ByteType(), "string": T.StringType()}


BY_ID = Choice(rules=[("smallest_id", "")], policy=Policy(0.8), per_source=0)


def explain(spark, documents, edges=(), *, kind="string", times=1, choice=BY_ID, **way):
    """Return MEMBERS and what is counted, for (doc_id, id, set_id, component_id); 7777 resembles nobody."""
    signed = [(doc_id, each, 1, 0, 0) for doc_id, each, _, _ in documents] * times
    counters = Counters(spark)
    # In batches of two rows: some hold members only, some edges only.
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 2}):
        placed = representatives.place(
            make_table(spark, [(row[0], row[3]) for row in documents], schemas.COMPONENTS).repartition(2),
            make_table(spark, [(row[0], row[2]) for row in documents if row[0] != row[2]], schemas.IDENTICAL),
            make_signatures(spark, [*signed, (7777, None, 1, 0, 0)], KINDS[kind], partitions=3),
            make_table(spark, list(edges), schemas.EDGES).repartition(2),
            **way,
        )
        members = representatives.join_members(placed, choice=choice, counters=counters)
        found = spark.createDataFrame(members.toArrow(), members.schema)
    assert members.schema == schemas.members(KINDS[kind])
    return found, counters.values()


@pytest.mark.parametrize(
    ("kind", "components", "partitions", "broadcast"),
    [
        ("long", [[9, 10], [-1, 2, 100], [-(2**63), 2**63 - 1]], 1, True),
        ("tinyint", [[9, 10], [-100, 2]], 3, True),
        ("string", [["10", "9"], ["B", "a"], ["z", "é"], ["", "0"], ["a", "ab"], ["￿", "😀"]], 3, False),
    ],
)
def test_the_smallest_id_in_the_users_own_order_is_kept(spark, kind, components, partitions, broadcast):
    # Document ids run against the order of the ids.
    documents = [
        (number * 10 - place, each, number * 10 - place, number)
        for number, ids in enumerate(components)
        for place, each in enumerate(ids)
    ]

    members, _ = explain(spark, documents, kind=kind, partitions=partitions, broadcast=broadcast)

    assert sorted((row.doc_id, row.id, row.representative_id, row.component_id) for row in members.collect()) == sorted(
        (doc_id, each, components[number][0], number) for doc_id, each, _, number in documents
    )
    assert rows(members.filter("kind = 'kept'").select("component_id", "id")) == [
        (number, ids[0]) for number, ids in enumerate(components)
    ]


def test_among_equal_ids_the_least_document_is_kept(spark):
    documents = [(doc_id, "a", doc_id, -9) for doc_id in (5, -9, 3)]

    members, _ = explain(spark, documents, partitions=1, broadcast=True)

    assert rows(members.filter("kind = 'kept'").select("doc_id")) == [(-9,)]
    assert {(row.left_id, row.right_id) for row in members.collect()} == {(-9, 5), (-9, -9), (-9, 3)}


CHAINED = [
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
    # Two sets, the lesser one kept.
    (70, "v", 70, 70),
    (80, "w", 80, 70),
]
EDGES = [(10, 20, 0.9), (20, 30, 0.85), (50, 60, 0.8), (70, 80, 0.95)]
KEPT = {31: "c", 41: "a", 60: "x", 70: "v"}
REMOVALS = [
    (10, "m", "near", "near", "c", "m", 0.75),
    (11, "l", "near", "near", "c", "m", 0.75),
    (20, "k", "near", "near", "c", "m", 0.85),
    (30, "z", "near", "identical", "c", "m", 1.0),
    (40, "b", "near", "identical", "a", "b", 1.0),
    (42, "é", "near", "identical", "a", "b", 1.0),
    (50, "y", "near", "near", "x", "y", 0.8),
    (80, "w", "near", "near", "v", "v", 0.95),
]


LARGEST = [
    (10, 5, [(31, "c"), (10, "m"), (11, "l"), (20, "k")]),
    (40, 3, [(41, "a"), (40, "b"), (42, "é")]),
    (50, 2, [(60, "x"), (50, "y")]),
    (70, 2, [(70, "v"), (80, "w")]),
]


@pytest.mark.parametrize(("partitions", "broadcast"), [(1, True), (3, False)])
def test_each_duplicate_is_explained_by_its_similarity_to_the_one_kept(spark, partitions, broadcast):
    members, counted = explain(spark, CHAINED, EDGES, partitions=partitions, broadcast=broadcast)

    distant = find_distant(members)
    assert counted["sizes"] == {"2": 2, "3": 1, "5": 1}
    assert sorted(map(json.loads, counted["largest"]), key=lambda one: one["doc_id"]) == [
        {
            "documents": size,
            "doc_id": least,
            "component_id": dict(examples)[least],
            "examples": [{"doc_id": doc_id, "id": user_id} for doc_id, user_id in examples],
        }
        for least, size, examples in LARGEST
    ]
    assert rows(members.filter("jaccard IS NULL").select("doc_id")) == [(10,), (11,)]
    # Both documents of set 10 need one comparison.
    assert distant.columns == ["left_id", "right_id"]
    assert rows(distant) == [(10, 30)]

    measured = measure(members, distant.selectExpr("left_id", "right_id", "0.75D AS jaccard"))
    removals = select_removals(measured, layer="near")
    assert measured.columns == members.columns
    assert removals.columns == schemas.removals(T.StringType()).names
    assert rows(removals) == REMOVALS
    kept = measured.filter("kind = 'kept'").select("doc_id", "id", "representative_id", "jaccard")
    assert rows(kept) == [(doc_id, each, each, 1.0) for doc_id, each in KEPT.items()]


def test_rows_of_one_id_are_one_document(spark):
    """Wholly equal rows without an id column share their id."""
    once = explain(spark, CHAINED, EDGES, partitions=3, broadcast=False)
    thrice = explain(spark, CHAINED, EDGES, times=3, partitions=3, broadcast=False)

    assert rows(thrice[0]) == rows(once[0])
    assert len(rows(once[0])) == len(CHAINED)
    assert thrice[1] == once[1]


def test_the_largest_components_are_told_wherever_they_lie(spark):
    sizes = [2, 7, 2, 3, 2, 4, 2, 6, 5]
    documents = [
        (100 * number + i, f"{i}", 100 * number, 100 * number) for number, n in enumerate(sizes) for i in range(n)
    ]

    _, counted = explain(spark, documents, partitions=3, broadcast=True)

    told = sorted((one["documents"] for one in map(json.loads, counted["largest"])), reverse=True)
    assert told[:5] == [7, 6, 5, 4, 3]
    assert len(told) <= 5 * 3


def test_no_component_has_no_member(spark):
    members, counted = explain(spark, [], partitions=3, broadcast=True)

    assert (rows(members), counted) == ([], {})
