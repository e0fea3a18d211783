"""Documents of buckets over the cap -> the pairs of them that must be compared; see docs/templates.md."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dedup.engines.candidates import Buckets, Candidates, count_pairs, select_likely
from dedup.engines.documents import Documents
from dedup.engines.values import Features, Search
from dedup.engines.verification import Sets
from dedup.kernels.sets import lsh, pairs
from dedup.kernels.sets.exact import take
from dedup.kernels.sets.templates import Items, link


class Linked(NamedTuple):
    """What the buckets over the cap add."""

    candidates: Candidates
    """Those of all buckets."""
    undecided: Buckets
    """Of documents whose pairs are compared under the cap."""


def link_templates(
    documents: Documents,
    large: Buckets,
    *,
    candidates: Candidates,
    sets: Sets,
    features: Features,
    search: Search,
    threads: int,
) -> Linked:
    """Return the candidates with those of buckets over the cap.

    Parameters
    ----------
    large
        Buckets over the cap.
    candidates
        Of all others.
    sets
        Of the members of `large`, at least.
    """
    members = np.unique(large.members)
    items = Items(*take(sets.shingles, sets.offsets, sets.numbers[members]), documents.sizes[members])
    linked = link(items, search.threshold, search.cap, exhaust=search.mode == "exact")
    is_undecided = np.zeros(documents.rows.size, dtype=bool)
    is_undecided[members[linked.undecided]] = True
    undecided = Buckets(*lsh.keep_members(*large[:3], is_undecided[large.members]), large.counts)
    circles = pairs.join(*undecided[:3], search.cap, doc_ids=documents.doc_ids)
    chosen = pairs.encode(members[linked.left], members[linked.right])
    found = pairs.sort_distinct(np.concatenate((circles, chosen)))
    found = np.setdiff1d(found, candidates.distinct, assume_unique=True)
    compared, uncompared = count_pairs(undecided, search.cap)
    more = select_likely(documents, found, compared, features, search, threads=threads)
    settled = count_pairs(large, None)[0] - compared - uncompared
    return Linked(_merge(candidates, more, uncompared=uncompared, settled=settled), undecided)


def _merge(one: Candidates, other: Candidates, *, uncompared: int, settled: int) -> Candidates:
    left, right = np.concatenate((one.left, other.left)), np.concatenate((one.right, other.right))
    # Both are in order, which a stable sort makes use of.
    order = np.argsort(pairs.encode(left, right), kind="stable")
    counted = replace(
        one.counts,
        rows=left.size,
        pairs_in_buckets=one.counts.pairs_in_buckets + other.counts.pairs_in_buckets,
        pairs_uncompared=uncompared,
        pairs_settled=settled,
        pairs_distinct=one.counts.pairs_distinct + other.counts.pairs_distinct,
        pairs_after_length=one.counts.pairs_after_length + other.counts.pairs_after_length,
    )
    distinct = np.concatenate((one.distinct, other.distinct))
    estimates = np.concatenate((one.estimates, other.estimates))
    return Candidates(left[order], right[order], estimates[order], distinct, counted)
