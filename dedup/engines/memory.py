"""The memory engine: everything between the passes over the text, on the arrays of one process.

What it finds is row for row what the Spark stages find, whatever their partitions and cells.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
import pyarrow as pa

from dedup.engines.candidates import (
    Buckets,
    Candidates,
    bucket_bands,
    bucket_prefixes,
    draw_uncompared,
    pair_documents,
    part,
)
from dedup.engines.documents import Documents, check_ids, collapse, find_renamed
from dedup.engines.members import Components, connect_documents, elect_members, find_parted
from dedup.engines.recall import measure_recall, place_labels
from dedup.engines.templates import link_templates
from dedup.engines.values import Features, Found, Search
from dedup.engines.verification import Edges, Sets, SetsOf, collect_sets, verify
from dedup.informing import LOSS, RECALL, Inform
from dedup.kernels import Integers
from dedup.kernels.sets import lsh
from dedup.tables.counts import Collapsed, Connected, Lost

__all__ = ["Features", "Found", "Search", "SetsOf", "check_ids", "find", "find_renamed"]


def find(
    features: Features,
    sets_of: SetsOf,
    search: Search,
    labels: pa.Table | None = None,
    *,
    threads: int = 1,
    free_bytes: int | None = None,
    stage: Callable[[str], AbstractContextManager[object]] = nullcontext,
    inform: Inform | None = None,
) -> Found:
    """Find identical and near documents, and the one to keep of each component.

    Parameters
    ----------
    features
        Rows that `check_ids` has let pass.
    sets_of
        A second pass over the text, at most one: in exact mode for all documents that are compared, otherwise for those
        of candidates, of buckets over the cap, and of labelled pairs.
    labels
        LABELS of duplicates, left_id and right_id, each pair once; an id that cannot be of the corpus is null.
    threads
        Threads that estimate and compare pairs.
    stage
        Entered for each stage, by its name.
    inform
        Runs what is no part of the search.
    free_bytes
        Memory that pairs, or sets, may take, whose number shows only on the way; None for any.

    Raises
    ------
    DataError
        When there are labels, but none of two documents of the corpus.
    DedupError
        When `free_bytes` is too little.
    """
    inform = inform or Inform()
    with stage("identical"):
        documents = collapse(features)
    placed = None if labels is None else place_labels(labels, documents)
    collect = partial(
        collect_sets, documents, sets_of=sets_of, mode=search.mode, threads=threads, free_bytes=free_bytes
    )
    sets: Sets | None = None
    with stage("buckets"):
        if search.mode == "exact":
            sets = collect(np.flatnonzero(documents.is_head))
            buckets = bucket_prefixes(documents, sets, search.threshold)
        else:
            buckets = bucket_bands(documents, features, free_bytes)
    small, large = part(buckets, search.cap)
    with stage("candidates"):
        candidates = pair_documents(documents, small, features, search, threads=threads, free_bytes=free_bytes)
    with stage("edges"):
        if sets is None:
            labelled = [] if placed is None else placed.list_compared()
            wanted = np.zeros(documents.rows.size, dtype=bool)
            for ends in (candidates.left, candidates.right, *labelled):
                wanted[ends] = True
            # First those that are linked, which is done on all of them at once.
            linkable = np.unique(large.members)
            wanted[linkable] = False
            sets = collect(np.concatenate((linkable, np.flatnonzero(wanted))))
        linked = link_templates(
            documents,
            large,
            candidates=candidates,
            sets=sets,
            features=features,
            search=search,
            threads=threads,
        )
        candidates = linked.candidates
        drawn = inform(LOSS, draw_uncompared, documents, linked.undecided, features, search, threads=threads)
        edges, near_misses, verified = verify(candidates.left, candidates.right, sets, search.threshold)
    with stage("components"):
        components = connect_documents(documents, edges)
    with stage("representatives"):
        members = elect_members(
            documents, components, edges=edges, near_misses=near_misses, sets=sets, features=features, search=search
        )
    identical, repeated = _list_identical(documents), _list_repeated(documents)
    return Found(
        identical=identical,
        repeated=repeated,
        candidates=_list_candidates(documents, candidates),
        edges=_list_edges(documents, edges),
        near_misses=_list_edges(documents, near_misses),
        components=_name(documents, doc_id=components.positions, component_id=components.least),
        members=members.table,
        spared=members.spared,
        recall=[] if placed is None else inform(RECALL, measure_recall, placed, documents, sets, components),
        collapsed=Collapsed(rows=identical.num_rows, repeated=repeated.num_rows),
        bucketed=buckets.counts,
        paired=candidates.counts,
        verified=verified,
        connected=Connected(rows=components.positions.size, engine="memory"),
        lost=None
        if drawn is None
        else inform(
            LOSS,
            _estimate_loss,
            drawn,
            linked.undecided,
            documents,
            threshold=search.threshold,
            components=components,
            sets=sets,
        ),
        elected=members.counts,
    )


def _estimate_loss(
    drawn: Candidates,
    undecided: Buckets,
    documents: Documents,
    *,
    components: Components,
    sets: Sets,
    threshold: float,
) -> Lost:
    """Count what was lost of pairs drawn from those that the cap on buckets left uncompared."""
    parted = find_parted(drawn.left, drawn.right, components, documents.rows.size)
    left, right = drawn.left[parted], drawn.right[parted]
    chosen = lsh.thin(documents.doc_ids[left], documents.doc_ids[right], lsh.verified_share(left.size))
    similar = sets.compare(left[chosen], right[chosen]) >= threshold
    return Lost(
        documents=np.unique(undecided.members).size,
        drawn=drawn.distinct.size,
        possible=left.size,
        verified=similar.size,
        lost=int(np.count_nonzero(similar)),
    )


def _name(documents: Documents, **positions: Integers) -> pa.Table:
    """Return a table of documents' ids."""
    return pa.table({name: documents.doc_ids[places] for name, places in positions.items()})


def _list_identical(documents: Documents) -> pa.Table:
    copies = np.flatnonzero(documents.heads != np.arange(documents.heads.size))
    return _name(documents, doc_id=copies, set_id=documents.heads[copies])


def _list_repeated(documents: Documents) -> pa.Table:
    repeated = np.flatnonzero(documents.copies > 1)
    return _name(documents, doc_id=repeated).append_column("copies", pa.array(documents.copies[repeated]))


def _list_candidates(documents: Documents, candidates: Candidates) -> pa.Table:
    pairs = _name(documents, left_id=candidates.left, right_id=candidates.right)
    return pairs.append_column("estimate", pa.array(candidates.estimates, from_pandas=True))


def _list_edges(documents: Documents, edges: Edges) -> pa.Table:
    return _name(documents, left_id=edges.left, right_id=edges.right).append_column("jaccard", pa.array(edges.jaccard))
