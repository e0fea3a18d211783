"""The layer of documents that say the same in other words.

    documents -> VECTORS -> PAIRS of near neighbours -> EDGES -> COMPONENTS -> MEMBERS -> removals

A vector tells what a text is about, hardly what it says of it: "approved" and "rejected" are neighbours. So a pair is
an edge if its cosine reaches the threshold and its texts share the facts that guards ask for, compared exactly.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Size, read_histogram
from dedup.errors import ConfigError
from dedup.kernels.election import RANKED
from dedup.kernels.runs.batches import conform
from dedup.kernels.sets.jaccard import BINS
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.products import least_product
from dedup.layers.layer import Found, Layer, Setup
from dedup.layers.near import election
from dedup.layers.near.election import Election
from dedup.layers.near.members import find_members
from dedup.layers.near.tables import Connection
from dedup.layers.semantic import vectors
from dedup.layers.semantic.cells import VECTOR_BYTES, Reach, choose_cells, find_candidates, probe
from dedup.layers.semantic.verification import GUARDS, read_texts, verify
from dedup.settings.options import Config
from dedup.settings.rules import Limit, Range, Table, Texts
from dedup.tables import arrow

NAME = KIND = "semantic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantic(Table):
    """Layer "semantic": documents that say the same in other words, by vectors and by facts that both must share."""

    column: str = ""
    """Column of the vectors, dots leading to fields of structs: lists of numbers or the bytes of 32-bit floats, all of
    one length; a document with null matches no other."""

    threshold: Limit = field(default="", metadata={"range": Range(0, 1, above=True)})
    """Least cosine of two documents of which one goes, a number above 0 and at most 1, or empty, which ends the job:
    one encoder has .95 for what another has .6 for, so no number is right without looking."""

    guards: Texts = field(default=GUARDS, metadata={"choices": lambda: GUARDS})
    """Facts in which both texts must be equal, whatever their cosine, a list of some of "numbers", "dates", "units",
    "negations", "comparisons", "quantities", "names", "quotes", each in the order of the text, and "wording": texts of
    the same words but for one or two in place of others, or in another order, are parted."""

    linkage: Literal["representative", "component"] = "representative"
    """Linkage: with "representative" every document removed has an edge to the one kept for it; with "component" one
    document stays of a whole component, chains of edges included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticLayer(Layer):
    """The layer with its settings."""

    name = NAME
    table = Semantic
    settings: Semantic
    tokenizer: Tokenizer
    most: int
    """Pairs of a document with those after it in a cell, the nearest."""
    election: Election

    @classmethod
    def check(cls, config: Config) -> None:
        """See `Layer.check`."""
        settings = config.of(Semantic)
        if not settings.column:
            raise ConfigError('semantic.column: must name a column of vectors for the layer "semantic" (got "")')
        if settings.threshold == "":
            raise ConfigError(
                'semantic.threshold: must be a cosine for the layer "semantic" (got ""); no number is right for all '
                "encoders: look at the pairs of yours"
            )

    @classmethod
    def name_vector(cls, config: Config) -> str:
        """See `Layer.name_vector`."""
        return config.of(Semantic).column

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        config, settings = setup.config, setup.config.of(Semantic)
        given = Election.of(config)
        policy = given.policy._replace(
            threshold=float(settings.threshold), by_representative=settings.linkage == "representative"
        )
        return cls(
            settings=settings,
            tokenizer=setup.tokenizer,
            most=config.buckets.max_bucket,
            election=replace(given, policy=policy),
        )

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents.

        The vectors travel once to each of their cells, as 2 bytes a dimension; texts are read again of documents that
        have a near neighbour.

        Raises
        ------
        DataError
            When vectors are none, or of other lengths.
        """
        threshold = self.election.policy.threshold
        documents, count, dimensions = vectors.read_vectors(engine, vectors.take_column)
        held = engine.map(engine.select(documents, *vectors.VECTORS.names), vectors.take_vectors, vectors.VECTORS)
        known = probe(engine, held, count)
        cells = choose_cells(known, threshold)
        reach = Reach(
            least=least_product(threshold, dimensions), most=self.most, vector_bytes=VECTOR_BYTES + 2 * dimensions
        )
        candidates, pairs, dropped = find_candidates(engine, held, count, cells, reach)
        read = read_texts(engine, candidates, held, pairs, self.tokenizer)
        size = partial(Size, documents=count, bytes=count * 4.0 * dimensions)
        guards = self.settings.guards
        edges = engine.compare("edges", candidates, read, verify(threshold, guards), size(pairs=pairs, ends=2 * pairs))
        told = engine.tally(edges)
        components = engine.connect("components", engine.select(edges, "left_id", "right_id"), told["rows"])

        def answer(name: str, asked: Rows, asked_count: int, *, once: bool) -> Rows:
            every = verify(threshold, guards, every=True)
            return engine.compare(name, asked, read, every, size(pairs=asked_count, ends=2 * asked_count), once=once)

        none = engine.parallelise("no_near_misses", arrow.EDGES.empty_table())
        members, elected = find_members(
            engine,
            self.election,
            _list_voters(engine, documents, components),
            Connection(edges, none, components),
            answer,
            has_sources=False,
        )
        schema = arrow.removals(engine.id_type)
        chosen = engine.select(members, *election.DECIDED)
        removals, kept = (
            engine.map(chosen, partial(_to_removals, schema=schema, kept=kept), schema) for kept in (False, True)
        )
        cosines = read_histogram(told, "cosines")
        details: dict[str, Any] = {
            "threshold": threshold,
            "dimensions": dimensions,
            "vectors": count,
            "candidates": sum(cosines.values()),
            "near": told.get("near", 0),
            "parted_by_guards": told.get("parted", 0),
            "edges": told["rows"],
            "uncompared": {"pairs_at_most": dropped},
            "spared": elected.spared,
            "search": cells.tell(),
            "guards": {guard: told.get(guard, 0) for guard in guards},
            "cosines": [cosines.get(number, 0) for number in range(BINS)],
        }
        return Found(
            documents=engine.select(documents, *arrow.register(engine.id_type).names),
            removals=removals,
            kept=kept,
            cosines=engine.map(edges, _to_cosines, arrow.COSINES),
            details=details,
        )


def _list_voters(engine: Engine[Rows], documents: Rows, components: Rows) -> Rows:
    """Return the documents that have edges, as an election looks at them: each is a set of its own, of one size."""
    schema = election.voters(engine.id_type)
    joined = engine.join(engine.select(documents, "doc_id", *RANKED), components, "doc_id")
    return engine.map(joined, partial(_to_voters, schema=schema), schema)


def _to_voters(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        yield conform(batch, schema, set_id=batch["doc_id"], size=1)


def _to_removals(batches: Batches, *, schema: pa.Schema, kept: bool) -> Batches:
    """MEMBERS -> REMOVALS, or in their form those that stay; their Jaccard similarity nobody has measured."""
    kind = election.KEPT if kept else KIND
    for batch in election.to_removals(batches, layer=NAME, schema=schema, kept=kept):
        yield conform(batch, schema, kind=kind, jaccard=pa.nulls(batch.num_rows, pa.float64()))


def _to_cosines(batches: Batches) -> Batches:
    """EDGES -> COSINES."""
    for batch in batches:
        yield conform(batch, arrow.COSINES, kind=KIND, cosine=batch["jaccard"])
