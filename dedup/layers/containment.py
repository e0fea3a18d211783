"""The layer of containment: documents most of whose shingles another has, as large or larger."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from dedup.kernels import Flags, Integers, containment, keeping
from dedup.kernels.counting import add_groups
from dedup.kernels.jaccard import BINS
from dedup.kernels.runs import rank
from dedup.kernels.text import Contract
from dedup.layers import including
from dedup.layers.copies import Choice
from dedup.layers.including import LARGER, RANKED
from dedup.layers.layer import Engine, Found, Rows
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
        of documents that may be contained, once for each other that may contain them. See `dedup.kernels.containment`
        for why no pair is missed but those that are counted.
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
        edges = engine.collect(
            engine.turn(compared, partial(including.select_edges, threshold=threshold), compared_schema)
        )
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
        removals, spared = remove_contained(edges, self.choice, arrow.removals(engine.id_type))
        missing = engine.collect(engine.turn(asked, including.select_missing, including.MISSING))
        bins = [0] * BINS
        for row in engine.collect(binned).to_pylist():
            bins[row["bin"]] = row["pairs"]
        gone = np.isin(missing["doc_id"].to_numpy(), removals["doc_id"].to_numpy())
        return Found(
            documents=documents,
            removals=engine.spread("removals", removals),
            edges=True,
            details={
                "compared": sum(bins),
                "contained": edges.num_rows,
                "containments": bins,
                "uncompared": {
                    "pairs_at_most": int(missing["missed"].to_numpy().sum()),
                    "documents_at_most": int(np.count_nonzero(~gone)),
                },
                "spared": spared,
            },
        )


def remove_contained(edges: pa.Table, choice: Choice, schema: pa.Schema) -> tuple[pa.Table, int]:
    """Return the removals, and how many documents the limit per source has spared.

    Parameters
    ----------
    edges
        As `including.compare` makes them, those that reach the threshold.
    """
    names = ["doc_id", "size", *RANKED]
    ends = pa.concat_tables(
        [edges.select(names), edges.select([LARGER + name for name in names]).rename_columns(names)]
    )
    doc_ids, firsts, numbers = np.unique(ends["doc_id"].to_numpy(), return_index=True, return_inverse=True)
    if not doc_ids.size:
        return schema.empty_table(), 0
    [members] = ends.take(pa.array(firsts)).combine_chunks().to_batches()
    ranks = keeping.rank_members(
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
    gone = gone[_mark_answered(keeping.number_sources(members["source"]), elected.owners, gone, choice.per_source)]
    owners = elected.owners[gone]
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
    }
    spared = int(np.count_nonzero(elected.edges >= 0)) - gone.size
    return pa.table([columns[name] for name in schema.names], schema=schema), spared


def _mark_answered(sources: Integers, owners: Integers, gone: Integers, most: int) -> Flags:
    """Tell which removals a source answers for within the limit: those of the least doc_ids, and of its own all."""
    answering = sources[owners[gone]]
    is_other = answering != sources[gone]
    order = np.lexsort((gone, answering, is_other))
    within = np.empty(gone.size, dtype=bool)
    within[order] = rank(is_other[order], answering[order]) < most
    answered: Flags = within | ~is_other | (most == 0)
    return answered
