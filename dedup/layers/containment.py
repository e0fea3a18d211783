"""The layer of containment: documents most of whose shingles another has, as large or larger."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from dedup.kernels import election
from dedup.kernels.runs.counting import add_groups
from dedup.kernels.runs.groups import join_groups
from dedup.kernels.sets import containment
from dedup.kernels.sets.jaccard import BINS
from dedup.kernels.text.tokenizer import Contract
from dedup.layers import including
from dedup.layers.copies import OWNER, Choice, name_owners, spare
from dedup.layers.including import LARGER, RANKED
from dedup.layers.layer import Batches, Engine, Found, Rows
from dedup.settings.layers import Containment
from dedup.tables import arrow

NAME = "containment"
KIND = "contained"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainmentLayer:
    """The layer with its settings."""

    settings: Containment
    contract: Contract
    shingle_size: int
    choice: Choice
    name: str = NAME

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: DOCUMENTS -> REMOVALS.

        Every shingle is shuffled once, as 24 bytes, and those that several documents have twice more; then the shingles
        of documents that may be contained, once for each other that may contain them.
        `dedup.kernels.sets.containment` says why no pair is missed but those that are counted.
        """
        settings = self.settings
        shingle = partial(including.shingle_batch, shingle_size=self.shingle_size, contract=self.contract)
        documents = engine.scan("documents", shingle, including.SETS)
        shared = engine.meet(
            "shared",
            documents,
            including.list_shingles,
            including.count_holders,
            emitted=including.HELD,
            by=["shingle"],
            order=["doc_id"],
            schema=including.SHARED,
            repeated=True,
        )
        prefixes = engine.meet(
            "prefixes",
            shared,
            None,
            partial(including.choose_prefixes, threshold=settings.threshold, least=settings.min_shingles),
            emitted=including.SHARED,
            by=["doc_id"],
            order=["holders", "shingle"],
            schema=including.PREFIXES,
        )
        paired = engine.meet(
            "paired",
            prefixes,
            None,
            partial(including.pair, most=settings.max_larger),
            emitted=including.PREFIXES,
            by=["shingle"],
            order=["turn", "doc_id"],
            schema=including.PAIRED,
        )
        asked = engine.meet(
            "asked",
            paired,
            including.name_both,
            including.join_pairs,
            emitted=including.PAIRED,
            by=["doc_id"],
            order=["other_id"],
            schema=including.ASKED,
        )
        return self._compare(engine, documents, asked)

    def _compare(self, engine: Engine[Rows], documents: Rows, asked: Rows) -> Found[Rows]:
        """Compare the pairs, and choose who goes."""
        sets_schema, sent, compared_schema = including.name_schemas(engine.id_type)
        sets = engine.fetch(
            "sets",
            asked,
            partial(
                including.shingle_again, shingle_size=self.shingle_size, contract=self.contract, schema=sets_schema
            ),
            sets_schema,
        )
        compared = engine.meet(
            "compared",
            sets,
            partial(including.send_sets, schema=sent),
            partial(including.compare, schema=compared_schema),
            emitted=sent,
            by=["to"],
            order=["turn", "doc_id"],
            schema=compared_schema,
        )
        threshold = self.settings.threshold
        edges = engine.turn(compared, partial(including.select_edges, threshold=threshold), compared_schema)
        binned = engine.meet(
            "bins",
            compared,
            including.bin_pairs,
            partial(add_groups, by=["bin"], sums=["pairs"], firsts=[]),
            emitted=including.BINNED,
            by=["bin"],
            order=["pairs"],
            schema=including.BINNED,
        )
        connected = engine.connect("components", edges, ("doc_id", f"{LARGER}doc_id"))
        schema = arrow.removals(engine.id_type)
        owned = schema.append(pa.field(OWNER, pa.int64()))
        elected = engine.meet(
            "elected",
            connected,
            None,
            partial(elect_batches, choice=self.choice, schema=owned),
            emitted=compared_schema.append(pa.field("component", pa.int64())),
            by=["component"],
            order=["doc_id", f"{LARGER}doc_id"],
            schema=owned,
        )
        removals = spare(engine, elected, self.choice.per_source)
        missing = engine.turn(asked, including.select_missing, including.MISSING)
        gone = engine.turn(removals, including.note_gone, including.MISSING)
        left = engine.meet(
            "uncompared",
            engine.unite(missing, gone),
            None,
            including.take_left,
            emitted=including.MISSING,
            by=["doc_id"],
            order=["missed"],
            schema=including.MISSING,
        )
        bins = [0] * BINS
        for row in engine.collect(binned).to_pylist():
            bins[row["bin"]] = row["pairs"]
        return Found(
            documents=documents,
            removals=removals,
            edges=True,
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
    for batch in join_groups(batches, ["component"]):
        yield elect(batch, choice, schema)


def elect(edges: pa.RecordBatch, choice: Choice, schema: pa.Schema) -> pa.RecordBatch:
    """Return the removals, each with the source that answers for it.

    Parameters
    ----------
    edges
        As `including.compare` makes them, those that reach the threshold, of whole components; at least one.
    """
    names = ["doc_id", "size", *RANKED]
    others = edges.select([LARGER + name for name in names]).rename_columns(names)
    ends = pa.concat_batches([edges.select(names), others])
    doc_ids, firsts, numbers = np.unique(ends["doc_id"].to_numpy(), return_index=True, return_inverse=True)
    members = ends.take(pa.array(firsts))
    ranks = election.rank_members(
        choice.rules,
        ids=members["id"],
        sources=members["source"],
        text_bytes=members["text_bytes"].to_numpy(),
        keys=members["order_keys"].flatten().to_numpy(zero_copy_only=False).reshape(doc_ids.size, -1),
    )
    places = np.empty(doc_ids.size, dtype=np.int64)
    places[np.lexsort(ranks.T[::-1])] = np.arange(doc_ids.size)
    left, right = numbers[: edges.num_rows], numbers[edges.num_rows :]
    elected = containment.elect(left, right, members["size"].to_numpy(), places)
    gone = np.flatnonzero(elected.edges >= 0)
    owners = elected.owners[gone]
    sources = election.number_sources(members["source"])
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
