"""The layers that the settings ask for, one after another, whatever the engine."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, Literal

import pyarrow as pa

from dedup.engine.engine import Engine, Rows, read_histogram
from dedup.kernels.election import ElectionPolicy
from dedup.kernels.sets.templates import choose_cap
from dedup.layers.chain import Chain
from dedup.layers.containment import ContainmentLayer
from dedup.layers.contamination import ContaminationLayer
from dedup.layers.copies import Choice
from dedup.layers.exact import ExactLayer
from dedup.layers.layer import Layer, NothingToSearchError
from dedup.layers.lines import LinesLayer
from dedup.layers.near.election import Election
from dedup.layers.near.layer import NearLayer, Search
from dedup.layers.near.signing import Signing
from dedup.layers.passages import NAME as PASSAGES
from dedup.layers.passages import PassagesLayer
from dedup.run.clock import Clock
from dedup.run.layers import list_noted
from dedup.run.profiles import PROFILES, Part, choose_parts, scan
from dedup.run.prompts import read_prompts
from dedup.settings.banding import SIGMAS
from dedup.settings.keeping import parse_order
from dedup.settings.layers import NEAR, parse_sets
from dedup.settings.options import Config
from dedup.stages.placement import sample_share
from dedup.tables import arrow
from dedup.tables.counts import Layered, Near, Stored

HELD_BYTES = 256 << 20
"""Input up to which shingle sets that will be asked for are held from the first pass on: they take two to three times
as much memory as plain text compressed on disk, more where it is compressed better."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """Facts of a run that layers need besides its settings."""

    size: int
    """Bytes of the input."""
    labels: pa.Table | None
    """left_id and right_id of the duplicates among labelled pairs; None without any."""
    held_bytes: int = 0
    """Bytes of shingle sets that the first pass may give back for each split; 0 where that does not lie in memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched(Generic[Rows]):
    """Result of all layers."""

    chain: Chain[Rows]
    documents: Rows
    """REGISTER; with the number of the `profile` where there are any."""
    near: Mapping[str, Near]
    """Counts of the layer near by profile; none where it did not run."""
    by_profile: Mapping[str, Sequence[Layered]]
    """The counts of the layers of each profile that has documents."""


def search(
    engine: Engine[Rows], parts: Sequence[Part], config: Config, context: Context, clock: Clock
) -> Searched[Rows]:
    """Run the layers of the settings, for each profile by itself."""
    if not config.profile:
        [part] = parts
        chain, near = _search(engine, part, config, context, clock)
        assert chain.documents is not None
        counts = {} if near is None else {part.name: near}
        return Searched(chain=chain, documents=chain.documents, near=counts, by_profile={})
    with clock.time(PROFILES):
        documents = scan(engine, config)
        tally = engine.tally(documents)
    clock.note(PROFILES, Stored(rows=tally["rows"]))
    chains, nears = {}, {}
    for part in choose_parts(parts, read_histogram(tally, PROFILES)):
        assert part.chosen is not None
        own, stages = engine.choose(part.chosen, part.prefix), clock.of(part.prefix)
        chains[part.name], near = _search(own, part, config, context, stages)
        if near is not None:
            nears[part.name] = near
    register = engine.select(documents, *arrow.register(engine.id_type).names)
    return Searched(
        chain=Chain(engine=engine, documents=register).unite(chains),
        documents=documents,
        near=nears,
        by_profile={name: chain.steps for name, chain in chains.items()},
    )


def _search(
    engine: Engine[Rows], part: Part, config: Config, context: Context, clock: Clock
) -> tuple[Chain[Rows], Near | None]:
    """Run the layers one after another."""
    chain: Chain[Rows] = Chain(engine=engine)
    near: Near | None = None
    for name in config.layers:
        layer = make_near(part, context, clock) if name == NEAR else make_layer(name, part)
        rest = chain.rest(name)
        try:
            # The layer near has stages of its own.
            with nullcontext() if name == NEAR else clock.time(name):
                found = layer.find(rest)
                chain = chain.add(name, found)
        except NothingToSearchError:
            chain = chain.skip(name)
            continue
        near = found.counts or near
        if name != NEAR:
            clock.note(name, chain.steps[-1])
    return chain, near


def make_layer(name: str, part: Part) -> Layer:
    """Return a layer other than near with the settings of a part of the documents."""
    config, tokenizer = part.config, part.tokenizer
    choice = Choice(
        rules=parse_order(config.keep.order, "keep"),
        copies=config.keep.copies,
        copies_per_source=config.keep.copies_per_source,
        per_source=config.limits.per_source,
    )
    if name == "exact":
        return ExactLayer(tokenizer=tokenizer if config.exact.compare == "text" else None, choice=choice)
    if name == PASSAGES:
        return PassagesLayer(settings=config.passages, tokenizer=tokenizer, rules=choice.rules)
    if name == "lines":
        return LinesLayer(settings=config.lines, tokenizer=tokenizer)
    if name == "containment":
        size = config.shingles.shingle_size
        return ContainmentLayer(settings=config.containment, tokenizer=tokenizer, shingle_size=size, choice=choice)
    if name == "contamination":
        prompts = read_prompts(parse_sets(config.contamination.sets, "contamination"))
        return ContaminationLayer(settings=config.contamination, tokenizer=tokenizer, prompts=prompts)
    from dedup.layers.url import Form, UrlLayer  # noqa: PLC0415 - its parser is loaded where it is used

    form = Form(
        with_query=config.url.query == "compare",
        tracking=config.url.tracking,
    )
    # Its column is the last that is read along.
    return UrlLayer(place=len(list_noted(config)) - 1, form=form, choice=choice)


def make_signing(part: Part, context: Context) -> Signing:
    """Return the parameters of signing."""
    config = part.config
    holds: Literal["all", "crowds"] = "all" if config.mode == "exact" else "crowds"
    return Signing(
        tokenizer=part.tokenizer,
        shingle_size=part.spec.shingle_size,
        bands=part.spec.bands,
        rows=part.spec.rows,
        signature_seed=part.spec.signature_seed,
        hashed=part.spec.to_dict(),
        sample_share=sample_share(context.size),
        holds=holds if context.held_bytes and context.size <= HELD_BYTES else "none",
        held_bytes=context.held_bytes,
    )


def make_near(part: Part, context: Context, clock: Clock) -> NearLayer:
    """Return the layer near."""
    config = part.config
    policy = ElectionPolicy(
        config.threshold,
        config.cluster.linkage == "representative",
        config.cluster.max_component,
        config.keep.copies,
        config.keep.copies_per_source,
    )
    return NearLayer(
        search=Search(
            threshold=config.threshold,
            exact=config.mode == "exact",
            estimate_sigmas=SIGMAS,
            cap=choose_cap(config.buckets.max_bucket, config.mode),
        ),
        signing=make_signing(part, context),
        election=Election(
            rules=parse_order(config.keep.order, "keep"), policy=policy, per_source=config.limits.per_source
        ),
        has_sources=bool(config.input.source_column),
        labels=context.labels,
        stages=clock,
    )
