"""Who stays of the components that a step has changed.

Without a new election a document that was kept stays kept and one that was removed stays removed; only documents that
have come are decided on, as if to have been kept were the first rule of `keep.order`.
"""

from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.documents import Documents
from dedup.engines.members import Components, elect_members
from dedup.engines.values import Features, Search
from dedup.engines.verification import Edges, Sets
from dedup.kernels import Flags, Floats, Hashes, Integers
from dedup.kernels.components import connect, take_component
from dedup.store.arrays import distinct, look_up
from dedup.store.growth import Links
from dedup.tables.counts import Elected

KEPT_BEFORE = ("kept_before", "")
"""The rule that stands before all others."""
CHANGES = pa.schema({"doc_id": pa.int64(), "was_kept": pa.bool_(), "is_kept": pa.bool_(), "would_be_kept": pa.bool_()})

_MEMBERS = pa.schema(
    {
        "doc_id": pa.int64(),
        "kept": pa.bool_(),
        "representative": pa.int64(),
        "kind": pa.string(),
        "jaccard": pa.float64(),
        "settled": pa.bool_(),
        "component_id": pa.int64(),
    }
)


class HasSets(Protocol):
    """Where shingle sets are found."""

    def find_sets(self, numbers: Integers) -> tuple[Hashes, Integers]:
        """Return the shingle sets of these numbers, distinct and ascending, as from `shingles.shingle`."""


class _Held(NamedTuple):
    """Shingle sets of voters, which are read as far as they are compared: most pairs are edges already."""

    snapshot: HasSets
    numbers: Integers
    """Of the set of every voter."""
    threads: int

    def compare(self, left: Integers, right: Integers) -> Floats:
        """See `HasSimilarities.compare`."""
        wanted = distinct(self.numbers[left], self.numbers[right])
        if not wanted.size:
            return np.empty(0)
        held = Sets(wanted, *self.snapshot.find_sets(wanted), np.arange(wanted.size), self.threads)
        return held.compare(*(np.searchsorted(wanted, self.numbers[ends]) for ends in (left, right)))


class Voters(NamedTuple):
    """The documents of some components, by doc_id."""

    rows: pa.Table
    """Of `documents`."""
    heads: Integers
    """Position of the least document of the same set."""
    least: Integers
    """Position of the least document of the component."""


class Verdict(NamedTuple):
    """What an election says."""

    members: pa.Table
    """Rows of `members` for all documents of the components, and `component_id`."""
    changes: pa.Table
    """CHANGES of documents that were there: whose lot is another now, or would be after a new election."""
    counts: Elected


def find_components(links: Links, sets: Integers) -> Integers:
    """Return the least set of the component of each of these sets, itself where it has no edge."""
    return take_component(sets, *connect(links.left, links.right)) if links.left.size and sets.size else sets


def gather(documents: pa.Table, components: Integers) -> Voters:
    """Order the documents of whole components.

    Parameters
    ----------
    documents
        Rows of `documents`, none without a set.
    components
        The least set of the component of each.
    """
    order = pc.sort_indices(documents["doc_id"])
    rows = documents.take(order).combine_chunks()
    return Voters(rows, _find_first(rows["set"].to_numpy()), _find_first(components[order.to_numpy()]))


def _find_first(values: Integers) -> Integers:
    """Return the position at which the value of each stands first."""
    _, firsts, inverse = np.unique(values, return_index=True, return_inverse=True)
    return firsts[inverse]


def elect(
    snapshot: HasSets,
    voters: Voters,
    links: Links,
    *,
    before: pa.Table,
    new: Integers,
    search: Search,
    anew: bool,
    readmit: bool,
    threads: int,
) -> Verdict:
    """Decide who stays.

    Parameters
    ----------
    snapshot
        With the sets that have come.
    before
        Newest rows of `members` by doc_id.
    new
        Documents that have come, ascending.
    anew
        Whether nothing that was decided before counts.
    readmit
        Whether a document whose representative is gone may be kept.
    """
    doc_ids = voters.rows["doc_id"].to_numpy()
    if not doc_ids.size:
        return Verdict(_MEMBERS.empty_table(), CHANGES.empty_table(), Elected(rows=0))
    is_new = look_up(new, doc_ids) >= 0
    places = look_up(before["doc_id"].to_numpy(), doc_ids)
    earlier = before.take(pa.array(places, mask=places < 0))
    # Who has no row was alone, and kept.
    was_kept = ~is_new & pc.fill_null(earlier["kept"], True).to_numpy(zero_copy_only=False)  # noqa: FBT003
    sticky = not anew and not is_new.all()
    precedence = np.where(was_kept, 0.0, np.where(is_new | readmit, 1.0, 2.0)) if sticky else None
    table, counts = _run(snapshot, voters, links, search, precedence=precedence, threads=threads)
    elected = pc.equal(table["kind"], "kept").to_numpy(zero_copy_only=False)
    columns = {name: table[name] for name in ("representative", "kind", "jaccard")}
    kept = elected
    if sticky:
        kept, columns = _stick(doc_ids, (is_new, was_kept, elected), earlier, columns, readmit=readmit)
    component_has_old = np.zeros(doc_ids.size, dtype=bool)
    np.logical_or.at(component_has_old, voters.least, ~is_new)
    settled = np.full(doc_ids.size, fill_value=True) if anew else ~component_has_old[voters.least]
    members = pa.table(
        {"doc_id": doc_ids, "kept": kept, **columns, "settled": settled, "component_id": doc_ids[voters.least]}
    )
    told = ~is_new & ((was_kept != kept) | (elected != kept))
    changes = pa.table({"doc_id": doc_ids, "was_kept": was_kept, "is_kept": kept, "would_be_kept": elected})
    return Verdict(members, changes.filter(pa.array(told)), counts)


def _run(
    snapshot: HasSets, voters: Voters, links: Links, search: Search, *, precedence: Floats | None, threads: int
) -> tuple[pa.Table, Elected]:
    """Elect as the memory engine does; return what becomes of every voter, in their order."""
    rows, heads, least = voters
    doc_ids, sets = rows["doc_id"].to_numpy(), rows["set"].to_numpy()
    count = doc_ids.size
    sizes = rows["shingle_count"].to_numpy()
    order_keys = _to_keys(rows)
    if precedence is not None:
        search = replace(search, rules=(KEPT_BEFORE, *search.rules))
        order_keys = np.column_stack((precedence, order_keys))
    none = np.zeros(count, dtype=np.int64)
    features = Features(
        doc_ids=doc_ids,
        ids=rows["id"].combine_chunks(),
        shingle_counts=sizes,
        digest_high=none,
        digest_low=none,
        sources=rows["source"].combine_chunks(),
        text_bytes=rows["text_bytes"].to_numpy(),
        order_keys=order_keys,
    )
    documents = Documents(doc_ids, np.arange(count), np.ones(count, np.int64), sizes.astype(np.int64), heads)
    _, members = np.unique(least, return_inverse=True)
    several = np.flatnonzero(np.bincount(members)[members] > 1) if count else none
    left, right = (_place_heads(sets, each) for each in links[:2])
    chosen = (left >= 0) & (right >= 0)
    ends = Edges(np.minimum(left, right)[chosen], np.maximum(left, right)[chosen], links.jaccard[chosen])
    found = elect_members(
        documents,
        Components(several, least[several]),
        edges=ends,
        near_misses=Edges(none[:0], none[:0], np.empty(0)),
        sets=_Held(snapshot, sets, threads),
        features=features,
        search=search,
    )
    representatives = look_up_ids(found.table["representative_id"], features.ids)
    table = pa.table(
        {"representative": doc_ids[representatives], "kind": found.table["kind"], "jaccard": found.table["jaccard"]}
    )
    alone = np.setdiff1d(np.arange(count), several)
    single = pa.table(
        {
            "representative": doc_ids[alone],
            "kind": pa.array(["kept"] * alone.size, pa.string()),
            "jaccard": np.ones(alone.size),
        }
    )
    order = np.argsort(np.concatenate((several, alone)), kind="stable")
    return pa.concat_tables([table, single]).take(pa.array(order)), found.counts


def _to_keys(rows: pa.Table) -> Floats:
    """Return the values of columns that rules ask for: float64 [n, columns], 0 where earlier releases wrote fewer."""
    lists = rows["order_keys"].combine_chunks()
    counts = pc.list_value_length(lists).to_numpy()
    keys = np.zeros((rows.num_rows, counts.max(initial=0)))
    keys[np.arange(keys.shape[1]) < counts[:, None]] = lists.flatten().to_numpy(zero_copy_only=False)
    return keys


def _place_heads(sets: Integers, wanted: Integers) -> Integers:
    """Return the position of the least document of each set, -1 of sets that are not of these components."""
    own, firsts = np.unique(sets, return_index=True)
    places = look_up(own, wanted)
    return np.where(places >= 0, np.append(firsts, -1)[places], -1)


def look_up_ids(wanted: pa.ChunkedArray, ids: pa.Array) -> Integers:
    """Return where each id stands."""
    places: Integers = pc.index_in(wanted, ids).to_numpy().astype(np.int64)
    return places


def _stick(
    doc_ids: Integers,
    flags: tuple[Flags, Flags, Flags],
    earlier: pa.Table,
    columns: dict[str, pa.ChunkedArray],
    *,
    readmit: bool,
) -> tuple[Flags, dict[str, pa.ChunkedArray]]:
    """Let documents that were there be what they were, as far as they can."""
    is_new, was_kept, elected = flags
    was_removed = ~is_new & ~was_kept
    kept = np.where(is_new, elected, was_kept) | (was_removed & elected if readmit else False)
    representative = columns["representative"].to_numpy().copy()
    own = np.where(kept, doc_ids, representative)
    kind = np.where(kept, "kept", columns["kind"].to_numpy())
    jaccard = np.where(kept, 1.0, columns["jaccard"].to_numpy())
    # Whose representative stays need not be told another.
    theirs = earlier["representative"].fill_null(0).to_numpy()
    place = look_up(doc_ids, theirs)
    stays = was_removed & ~kept & earlier["representative"].is_valid().to_numpy() & (place >= 0)
    stays &= np.append(kept, False)[place]
    own = np.where(stays, theirs, own)
    kind = np.where(stays, earlier["kind"].fill_null("").to_numpy(zero_copy_only=False), kind)
    jaccard = np.where(stays, earlier["jaccard"].fill_null(0).to_numpy(), jaccard)
    # Nobody of its component is kept, and it may not be itself.
    displaced = was_removed & ~kept & ~stays & ~np.append(kept, False)[look_up(doc_ids, own)]
    kind = np.where(displaced, "displaced", kind)
    return kept, {
        "representative": pa.chunked_array([pa.array(own, mask=displaced)]),
        "kind": pa.chunked_array([pa.array(kind.tolist(), pa.string())]),
        "jaccard": pa.chunked_array([pa.array(jaccard, mask=displaced)]),
    }
