"""Components -> members: the one kept of each, and how the others resemble it."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.documents import Documents
from dedup.engines.parts import Floats
from dedup.engines.values import Features, Search
from dedup.engines.verification import Edges
from dedup.kernels import Flags, Integers, election
from dedup.kernels.components import connect, take_component
from dedup.kernels.election import name_decided
from dedup.kernels.removal_statistics import (
    DESCRIBED,
    REMOVERS,
    complete_joined,
    count_joined,
    list_own,
    list_reached,
    summarise_removals,
)
from dedup.kernels.representatives import describe_largest, look_up
from dedup.kernels.sets import pairs
from dedup.kernels.source_limits import charge, spare
from dedup.tables.counts import Elected

KINDS = ("kept", "identical", "near")
KEPT, IDENTICAL, NEAR = range(3)


class HasSimilarities(Protocol):
    """Where documents are compared."""

    def compare(self, left: Integers, right: Integers, /) -> Floats:
        """Return the exact Jaccard of pairs of positions."""


class Components(NamedTuple):
    """Positions of documents that another one resembles, ascending, and the least of the component of each."""

    positions: Integers
    least: Integers


class Members(NamedTuple):
    """MEMBERS, and SPARED with the kind that its documents would have."""

    table: pa.Table
    spared: pa.Table
    counts: Elected


def connect_documents(documents: Documents, edges: Edges) -> Components:
    """Connect heads by edges, and the other documents to the heads of their shingle sets."""
    copies = np.flatnonzero(documents.heads != np.arange(documents.heads.size))
    left = np.concatenate((edges.left, documents.heads[copies]))
    return Components(*connect(left, np.concatenate((edges.right, copies))))


def find_parted(left: Integers, right: Integers, components: Components, count: int) -> Flags:
    """Tell which pairs of positions, of `count` documents, do not share a component."""
    places = np.full(count, -1)
    places[components.positions] = components.least
    parted: Flags = (places[left] != places[right]) | (places[left] < 0)
    return parted


def elect_members(
    documents: Documents,
    components: Components,
    *,
    edges: Edges,
    near_misses: Edges,
    sets: HasSimilarities,
    features: Features,
    search: Search,
) -> Members:
    """Elect the document kept of every component, measure all others against it, and spare what a limit spares."""
    positions, least = components
    rows = pa.array(documents.rows[positions])
    named = pa.table({"doc_id": documents.doc_ids[positions], "id": features.ids.take(rows)})
    sources = pa.nulls(positions.size, pa.string()) if features.sources is None else features.sources.take(rows)
    members = _rank(documents, components, sources=sources, features=features, search=search)
    kept, known = _choose(members, edges=edges, sets=sets, search=search)
    chosen = kept.owners
    heads = documents.heads[positions]
    left, right = np.minimum(heads, heads[chosen]), np.maximum(heads, heads[chosen])
    kinds = np.where(kept.stays, KEPT, np.where(left == right, IDENTICAL, NEAR))
    similarities = np.where(kept.stays, 1.0, look_up(left, right, known))
    parted = election.count_parted(members, known, kept, similarities, search.policy)
    distant = np.flatnonzero(np.isnan(similarities))
    similarities[distant] = _measure(left[distant], right[distant], sets)
    component_ids = documents.doc_ids[least]
    spared, charges = positions[:0], pa.nulls(positions.size, pa.list_(pa.string()))
    if search.per_source:
        similar = Edges(*known).select(known.jaccard >= search.threshold)
        charged, owners, names = _charge(kept, heads, sources, positions, similar)
        spared = spare(charged, owners, search.per_source)
        offsets = np.searchsorted(charged, np.arange(positions.size + 1)).astype(np.int32)
        charges = pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(owners)))
    words = pa.array(KINDS)
    listed = pa.table({"doc_id": named["doc_id"].take(pa.array(spared)), "kind": words.take(pa.array(kinds[spared]))})
    kinds[spared], similarities[spared] = KEPT, 1.0
    representatives = np.where(kinds == KEPT, np.arange(chosen.size), chosen)
    table = pa.table(
        {
            **{name: named[name] for name in ("doc_id", "id")},
            "representative_doc_id": named["doc_id"].take(pa.array(representatives)),
            "representative_id": named["id"].take(pa.array(representatives)),
            "component_id": component_ids,
            "component": features.ids.take(pa.array(documents.rows[least])),
            "kind": words.take(pa.array(kinds)),
            "jaccard": similarities,
            "left_id": documents.doc_ids[left],
            "right_id": documents.doc_ids[right],
            "source": sources,
            "representative_source": sources.take(pa.array(chosen)),
            "charged": charges,
        }
    )
    removed = table.filter(pa.array(kinds != KEPT))
    counted = Elected(
        rows=positions.size,
        near=int(np.count_nonzero(kinds == NEAR)),
        distant=distant.size,
        spared=spared.size,
        **summarise_removals(removed.select([*DESCRIBED]), search.threshold),
        removers=[] if features.sources is None else _list_removers(removed),
        copied=int(np.count_nonzero(kept.stays & (chosen != np.arange(chosen.size)))),
        relinked=kept.relinked,
        parted=parted,
        joined=_count_joined(known, near_misses, components, search.threshold),
        rules=name_decided(kept.decided, search.rules),
        sizes=_count_sizes(component_ids),
        largest=describe_largest(named, component_ids, chosen),
    )
    return Members(table, listed, counted)


def _rank(
    documents: Documents, components: Components, *, sources: pa.Array, features: Features, search: Search
) -> election.Electorate:
    """Return the members of components in the order that the rules give them."""
    positions, least = components
    rows, heads = documents.rows[positions], documents.heads[positions]
    ranks = election.rank_members(
        search.rules,
        ids=features.ids.take(pa.array(rows)),
        sources=sources,
        text_bytes=np.zeros(rows.size, np.int64) if features.text_bytes is None else features.text_bytes[rows],
        keys=np.empty((rows.size, 0)) if features.order_keys is None else features.order_keys[rows],
    )
    return election.Electorate(least, heads, documents.sizes[positions], election.number_sources(sources), ranks)


def _choose(
    members: election.Electorate, *, edges: Edges, sets: HasSimilarities, search: Search
) -> tuple[election.Kept, election.KnownPairs]:
    """Choose who stays, comparing pairs that were no candidates as far as the choice depends on them."""
    known = election.KnownPairs(*edges)
    while (kept := election.choose(members, known, search.policy)).left.size:
        asked = election.KnownPairs(kept.left, kept.right, sets.compare(kept.left, kept.right))
        known = election.KnownPairs(*(np.concatenate(columns) for columns in zip(known, asked, strict=True)))
    return kept, known


def _list_removers(removed: pa.Table) -> list[dict[str, Any]]:
    """Count the removals of each source by that of the one kept, of the REMOVERS pairs with most."""
    table = removed.select(["source", "representative_source"]).rename_columns(["source", "by"])
    sums = table.group_by(["source", "by"]).aggregate([([], "count_all")]).rename_columns(["source", "by", "documents"])
    keys = [("documents", "descending", "at_end"), *((name, "ascending", "at_start") for name in ("source", "by"))]
    told: list[dict[str, Any]] = sums.sort_by(keys).slice(0, REMOVERS).to_pylist()
    return told


def _count_joined(
    known: election.KnownPairs, near_misses: Edges, components: Components, threshold: float
) -> list[int | None]:
    """Count the shingle sets joined at each threshold, below the run's own as far as near misses tell."""
    joined = count_joined(*known, list_own(threshold))
    left, right = (take_component(ends, *components) for ends in near_misses[:2])
    further = count_joined(left, right, near_misses.jaccard, list_reached(threshold))
    return complete_joined(joined, further, threshold)


def _measure(left: Integers, right: Integers, sets: HasSimilarities) -> Floats:
    """Return the exact Jaccard of pairs no edge joins; many members can share one."""
    distinct, places = np.unique(pairs.encode(left, right), return_inverse=True)
    return sets.compare(*pairs.decode(distinct))[places]


def _charge(
    kept: election.Kept, heads: Integers, sources: pa.Array, positions: Integers, edges: Edges
) -> tuple[Integers, Integers, pa.Array]:
    """Return the documents that are removed, the numbers of the sources that answer for each, and their names."""
    # Null is a source like others.
    owners = pc.dictionary_encode(sources, null_encoding="encode")
    numbers = owners.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    left, right, heads = (np.searchsorted(positions, each) for each in (edges.left, edges.right, heads))
    return *charge(kept.owners, heads, numbers, (left, right, edges.jaccard), kept.stays), owners.dictionary


def _count_sizes(component_ids: Integers) -> dict[int, int]:
    """Return how many components there are of every size, ascending."""
    sizes, counts = np.unique(np.unique(component_ids, return_counts=True)[1], return_counts=True)
    return dict(zip(sizes.tolist(), counts.tolist(), strict=True))
