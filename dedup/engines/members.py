"""Components -> members: the one kept of each, and how the others resemble it."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.documents import Documents
from dedup.engines.parts import Floats
from dedup.engines.values import Features, Search
from dedup.engines.verification import Edges, Sets
from dedup.kernels import Flags, Integers, pairs
from dedup.kernels.charges import charge, spare
from dedup.kernels.components import connect
from dedup.kernels.representatives import POLICIES, elect, look_up, tell_largest
from dedup.tables.counts import Elected

KINDS = ("kept", "identical", "near")
KEPT, IDENTICAL, NEAR = range(3)


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
    sets: Sets,
    features: Features,
    search: Search,
) -> Members:
    """Elect the document kept of every component, measure all others against it, and spare what a limit spares."""
    positions, least = components
    rows = pa.array(documents.rows[positions])
    named = pa.table({"doc_id": documents.doc_ids[positions], "id": features.ids.take(rows)})
    sources = pa.nulls(positions.size, pa.string()) if features.sources is None else features.sources.take(rows)
    chosen = elect(least, POLICIES[search.policy](named))
    heads = documents.heads[positions]
    left, right = np.minimum(heads, heads[chosen]), np.maximum(heads, heads[chosen])
    kinds = np.where(chosen == np.arange(chosen.size), KEPT, np.where(left == right, IDENTICAL, NEAR))
    similarities = look_up(left, right, edges)
    distant = np.flatnonzero(np.isnan(similarities))
    similarities[distant] = _measure(left[distant], right[distant], sets)
    component_ids = documents.doc_ids[least]
    counted = Elected(
        rows=positions.size,
        near=int(np.count_nonzero(kinds == NEAR)),
        distant=distant.size,
        sizes=_count_sizes(component_ids),
        largest=tell_largest(named, component_ids, chosen),
    )
    spared, charges = positions[:0], pa.nulls(positions.size, pa.list_(pa.string()))
    if search.per_source:
        charged, owners, known = _charge(chosen, heads, sources, positions, edges)
        spared = spare(charged, owners, search.per_source)
        offsets = np.searchsorted(charged, np.arange(positions.size + 1)).astype(np.int32)
        charges = pa.ListArray.from_arrays(pa.array(offsets), known.take(pa.array(owners)))
    words = pa.array(KINDS)
    listed = pa.table({"doc_id": named["doc_id"].take(pa.array(spared)), "kind": words.take(pa.array(kinds[spared]))})
    if search.per_source:
        near = counted.near - int(np.count_nonzero(kinds[spared] == NEAR))
        counted = replace(counted, near=near, spared=spared.size)
    representatives = chosen.copy()
    representatives[spared], kinds[spared], similarities[spared] = spared, KEPT, 1.0
    table = pa.table(
        {
            **{name: named[name] for name in ("doc_id", "id")},
            "representative_id": named["id"].take(pa.array(representatives)),
            "component_id": component_ids,
            "kind": words.take(pa.array(kinds)),
            "jaccard": similarities,
            "left_id": documents.doc_ids[left],
            "right_id": documents.doc_ids[right],
            "source": sources,
            "representative_source": sources.take(pa.array(chosen)),
            "charged": charges,
        }
    )
    return Members(table, listed, counted)


def _measure(left: Integers, right: Integers, sets: Sets) -> Floats:
    """Return the exact Jaccard of pairs no edge joins; many members can share one."""
    distinct, places = np.unique(pairs.encode(left, right), return_inverse=True)
    return sets.compare(*pairs.decode(distinct))[places]


def _charge(
    chosen: Integers, heads: Integers, sources: pa.Array, positions: Integers, edges: Edges
) -> tuple[Integers, Integers, pa.Array]:
    """Return the documents that are removed, the numbers of the sources that answer for each, and their names."""
    # Null is a source like others.
    owners = pc.dictionary_encode(sources, null_encoding="encode")
    numbers = owners.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    left, right, heads = (np.searchsorted(positions, each) for each in (edges.left, edges.right, heads))
    return *charge(chosen, heads, numbers, (left, right, edges.jaccard)), owners.dictionary


def _count_sizes(component_ids: Integers) -> dict[int, int]:
    """Return how many components there are of every size, ascending."""
    sizes, counts = np.unique(np.unique(component_ids, return_counts=True)[1], return_counts=True)
    return dict(zip(sizes.tolist(), counts.tolist(), strict=True))
