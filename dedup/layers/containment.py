"""The layer of containment: documents most of whose shingles another has, as large or larger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Size, conform_rows, describe, once, read_histogram
from dedup.kernels import election
from dedup.kernels.runs.batches import conform, conform_each
from dedup.kernels.runs.groups import join_groups
from dedup.kernels.sets import containment
from dedup.kernels.sets.jaccard import BINS
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers import inclusion
from dedup.layers.copies import OWNER, Choice, name_owners, spare
from dedup.layers.foreign import has_foreign, list_foreign
from dedup.layers.holders import HELD, SHARED, list_shingles
from dedup.layers.inclusion import LARGER
from dedup.layers.layer import CHANGED, CHOOSING, DOC_ID, EarlierKeys, Fetch, Found, Layer, Setup, to_edges
from dedup.layers.near.comparison import PAIRS, list_ends
from dedup.layers.ordering import rank_documents, sourced
from dedup.settings.keeping import FIRST_COME
from dedup.settings.rules import Range, Table
from dedup.tables import arrow

NAME = "containment"
KIND = "contained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment(Table):
    """Layer "containment": documents of which a larger one includes most, such as quotes and parts."""

    threshold: float = field(default=0.9, metadata={"range": Range(0, 1, above=True)})
    """Least share of a document's shingles that another of as many or more must have for the former to go, a number
    above 0 and at most 1."""

    min_shingles: int = field(default=20, metadata={"range": Range(1)})
    """Shingles that a document must have to be removed, a 64-bit integer of at least 1: many documents hold most of a
    few shingles by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainmentLayer(Layer):
    """The layer with its settings."""

    name = NAME
    table = Containment
    reads = ("shingles.shingle_size", "buckets.max_bucket", *CHOOSING)
    is_incremental = True
    reads_texts = False
    settings: Containment
    tokenizer: Tokenizer
    shingle_size: int
    most: int
    """Larger documents that a document is compared with for one shingle that they share, the largest."""
    choice: Choice

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        config = setup.config
        return cls(
            settings=config.of(Containment),
            tokenizer=setup.tokenizer,
            shingle_size=config.shingles.shingle_size,
            most=config.buckets.max_bucket,
            choice=Choice.of(config),
        )

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: DOCUMENTS -> REMOVALS.

        Every shingle is shuffled once, as 24 bytes, and those that several documents have twice more; then pairs of
        documents of which one may contain the other meet. For why no pair is missed but those that are counted see
        `dedup.kernels.sets.containment`.

        First every document is compared with the first holder, in the order of election, of each shingle by which it
        finds others. What is then within a document that nothing may contain goes for certain, and no other need be
        compared with it: so of a chain of inclusions each is compared with its last alone.
        """
        documents, rules = self._shingle(engine), self.choice.rules
        ranked = self.rank(engine, engine.select(documents, *sourced(engine.id_type).names))
        foreign = list_foreign(engine, documents) if has_foreign(rules) else None
        shared = engine.group("shared", documents, inclusion.COUNT_HOLDERS)
        # Shingles, by far the most of each table, are let go as soon as the next has them.
        documents = engine.select(documents, *arrow.register(engine.id_type).names)
        prefixes = self.choose_prefixes(engine, shared, ranked)
        del shared
        claims = engine.group("claims", prefixes, inclusion.claim_shingles(self.most))
        del prefixes
        return self.search(engine, documents, claims, ranked, fetch=engine.fetch, staying=foreign)[0]

    def find_since(self, engine: Engine[Rows], past: EarlierKeys) -> Found[Rows]:
        """Search the documents of a batch, and those of earlier ones, which stay, for some that contain them.

        See `Layer.find_since`.
        """
        documents = self._shingle(engine)
        own = engine.map(engine.select(documents, "doc_id", "shingles"), list_shingles, HELD, name="held")
        held = engine.concat(own, past.look_up(engine, inclusion.STORED, own))
        shared = engine.group("shared", held, replace(inclusion.COUNT_HOLDERS, emit=None))
        met = engine.join(shared, documents, "doc_id", how="anti")
        earlier = engine.group("earlier", engine.select(met, "doc_id"), once(DOC_ID))
        ordering = past.date(engine, inclusion.TEXTS, documents, earlier)
        later = replace(self, choice=replace(self.choice, rules=(FIRST_COME, *self.choice.rules)))
        fetch = past.open(engine, inclusion.TEXTS)
        ranked = later.rank(engine, ordering)
        prefixes = self.choose_prefixes(engine, shared, ranked)
        claims = engine.group("claims", prefixes, inclusion.claim_shingles(self.most))
        found, edges = later.search(engine, documents, claims, ranked, fetch=fetch, staying=earlier)
        assert found.removals is not None
        ends = engine.select(edges, "doc_id", f"{LARGER}doc_id")
        # What an earlier document contains has been told of with the batch that brought the later of both.
        fresh = engine.join(ends, earlier, f"{LARGER}doc_id", how="anti")
        kept = engine.join(fresh, found.removals, f"{LARGER}doc_id", how="anti")
        contained = engine.select(engine.join(kept, earlier, "doc_id", how="semi"), "doc_id")
        named = engine.group("contained", contained, once(DOC_ID))
        left = engine.join(engine.select(documents, "doc_id"), found.removals, "doc_id", how="anti")
        wanted = engine.group("left", left, once(DOC_ID))
        stored = {
            inclusion.STORED: engine.join(own, found.removals, "doc_id", how="anti"),
            inclusion.TEXTS: engine.fetch(
                "texts", wanted, partial(conform_each, schema=inclusion.WHOLE), inclusion.WHOLE
            ),
        }
        changes = conform_rows(engine, named, CHANGED, name="changed", was_kept=True, would_be_kept=False)
        return replace(found, stored=stored, changes=changes)

    def _shingle(self, engine: Engine[Rows]) -> Rows:
        """Return REGISTER with SETS."""
        shingle = partial(inclusion.shingle_batch, shingle_size=self.shingle_size, tokenizer=self.tokenizer)
        return describe(engine, "documents", shingle, inclusion.SETS)

    def search(
        self,
        engine: Engine[Rows],
        documents: Rows,
        claims: Rows,
        ranked: Rows,
        *,
        fetch: Fetch[Rows],
        staying: Rows | None,
    ) -> tuple[Found[Rows], Rows]:
        """Return what is found of CLAIMS of documents, and the pairs of which one contains the other.

        Parameters
        ----------
        staying
            Documents that stay whatever contains them; None without any.
        """
        seekers = engine.group("seekers", claims, inclusion.count_missed(self.most))
        heads = engine.map(claims, inclusion.name_heads, PAIRS, name="heads")
        first = self._compare(engine, "heads", heads, fetch)
        edges = self._direct(engine, first, ranked)
        # Of what none may contain it is certain that it stays.
        sure = engine.join(edges, seekers, f"{LARGER}doc_id", how="anti")
        gone = engine.group("gone", engine.select(sure, "doc_id"), once(DOC_ID))
        if staying is not None:
            gone = engine.join(gone, staying, "doc_id", how="anti")
        others = engine.group(
            "others",
            engine.concat(
                self._pair(engine, claims, gone),
                conform_rows(engine, heads, inclusion.PAIRED, turn=inclusion.COMPARED),
            ),
            inclusion.LEAVE_COMPARED,
        )
        tallies = [engine.tally(first)]
        if engine.tally(others)["rows"]:
            second = self._compare(engine, "others", others, fetch)
            edges = engine.concat(edges, self._direct(engine, second, ranked))
            tallies.append(engine.tally(second))
        return self._elect(engine, documents, edges, seekers, tallies), edges

    def rank(self, engine: Engine[Rows], ordering: Rows) -> Rows:
        """Return `voters` of documents with the columns of `sourced`."""
        voters = inclusion.voters(engine.id_type)
        ranked = rank_documents(engine, ordering, sourced(engine.id_type), self.choice.rules)
        return engine.map(ranked, partial(inclusion.to_voters, rules=self.choice.rules, schema=voters), voters)

    def choose_prefixes(self, engine: Engine[Rows], shared: Rows, ranked: Rows) -> Rows:
        """Return PREFIXES of SHARED."""
        settings = self.settings
        # A rank stands before all shingles of its document.
        ranks = engine.select(ranked, "doc_id", shingle="rank")
        return engine.group(
            "prefixes",
            engine.concat(shared, conform_rows(engine, ranks, SHARED, size=0, holders=0)),
            Shuffle(
                emitted=SHARED,
                by=["doc_id"],
                order=["holders", "shingle"],
                work=partial(inclusion.choose_prefixes, threshold=settings.threshold, least=settings.min_shingles),
                schema=inclusion.PREFIXES,
            ),
        )

    def _pair(self, engine: Engine[Rows], claims: Rows, gone: Rows) -> Rows:
        """Return PAIRED of CLAIMS, without the pairs with documents that go."""
        stays, goes = engine.join(claims, gone, "doc_id", how="anti"), engine.join(claims, gone, "doc_id", how="semi")
        rows = (
            engine.map(side, partial(inclusion.open_claims, most=most), inclusion.LEFT)
            for side, most in ((stays, self.most), (goes, 0))
        )
        return engine.group("paired", engine.concat(*rows), inclusion.PAIR)

    def _compare(self, engine: Engine[Rows], name: str, pairs: Rows, fetch: Fetch[Rows]) -> Rows:
        """Compare the pairs of a table, PAIRS -> OVERLAPS of those of which one contains the other."""
        ends = engine.group(f"{name}_ends", engine.map(pairs, list_ends, DOC_ID), once(DOC_ID))
        shingle = partial(inclusion.shingle_again, shingle_size=self.shingle_size, tokenizer=self.tokenizer)
        sets = fetch(f"{name}_sets", ends, shingle, inclusion.WANTED)
        moved = engine.measure(sets, "size")
        count = engine.tally(pairs)["rows"]
        size = Size(count, 2 * count, moved["rows"], inclusion.SHINGLE_BYTES * moved["size"])
        return engine.compare(f"{name}_compared", pairs, sets, inclusion.compare(self.settings.threshold), size)

    def _direct(self, engine: Engine[Rows], overlaps: Rows, ranked: Rows) -> Rows:
        """Return CONTAINED of OVERLAPS."""
        schema = inclusion.contained(engine.id_type)
        for end in ("left", "right"):
            columns = {f"{name}_{end}": name for name in inclusion.VOTING}
            overlaps = engine.join(overlaps, engine.select(ranked, "doc_id", **columns), f"{end}_id")
        return engine.map(overlaps, partial(inclusion.direct, schema=schema), schema)

    def _elect(
        self,
        engine: Engine[Rows],
        documents: Rows,
        edges: Rows,
        seekers: Rows,
        tallies: Sequence[Mapping[str, Any]],
    ) -> Found[Rows]:
        """Choose who goes."""
        count = sum(tally["rows"] for tally in tallies)
        components = engine.connect("components", engine.map(edges, inclusion.to_links, PAIRS), count)
        connected = engine.join(edges, components, "doc_id")
        schema = arrow.removals(engine.id_type)
        owned = schema.append(pa.field(OWNER, pa.int64()))
        elected = engine.group(
            "elected",
            connected,
            Shuffle(
                emitted=inclusion.contained(engine.id_type).append(pa.field("component_id", pa.int64())),
                by=["component_id"],
                order=["doc_id", f"{LARGER}doc_id"],
                work=partial(elect_batches, schema=owned),
                schema=owned,
            ),
        )
        removals = spare(engine, elected, self.choice.per_source)
        missing = engine.map(seekers, inclusion.select_missing, inclusion.MISSING)
        bins = [0] * BINS
        for tally in tallies:
            for number, pairs in read_histogram(tally, inclusion.CONTAINMENTS).items():
                bins[number] += pairs
        return Found(
            documents=documents,
            removals=removals,
            edges=to_edges(engine, removals),
            details={
                "compared": sum(bins),
                "contained": count,
                "containments": bins,
                "uncompared": {
                    "pairs_at_most": engine.measure(missing, "missed")["missed"],
                    "documents_at_most": engine.measure(engine.join(missing, removals, "doc_id", how="anti"))["rows"],
                },
                "spared": engine.measure(elected)["rows"] - engine.measure(removals)["rows"],
            },
        )


def elect_batches(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Choose who goes of the components of edges, which nothing joins to others."""
    for batch in join_groups(batches, ["component_id"]):
        yield elect(batch, schema)


def elect(edges: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the removals, each with the source that answers for it.

    Parameters
    ----------
    edges
        CONTAINED of whole components; at least one.
    """
    names = [name.removeprefix(LARGER) for name in edges.schema.names if name.startswith(LARGER)]
    others = edges.select([LARGER + name for name in names]).rename_columns(names)
    ends = pa.concat_batches([edges.select(names), others])
    doc_ids, firsts, numbers = np.unique(ends["doc_id"].to_numpy(), return_index=True, return_inverse=True)
    members = ends.take(pa.array(firsts))
    left, right = numbers[: edges.num_rows], numbers[edges.num_rows :]
    sizes, ranks = (members[name].to_numpy() for name in ("size", "rank"))
    fixed = members["is_fixed"].to_numpy(zero_copy_only=False)
    elected = containment.elect(left, right, sizes, ranks, fixed)
    gone = np.flatnonzero(elected.edges >= 0)
    owners = elected.owners[gone]
    sources = election.number_values(members["source"])
    least = np.arange(doc_ids.size)
    np.minimum.at(least, owners, gone)
    taken = elected.edges[gone]
    shared, *both = (edges[name].to_numpy()[taken] for name in ("shared", "size", f"{LARGER}size"))
    columns = {
        "representative_id": members["id"].take(pa.array(owners)),
        "component_id": members["id"].take(pa.array(least[owners])),
        "jaccard": shared / (sum(both) - shared),
        OWNER: name_owners(members["source"], owners, sources[gone] == sources[owners]),
    }
    return conform(members.take(pa.array(gone)), schema, layer=NAME, kind=KIND, **columns)
