"""Components against union-find, whichever engine, and the check that would catch an engine's fault.

What needs GraphFrames' classes fails where they are there and do not work. Where scripts/jars could not fetch them,
only these tests are left out, and scripts/test says so.
"""

import contextlib
import itertools
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine import components, sessions
from dedup.engine.components import (
    Connecting,
    available_engine,
    check_components,
    check_memory,
    choose_engine,
    connect_links,
    connect_on_driver,
    connect_with_graphframes,
    contract,
)
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Uncounted
from dedup.errors import ComponentError
from dedup.tables import arrow
from tests import oracles
from tests.engine.tables import draw_ids, make_table, rows


def connect_and_clear(forest):
    with contextlib.ExitStack() as cached:
        found = connect_with_graphframes(forest, cached)
        return forest.sparkSession.createDataFrame(found.collect(), found.schema)


ENGINES = [
    pytest.param(lambda forest: connect_on_driver(SparkRows.of(forest)), id="driver"),
    pytest.param(connect_and_clear, id="graphframes"),
]


def draw_edges(seed):
    """Return a chain of 60, a hub of 40, and random graphs, under ids from the whole range, in no order."""
    chance = random.Random(seed)
    ids = draw_ids(chance, 300)
    chain, hub, rest = ids[:60], ids[60:100], ids[100:]
    edges = list(itertools.pairwise(chain)) + [(hub[0], end) for end in hub[1:]]
    for start in range(0, len(rest), 20):
        edges += [tuple(chance.sample(rest[start : start + 20], 2)) for _ in range(chance.choice([5, 15, 60]))]
    # A small component, and two whose least ids are neighbours beyond 2^53.
    edges += [(1, 2), (2**60, 2**60 + 2), (2**60 + 1, 2**60 + 3)]
    chance.shuffle(edges)
    return sorted({tuple(sorted(edge)) for edge in edges}, key=lambda _: chance.random())


def as_edges(spark, edges, partitions=3):
    return make_table(spark, [(*edge, 0.9) for edge in edges], arrow.EDGES).repartition(partitions)


def connect(links, count, connecting):
    """Return COMPONENTS, held in memory, and the engine that made them."""
    made = []

    def keep(name, schema, build, *, tally=None):
        made.append((name, tally and tally["engine"]))
        kept = rows(build(Uncounted(schema=from_arrow_schema(schema))))
        table = make_table(links.sparkSession, kept, schema)
        return replace(SparkRows.of(table), tally={"rows": len(kept)})

    found = connect_links("components", SparkRows.of(links), count, keep, connecting)
    assert [name for name, _ in made] == ["components_forest", "components"]
    return found.frame, made[-1][1]


def shrink(links):
    return contract(SparkRows.of(links), Uncounted(schema=from_arrow_schema(components.PAIRS)))


def as_components(spark, places):
    return make_table(spark, list(places.items()), arrow.COMPONENTS)


@pytest.mark.parametrize("partitions", [1, 4])
def test_contraction_keeps_the_components_and_no_cycle_of_a_partition(spark, partitions):
    edges = draw_edges(1)
    expected = oracles.components(edges)

    forest = rows(shrink(as_edges(spark, edges, partitions)))

    assert oracles.components(forest) == expected
    if partitions == 1:
        assert len(forest) == len(expected) - len(set(expected.values())) < len(edges)


def test_every_vertex_gets_the_least_id_of_its_component(spark):
    """By GraphFrames: below, where it leaves the session as it was."""
    edges = draw_edges(2)

    found = connect_on_driver(SparkRows.of(shrink(as_edges(spark, edges))))

    assert found.columns == ["doc_id", "component_id"]
    assert rows(found) == sorted(oracles.components(edges).items(), key=repr)


@pytest.mark.classic
def test_rows_of_the_driver_do_not_travel_with_tasks_where_they_are_many(spark):
    """Two tasks had half of a component table each, which a driver of 1 GB could not send."""
    table = pa.table({"doc_id": np.arange(200_000), "component_id": np.arange(200_000) // 7})

    found = sessions.to_frame(spark, table)

    assert "Relation" not in found._jdf.queryExecution().optimizedPlan().toString()
    assert found.toArrow().sort_by("doc_id").equals(table)
    assert found.agg({"component_id": "max"}).collect()[0][0] == 199_999 // 7


@pytest.mark.classic
@pytest.mark.parametrize("connect", ENGINES)
def test_no_edge_makes_no_component(spark, connect):
    assert rows(connect(shrink(as_edges(spark, [])))) == []


@pytest.mark.full
def test_graphframes_leaves_the_session_as_it_was(spark, tmp_path):
    context = spark.sparkContext._jsc
    before = context.sc().checkpointDir(), spark.conf.get("spark.sql.adaptive.enabled"), {*context.getPersistentRDDs()}
    edges = draw_edges(3)

    connecting = Connecting("graphframes", str(tmp_path / "checkpoints"))
    found, engine = connect(as_edges(spark, edges), len(edges), connecting)

    assert dict(rows(found)) == oracles.components(edges)
    assert engine == "graphframes"
    assert any((tmp_path / "checkpoints").iterdir())
    after = context.sc().checkpointDir(), spark.conf.get("spark.sql.adaptive.enabled"), {*context.getPersistentRDDs()}
    assert after == before


@pytest.mark.parametrize(
    ("engine", "edge_count", "chosen"),
    [
        ("auto", 0, "driver"),
        ("auto", 100, "driver"),
        ("auto", 101, "graphframes"),
        ("driver", 101, "driver"),
        ("graphframes", 0, "graphframes"),
    ],
)
def test_auto_takes_the_driver_up_to_the_limit(monkeypatch, engine, edge_count, chosen):
    monkeypatch.setattr(components, "DRIVER_EDGES", 100)
    assert choose_engine(engine, edge_count) == chosen


@pytest.mark.classic
@pytest.mark.parametrize(("driver_edges", "engine"), [(6, "driver"), (5, "graphframes")])
def test_auto_counts_the_edges_of_the_forest(spark, tmp_path, monkeypatch, driver_edges, engine):
    monkeypatch.setattr(components, "DRIVER_EDGES", driver_edges)
    monkeypatch.setattr(
        components, "connect_with_graphframes", lambda forest, _: connect_on_driver(SparkRows.of(forest))
    )
    # 21 edges, in one partition, contract to a forest of 6.
    edges = [*itertools.combinations(range(7), 2)]

    connected = connect(as_edges(spark, edges, partitions=1), len(edges), Connecting("auto", str(tmp_path)))

    assert [connected[0].count(), connected[1]] == [7, engine]


@pytest.mark.classic
@pytest.mark.parametrize("required", [True, False])
def test_graphframes_is_found_where_its_classes_are(spark, required):
    assert sessions.has_graphframes(spark)
    assert available_engine(spark, "graphframes", required=required) == "graphframes"
    assert available_engine(spark, "driver", required=required) == "driver"


def test_without_the_classes_the_driver_stands_in_unless_graphframes_is_required(spark, monkeypatch):
    monkeypatch.setattr(sessions, "GRAPHFRAME", "org/graphframes/Missing.class")

    assert not sessions.has_graphframes(spark)
    assert available_engine(spark, "graphframes", required=False) == "driver"
    assert available_engine(spark, "driver", required=True) == "driver"
    with pytest.raises(ComponentError, match=r'"graphframes" must find its classes .*; run scripts/jars, .*"driver"'):
        available_engine(spark, "graphframes", required=True)


def test_the_driver_stands_in_for_graphframes_where_it_has_the_memory():
    check_memory(1 << 20, 128 << 20)
    with pytest.raises(ComponentError, match=r"1,048,577 edges must have .* free \(got .*\); GraphFrames"):
        check_memory((1 << 20) + 1, 128 << 20)


EDGES = [(1, 2), (2, 3), (8, 9)]
RIGHT = {1: 1, 2: 1, 3: 1, 8: 8, 9: 8}


def test_right_components_pass_the_check(spark):
    check_components(as_edges(spark, EDGES), as_components(spark, RIGHT))
    check_components(as_edges(spark, []), as_components(spark, {}))


@pytest.mark.parametrize(
    ("places", "count", "shown"),
    [
        pytest.param({**RIGHT, 9: 9}, 1, "8 - 9", id="wrong label"),
        pytest.param({**RIGHT, 2: 2}, 2, None, id="wrong label in the middle"),
        pytest.param({1: 1, 2: 1, 3: 1, 8: 8}, 1, "8 - 9", id="no right end"),
        pytest.param({1: 1, 2: 1, 3: 1, 9: 8}, 1, "8 - 9", id="no left end"),
        pytest.param({1: 1, 2: 1, 3: 1}, 1, "8 - 9", id="neither end"),
        pytest.param({}, 3, None, id="nothing"),
    ],
)
def test_wrong_components_are_refused(spark, places, count, shown):
    with pytest.raises(ComponentError, match=rf"\(got {count} edges that do not, such as {shown or ''}"):
        check_components(as_edges(spark, EDGES), as_components(spark, places))
