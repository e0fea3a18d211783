"""The layer of near-duplicates, from signatures to the documents that go.

    documents -> SIGNATURES -> IDENTICAL, BUCKETS -> CANDIDATES -> EDGES -> COMPONENTS -> MEMBERS -> removals

Buckets over a cap are replaced by the pairs that are needed to connect what they hold (docs/internals/templates.md).
In exact mode the prefixes of shingle sets stand in for band keys, and there is no estimate.
"""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Size, read_histogram
from dedup.informing import LOSS, RECALL
from dedup.kernels.sets import lsh
from dedup.layers import NEAR
from dedup.layers.layer import Found, Layer, NothingToSearchError, Setup, Stages
from dedup.layers.near import buckets, comparison, election, signing, templates
from dedup.layers.near.labels import Labels
from dedup.layers.near.members import compare_all, find_members, list_voters
from dedup.layers.near.search import Search
from dedup.layers.near.signing import Signing
from dedup.layers.near.tables import (
    Bucketing,
    Connection,
    ShingleSets,
    Signatures,
    count_sets,
    join_sets,
)
from dedup.layers.near.uncompared import verify_sample
from dedup.tables import arrow
from dedup.tables.counts import (
    Bucketed,
    Collapsed,
    Connected,
    Labeled,
    Lost,
    Near,
    Paired,
    Signed,
    Templates,
)

SIGNED = ("band_keys", "signature")
SEARCHED = ("doc_id", "size", *SIGNED)
"""Columns of SIGNATURES by which documents are searched."""
SKETCHED = "sketch"
"""Column of SIGNATURES; null but of the last document of a task."""
SAMPLE = ("doc_id", "tokens")
"""Columns of SIGNATURES; tokens are null but of the documents of the sample."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearLayer(Layer):
    """The layer with its settings."""

    name = NEAR
    copies_kind = election.IDENTICAL
    is_incremental = True
    has_stages = True
    reads_texts = False
    search: Search
    signing: Signing
    has_sources: bool
    """Whether a column names sources, whose removals are counted by those of the documents kept."""
    labels: pa.Table | None = None
    """left_id and right_id of the duplicates among labelled pairs."""
    stages: Stages

    @classmethod
    def warm(cls, setup: Setup) -> None:
        """See `Layer.warm`."""
        signing.warm(Signing.of(setup))

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        labels = setup.context.labels
        return cls(
            search=Search.of(setup.config),
            signing=Signing.of(setup),
            has_sources=bool(setup.config.input.source_column),
            labels=None if labels is None else labels.filter(labels["duplicate"]),
            stages=setup.stages,
        )

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents.

        Raises
        ------
        NothingToSearchError
            When there is no document.
        DataError
            When ids are null or repeated, or none of the labelled pairs is of the corpus.
        ComponentError
            When components are unavailable or wrong.
        """
        time, note, inform = self.stages.time, self.stages.note, self.stages.inform
        signatures = self._sign(engine)
        documents, identical, signed = signatures.documents, signatures.identical, signatures.counts
        labels = None if self.labels is None else Labels.of(engine, self.labels, documents, identical)
        sets = None
        if self.search.exact:
            own = engine.join(engine.select(documents, "doc_id", "size"), identical, "doc_id", how="left")
            heads = engine.map(own, _list_heads, templates.MEMBERS)
            wanted = engine.group("heads", heads, templates.DISTINCT, expected=signed.rows)
            sets = self._shingle(engine, documents, wanted, engine.tally(wanted)["rows"])
        bucketing = self._bucket(engine, signatures, sets)
        with time("candidates"):
            # In memory the keys are let go of here.
            signatures = signatures._replace(searched=engine.select(signatures.searched, "doc_id", "size", "signature"))
            candidates, paired = self._pair(engine, signatures, bucketing)
        note("candidates", paired)
        with time("edges"):
            if sets is None:
                sets = self._shingle_ends(engine, documents, bucketing.sets, candidates, labels)
            threshold = self.search.threshold
            edges, near_misses, verified = comparison.find_edges(
                engine, candidates, paired.rows, sets, threshold=threshold, inform=inform
            )
        note("edges", verified)
        with time("components"):
            same = engine.map(identical, to_edges, arrow.EDGES)
            links = engine.select(engine.concat(edges, same), "left_id", "right_id")
            components = engine.connect("components", links, verified.rows + signatures.copies)
            tally = engine.tally(components)
            connected = Connected(rows=tally["rows"], engine=tally["engine"])
        note("components", connected)
        connection = Connection(edges, near_misses, components)
        lost = inform(LOSS, self._estimate_loss, engine, signatures, bucketing, sets, connection)
        with time("representatives"):
            voters = list_voters(engine, signatures, components)
            answer = partial(compare_all, engine, sets)
            members, elected = find_members(
                engine, self.search.election, voters, connection, answer, has_sources=self.has_sources
            )
        note("representatives", elected)
        removals = arrow.removals(engine.id_type)
        take = partial(election.to_removals, layer=self.name, schema=removals)
        chosen = engine.select(members, *election.DECIDED)
        counts = Near(
            signed=replace(signed, rows=signed.rows - signed.foreign),
            collapsed=Collapsed(rows=signatures.copies),
            bucketed=bucketing.counts,
            paired=paired,
            verified=verified,
            connected=connected,
            lost=lost,
            elected=elected,
            labeled=None if labels is None else inform(RECALL, self._measure_recall, engine, labels, sets, components),
        )
        return Found(
            documents=signatures.register,
            removals=engine.map(chosen, partial(take, kept=False), removals),
            kept=engine.map(chosen, partial(take, kept=True), removals),
            edges=engine.concat(edges, same),
            near_misses=near_misses,
            sample=engine.drop_null(engine.select(documents, *SAMPLE), "tokens"),
            sketches=engine.drop_null(engine.select(documents, SKETCHED), SKETCHED),
            counts=counts,
        )

    def sign(self, engine: Engine[Rows]) -> tuple[Rows, Signed]:
        """Return SIGNATURES of all documents, and their counts; there may be none.

        Raises
        ------
        DataError
            When ids are null or repeated.
        """
        return self._sign_rows(engine)[1:]

    def _sign_rows(self, engine: Engine[Rows]) -> tuple[Rows, Rows, Signed]:
        """Return REGISTER of all rows, SIGNATURES of all documents, and their counts."""
        with self.stages.time("signatures"):
            schema = signing.signatures(engine.id_type, self.signing.hashed)
            work = partial(signing.sign, signing=self.signing, schema=schema)
            if self.signing.holds == "parts":
                parts = signing.parts(engine.id_type)
                hashed = partial(signing.list_tokens, tokenizer=self.signing.tokenizer, schema=parts)
                rows = engine.scan("parts", hashed, parts)
                whole = Shuffle(emitted=parts, by=["doc_id"], order=["file", "row"], work=work, schema=schema)
                documents = engine.group("signatures", rows, whole)
            else:
                rows = documents = engine.scan("signatures", work, schema)
            tally = engine.tally(documents)
            signed = Signed(**{each.name: tally.get(each.name, 0) for each in fields(Signed)})
        self.stages.note("signatures", signed)
        return engine.select(rows, *arrow.register(engine.id_type).names), documents, signed

    def _sign(self, engine: Engine[Rows]) -> Signatures[Rows]:
        """Sign all documents, and find those of one shingle set."""
        register, documents, signed = self._sign_rows(engine)
        if not signed.rows:
            raise NothingToSearchError
        with self.stages.time("identical"):
            digests = engine.select(documents, "size", *buckets.DIGESTS.names)
            identical = engine.group("identical", digests, buckets.COLLAPSE, expected=signed.rows)
            copies = engine.tally(identical)["rows"]
            searched = engine.select(documents, *SEARCHED)
            names = signing.signatures(engine.id_type).names
            # In memory the keys and signatures of all are let go of here.
            documents = engine.select(documents, *(name for name in names if name not in SIGNED))
        self.stages.note("identical", Collapsed(rows=copies))
        return Signatures(register, documents, identical, copies, searched, signed)

    def _shingle(
        self, engine: Engine[Rows], documents: Rows, wanted: Rows, count: int, name: str = "sets"
    ) -> ShingleSets[Rows]:
        """Return the shingle sets of so many documents: those held, and others, whose texts are read again."""
        read = partial(self._shingle_again, engine, name=name)
        if self.signing.holds == "none":
            return read(wanted)
        return signing.gather_sets(engine, documents, wanted, count=count, name=name, read=read)

    def _shingle_again(self, engine: Engine[Rows], wanted: Rows, name: str) -> ShingleSets[Rows]:
        work = partial(signing.shingle_again, signing=self.signing)
        return count_sets(engine, engine.fetch(name, wanted, work, signing.SETS))

    def _bucket(
        self, engine: Engine[Rows], signatures: Signatures[Rows], sets: ShingleSets[Rows] | None
    ) -> Bucketing[Rows]:
        """Return the BUCKETS to pair."""
        search = self.search
        with self.stages.time("buckets"):
            if sets is None:
                expected = signatures.counts.rows * self.signing.bands
                keyed = engine.select(signatures.searched, "doc_id", "size", "band_keys")
                # To leave out all but heads here would copy all keys in memory.
                told = engine.join(keyed, signatures.identical, "doc_id", how="left")
                found = engine.group("buckets", told, buckets.BUCKET, expected=expected)
            else:
                shared = engine.group(
                    "shared", sets.rows, buckets.SHARE, expected=signatures.counts.shingles, once=True
                )
                prefixes = engine.group("prefixes", shared, buckets.choose_prefixes(search.threshold))
                expected = engine.tally(prefixes)["rows"]
                found = engine.group("buckets", prefixes, buckets.BUCKET_KEYED, expected=expected)
            tally = engine.tally(found)
            sizes = read_histogram(tally, "sizes")
        counts = Bucketed(rows=tally["rows"], members=tally.get("members", 0), band_rows=tally["emitted"], sizes=sizes)
        self.stages.note("buckets", counts)
        small = {size: count for size, count in sizes.items() if size <= search.cap}
        if len(small) == len(sizes):
            compared, _ = templates.count_pairs(small, None)
            return Bucketing(found, None, None, counts, compared, 0, 0, counts.members, 0)
        with self.stages.time("templates"):
            list_members = partial(templates.list_members, cap=search.cap)
            named = engine.map(engine.select(found, "size", "doc_ids"), list_members, templates.MEMBERS)
            wanted = engine.group("template_members", named, templates.DISTINCT)
            if sets is None:
                own = self._shingle(engine, signatures.documents, wanted, engine.tally(wanted)["rows"], "template_sets")
            else:
                own = sets._replace(rows=engine.join(sets.rows, wanted, "doc_id", how="semi"))
            policy = templates.Policy(threshold=search.threshold, cap=search.cap, exhaust=search.exact)
            linked, circled, undecided = templates.link_templates(engine, found, own.rows, policy, own.bytes)
            linked_rows = engine.measure(linked, "size")
        more = linked_rows["size"]
        within, uncompared = templates.count_pairs(circled, search.cap)
        compared = templates.count_pairs(small, None)[0] + within
        rest = engine.map(found, partial(templates.take_small, cap=search.cap), arrow.BUCKETS)
        self.stages.note("templates", Templates(rows=linked_rows["rows"], members=more, undecided=undecided))
        return Bucketing(
            engine.concat(rest, linked),
            linked,
            own,
            counts,
            compared,
            uncompared,
            templates.count_pairs(sizes, None)[0] - compared - uncompared,
            counts.members + more,
            undecided,
        )

    def _pair(
        self, engine: Engine[Rows], signatures: Signatures[Rows], bucketing: Bucketing[Rows]
    ) -> tuple[Rows, Paired]:
        search = self.search
        compare = comparison.estimate(search.threshold, search.least_estimate, cap=search.cap)
        size = self._size_pairs(bucketing.compared + bucketing.members, bucketing.members, signatures.counts)
        candidates = engine.compare("candidates", bucketing.rows, signatures.searched, compare, size)
        counts = comparison.count_candidates(
            engine.tally(candidates),
            compared=bucketing.compared,
            uncompared=bucketing.uncompared,
            settled=bucketing.settled,
        )
        return candidates, counts

    def _size_pairs(self, pairs: float, ends: float, signed: Signed) -> Size:
        return Size(pairs, ends, signed.rows, signed.rows * (8 + self.search.values))

    def _shingle_ends(
        self,
        engine: Engine[Rows],
        documents: Rows,
        known: ShingleSets[Rows] | None,
        candidates: Rows,
        labels: Labels | None,
    ) -> ShingleSets[Rows]:
        """Return SETS of all documents that are to be compared, those known among them."""
        pairs = engine.select(candidates, *comparison.PAIRS.names)
        if labels is not None:
            pairs = engine.concat(pairs, engine.parallelise("labels", labels.list_compared()))
        named = engine.map(pairs, comparison.list_ends, templates.MEMBERS)
        expected = 2 * engine.tally(candidates)["rows"]
        wanted = engine.group("ends", named, templates.DISTINCT, expected=expected)
        count = engine.tally(wanted)["rows"]
        if known is not None:
            wanted = engine.join(wanted, known.rows, "doc_id", how="anti")
            count = engine.measure(wanted)["rows"]
        sets = self._shingle(engine, documents, wanted, count)
        return sets if known is None else join_sets(engine, known, sets)

    def _estimate_loss(
        self,
        engine: Engine[Rows],
        signatures: Signatures[Rows],
        bucketing: Bucketing[Rows],
        sets: ShingleSets[Rows],
        connected: Connection[Rows],
    ) -> Lost:
        """Verify a sample of the pairs that the cap on buckets left uncompared."""
        if not bucketing.uncompared:
            return Lost(documents=bucketing.undecided)
        with self.stages.time("uncompared"):
            share = lsh.uncompared_share(bucketing.uncompared)
            assert bucketing.linked is not None, "the exact search leaves no pair uncompared"
            lost = verify_sample(
                engine,
                bucketing.linked,
                signatures.searched,
                sets,
                connected.components,
                threshold=self.search.threshold,
                least=self.search.least_estimate,
                cap=self.search.cap,
                share=share,
                size=self._size_pairs(bucketing.uncompared * share, bucketing.members, signatures.counts),
            )
            lost = replace(lost, documents=bucketing.undecided)
        self.stages.note("uncompared", lost)
        return lost

    def _measure_recall(
        self, engine: Engine[Rows], labels: Labels, sets: ShingleSets[Rows], components: Rows
    ) -> Labeled:
        with self.stages.time("recall"):
            pairs = labels.list_compared()
            given = engine.parallelise("labeled_pairs", pairs)
            compared = engine.collect(compare_all(engine, sets, "labeled", given, pairs.num_rows))
            found = Labeled(given=labels.given, points=labels.measure_recall(engine, compared, components))
        self.stages.note("recall", found)
        return found


def _list_heads(batches: Batches) -> Batches:
    for batch in buckets.take_heads(batches):
        yield batch.select(templates.MEMBERS.names)


def to_edges(batches: Batches) -> Batches:
    """IDENTICAL -> EDGES of Jaccard 1."""
    for batch in batches:
        ones = pa.array(np.ones(batch.num_rows))
        yield pa.RecordBatch.from_arrays([batch["set_id"], batch["doc_id"], ones], schema=arrow.EDGES)
