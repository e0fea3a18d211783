"""The layer of containment: documents most of whose shingles another has, as large or larger."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Work, conform_rows, describe, once
from dedup.kernels import election
from dedup.kernels.runs.batches import conform_each
from dedup.kernels.runs.groups import join_groups
from dedup.kernels.sets import containment
from dedup.kernels.sets.jaccard import BINS
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers import inclusion
from dedup.layers.copies import OWNER, Choice, name_owners, spare
from dedup.layers.foreign import has_foreign, list_foreign, mark_foreign
from dedup.layers.holders import HELD, SHARED
from dedup.layers.inclusion import LARGER
from dedup.layers.layer import CHANGED, DOC_ID, EarlierKeys, Fetch, Found, Layer, Setup, to_edges
from dedup.layers.ordering import ordered, rank_documents
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

        Every shingle is shuffled once, as 24 bytes, and those that several documents have twice more; then the shingles
        of documents that may be contained, once for each other that may contain them. For why no pair is missed but
        those that are counted see `dedup.kernels.sets.containment`.

        First every document is compared with the first holder, in the order of election, of each shingle by which it
        finds others. What is then within a document that nothing may contain goes for certain, and no other need be
        compared with it: so of a chain of inclusions each is compared with its last alone.
        """
        documents, rules = self._shingle(engine), self.choice.rules
        shared = engine.group("shared", documents, inclusion.COUNT_HOLDERS)
        ordering = engine.select(documents, *ordered(engine.id_type).names)
        foreign = list_foreign(engine, documents) if has_foreign(rules) else None
        return self.search(engine, documents, shared, ordering, fetch=engine.fetch, staying=foreign)[0]

    def find_since(self, engine: Engine[Rows], past: EarlierKeys) -> Found[Rows]:
        """Search the documents of a batch, and those of earlier ones, which stay, for some that contain them.

        See `Layer.find_since`.
        """
        documents = self._shingle(engine)
        own = engine.map(engine.select(documents, "doc_id", "shingles"), inclusion.list_shingles, HELD, name="held")
        held = engine.concat(own, past.look_up(engine, inclusion.STORED, own))
        shared = engine.group("shared", held, replace(inclusion.COUNT_HOLDERS, emit=None))
        met = engine.join(shared, documents, "doc_id", how="anti")
        earlier = engine.group("earlier", engine.select(met, "doc_id"), once(DOC_ID))
        ordering = past.date(engine, inclusion.TEXTS, documents, earlier)
        later = replace(self, choice=replace(self.choice, rules=(FIRST_COME, *self.choice.rules)))
        fetch = past.open(engine, inclusion.TEXTS)
        found, edges = later.search(engine, documents, shared, ordering, fetch=fetch, staying=earlier)
        assert found.removals is not None
        ends = engine.select(edges, "doc_id", f"{LARGER}doc_id")
        kept = engine.join(ends, found.removals, f"{LARGER}doc_id", how="anti")
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
        shared: Rows,
        ordering: Rows,
        *,
        fetch: Fetch[Rows],
        staying: Rows | None,
    ) -> tuple[Found[Rows], Rows]:
        """Return what is found of SHARED of documents, and the pairs of which one contains the other.

        Parameters
        ----------
        ordering
            Columns of `ordered`.
        staying
            Documents that stay whatever contains them; None without any.
        """
        claims = self._claim(engine, shared, ordering)
        heads = self._ask(engine, "heads", claims, partial(inclusion.name_heads, most=self.most))
        first = self._compare(engine, "heads", heads, fetch)
        edges = self._select_edges(engine, first)
        contained = engine.select(edges, "doc_id", larger_id=f"{LARGER}doc_id")
        contained = engine.concat(
            engine.map(heads, inclusion.note_sure, inclusion.CONTAINED),
            conform_rows(engine, contained, inclusion.CONTAINED, role=inclusion.INSIDE),
        )
        gone = engine.group("gone", contained, inclusion.FIND_GONE)
        if staying is not None:
            gone = engine.join(gone, staying, "doc_id", how="anti")
        paired = engine.concat(
            self._pair(engine, claims, gone), engine.map(claims, inclusion.note_done, inclusion.PAIRED)
        )
        others = self._ask(engine, "others", paired, inclusion.name_both)
        if not engine.measure(others)["rows"]:
            return self._elect(engine, documents, heads, first, edges), edges
        second = self._compare(engine, "others", others, fetch)
        compared, edges = (
            engine.concat(*tables) for tables in ((first, second), (edges, self._select_edges(engine, second)))
        )
        return self._elect(engine, documents, heads, compared, edges), edges

    def _claim(self, engine: Engine[Rows], shared: Rows, ordering: Rows) -> Rows:
        """Return CLAIMS of SHARED."""
        settings = self.settings
        ranked = rank_documents(engine, ordering, ordered(engine.id_type), self.choice.rules)
        # A rank stands before all shingles of its document.
        ranks = engine.select(ranked, "doc_id", shingle="rank")
        prefixes = engine.group(
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
        return engine.group(
            "claims",
            prefixes,
            Shuffle(
                emitted=inclusion.PREFIXES,
                by=["shingle"],
                order=["turn", "rank"],
                work=partial(inclusion.claim, most=self.most),
                schema=inclusion.CLAIMS,
            ),
        )

    def _pair(self, engine: Engine[Rows], claims: Rows, gone: Rows) -> Rows:
        """Return PAIRED of CLAIMS and GONE, without the pairs with documents that go."""
        left = engine.group(
            "open",
            engine.concat(
                conform_rows(engine, claims, inclusion.OPEN, role=inclusion.CLAIM),
                conform_rows(engine, gone, inclusion.OPEN, role=inclusion.OUT, shingle=0, place=0, seeks=0),
            ),
            Shuffle(
                emitted=inclusion.OPEN,
                by=["doc_id"],
                order=["role"],
                work=partial(inclusion.open_claims, most=self.most),
                schema=inclusion.LEFT,
            ),
        )
        return engine.group("paired", left, inclusion.PAIR)

    def _ask(self, engine: Engine[Rows], name: str, rows: Rows, emit: Work) -> Rows:
        """Return ASKED of rows that `emit` makes PAIRED of."""
        return engine.group(
            name,
            rows,
            Shuffle(
                emit=emit,
                emitted=inclusion.PAIRED,
                by=["doc_id"],
                order=["other_id", "missed"],
                work=inclusion.join_pairs,
                schema=inclusion.ASKED,
            ),
        )

    def _compare(self, engine: Engine[Rows], name: str, asked: Rows, fetch: Fetch[Rows]) -> Rows:
        """Compare the pairs."""
        sets_schema, sent, compared_schema = inclusion.name_schemas(engine.id_type)
        sets = fetch(
            f"{name}_sets",
            asked,
            partial(
                inclusion.shingle_again, shingle_size=self.shingle_size, tokenizer=self.tokenizer, schema=sets_schema
            ),
            sets_schema,
        )
        return engine.group(
            f"{name}_compared",
            sets,
            Shuffle(
                emit=partial(inclusion.send_sets, schema=sent),
                emitted=sent,
                by=["to"],
                order=["turn", "doc_id"],
                work=partial(inclusion.compare, schema=compared_schema),
                schema=compared_schema,
            ),
        )

    def _select_edges(self, engine: Engine[Rows], compared: Rows) -> Rows:
        """Return the pairs of which one contains the other."""
        *_, schema = inclusion.name_schemas(engine.id_type)
        return engine.map(compared, partial(inclusion.select_edges, threshold=self.settings.threshold), schema)

    def _elect(self, engine: Engine[Rows], documents: Rows, asked: Rows, compared: Rows, edges: Rows) -> Found[Rows]:
        """Choose who goes."""
        *_, compared_schema = inclusion.name_schemas(engine.id_type)
        binned = engine.group("bins", compared, inclusion.BIN_PAIRS)
        links = engine.map(edges, inclusion.to_links, inclusion.LINKS)
        components = engine.connect("components", links, engine.measure(links)["rows"])
        connected = engine.join(edges, components, "doc_id")
        schema = arrow.removals(engine.id_type)
        owned = schema.append(pa.field(OWNER, pa.int64()))
        elected = engine.group(
            "elected",
            connected,
            Shuffle(
                emitted=compared_schema.append(pa.field("component_id", pa.int64())),
                by=["component_id"],
                order=["doc_id", f"{LARGER}doc_id"],
                work=partial(elect_batches, choice=self.choice, schema=owned),
                schema=owned,
            ),
        )
        removals = spare(engine, elected, self.choice.per_source)
        missing = engine.map(asked, inclusion.select_missing, inclusion.MISSING)
        gone = conform_rows(engine, removals, inclusion.MISSING, missed=-1)
        left = engine.group("uncompared", engine.concat(missing, gone), inclusion.TAKE_LEFT)
        bins = [0] * BINS
        for row in engine.collect(binned).to_pylist():
            bins[row["bin"]] = row["pairs"]
        return Found(
            documents=documents,
            removals=removals,
            edges=to_edges(engine, removals),
            details={
                "compared": sum(bins),
                "contained": engine.measure(edges)["rows"],
                "containments": bins,
                "uncompared": {
                    "pairs_at_most": engine.measure(missing, "missed")["missed"],
                    "documents_at_most": engine.measure(left)["rows"],
                },
                "spared": engine.measure(elected)["rows"] - engine.measure(removals)["rows"],
            },
        )


def elect_batches(batches: Batches, *, choice: Choice, schema: pa.Schema) -> Batches:
    """Choose who goes of the components of edges, which nothing joins to others."""
    for batch in join_groups(batches, ["component_id"]):
        yield elect(batch, choice, schema)


def elect(edges: pa.RecordBatch, choice: Choice, schema: pa.Schema) -> pa.RecordBatch:
    """Return the removals, each with the source that answers for it.

    Parameters
    ----------
    edges
        As `inclusion.compare` makes them, those that reach the threshold, of whole components; at least one.
    """
    names = ["doc_id", "size", *inclusion.COMPARED]
    others = edges.select([LARGER + name for name in names]).rename_columns(names)
    ends = pa.concat_batches([edges.select(names), others])
    doc_ids, firsts, numbers = np.unique(ends["doc_id"].to_numpy(), return_index=True, return_inverse=True)
    members = ends.take(pa.array(firsts))
    ranks = election.rank_rows(choice.rules, members)
    places = np.empty(doc_ids.size, dtype=np.int64)
    places[np.lexsort(ranks.T[::-1])] = np.arange(doc_ids.size)
    left, right = numbers[: edges.num_rows], numbers[edges.num_rows :]
    fixed = mark_foreign(members, choice.rules)
    elected = containment.elect(left, right, members["size"].to_numpy(), places, fixed)
    gone = np.flatnonzero(elected.edges >= 0)
    owners = elected.owners[gone]
    sources = election.number_values(members["source"])
    least = np.arange(doc_ids.size)
    np.minimum.at(least, owners, gone)
    taken = elected.edges[gone]
    shared, *sizes = (edges[name].to_numpy()[taken] for name in ("shared", "size", f"{LARGER}size"))
    columns = {
        "doc_id": pa.array(doc_ids[gone]),
        "id": members["id"].take(pa.array(gone)),
        "layer": pa.repeat(NAME, gone.size),
        "kind": pa.repeat(KIND, gone.size),
        "representative_id": members["id"].take(pa.array(owners)),
        "component_id": members["id"].take(pa.array(least[owners])),
        "jaccard": pa.array(shared / (sum(sizes) - shared)),
        OWNER: name_owners(members["source"], owners, sources[gone] == sources[owners]),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
