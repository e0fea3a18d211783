"""EDGES, IDENTICAL -> COMPONENTS."""

import contextlib
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedup.display import size
from dedup.engine import sessions
from dedup.engine.engine import Batches
from dedup.engine.exchange import gather
from dedup.engine.machine import free_bytes
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import Build, Ending, end
from dedup.errors import ComponentError
from dedup.kernels.components import DRIVER_EDGES, connect
from dedup.tables import arrow

LOG = logging.getLogger("dedup")

EDGE_BYTES = 128
"""Memory of an edge while the driver connects a forest: 98 measured, beside the 16 that it is."""
PAIRS = arrow.integers("left_id", "right_id")


class Connecting(NamedTuple):
    """Settings of the search for components."""

    engine: str
    """"driver", "graphframes", or "auto": the driver for forests of up to DRIVER_EDGES edges."""
    checkpoints: str
    """Folder for GraphFrames' own."""


class KeepTable(Protocol):
    """Keeps a table, with what is known of it besides."""

    def __call__(
        self, name: str, schema: pa.Schema, build: Build, /, *, tally: Mapping[str, Any] | None = None
    ) -> SparkRows:
        """Return the table."""


def connect_links(name: str, links: SparkRows, count: int, keep: KeepTable, connecting: Connecting) -> SparkRows:
    """Keep COMPONENTS of so many links under a name; their tally says which engine made them.

    Raises
    ------
    ComponentError
        When GraphFrames is required and missing, or missing where the driver lacks memory, or its result contradicts
        the links.
    """
    engine, checkpoints = connecting
    spark, forest = links.session, links
    is_contracted = engine == "graphframes" or count > DRIVER_EDGES
    if is_contracted:
        forest = keep(f"{name}_forest", PAIRS, partial(contract, links))
        assert forest.count is not None
        count = forest.count
    wanted = choose_engine(engine, count)
    chosen = available_engine(spark, wanted, required=engine == "graphframes")
    if chosen != wanted:
        check_memory(count, free_bytes())
        LOG.warning("GraphFrames' classes are missing (see scripts/jars): the driver connects %s edges", f"{count:,}")
    own = partial(keep, name, arrow.COMPONENTS, tally={"engine": chosen})
    if chosen == "driver":
        return own(lambda ending: end(connect_on_driver(forest), ending))
    with sessions.checkpointed(spark, checkpoints), contextlib.ExitStack() as cached:
        connected = own(lambda ending: end(connect_with_graphframes(forest.frame, cached), ending))
    check_components(links.frame, connected.frame)
    return connected


def check_memory(edge_count: int, free: int) -> None:
    """Refuse a forest that is too large for the driver, which is to connect it for want of GraphFrames.

    Raises
    ------
    ComponentError
    """
    needed = edge_count * EDGE_BYTES
    if needed > free:
        raise ComponentError(
            f"components: {edge_count:,} edges must have {size(needed)} of the driver free (got {size(free)}); "
            "GraphFrames takes any number: run scripts/jars, or give a server of Spark Connect its plugin"
        )


def contract(links: SparkRows, ending: Ending) -> DataFrame:
    """Links -> the edges of a forest with the same components as those of each partition; no shuffle.

    In a cluster of n copies n^2 / 2 edges say no more than n - 1.
    """

    def shrink(batches: Batches) -> Batches:
        table = gather(batches)
        if table is None:
            return
        ids, component_ids = connect(table["left_id"].to_numpy(), table["right_id"].to_numpy())
        inner = ids != component_ids
        yield pa.record_batch({"left_id": component_ids[inner], "right_id": ids[inner]})

    return links.select("left_id", "right_id").mapInArrow(ending(shrink), ending.schema)


def choose_engine(engine: str, edge_count: int) -> str:
    """Return the engine for a forest of so many edges: `auto` takes the driver up to DRIVER_EDGES."""
    if engine != "auto":
        return engine
    return "driver" if edge_count <= DRIVER_EDGES else "graphframes"


def available_engine(spark: SparkSession, engine: str, *, required: bool) -> str:
    """Return the engine, or the driver where GraphFrames is missing and it is not required.

    Raises
    ------
    ComponentError
        When it is.
    """
    if engine == "driver" or sessions.has_graphframes(spark):
        return engine
    if not required:
        return "driver"
    raise ComponentError(
        'components.engine: "graphframes" must find its classes in Spark and be installed as graphframes-py (it does '
        "or is not); run scripts/jars, pass its jar with --jars, give a server of Spark Connect its plugin, or set "
        'components.engine = "driver"'
    )


def connect_on_driver(links: SparkRows) -> DataFrame:
    """Links -> COMPONENTS with scipy: 16 bytes of driver memory per link, and a few times that at its peak."""
    table = links.select("left_id", "right_id").collect()
    ids, component_ids = connect(table["left_id"].to_numpy(), table["right_id"].to_numpy())
    components = pa.table({"doc_id": ids, "component_id": component_ids})
    return sessions.to_frame(links.session, components)


def connect_with_graphframes(forest: DataFrame, cached: contextlib.ExitStack) -> DataFrame:
    """Forest -> COMPONENTS with GraphFrames, whatever the size; shuffles the forest a few times.

    Needs a checkpoint folder set on the SparkContext. What GraphFrames caches is given up when `cached` closes.
    """
    from graphframes import GraphFrame  # noqa: PLC0415 - the driver engine needs neither the package nor its jar

    edges = forest.select(F.col("left_id").alias("src"), F.col("right_id").alias("dst")).distinct()
    ends = edges.select(F.explode(F.array("src", "dst")).alias("id")).distinct()
    found: DataFrame = GraphFrame(ends, edges).connectedComponents(algorithm="graphframes")
    cached.callback(found.unpersist)
    # The least id is GraphFrames' label for 64-bit ids today; the minimum holds it to that whatever its release.
    least = found.groupBy("component").agg(F.min("id").alias("component_id"))
    return found.join(least, on="component", how="inner").select(F.col("id").alias("doc_id"), "component_id")


def find_parted(pairs: DataFrame, components: DataFrame) -> DataFrame:
    """Return the pairs (left_id, right_id, ...) whose ends do not share a component; shuffles both."""
    left = components.select(F.col("doc_id").alias("left_id"), F.col("component_id").alias("left_component"))
    right = components.select(F.col("doc_id").alias("right_id"), F.col("component_id").alias("right_component"))
    joined = pairs.join(left, on="left_id", how="left").join(right, on="right_id", how="left")
    return joined.filter(~F.equal_null("left_component", "right_component") | F.col("left_component").isNull())


def check_components(links: DataFrame, components: DataFrame) -> None:
    """Make sure that both ends of every link share a component.

    Raises
    ------
    ComponentError
        When ends of edges lie apart, with their number and one of them: the engine's result is wrong.
    """
    [parted] = (
        find_parted(links, components)
        .agg(F.count(F.lit(1)).alias("count"), F.first("left_id").alias("left"), F.first("right_id").alias("right"))
        .collect()
    )
    if parted["count"]:
        raise ComponentError(
            f"components: both ends of every edge must share a component (got {parted['count']:,} edges that do not, "
            f"such as {parted['left']} - {parted['right']}); nothing was published: rerun with another engine"
        )
