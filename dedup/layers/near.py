"""The layer of near-duplicates: documents whose shingle sets reach the threshold of Jaccard similarity."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from dedup.informing import LOSS, NEAR_MISSES, RECALL, Inform
from dedup.kernels.election import Policy
from dedup.kernels.sets.templates import choose_cap
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.layer import NothingToSearchError
from dedup.settings.hashspec import HashSpec
from dedup.settings.keeping import parse_order
from dedup.settings.options import Config
from dedup.stages import (
    buckets,
    candidates,
    components,
    documents,
    edges,
    identical,
    labels,
    prefixes,
    representatives,
    signatures,
    templates,
    uncompared,
)
from dedup.stages.documents import Corpus
from dedup.stages.labels import LabeledPairs
from dedup.stages.placement import fits_broadcast, place_bands, place_prefixes
from dedup.stages.table import Keep, Table
from dedup.tables.counts import Bucketed, Collapsed, Connected, Elected, Labeled, Lost, Near, Paired, Signed, Verified
from dedup.tables.schemas import PAIRS

NAME = "near"
Given = ParamSpec("Given")
Value = TypeVar("Value")


class Linked(NamedTuple):
    """What takes the place of buckets over the cap."""

    buckets: Table[templates.Linked]
    sets: Table[edges.Sets]
    """Of their members."""

    @property
    def counts(self) -> templates.Linked:
        """What a stage notes."""
        return self.buckets.counts


class Read(NamedTuple):
    """Documents that were signed, each by an id of its own."""

    corpus: Corpus
    signed: Table[Signed]
    shared: Table[Collapsed]
    renamed: Mapping[str, int]
    """Document ids of ids whose hash is that of another."""


class Compared(NamedTuple):
    """EDGES with near misses."""

    frame: DataFrame
    near_misses: pa.Table | None
    """NEAR_MISSES; None where they are too many for the driver."""
    counts: Verified


class Stage(Protocol):
    """A runner of stages that notes counts and time of each under its name, unless the stage returns None."""

    inform: Inform
    """Runs what is no part of the search."""

    def __call__(self, name: str, work: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs) -> Value:
        """Return what the work returns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearFound:
    """Result of the layer, with the tables that explain it."""

    threshold: float
    removals: DataFrame
    """REMOVALS."""
    counts: Near
    signatures: DataFrame
    identical: DataFrame
    repeated: DataFrame | None
    """Ids of several rows; None where every document id is of one row."""
    compared: DataFrame
    """EDGES with near misses."""
    near_misses: pa.Table | None
    """NEAR_MISSES; None where they are too many for the driver."""
    members: DataFrame
    renamed: Mapping[str, int]
    """Document ids of ids whose hash is that of another."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearLayer:
    """The layer with its settings, and what keeps its tables and times its stages."""

    config: Config
    tokenizer: Tokenizer
    spec: HashSpec
    id_column: str
    """Empty where an id is the digest of its row."""
    sample_share: float
    """Share of the documents whose tokens are stored."""
    labels: DataFrame | None
    """LABELS of the duplicates among labelled pairs."""
    cores: int
    checkpoints: str
    """Folder for what GraphFrames keeps."""
    keep: Keep
    stage: Stage
    name: str = NAME

    def find(self, corpus: Corpus) -> NearFound:
        """Search the documents, stage by stage as in the table of docs/how-it-works.md.

        Raises
        ------
        DataError
            When the input has no document, null or repeated ids, or none of the labelled pairs.
        ComponentError
            When components are unavailable or wrong.
        """
        stage = self.stage
        corpus, signed, shared, renamed = self.read(corpus)
        same = identical.select_identical(shared.frame)
        heads = identical.select_heads(signed.frame, same)
        labeled = stage("labels", self._select_labels, signed, same, heads)
        sets = self._collect_all(corpus, signed, heads)
        bucketed = stage("buckets", self._bucket, signed, heads, sets)
        linked, of_templates = stage("templates", self._link, corpus, signed, bucketed, sets) or (None, None)
        paired = stage("candidates", self._pair, bucketed, linked, heads, signed.counts.rows)
        sets = sets or self._collect_ends(corpus, signed, paired, of_templates, labeled)
        verified = stage("edges", self._verify, paired, sets)
        found = edges.select_edges(verified.frame, threshold=self.config.threshold)
        connected = stage("components", self._connect, found, same, verified.counts.rows + shared.counts.rows)
        lost: Lost | None = Lost()
        if linked is not None and paired.counts.pairs_uncompared:
            estimate = partial(self._estimate_loss, linked, paired, heads=heads, sets=sets, connected=connected)
            lost = stage.inform(LOSS, stage, "uncompared", estimate, documents=signed.counts.rows)
        elected = stage("representatives", self._elect, connected, same, signed, verified, sets)
        recall = stage.inform(RECALL, stage, "recall", self._measure_recall, labeled, sets, connected)
        return NearFound(
            threshold=self.config.threshold,
            removals=representatives.select_removals(elected.frame, layer=self.name),
            counts=Near(
                signed=signed.counts,
                collapsed=shared.counts,
                bucketed=bucketed.counts,
                paired=paired.counts,
                verified=verified.counts,
                connected=connected.counts,
                lost=lost,
                elected=elected.counts,
                labeled=recall,
            ),
            signatures=signed.frame,
            identical=same,
            repeated=identical.select_repeated(shared.frame) if shared.counts.repeated else None,
            compared=verified.frame,
            near_misses=verified.near_misses,
            members=elected.frame,
            renamed=renamed,
        )

    def read(self, corpus: Corpus) -> Read:
        """Sign the documents, find those of one shingle set, and make sure that every one has an id of its own.

        Raises
        ------
        DataError
            When the input has no document, or null or repeated ids.
        """
        stage = self.stage
        signed = stage("signatures", self._sign, corpus)
        shared = stage("identical", self._collapse, corpus, signed)
        renamed = self._find_renamed(signed, shared)
        if renamed:
            corpus = corpus.rename(renamed)
            signed = Table(frame=documents.exchange_ids(signed.frame, renamed), counts=signed.counts)
            shared = stage("identical", identical.collapse, self.keep, signed, cores=self.cores, table="renamed")
        self._check_repeated(signed, shared)
        return Read(corpus, signed, shared, renamed)

    @property
    def _cap(self) -> int:
        return choose_cap(self.config.buckets.max_bucket, self.config.mode)

    @property
    def _policy(self) -> Policy:
        cluster, keep = self.config.cluster, self.config.keep
        by_representative = cluster.linkage == "representative"
        return Policy(
            self.config.threshold, by_representative, cluster.max_component, keep.copies, keep.copies_per_source
        )

    @property
    def _sigmas(self) -> float | None:
        """Setting `candidates.estimate_sigmas`; None in exact mode, which has no signatures."""
        return None if self.config.mode == "exact" else self.config.candidates.estimate_sigmas

    def _sign(self, corpus: Corpus) -> Table[Signed]:
        build = partial(
            signatures.sign_documents,
            corpus,
            tokenizer=self.tokenizer,
            hashed=self.spec.to_dict(),
            shingle_size=self.spec.shingle_size,
            bands=self.spec.bands,
            rows=self.spec.rows,
            signature_seed=self.spec.signature_seed,
            sample_share=self.sample_share,
        )
        signed = signatures.sign(self.keep, corpus, lambda counters: build(counters=counters), self.spec.to_dict())
        if not signed.counts.rows:
            raise NothingToSearchError
        return signed

    def _collapse(self, corpus: Corpus, signed: Table[Signed]) -> Table[Collapsed]:
        """Find the documents of one shingle set, and make sure that no id is null."""
        shared = identical.collapse(self.keep, signed, cores=self.cores)
        documents.check_null(corpus, signed.counts.ids_null, id_column=self.id_column)
        return shared

    def _find_renamed(self, signed: Table[Signed], shared: Table[Collapsed]) -> dict[str, int]:
        """Return other document ids for ids whose hash is that of another."""
        if not shared.counts.repeated:
            return {}
        return documents.find_renamed(signed.frame, identical.select_repeated(shared.frame))

    def _check_repeated(self, signed: Table[Signed], shared: Table[Collapsed]) -> None:
        """Make sure that ids are unique."""
        if shared.counts.repeated:
            repeated = identical.select_repeated(shared.frame)
            documents.check_repeated(signed.frame, repeated, id_column=self.id_column)

    def _select_labels(self, signed: Table[Signed], same: DataFrame, heads: DataFrame) -> LabeledPairs | None:
        if self.labels is None:
            return None
        return labels.select_pairs(self.keep, self.labels, signed=signed.frame, identical=same, heads=heads)

    def _collect_all(self, corpus: Corpus, signed: Table[Signed], heads: DataFrame) -> Table[edges.Sets] | None:
        """Keep the sets of all documents, which the prefixes of exact mode are taken from; None in the other mode."""
        if self.config.mode == "lsh":
            return None
        return self._collect(corpus, signed, heads.select("doc_id"), signed.counts.rows)

    def _link(
        self, corpus: Corpus, signed: Table[Signed], bucketed: Table[Bucketed], sets: Table[edges.Sets] | None
    ) -> Linked | None:
        """Keep what takes the place of buckets over the cap, and the sets of their members; None without any."""
        sizes = bucketed.counts.sizes
        most = min(sum(size * count for size, count in sizes.items() if size > self._cap), signed.counts.rows)
        if not most:
            return None
        members = templates.select_members(bucketed.frame, cap=self._cap)
        if sets is None:
            sets = self._collect(corpus, signed, members, most, name="template_sets")
        else:
            sets = Table(frame=sets.frame.join(members, on="doc_id", how="left_semi"), counts=sets.counts)
        linked = templates.link(
            self.keep,
            bucketed.frame,
            sets,
            cap=self._cap,
            threshold=self.config.threshold,
            exhaust=self.config.mode == "exact",
            partitions=place_prefixes(sets.counts.bytes / 8, self.cores),
        )
        return Linked(linked, sets)

    def _collect(
        self, corpus: Corpus, signed: Table[Signed], wanted: DataFrame, most: int, name: str = "sets"
    ) -> Table[edges.Sets]:
        return edges.collect(
            self.keep,
            name,
            corpus,
            signed.frame,
            wanted,
            most=most,
            tokenizer=self.tokenizer,
            shingle_size=self.spec.shingle_size,
        )

    def _bucket(self, signed: Table[Signed], heads: DataFrame, sets: Table[edges.Sets] | None) -> Table[Bucketed]:
        if sets is None:
            partitions = place_bands(signed.counts.rows, self.spec.bands, self.cores)
            return buckets.bucket(self.keep, partial(buckets.bucket_bands, heads), partitions)
        chosen = prefixes.select_prefixes(sets.frame, threshold=self.config.threshold)
        partitions = place_prefixes(signed.counts.shingles, self.cores)
        return buckets.bucket(self.keep, partial(buckets.bucket_prefixes, chosen), partitions)

    def _pair(
        self, bucketed: Table[Bucketed], linked: Table[templates.Linked] | None, heads: DataFrame, documents: int
    ) -> Table[Paired]:
        return candidates.pair(
            self.keep,
            bucketed,
            linked,
            heads,
            documents=documents,
            threshold=self.config.threshold,
            signature_size=self.config.signature_size,
            estimate_sigmas=self._sigmas,
            cap=self._cap,
        )

    def _collect_ends(
        self,
        corpus: Corpus,
        signed: Table[Signed],
        paired: Table[Paired],
        known: Table[edges.Sets] | None,
        labeled: LabeledPairs | None,
    ) -> Table[edges.Sets]:
        """Keep the sets of all documents that are to be compared, but those known."""
        pairs, count = paired.frame.select(*PAIRS.names), paired.counts.rows
        if labeled is not None:
            pairs, count = pairs.unionByName(labeled.apart.frame), count + labeled.apart.counts
        ends, most = edges.find_ends(self.keep, pairs, count)
        if known is None:
            return self._collect(corpus, signed, ends, most)
        return edges.add(known, self._collect(corpus, signed, edges.leave_out(ends, known), most))

    def _verify(self, paired: Table[Paired], sets: Table[edges.Sets]) -> Compared:
        threshold = self.config.threshold
        verified = edges.verify_candidates(self.keep, paired, sets, threshold=threshold, cores=self.cores)
        near_misses = None
        if fits_broadcast(verified.counts.compared - verified.counts.rows):
            near_misses = self.stage.inform(NEAR_MISSES, edges.collect_near_misses, verified.frame, threshold=threshold)
        return Compared(verified.frame, near_misses, verified.counts)

    def _connect(self, found: DataFrame, same: DataFrame, count: int) -> Table[Connected]:
        chosen = self.config.components
        return components.connect_documents(
            self.keep,
            components.link(found, same),
            count,
            engine=chosen.engine,
            driver_edges=chosen.driver_edges,
            checkpoints=self.checkpoints,
        )

    def _estimate_loss(
        self,
        linked: Table[templates.Linked],
        paired: Table[Paired],
        *,
        heads: DataFrame,
        sets: Table[edges.Sets],
        connected: Table[Connected],
        documents: int,
    ) -> Lost:
        threshold = self.config.threshold
        drawn = uncompared.draw(
            self.keep,
            linked,
            paired.counts,
            heads,
            components=connected.frame,
            documents=documents,
            threshold=threshold,
            signature_size=self.config.signature_size,
            estimate_sigmas=self._sigmas,
            cap=self._cap,
        )
        frame, count = drawn.sample.frame, drawn.sample.counts
        lost = edges.compare(self.keep, "uncompared", frame, count, sets, threshold=threshold, cores=self.cores)
        return replace(drawn.counts, lost=lost.counts)

    def _elect(
        self,
        connected: Table[Connected],
        same: DataFrame,
        signed: Table[Signed],
        verified: Compared,
        sets: Table[edges.Sets],
    ) -> Table[Elected]:
        return representatives.elect_representatives(
            self.keep,
            connected,
            identical=same,
            signed=signed,
            edges=edges.select_edges(verified.frame, threshold=self.config.threshold),
            edge_count=verified.counts.rows,
            near_misses=verified.near_misses,
            sets=sets,
            choice=representatives.Choice(
                rules=parse_order(self.config.keep.order, "keep"),
                policy=self._policy,
                per_source=self.config.limits.per_source,
            ),
            has_sources=bool(self.config.input.source_column),
            cores=self.cores,
        )

    def _measure_recall(
        self, labeled: LabeledPairs | None, sets: Table[edges.Sets], connected: Table[Connected]
    ) -> Labeled | None:
        if labeled is None:
            return None
        return labels.measure(self.keep, labeled, sets, connected.frame, cores=self.cores)
