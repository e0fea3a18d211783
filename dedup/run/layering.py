"""The layers of a run on Spark, one after another."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.kernels.text import Contract
from dedup.layers.chain import Chain
from dedup.layers.layer import Found, NothingToSearchError
from dedup.layers.near import NearFound, NearLayer
from dedup.layers.spans import write_spans
from dedup.run.applied import Applied
from dedup.run.clock import Clock
from dedup.run.layers import make_layer, name_repeated
from dedup.settings.layers import NEAR
from dedup.settings.options import Config
from dedup.stages.layering import SparkEngine
from dedup.stages.placement import fits_broadcast
from dedup.tables import arrow
from dedup.tables.counts import Layered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """Result of all layers."""

    steps: Sequence[Layered]
    near: NearFound | None
    applied: Applied


def search(engine: SparkEngine, near: NearLayer, config: Config, contract: Contract, clock: Clock) -> Searched:
    """Run the layers of the settings."""
    chain: Chain[DataFrame] = Chain(engine=engine)
    found: NearFound | None = None
    for name in config.layers:
        rest = chain.rest(name)
        assert isinstance(rest, SparkEngine)
        if name == NEAR:
            try:
                found = near.find(rest.corpus)
            except NothingToSearchError:
                chain = chain.skip(name)
                continue
            if engine.known.register is None:
                engine.known.note(found.signatures, found.renamed, found.repeated)
            chain = chain.add(name, _to_found(found), _count(found), _list_kept(found))
        else:
            with clock.time(name):
                chain = chain.add(name, make_layer(name, config, contract).find(rest))
            clock.note(name, chain.steps[-1])
    return Searched(steps=chain.steps, near=found, applied=_apply(chain, engine, found, config))


def _to_found(found: NearFound) -> Found[DataFrame]:
    return Found(documents=found.signatures, removals=found.removals)


def _count(found: NearFound) -> Layered:
    signed, elected = found.counts.signed, found.counts.elected
    return Layered(
        layer=NEAR, documents=signed.rows, text_bytes=signed.text_bytes, tokens=signed.tokens, removed=elected.rows
    )


def _list_kept(found: NearFound) -> DataFrame:
    """Return the documents that stay for others: REMOVALS that are none."""
    kept = found.members.filter(F.col("kind") == "kept").drop("component_id")
    named = kept.withColumnRenamed("component", "component_id").withColumn("layer", F.lit(NEAR))
    return named.select(*found.removals.columns)


def _apply(chain: Chain[DataFrame], engine: SparkEngine, found: NearFound | None, config: Config) -> Applied:
    first, documents = chain.steps[0], engine.known.documents
    copies = name_repeated(config.layers)
    spark = documents.sparkSession
    removals = chain.removals
    if removals is None:
        removals = spark.createDataFrame([], from_arrow_schema(arrow.removals(engine.id_type)))
    members = removals.limit(0) if found is None else _list_kept(found)
    members = members.select("doc_id", "component_id")
    spans = cuts = None
    if chain.spans is not None:
        whole = engine.leave(None, None, "output")
        spans = write_spans(whole, chain.spans)
        cuts = chain.spans.filter(F.col("effect") == "cut").select("doc_id", "begin", "end")
    gone = sum(step.removed for step in chain.steps)
    repeated = engine.known.repeated if copies[0] else None
    return Applied(
        documents=documents,
        rows=first.documents,
        text_bytes=first.text_bytes,
        layers=config.layers,
        removals=removals,
        repeated=repeated,
        copies=copies,
        members=members,
        edges=chain.edges,
        spans=spans,
        cuts=cuts,
        near=found,
        few=fits_broadcast(gone),
        removes=bool(gone) or repeated is not None,
    )
