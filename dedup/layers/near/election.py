"""Documents of components -> MEMBERS: the one kept of each component, and how the others resemble it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Shuffle, Tally
from dedup.kernels import Floats, Integers
from dedup.kernels.digests import number_names
from dedup.kernels.election import (
    RANKED,
    ElectionPolicy,
    Electorate,
    Kept,
    KnownPairs,
    choose,
    count_parted,
    name_decided,
    rank_rows,
)
from dedup.kernels.removal_statistics import (
    DESCRIBED,
    count_joined,
    list_own,
    merge_removals,
    summarise_removals,
)
from dedup.kernels.representatives import LARGEST, describe_largest, look_up
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.source_limits import charge
from dedup.layers.foreign import mark_foreign
from dedup.tables import arrow
from dedup.tables.counts import Elected

KINDS = KEPT, IDENTICAL, NEAR = ("kept", "identical", "near")
"""Kinds of MEMBERS."""
UNSETTLED, DISTANT = "unsettled", "distant"
"""Kinds of rows that ask for the similarity of a pair: the choice depends on it, or a member's own is not known."""
ROLES = {UNSETTLED: 1, DISTANT: 2}
"""Roles of pairs: those by which documents are chosen, edges among them, and those that tell a similarity alone."""
PAIRED = pa.schema([*arrow.integers("left_id", "right_id"), ("jaccard", pa.float64()), ("role", pa.int64())])
"""Pairs of shingle sets, by the least doc_id of each, with their exact Jaccard."""
ASKED = pa.schema([("kind", pa.string()), *arrow.integers("component_id", "left_id", "right_id")])
"""Pairs whose similarity a component asks for, whose choice waits for it."""
DECIDED = ("doc_id", "id", "representative_id", "component", "kind", "jaccard")
"""Columns of MEMBERS that `to_removals` reads."""
ELECTED, TOLD = "elected", "told"
_EMPTY = pa.RecordBatch.from_arrays([], names=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """Choice of the documents kept."""

    rules: Sequence[tuple[str, str]]
    """Entries of `keep.order`, before and after the colon."""
    policy: ElectionPolicy
    per_source: int
    """Setting `limits.per_source`; 0 sets no limit."""


def voters(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of what an election looks at: members, and pairs, of which the other's columns are null."""
    register = arrow.register(id_type)
    ranked = [register.field(name) for name in ("source", *RANKED)]
    return pa.schema([("component_id", pa.int64()), *arrow.integers("doc_id", "set_id", "size"), *ranked, *PAIRED])


def members(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of MEMBERS, the documents that another one resembles, with the one kept of each component.

    Rows of ASKED may be among them, which have no doc_id.
    """
    return pa.schema(
        [
            ("doc_id", pa.int64()),
            ("id", id_type),
            ("representative_doc_id", pa.int64()),
            ("representative_id", id_type),  # the user's id of the document kept
            ("component_id", pa.int64()),
            ("component", id_type),  # the user's id of that document
            ("kind", pa.string()),  # kept; identical: the same shingle set as the one kept; near
            ("jaccard", pa.float64()),  # exact, to the representative; null where no pair tells it
            ("left_id", pa.int64()),  # the shingle sets of both, by the least doc_id of each, in ascending order
            ("right_id", pa.int64()),
            ("source", pa.string()),
            ("representative_source", pa.string()),
            ("charged", pa.list_(pa.int64())),  # sources that answer for its removal; null without a limit
        ]
    )


def to_voters(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Give members or pairs the columns of both; a member that is no copy is its own shingle set."""
    for batch in batches:
        is_member = "set_id" in batch.schema.names
        own = {"set_id": pc.coalesce(batch["set_id"], batch["doc_id"])} if is_member else {}
        yield conform(batch, schema, **own)


def elect(id_type: pa.DataType, election: Election) -> Shuffle:
    """Return the shuffle members and pairs -> MEMBERS, and of components that wait a row for each pair they ask for.

    A task takes about 200 bytes of memory for each of the members and pairs of its components. The tally has `elected`,
    the counts of each call as JSON, and the number of pairs asked for of each kind.
    """
    schema = members(id_type)
    return Shuffle(
        emitted=voters(id_type),
        by=("component_id",),
        work=partial(_elect, election=election, schema=schema),
        schema=schema,
        in_order=False,
    )


def _elect(batches: Batches, *, election: Election, schema: pa.Schema) -> Iterator[pa.RecordBatch | Tally]:
    members, pairs = _part(batches)
    if not members.num_rows:
        return
    votes = Votes.of(members, pairs, election)
    asked = votes.list_asked()
    if asked.num_rows:
        yield Tally(asked["kind"].to_pylist())
        yield conform(asked, schema)
        waiting = asked["component_id"]
        members, pairs = (each.filter(pc.invert(pc.is_in(each["component_id"], waiting))) for each in (members, pairs))
        if not members.num_rows:
            return
        votes = Votes.of(members, pairs, election)
    elected = votes.to_members(schema)
    told = asdict(votes.summarise()) | summarise(elected, election.policy.threshold)
    yield Tally({(ELECTED, json.dumps(told)): 1})
    yield elected


class Votes(NamedTuple):
    """Members of some components and their pairs, with what they elect."""

    members: pa.RecordBatch
    election: Election
    ranked: Electorate
    known: KnownPairs
    """Pairs by which documents are chosen."""
    kept: Kept
    left: Integers
    """Lesser of the shingle sets of each member and of the one kept for it; int64 [members]."""
    right: Integers
    similarities: Floats
    """Jaccard similarity of these sets; NaN where no pair tells it, 1 for members that stay."""

    @classmethod
    def of(cls, members: pa.RecordBatch, pairs: pa.RecordBatch, election: Election) -> Self:
        """Choose."""
        every, known = (_to_known(each) for each in (pairs, pairs.filter(pc.equal(pairs["role"], ROLES[UNSETTLED]))))
        ranked = _rank(members, election)
        kept = choose(ranked, known, election.policy)
        own, others = ranked.set_ids, ranked.set_ids[kept.owners]
        left, right = np.minimum(own, others), np.maximum(own, others)
        similarities = np.where(kept.stays, 1.0, look_up(left, right, every))
        return cls(members, election, ranked, known, kept, left, right, similarities)

    def list_asked(self) -> pa.RecordBatch:
        """Return ASKED, of each component pairs of one kind."""
        component_ids, kept = self.ranked.component_ids, self.kept
        unsettled = component_ids[np.searchsorted(self.members["doc_id"].to_numpy(), kept.left)]
        distant = np.flatnonzero(np.isnan(self.similarities) & ~np.isin(component_ids, unsettled))
        firsts = distant[_find_distinct(self.left[distant], self.right[distant])]
        kinds = pa.array([UNSETTLED, DISTANT]).take(pa.array(np.repeat((0, 1), (unsettled.size, firsts.size))))
        columns = (unsettled, component_ids[firsts]), (kept.left, self.left[firsts]), (kept.right, self.right[firsts])
        return pa.RecordBatch.from_arrays([kinds, *(pa.array(np.concatenate(each)) for each in columns)], schema=ASKED)

    def summarise(self) -> Elected:
        """Count what has become of the members."""
        kept, policy = self.kept, self.election.policy
        by_edges = np.where(kept.stays, 1.0, look_up(self.left, self.right, self.known))
        component_ids = self.ranked.component_ids
        return Elected(
            rows=component_ids.size,
            near=int(np.count_nonzero(~kept.stays & (self.left != self.right))),
            distant=int(np.count_nonzero(np.isnan(by_edges))),
            relinked=kept.relinked,
            parted=count_parted(self.ranked, self.known, kept, by_edges, policy),
            joined=count_joined(*self.known, list_own(policy.threshold)),
            rules=name_decided(kept.decided, self.election.rules),
            sizes=_count_sizes(component_ids),
            largest=describe_largest(self.members.select(["doc_id", "id"]), component_ids, kept.owners),
        )

    def to_members(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return MEMBERS."""
        members, kept = self.members, self.kept
        doc_ids, component_ids = members["doc_id"].to_numpy(), self.ranked.component_ids
        chosen = pa.array(kept.owners)
        kinds = np.where(kept.stays, 0, np.where(self.left == self.right, 1, 2))
        columns = {
            "representative_doc_id": members["doc_id"].take(chosen),
            "representative_id": members["id"].take(chosen),
            "component": members["id"].take(pa.array(np.searchsorted(doc_ids, component_ids))),
            "kind": pa.array(KINDS).take(pa.array(kinds)),
            "jaccard": pa.array(self.similarities, from_pandas=True),
            "left_id": self.left,
            "right_id": self.right,
            "representative_source": members["source"].take(chosen),
            "charged": _charge(members, kept, self.known, self.election),
        }
        return conform(members, schema, **columns)


def _find_distinct(left: Integers, right: Integers) -> Integers:
    """Return the positions of distinct pairs, in the order of the pairs."""
    order = np.lexsort((right, left))
    return order[mark_firsts(left[order], right[order])] if order.size else order


def _part(batches: Batches) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the members of a call, ascending by doc_id, equal rows once, and its pairs."""
    voting, pairs = list[pa.RecordBatch](), list[pa.RecordBatch]()
    # Apart at once: together every edge would have a member's columns and every member an edge's.
    for batch in batches:
        is_member = batch["doc_id"].is_valid()
        voting.append(batch.filter(is_member).drop_columns(PAIRED.names))
        pairs.append(batch.filter(pc.invert(is_member)).select(["component_id", *PAIRED.names]))
    if not voting:
        return _EMPTY, _EMPTY
    whole = pa.concat_batches(voting)
    _, firsts = np.unique(whole["doc_id"].to_numpy(), return_index=True)
    return whole.take(pa.array(firsts)), pa.concat_batches(pairs)


def _to_known(pairs: pa.RecordBatch) -> KnownPairs:
    return KnownPairs(*(pairs[name].to_numpy() for name in arrow.EDGES.names))


def _rank(voting: pa.RecordBatch, election: Election) -> Electorate:
    component_ids, set_ids, sizes = (voting[name].to_numpy() for name in ("component_id", "set_id", "size"))
    fixed = mark_foreign(voting, election.rules)
    return Electorate(component_ids, set_ids, sizes, rank_rows(election.rules, voting), fixed)


def _charge(voting: pa.RecordBatch, kept: Kept, known: KnownPairs, election: Election) -> pa.Array:
    """Return for every member numbers of the sources that answer for its removal; null without a limit."""
    if not election.per_source:
        return pa.nulls(voting.num_rows, pa.list_(pa.int64()))
    doc_ids, similar = voting["doc_id"].to_numpy(), known.jaccard >= election.policy.threshold
    ends = (voting["set_id"].to_numpy(), known.left[similar], known.right[similar])
    heads, left, right = (np.searchsorted(doc_ids, ids) for ids in ends)
    owners = pc.dictionary_encode(voting["source"], null_encoding="encode")
    numbers = owners.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    charged, sources = charge(kept.owners, heads, numbers, (left, right, known.jaccard[similar]))
    names = number_names(owners.dictionary)
    offsets = np.searchsorted(charged, np.arange(doc_ids.size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(names[sources]))


def _count_sizes(component_ids: Integers) -> dict[int, int]:
    """Return how many components there are of every size, ascending."""
    sizes, counts = np.unique(np.unique(component_ids, return_counts=True)[1], return_counts=True)
    return dict(zip(sizes.tolist(), counts.tolist(), strict=True))


def list_asked(batches: Batches) -> Batches:
    """MEMBERS -> ASKED."""
    for batch in batches:
        yield batch.filter(pc.is_in(batch["kind"], pa.array([*ROLES]))).select(ASKED.names)


def is_removed(members: pa.RecordBatch) -> pa.BooleanArray:
    """Tell which members go."""
    return pc.is_in(members["kind"], pa.array([IDENTICAL, NEAR]))


def summarise(members: pa.RecordBatch, threshold: float) -> dict[str, Any]:
    """Tell how similar documents removed are to those kept."""
    removed = members.filter(is_removed(members)).select(DESCRIBED)
    return summarise_removals(pa.Table.from_batches([removed]), threshold)


def read_told(tally: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return what each call has told in a tally."""
    return [json.loads(text) for text, count in tally.get(name, {}).items() for _ in range(count)]


def merge_elected(parts: Iterable[Mapping[str, Any]]) -> Elected:
    """Return the counts of members from those of parts of the components."""
    told = [*parts]
    names = ("rows", "near", "distant", "relinked", "parted")
    joined = [sum(each) for each in zip_longest(*(each["joined"] for each in told), fillvalue=0)]
    largest = sorted(
        (one for each in told for one in each["largest"]), key=lambda one: (-one["documents"], one["doc_id"])
    )
    sizes = Counter[int]()
    for each in told:
        sizes.update({int(size): count for size, count in each["sizes"].items()})
    return Elected(
        **{name: sum(each[name] for each in told) for name in names},
        joined=joined,
        rules=dict(sum((Counter(each["rules"]) for each in told), Counter[str]())),
        sizes=dict(sorted(sizes.items())),
        largest=largest[:LARGEST],
        **merge_removals(told),
    )


def to_removals(batches: Batches, *, layer: str, schema: pa.Schema, kept: bool) -> Batches:
    """MEMBERS -> REMOVALS of the layer, or in their form those that stay."""
    for batch in batches:
        chosen = batch.filter(pc.equal(batch["kind"], KEPT) if kept else is_removed(batch))
        yield conform(chosen, schema, layer=layer, component_id=chosen["component"])
