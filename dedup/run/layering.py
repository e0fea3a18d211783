"""The layers of a run on Spark, one after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.layers.chain import Chain
from dedup.layers.layer import Found, NothingToSearchError
from dedup.layers.near import NearFound, NearLayer
from dedup.layers.spans import write_spans
from dedup.run.applied import Applied
from dedup.run.clock import Clock
from dedup.run.layers import list_noted, make_layer, name_repeated
from dedup.run.profiles import PROFILE, PROFILES, Part, choose_parts, scan
from dedup.run.tables import Tables
from dedup.settings.layers import NEAR
from dedup.settings.options import Config
from dedup.stages.layering import SparkEngine
from dedup.stages.placement import fits_broadcast
from dedup.tables import arrow
from dedup.tables.counts import Layered, Stored


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """Result of all layers."""

    steps: Sequence[Layered]
    near: Mapping[str, NearFound]
    """By profile; none where the layer did not run."""
    applied: Applied
    by_profile: Mapping[str, Sequence[Layered]]
    """The counts of the layers of each profile that has documents."""


def search(
    engine: SparkEngine, near: NearLayer, parts: Sequence[Part], config: Config, *, keep: Tables, clock: Clock
) -> Searched:
    """Run the layers of the settings, for each profile by itself.

    Parameters
    ----------
    near
        The layer of the first part.
    """
    if not config.profile:
        [part] = parts
        chain, found = _search(engine, near, part, config, clock)
        return _conclude(chain, engine, {} if found is None else {part.name: found}, config)
    with clock.time(PROFILES):
        counted = scan(engine, config).groupBy(PROFILE).count().collect()
        sizes = {row[PROFILE]: row["count"] for row in counted}
    clock.note(PROFILES, Stored(rows=sum(sizes.values())))
    chains, nears = {}, {}
    for part in choose_parts(parts, sizes):
        assert part.chosen is not None
        tables, stage = keep.of(part.prefix), clock.of(part.prefix)
        own = replace(near, config=part.config, tokenizer=part.tokenizer, spec=part.spec, keep=tables, stage=stage)
        chain, found = _search(engine.choose(part.chosen, tables), own, part, config, stage)
        chains[part.name] = chain
        if found is not None:
            nears[part.name] = found
    united = Chain(engine=engine, documents=engine.known.documents).unite(chains)
    searched = _conclude(united, engine, nears, config)
    return replace(searched, by_profile={name: chain.steps for name, chain in chains.items()})


def _search(
    engine: SparkEngine, near: NearLayer, part: Part, config: Config, clock: Clock
) -> tuple[Chain[DataFrame], NearFound | None]:
    """Run the layers one after another."""
    chain: Chain[DataFrame] = Chain(engine=engine)
    found: NearFound | None = None
    noted = len(list_noted(config))
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
                chain = chain.add(name, make_layer(name, part.config, part.tokenizer, noted).find(rest))
            clock.note(name, chain.steps[-1])
    return chain, found


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


def _conclude(chain: Chain[DataFrame], engine: SparkEngine, near: Mapping[str, NearFound], config: Config) -> Searched:
    first, documents = chain.steps[0], engine.known.documents
    copies = name_repeated(config.layers)
    spark = documents.sparkSession
    removals = chain.removals
    if removals is None:
        removals = spark.createDataFrame([], from_arrow_schema(arrow.removals(engine.id_type)))
    members = removals.limit(0)
    if near:
        members = engine.concat(*map(_list_kept, near.values()))
    members = members.select("doc_id", "component_id")
    spans = cuts = None
    if chain.spans is not None:
        whole = engine.without(None, None, "output")
        spans = write_spans(whole, chain.spans)
        cuts = chain.spans.filter(F.col("effect") == "cut").select("doc_id", "begin", "end")
    gone = sum(step.removed for step in chain.steps)
    repeated = engine.known.repeated if copies[0] else None
    applied = Applied(
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
        near=[*near.values()],
        few=fits_broadcast(gone),
        removes=bool(gone) or repeated is not None,
    )
    return Searched(steps=chain.steps, near=near, applied=applied, by_profile={})


def count_removals(applied: Applied, removals: DataFrame) -> dict[tuple[int, str], int]:
    """Return the documents removed by the number of their profile and the layer.

    Parameters
    ----------
    removals
        REMOVALS, copies of equal rows among them.
    """
    profiles = applied.documents.select("doc_id", PROFILE).distinct()
    counted = removals.select("doc_id", "layer").join(profiles, on="doc_id", how="inner").groupBy(PROFILE, "layer")
    return {(row[PROFILE], row["layer"]): row["count"] for row in counted.count().collect()}
