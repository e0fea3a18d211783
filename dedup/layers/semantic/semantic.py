"""The layer of documents that say the same in other words.

    documents -> VECTORS -> PAIRS of near neighbours -> EDGES -> COMPONENTS -> MEMBERS -> removals

A vector tells what a text is about, hardly what it says of it: "approved" and "rejected" are neighbours. So a pair is
an edge if its cosine reaches the threshold and its texts share the facts that guards ask for, compared exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Size, once, read_histogram
from dedup.errors import ConfigError
from dedup.files.columns import VECTOR_SETTING
from dedup.informing import Inform
from dedup.kernels.runs.batches import conform
from dedup.kernels.sets.jaccard import BINS
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors import latent
from dedup.kernels.vectors.forecast import SHARES, forecast
from dedup.kernels.vectors.products import VALUE_BYTES, least_product
from dedup.layers.layer import CHOOSING, EarlierKeys, Found, Layer, Setup, to_edges
from dedup.layers.near import comparison, election, templates
from dedup.layers.near.election import Election
from dedup.layers.near.search import Search
from dedup.layers.semantic import stored, vectors
from dedup.layers.semantic.cells import PAIRS, VECTOR_BYTES, Neighbourhood, Reach, choose_cells, find_candidates, probe
from dedup.layers.semantic.electing import elect
from dedup.layers.semantic.encoding import CORPUS, SETTING, choose_encoder, load_function
from dedup.layers.semantic.judging import (
    SampledPairs,
    Threshold,
    choose_threshold,
    judge,
    list_sample,
    show_pairs,
    tell_curve,
)
from dedup.layers.semantic.stored import Earlier
from dedup.layers.semantic.verification import (
    DIGESTS,
    GUARDS,
    Guards,
    disagree,
    read_texts,
    select_held,
    settle,
    verify,
)
from dedup.settings.keeping import FIRST_COME
from dedup.settings.options import Config
from dedup.settings.rules import Limit, Range, Table, Texts
from dedup.tables import arrow

NAME = KIND = "semantic"
SAMPLE, FORECAST = "the pairs near the threshold", "the forecast of duplicates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantic(Table):
    """Layer "semantic": documents that say the same in other words, by vectors and by facts that both must share."""

    vector_column: str = ""
    """Column of the vectors, dots leading to fields of structs: lists of numbers or the bytes of 32-bit floats, all of
    one length, a document with null matching no other; when empty, the encoder makes them."""

    encoder: str = field(default=CORPUS, metadata={"needs": ("semantic.vector_column", "")})
    """Encoder of the texts where no column is named: "corpus" is learned from a sample of them, "package:function" is
    called in the workers with lists of texts and returns a matrix with a row for each."""

    threshold: Limit = field(default="", metadata={"range": Range(0, 1, above=True)})
    """Least cosine of two documents of which one goes, a number above 0 and at most 1, or empty for one that the job
    chooses, by evaluation.labeled_pairs or else by the nearest neighbours of a sample, and tells: one encoder has .95
    for what another has .6 for, so no number is right without looking."""

    action: Literal["remove", "check"] = "remove"
    """Action: "remove" documents that say the same, or "check" what earlier layers remove: a pair of a document and the
    one kept for it whose cosine is below the threshold is listed in OUT/cosines, and nothing else is removed."""

    guards: Texts = field(default=GUARDS, metadata={"choices": lambda: GUARDS})
    """Facts in which both texts must be equal, whatever their cosine, a list of some of "numbers", "dates", "units",
    "negations", "comparisons", "quantities", "quotes", "addresses" and "names", and "wording", which parts texts that
    agree in at least half of their places, or have the same words in another order."""

    overlap: float = field(default=0.0, metadata={"range": Range(0, 1)})
    """Least Jaccard similarity of the words of both texts, as sets, a number of at least 0 and at most 1."""

    linkage: Literal["representative", "component"] = field(
        default="representative", metadata={"needs": ("semantic.action", "remove")}
    )
    """Linkage: with "representative" every document removed has an edge to the one kept for it; with "component" one
    document stays of a whole component, chains of edges included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticLayer(Layer):
    """The layer with its settings."""

    name = NAME
    table = Semantic
    reads = ("buckets.max_bucket", "cluster.max_component", *CHOOSING)
    is_incremental = True
    settings: Semantic
    tokenizer: Tokenizer
    most: int
    """Pairs of a document with those after it in a cell, the nearest."""
    election: Election
    labels: pa.Table | None = None
    """left_id, right_id and duplicate of labelled pairs."""
    inform: Inform

    @classmethod
    def check(cls, config: Config) -> None:
        """See `Layer.check`."""
        settings = config.of(Semantic)
        if not settings.vector_column and settings.encoder != CORPUS:
            load_function(settings.encoder)
        if settings.action == "check" and config.layers[0] == NAME:
            raise ConfigError('semantic.action: "check" needs a layer before "semantic" whose removals it looks at')

    @classmethod
    def check_store(cls, config: Config) -> None:
        """See `Layer.check_store`."""
        settings = config.of(Semantic)
        if not settings.vector_column and settings.encoder == CORPUS:
            raise ConfigError(
                f'semantic.encoder: "{CORPUS}" learns from all documents, so a store needs semantic.vector_column or a '
                'function "package:function", whose vectors stay the same'
            )
        if settings.threshold == "":
            raise ConfigError(
                "semantic.threshold: must be given where --store is, as all batches share it; a run without a store "
                "chooses one, and tells it"
            )
        for name, value, only in (
            ("action", settings.action, "remove"),
            ("linkage", settings.linkage, "representative"),
        ):
            if value != only:
                raise ConfigError(f'semantic.{name}: must be "{only}" where --store is given (got "{value}")')

    @classmethod
    def name_vector(cls, config: Config) -> str:
        """See `Layer.name_vector`."""
        return config.of(Semantic).vector_column

    @classmethod
    def warm(cls, setup: Setup) -> None:
        """See `Layer.warm`."""
        settings = setup.config.of(Semantic)
        if not settings.vector_column and settings.encoder == CORPUS:
            latent.encode(pa.array(["to be"]), setup.tokenizer, latent.fit(latent.NO_FEATURES))

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        config, settings = setup.config, setup.config.of(Semantic)
        given = Search.of(config).election
        policy = given.policy._replace(by_representative=settings.linkage == "representative")
        return cls(
            settings=settings,
            tokenizer=setup.tokenizer,
            most=config.buckets.max_bucket,
            election=replace(given, policy=policy),
            labels=setup.context.labels,
            inform=setup.stages.inform,
        )

    def _read(self, engine: Engine[Rows]) -> tuple[Rows, int, int]:
        """Return the documents with their vectors, the number of these, and their dimensions."""
        settings = self.settings
        encode = choose_encoder(engine, settings.vector_column, settings.encoder, self.tokenizer)
        return vectors.read_vectors(engine, encode, self._origin)

    @property
    def _origin(self) -> str:
        """Setting that says where vectors come from."""
        return VECTOR_SETTING if self.settings.vector_column else SETTING

    @property
    def _guards(self) -> Guards:
        return Guards.of(self.settings.guards, self.settings.overlap)

    def _choose(self, engine: Engine[Rows], held: Rows, known: Neighbourhood) -> tuple[SampledPairs, Threshold]:
        """Return the pairs of the sample, and the threshold that they or the settings say."""
        pairs, given = list_sample(engine, known, self.labels, held), self.settings.threshold
        threshold = choose_threshold(
            engine,
            pairs,
            held,
            given=None if given == "" else float(given),
            tokenizer=self.tokenizer,
            guards=self._guards,
        )
        return pairs, threshold

    def review(self, engine: Engine[Rows], removals: Rows) -> Found[Rows] | None:
        """Compare the vectors of documents that earlier layers remove with those of the ones kept for them.

        The threshold is by the neighbours among what is kept: of copies the nearest neighbour is no usual one.
        """
        if self.settings.action != "check":
            return None
        documents, _, _ = self._read(engine)
        held = _take_vectors(engine, documents)
        kept = engine.join(held, removals, "doc_id", how="anti")
        count = engine.measure(kept)["rows"]
        known = probe(engine, kept, count, count)
        _, threshold = self._choose(engine, kept, known)
        edges = to_edges(engine, engine.drop_null(removals, "representative_id"), name="removed_pairs")
        pairs = engine.select(edges, *PAIRS.names)
        count = engine.tally(pairs)["rows"]
        named = engine.map(pairs, comparison.list_ends, templates.MEMBERS)
        ends = engine.join(held, engine.group("removed_ends", named, templates.DISTINCT), "doc_id", how="semi")
        distinct = engine.group("removed_vectors", ends, once(vectors.VECTORS))
        both = select_held(engine, pairs, distinct)
        size = Size(count, 2 * count, 2 * count, 0)
        compared = engine.compare("disagreeing", both, distinct, disagree(threshold.cosine), size)
        told = engine.tally(compared)
        return Found(
            documents=engine.select(documents, *arrow.register(engine.id_type).names),
            cosines=engine.map(compared, partial(_to_cosines, kind="disagreeing"), arrow.COSINES),
            details={
                "threshold": threshold.cosine,
                "threshold_chosen_by": threshold.chosen_by,
                "removals": count,
                "removals_compared": told.get("compared", 0),
                "disagreeing": told["rows"],
            },
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
        return self._search(engine, *self._read(engine), None)

    def find_since(self, engine: Engine[Rows], past: EarlierKeys) -> Found[Rows]:
        """Search the documents of a batch, and the vectors of all of earlier ones, of which those kept stay.

        See `Layer.find_since`. Earlier documents that this layer has removed take no part in the election, but what
        contradicts them parts edges as ever.

        Raises
        ------
        DataError
            When vectors are none, or of other lengths, than those of earlier batches too.
        """
        documents, count, dimensions = self._read(engine)
        earlier = stored.read_earlier(engine, past, documents, dimensions, self._origin)
        found = self._search(engine, documents, count, dimensions, earlier)
        assert found.removals is not None
        kept = stored.keep(engine, _take_vectors(engine, documents), found.removals)
        return replace(found, stored={stored.TABLE: kept})

    def _search(
        self, engine: Engine[Rows], documents: Rows, count: int, dimensions: int, earlier: Earlier[Rows] | None
    ) -> Found[Rows]:
        """Search documents, so many of which have vectors of some dimensions, and earlier ones."""
        own, fetch = _take_vectors(engine, documents), None
        held, total, listed = own, count, documents
        if earlier is not None:
            held, total, fetch = engine.concat(own, earlier.vectors), count + earlier.count, earlier.fetch
        known = probe(engine, held, total, count)
        sample, threshold = self._choose(engine, held, known)
        cells = choose_cells(known, threshold.cosine)
        least = least_product(threshold.cosine, dimensions)
        reach = Reach(least=least, most=self.most, vector_bytes=VECTOR_BYTES + 2 * dimensions)
        vectors = None if earlier is None else earlier.vectors
        candidates, pairs, dropped = find_candidates(engine, own, total, cells, reach, earlier=vectors)
        # Texts are read once, for what is an edge and for what is shown of the sample.
        sampled = engine.parallelise("sampled", sample.to_table())
        if earlier is not None:
            met = earlier.list_met(engine, engine.concat(candidates, sampled), documents)
            near = engine.join(earlier.vectors, met, "doc_id", how="semi")
            # What contradicts an end of an edge may be of earlier batches, like the end.
            among, more, _ = find_candidates(engine, near, engine.tally(met)["rows"], cells, reach, name="among")
            candidates, pairs = engine.concat(candidates, among), pairs + more
            listed = earlier.list_documents(engine, documents, met)
        asked = engine.concat(candidates, sampled)
        read = read_texts(engine, asked, held, pairs + sample.left.size, self.tokenizer, fetch=fetch)
        size = Size(pairs, 2 * pairs, total, VALUE_BYTES * total * dimensions)
        compared = engine.compare("edges", candidates, read, verify(threshold.cosine, self._guards), size)
        told = engine.tally(compared)
        settled = settle(engine, compared, told["rows"])
        edges = settled if earlier is None else earlier.leave(engine, settled, documents)
        digests = engine.select(read, *DIGESTS) if dropped else None
        if digests is not None and earlier is not None:
            digests = engine.join(digests, earlier.gone, "doc_id", how="anti")
        setting = self._set_election(threshold.cosine, has_earlier=earlier is not None)
        decided, edges, elected = elect(engine, setting, listed, edges, digests)
        schema = arrow.removals(engine.id_type)
        removals, kept = (
            engine.map(decided, partial(_to_removals, schema=schema, kept=kept), schema) for kept in (False, True)
        )
        if earlier is not None:
            removals, kept = (engine.join(rows, documents, "doc_id", how="semi") for rows in (removals, kept))
        details = {
            "threshold": threshold.cosine,
            "threshold_chosen_by": threshold.chosen_by,
            "dimensions": dimensions,
            "vectors": count,
            **({} if earlier is None else {"earlier_vectors": earlier.count}),
            **self._tell_edges(told, engine.tally(settled)["rows"]),
            "uncompared": {"pairs_at_most": dropped},
            "spared": elected.spared,
            "relinked": elected.relinked,
            "forecast": self.inform(FORECAST, _forecast, elected.sizes, total) or [],
            "search": cells.tell(),
            **(self.inform(SAMPLE, self._tell_sample, engine, sample, threshold.cosine, read, listed) or {}),
        }
        return Found(
            documents=engine.select(documents, *arrow.register(engine.id_type).names),
            removals=removals,
            kept=kept,
            cosines=engine.map(edges, _to_cosines, arrow.COSINES),
            details=details,
        )

    def _set_election(self, threshold: float, *, has_earlier: bool) -> Election:
        """Return the election by a threshold, in which earlier documents come first, if there are any."""
        rules = (FIRST_COME, *self.election.rules) if has_earlier else self.election.rules
        return replace(self.election, rules=rules, policy=self.election.policy._replace(threshold=threshold))

    def _tell_edges(self, told: Mapping[str, Any], edges: int) -> dict[str, Any]:
        """Return what the report says of pairs, given the tally of their comparison."""
        cosines = read_histogram(told, "cosines")
        return {
            "candidates": sum(cosines.values()),
            "near": told.get("near", 0),
            "parted_by_guards": told.get("parted", 0),
            "parted_by_neighbours": told.get("near", 0) - told.get("parted", 0) - edges,
            "edges": edges,
            "guards": {guard: told.get(guard, 0) for guard in self._guards.names},
            "cosines": [cosines.get(number, 0) for number in range(BINS)],
        }

    def _tell_sample(
        self, engine: Engine[Rows], sample: SampledPairs, threshold: float, read: Rows, documents: Rows
    ) -> dict[str, Any]:
        """Return what the report shows of the sample, whose texts have been read."""
        judged = judge(engine, sample, read, self._guards, name="judged")
        shown = show_pairs(engine, judged, threshold, read, documents)
        return {"curve": tell_curve(judged), "pairs_near_the_threshold": shown}


def _take_vectors(engine: Engine[Rows], documents: Rows) -> Rows:
    return engine.drop_null(engine.select(documents, *vectors.VECTORS.names), "values")


def _forecast(sizes: Mapping[int, int], count: int) -> list[dict[str, float]]:
    """Return how many documents are to go of parts of the corpus, and of twice it."""
    told = zip(SHARES, forecast(sizes, count), strict=True)
    return [{"share": share, "documents": share * count, "duplicates": round(gone, 1)} for share, gone in told]


def _to_removals(batches: Batches, *, schema: pa.Schema, kept: bool) -> Batches:
    """MEMBERS -> REMOVALS, or in their form those that stay; their Jaccard similarity nobody has measured."""
    kind = election.KEPT if kept else KIND
    for batch in election.to_removals(batches, layer=NAME, schema=schema, kept=kept):
        yield conform(batch, schema, kind=kind, jaccard=None)


def _to_cosines(batches: Batches, *, kind: str = KIND) -> Batches:
    """EDGES -> COSINES."""
    for batch in batches:
        yield conform(batch, arrow.COSINES, kind=kind, cosine=batch["jaccard"])
