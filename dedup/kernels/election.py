"""Election of the documents that stay of each component: order of its members, and linkage."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Flags, Floats, Integers
from dedup.kernels.representatives import count_copies, elect
from dedup.kernels.runs.bounds import find_bounds, mark_firsts, rank
from dedup.kernels.sets import filters, pairs

FIRST = 100
"""Most kept neighbours of a removed document that each further kept neighbour of it is compared with."""
BY_ID = "smallest_id"
"""Rule that has no column of keys."""
OF_TIME = ("latest", "earliest")
RANKED = ("id", "order_keys")
"""Columns of documents that the rules compare."""


class ElectionPolicy(NamedTuple):
    """Settings of an election."""

    threshold: float
    by_representative: bool = False
    max_component: int = 0
    """Most members of a component without linkage by representative; 0 for no limit."""
    copies: int | str = 1
    """Setting `keep.copies`."""
    for_fixed: bool = False
    """Whether members go in favour of fixed ones alone."""


class Electorate(NamedTuple):
    """The n documents that resemble others, in any order."""

    component_ids: Integers
    set_ids: Integers
    """Shingle set of each document; all of a component's sets have edges."""
    sizes: Integers
    """Shingles."""
    ranks: Integers
    """Rank by each rule, less is better, the last rule by distinct ids; int64 [n, rules]."""
    fixed: Flags
    """Flags of the members that stay whatever they resemble, first in rank."""

    def take(self, rows: Integers) -> Self:
        """Return some members."""
        return self._replace(**{name: column[rows] for name, column in self._asdict().items()})


class KnownPairs(NamedTuple):
    """Distinct pairs left < right of set ids with exact Jaccard."""

    left: Integers
    right: Integers
    jaccard: Floats


class Kept(NamedTuple):
    """Result of an election for every member."""

    owners: Integers
    """Position of the document kept in favour of each; a kept document is its own."""
    decided: Integers
    """Number of choices that each rule decided; int64 [rules]."""
    relinked: int
    """Number of components above the limit, linked by representative."""
    left: Integers
    """Set ids of pairs whose Jaccard is missing; with it the election must be held again."""
    right: Integers

    @property
    def stays(self) -> Flags:
        """Flags of the documents that stay."""
        found: Flags = self.owners == np.arange(self.owners.size)
        return found


def choose(members: Electorate, known: KnownPairs, policy: ElectionPolicy, *, asks: bool = True) -> Kept:
    """Choose the documents that stay.

    With linkage by component the first member in the order stays; where some are fixed, others go for the nearest of
    these along similar pairs, the first in the order of several. With linkage by representative members are taken in
    their order: one that is similar to an earlier kept member is removed in favour of the first such, any other stays.
    A pair that was no candidate has no known similarity; it is asked for if both would stay and both are similar to a
    removed member, unless their sizes rule it out; of fixed members, which stay, none are. Without `asks` no pair is,
    and of millions of edges none is sought. Of a document that stays and those removed in its favour the first stay, as
    many as `count_copies` says.
    """
    order = np.lexsort((*members.ranks.T[::-1], members.component_ids))
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    first = elect(members.component_ids, places)
    if members.fixed.any():
        nearest = _find_nearest(_link_sets(members, places, known, policy.threshold), members.fixed, places)
        first = np.where(nearest < 0, first, nearest)
    first = _hold_fixed(first, members.fixed, policy)
    by_star = np.full(order.size, policy.by_representative)
    relinked = 0
    if policy.max_component and not policy.by_representative:
        _, inverse, sizes = np.unique(members.component_ids, return_inverse=True, return_counts=True)
        by_star = sizes[inverse] > policy.max_component
        relinked = int(np.count_nonzero(sizes > policy.max_component))
    left = right = np.empty(0, dtype=np.int64)
    owners = first
    if by_star.any():
        rows = np.flatnonzero(by_star)
        taken = members.take(rows)
        owned, left, right = _link(taken, places[rows], known, policy, asks=asks)
        owners = first.copy()
        owners[rows] = rows[owned]
    decided = _count_decided(owners, places, members.ranks)
    if policy.copies != 1:
        owners = _keep_copies(owners, places, policy.copies)
    return Kept(owners, decided, relinked, left, right)


def _keep_copies(owners: Integers, places: Integers, copies: int | str) -> Integers:
    """Let the first of each group own themselves, as many as the rule says; the very first does already."""
    order = np.lexsort((places, owners))
    sizes = np.diff(find_bounds(owners[order]))
    further = order[rank(owners[order]) < np.repeat(count_copies(copies, sizes), sizes)]
    kept = owners.copy()
    kept[further] = further
    return kept


def _hold_fixed(owners: Integers, fixed: Flags, policy: ElectionPolicy) -> Integers:
    """Return owners of which fixed members are their own, and so are those that do not go for others."""
    stays = fixed | ~fixed[owners] if policy.for_fixed else fixed
    return np.where(stays, np.arange(owners.size), owners)


def count_parted(
    members: Electorate, known: KnownPairs, kept: Kept, similarities: Floats, policy: ElectionPolicy
) -> int:
    """Count the further members that linkage by representative would keep, going by the known pairs.

    Only components are tried that hold a member less similar than the threshold to the one kept for it.

    Parameters
    ----------
    kept
        Result of `choose` with this policy.
    similarities : float64 [n]
        Similarity to the one kept; NaN if no known pair has it, 1 for members that stay.
    """
    chained = np.unique(members.component_ids[~(similarities >= policy.threshold)])
    if policy.by_representative or not chained.size:
        return 0
    rows = np.flatnonzero(np.isin(members.component_ids, chained))
    taken = members.take(rows)
    strict = choose(taken, known, policy._replace(by_representative=True), asks=False)
    return int(np.count_nonzero(strict.stays) - np.count_nonzero(kept.stays[rows]))


def _link(
    members: Electorate, places: Integers, known: KnownPairs, policy: ElectionPolicy, *, asks: bool
) -> tuple[Integers, Integers, Integers]:
    """Return the position of the document kept for each, and the pairs of sets whose similarity is missing."""
    set_ids, numbers, firsts, one, other, similar = _link_sets(members, places, known, policy.threshold)
    fixed = members.fixed[firsts]
    owners = _capture(
        np.argsort(places[firsts]), one[similar], other[similar], fixed, fixed if policy.for_fixed else None
    )
    owned = _hold_fixed(firsts[owners][numbers], members.fixed, policy)
    if not asks:
        return owned, set_ids[:0], set_ids[:0]
    asked = _pair_staying(owners, one[similar], other[similar], places[firsts])
    left, right = pairs.decode(asked[~pairs.find_known(asked, pairs.encode(one, other))])
    possible = filters.select_possible(members.sizes[firsts[left]], members.sizes[firsts[right]], policy.threshold)
    left, right = left[possible], right[possible]
    is_open = ~(fixed[left] & fixed[right])
    return owned, set_ids[left[is_open]], set_ids[right[is_open]]


class _LinkedSets(NamedTuple):
    """Shingle sets of members, and known pairs of their positions."""

    set_ids: Integers
    """Ascending."""
    numbers: Integers
    """Position of the set of each member."""
    firsts: Integers
    """Position of the first member of each set; later ones share its fate."""
    one: Integers
    other: Integers
    similar: Flags
    """Flags of the pairs that reach the threshold."""


def _link_sets(members: Electorate, places: Integers, known: KnownPairs, threshold: float) -> _LinkedSets:
    set_ids, numbers = np.unique(members.set_ids, return_inverse=True)
    firsts = np.lexsort((places, numbers))[find_bounds(np.sort(numbers))[:-1]]
    ends = [np.minimum(np.searchsorted(set_ids, each), set_ids.size - 1) for each in known[:2]]
    here = (set_ids[ends[0]] == known.left) & (set_ids[ends[1]] == known.right)
    return _LinkedSets(set_ids, numbers, firsts, ends[0][here], ends[1][here], known.jaccard[here] >= threshold)


def _find_nearest(linked: _LinkedSets, fixed: Flags, places: Integers) -> Integers:
    """Return the position of the nearest fixed member of each, at as few pairs as there can be; -1 without one."""
    one, other = linked.one[linked.similar], linked.other[linked.similar]
    tails, heads = np.concatenate((one, other)), np.concatenate((other, one))
    owners = np.where(fixed[linked.firsts], linked.firsts, -1)
    while (reached := np.flatnonzero((owners[tails] < 0) & (owners[heads] >= 0))).size:
        found, own = tails[reached], owners[heads[reached]]
        order = np.lexsort((places[own], found))
        nearest = order[mark_firsts(found[order])]
        owners[found[nearest]] = own[nearest]
    return owners[linked.numbers]


def _capture(order: Integers, left: Integers, right: Integers, fixed: Flags, captors: Flags | None = None) -> Integers:
    """Assign owners in the order of vertices: one without an owner owns itself and all neighbours without one.

    Parameters
    ----------
    fixed : bool [vertices]
        Vertices that own themselves, first in the order.
    captors : bool [vertices]
        Vertices that own others; by default all may.

    Returns
    -------
    int64 [vertices]
        The owner of each.
    """
    tails, heads = np.concatenate((left, right)), np.concatenate((right, left))
    heads = heads[np.argsort(tails, kind="stable")]
    bounds = np.concatenate(([0], np.cumsum(np.bincount(tails, minlength=order.size)))).tolist()
    owners = np.where(fixed, np.arange(order.size), -1)
    for vertex in order.tolist():
        if owners[vertex] < 0 or fixed[vertex]:
            owners[vertex] = vertex
            if captors is not None and not captors[vertex]:
                continue
            around = heads[bounds[vertex] : bounds[vertex + 1]]
            owners[around[owners[around] < 0]] = vertex
    return owners


def _pair_staying(owners: Integers, left: Integers, right: Integers, places: Integers) -> Integers:
    """Return the pairs of kept vertices with a removed neighbour in common, encoded by `pairs.encode`.

    Of the many that a neighbour may have, each is paired with the FIRST in order, so that pairs grow as edges do.
    """
    stays = owners == np.arange(owners.size)
    tails, heads = np.concatenate((left, right)), np.concatenate((right, left))
    chosen = ~stays[tails] & stays[heads]
    tails, heads = tails[chosen], heads[chosen]
    order = np.lexsort((places[heads], tails))
    tails, heads = tails[order], heads[order]
    ranks = rank(tails)
    later = np.repeat(np.arange(tails.size), np.minimum(ranks, FIRST))
    earlier = later - ranks[later] + rank(later)
    one, other = heads[later], heads[earlier]
    return pairs.sort_distinct(pairs.encode(np.minimum(one, other), np.maximum(one, other)))


def _count_decided(owners: Integers, places: Integers, ranks: Integers) -> Integers:
    """Count for each rule the groups whose first two members it is the first to tell apart."""
    order = np.lexsort((places, owners))
    bounds = find_bounds(owners[order])
    begins = bounds[:-1][np.diff(bounds) > 1]
    differs = ranks[order[begins]] != ranks[order[begins + 1]]
    return np.bincount(differs.argmax(axis=1), minlength=ranks.shape[1])


def rank_rows(rules: Sequence[tuple[str, str]], rows: pa.RecordBatch) -> Integers:
    """Return the ranks of an `Electorate` by rules, each a name and the text behind its colon; nulls rank last.

    Parameters
    ----------
    rows
        Documents with the columns of RANKED, `order_keys` as from `dedup.files.orders.add_keys`.
    """
    keys = to_matrix(rows["order_keys"])
    count = sum(name != BY_ID for name, _ in rules)
    columns, beyond = iter(keys.T[:count]), iter(keys.T[count:])
    by_id: Integers = pc.rank(rows["id"], tiebreaker="dense").to_numpy().astype(np.int64)
    ranks = []
    for name, _ in rules:
        if name == BY_ID:
            ranks.append(by_id)
        else:
            found = _rank_values(next(columns))
            if name in OF_TIME and (second := next(beyond, None)) is not None:
                found = found * second.size + _rank_values(second)
            ranks.append(found)
    return np.stack([*ranks, by_id], axis=1)


def to_matrix(lists: pa.Array) -> Floats:
    """Return lists of one length as rows of a matrix."""
    values: Floats = lists.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(lists), values.size // max(len(lists), 1))


def _rank_values(values: Floats) -> Integers:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def number_values(values: pa.Array) -> Integers:
    """Return the number of each value; null is one of them."""
    numbers: Integers = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy().astype(np.int64)
    return numbers


def name_decided(decided: Integers, rules: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the number of choices that each rule decided, by its name; the smallest id is the last rule."""
    names = [":".join(filter(None, rule)) for rule in rules] + ["smallest_id"]
    found: dict[str, int] = {}
    for name, count in zip(names, decided.tolist(), strict=True):
        if count:
            found[name] = found.get(name, 0) + count
    return found
