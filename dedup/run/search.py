"""The layers that the settings ask for, one after another, whatever the engine."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic

from dedup.engine.engine import Engine, Rows, read_histogram
from dedup.layers.chain import Chain
from dedup.layers.foreign import count_for_foreign, drop_all, leave_foreign, list_foreign
from dedup.layers.layer import Context, EarlierKeys, Found, Layer, NothingToSearchError, Setup, Stages
from dedup.layers.near.labels import follow
from dedup.output.row_decisions import Findings
from dedup.report.profiles import unite
from dedup.run.clock import Clock
from dedup.run.layers import load_layers, name_repeated
from dedup.run.profiles import PROFILES, Part, choose_parts, scan
from dedup.settings.options import Config
from dedup.tables import arrow
from dedup.tables.counts import Layered, Near, Stored

KEY_BYTES = 8
"""A band key."""


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
    named: Rows | None = None
    """doc_id and id of all documents that pairs name, where `documents` are not all of them."""
    changes: Rows | None = None
    """Documents of earlier batches whose fate is another now; None without a store."""
    earlier: Mapping[str, Any] | None = None
    """Report of earlier batches, against which a run without another baseline is held."""
    finish: Callable[[], object] | None = None
    """Commit that comes before the output is published."""
    without: Mapping[str, int] | None = None
    """Counts of `documents` that are none of the input, and of those `removed` for such; None without any."""

    def to_findings(self, config: Config, repeated: Rows | None) -> Findings[Rows]:
        """Return it as the output applies it.

        Parameters
        ----------
        repeated
            Ids of equal rows; None where there are none.
        """
        chain, counts = self.chain, unite([*self.near.values()])
        gone = sum(step.removed for step in chain.steps)
        return Findings(
            chain=chain,
            documents=self.documents,
            repeated=repeated,
            copies=name_repeated(config),
            pairs=max(counts.verified.compared, counts.verified.rows + counts.collapsed.rows) + gone,
            named=chain.named if self.named is None else self.named,
            changes=self.changes,
            shown=counts.elected.shown if self.near and config.writes_texts else (),
            has_profiles=bool(config.profile),
            drops_all=config.keep.drop == "all",
            parts=chain.engine.measure(self.documents)["rows"] if config.input.part_of else None,
        )

    def count_signature_bytes(self, parts: Sequence[Part]) -> int:
        """Return the bytes of all signatures and band keys."""
        specs = {part.name: part.spec for part in parts}
        return sum(
            counts.signed.rows * specs[name].bands * (specs[name].rows + KEY_BYTES)
            for name, counts in self.near.items()
        )


def search(
    engine: Engine[Rows], parts: Sequence[Part], config: Config, context: Context, clock: Clock
) -> Searched[Rows]:
    """Run the layers of the settings, for each profile by itself."""
    if not config.profile:
        [part] = parts
        chain, near = _search(engine, part, context, clock)
        assert chain.documents is not None
        counts = {} if near is None else {part.name: near}
        without = _count_without(chain)
        return Searched(chain=chain, documents=chain.documents, near=counts, by_profile={}, without=without)
    with clock.time(PROFILES):
        documents = scan(engine, config)
        tally = engine.tally(documents)
    clock.note(PROFILES, Stored(rows=tally["rows"]))
    chains, nears = {}, {}
    for part in choose_parts(parts, read_histogram(tally, PROFILES)):
        assert part.chosen is not None
        own, stages = engine.choose(part.chosen, part.prefix), clock.of(part.prefix)
        chains[part.name], near = _search(own, part, context, stages)
        if near is not None:
            nears[part.name] = near
    named = None
    if config.input.without:
        named = engine.select(documents, "doc_id", "id")
        documents = engine.join(documents, list_foreign(engine, documents), "doc_id", how="anti")
    register = engine.select(documents, *arrow.register(engine.id_type).names)
    chain = Chain(engine=engine, documents=register, named=named).unite(chains)
    return Searched(
        chain=chain,
        documents=documents,
        near=nears,
        by_profile={name: chain.steps for name, chain in chains.items()},
        without=_count_without(chain),
    )


def _count_without(chain: Chain[Rows]) -> dict[str, int] | None:
    if chain.named is None or chain.documents is None:
        return None
    measure = chain.engine.measure
    documents = measure(chain.named)["rows"] - measure(chain.documents)["rows"]
    return {"documents": documents, "removed": count_for_foreign(chain.engine, chain.documents, chain.removals)}


def search_layer(
    chain: Chain[Rows],
    kind: type[Layer],
    part: Part,
    context: Context,
    clock: Clock,
    *,
    past: EarlierKeys | None = None,
) -> tuple[Chain[Rows], Found[Rows]]:
    """Run a layer on what those before have left, and on what a store has.

    Raises
    ------
    NothingToSearchError
        When nothing is left.
    """
    if context.labels is not None and chain.removals is not None:
        context = replace(context, labels=follow(chain.engine, context.labels, chain.removals))
    own = kind.make(set_up(kind.name, part, context, clock))
    rest = chain.rest(own.name)
    with nullcontext() if own.has_stages else clock.time(own.name):
        found = None
        if chain.removals is not None:
            found = own.review(chain.engine.without(None, None, own.name), chain.removals)
        if found is None:
            found = own.find(rest) if past is None else own.find_since(rest, past)
        if part.config.input.without and chain.named is None:
            chain = replace(chain, named=rest.select(found.documents, "doc_id", "id"))
        found = leave_foreign(rest, found, part.config, past)
        if part.config.keep.drop == "all":
            found = drop_all(rest, found, own)
        chain = chain.add(own.name, found)
    if not own.has_stages:
        clock.note(own.name, chain.steps[-1])
    return chain, found


def _search(engine: Engine[Rows], part: Part, context: Context, clock: Clock) -> tuple[Chain[Rows], Near | None]:
    """Run the layers one after another."""
    chain: Chain[Rows] = Chain(engine=engine)
    near: Near | None = None
    for layer in load_layers(part.config):
        try:
            chain, found = search_layer(chain, layer, part, context, clock)
        except NothingToSearchError:
            chain = chain.skip(layer.name)
            continue
        near = found.counts or near
    return chain, near


def set_up(layer: str, part: Part, context: Context, stages: Stages) -> Setup:
    """Return what a layer is made of for a part of the documents."""
    return Setup(
        config=part.config,
        tokenizer=part.tokenizer,
        spec=part.spec,
        places=part.places.get(layer, ()),
        context=context,
        stages=stages,
    )
