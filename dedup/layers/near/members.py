"""EDGES, COMPONENTS -> MEMBERS: the election, in rounds where its choice depends on pairs that were no candidates."""

import json
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Engine, Rows
from dedup.kernels.election import RANKED
from dedup.kernels.removal_statistics import DESCRIBED, complete_joined, count_joined, list_reached, merge_removals
from dedup.layers.near import comparison, election, templates
from dedup.layers.near.election import Election
from dedup.layers.near.tables import Connection, ShingleSets, Signatures, sets_size
from dedup.tables.counts import Elected

REACHED = 1 << 20
"""Near misses up to which is counted what lower thresholds would join: 100 MB."""


class Answer(Protocol[Rows]):
    """Similarity of pairs of documents that an election asks for."""

    def __call__(self, name: str, asked: Rows, count: int, /) -> Rows:
        """Return EDGES of so many pairs, under a name."""


def list_voters(engine: Engine[Rows], signatures: Signatures[Rows], components: Rows) -> Rows:
    """Return the documents that another one resembles, as an election looks at them."""
    voters = election.voters(engine.id_type)
    names = ("doc_id", *RANKED, "size")
    joined = engine.join(engine.select(signatures.documents, *names), components, "doc_id")
    owned = engine.join(joined, signatures.identical, "doc_id", how="left")
    return engine.map(owned, partial(election.to_voters, schema=voters), voters)


def compare_all(engine: Engine[Rows], sets: ShingleSets[Rows], name: str, asked: Rows, count: int) -> Rows:
    """Return EDGES of so many pairs of documents whose sets are given: see `Answer`."""
    return engine.compare(name, asked, sets.rows, comparison.verify(0.0, near_misses=False), sets_size(sets, count))


def find_members(
    engine: Engine[Rows],
    setting: Election,
    own: Rows,
    connected: Connection[Rows],
    answer: Answer[Rows],
    *,
    has_sources: bool,
) -> tuple[Rows, Elected]:
    """Return MEMBERS, asking for pairs that were no candidates as far as the choice depends on them.

    Parameters
    ----------
    own
        As from `list_voters`.
    """
    voters, roles = election.voters(engine.id_type), election.ROLES
    elect, to_voters = election.elect(engine.id_type, setting), partial(election.to_voters, schema=voters)
    add_role = election.add_role
    known = engine.map(connected.edges, partial(add_role, role=roles[election.UNSETTLED]), election.PAIRED)
    rows = engine.concat(own, engine.map(engine.join(known, connected.components, "left_id"), to_voters, voters))
    elected, counted = list[Rows](), list[Elected]()
    while True:
        number = len(elected) or ""
        found = engine.group(f"members{number}", rows, elect)
        elected.append(found)
        counted.append(election.read_elected(engine.tally(found)))
        asking = engine.select(found, *election.ASKED.names)
        asked = engine.map(asking, election.list_asked, election.ASKED, name=f"asked{number}")
        tally = engine.tally(asked)
        if not tally["rows"]:
            break
        kind = election.UNSETTLED if election.UNSETTLED in tally else election.DISTANT
        pairs = engine.map(asked, partial(election.take_pairs, kind=kind), comparison.PAIRS)
        answered = answer(f"answered{number}", pairs, tally[kind])
        known = engine.map(answered, partial(add_role, role=roles[kind]), election.PAIRED)
        more = engine.map(engine.join(known, connected.components, "left_id"), to_voters, voters)
        # Components that ask for nothing have elected.
        rows = engine.join(engine.concat(rows, more), asked, "component_id", key="component_id", how="semi")
    members, counts = engine.concat(*elected), election.merge_elected(map(asdict, counted))
    members, counts = _limit_sources(engine, setting.per_source, members, counts)
    joined_at = _count_joined(engine, counts, setting.policy.threshold, connected)
    told = _describe(engine, members, setting.policy.threshold, has_sources=has_sources)
    return members, replace(counts, joined=joined_at, **told)


def _limit_sources(engine: Engine[Rows], per_source: int, members: Rows, counts: Elected) -> tuple[Rows, Elected]:
    """Return MEMBERS of which a limit for each source has spared some."""
    if not per_source:
        return members, counts
    schema = election.members(engine.id_type)
    charged = engine.select(members, "doc_id", "charged")
    exceeding = engine.group("exceeding", charged, election.limit_sources(per_source), once=True)
    spared = engine.map(engine.group("spared", exceeding, templates.DISTINCT), election.mark, election.MARKED)
    marked = engine.join(members, spared, "doc_id", how="left")
    left = engine.map(marked, partial(election.spare, schema=schema), schema, name="members_left")
    tally = engine.tally(left)
    return left, replace(counts, near=counts.near - tally.get("near", 0), spared=tally.get("spared", 0))


def _describe(engine: Engine[Rows], members: Rows, threshold: float, *, has_sources: bool) -> dict[str, Any]:
    """Return how similar the documents removed are to those kept, and whose they are."""
    tell = partial(election.describe_removals, threshold=threshold)
    told = engine.collect(engine.map(engine.select(members, *DESCRIBED), tell, election.TEXTS))["told"].to_pylist()
    removers: list[dict[str, Any]] = []
    if has_sources:
        sources = engine.select(members, "kind", "source", "representative_source")
        by_source = engine.collect(engine.group("removers", sources, election.COUNT_REMOVERS))
        removers = election.take_removers(by_source).select(["source", "by", "documents"]).to_pylist()
    return merge_removals(map(json.loads, told)) | {"removers": removers}


def _count_joined(
    engine: Engine[Rows], elected: Elected, threshold: float, connected: Connection[Rows]
) -> list[int | None]:
    """Count the shingle sets joined at each threshold, below the run's own as far as near misses tell."""
    further = None
    if engine.tally(connected.near_misses)["rows"] <= REACHED:
        table = engine.collect(connected.near_misses)
        left, right = (table[name].to_numpy() for name in ("left_id", "right_id"))
        found = engine.lookup(connected.components, pa.array(np.unique(np.concatenate((left, right)))))
        of = dict(zip(found["doc_id"].to_pylist(), found["component_id"].to_pylist(), strict=True))
        one, other = (np.array([of.get(each, each) for each in side.tolist()], np.int64) for side in (left, right))
        further = count_joined(one, other, table["jaccard"].to_numpy(), list_reached(threshold))
    return complete_joined([each or 0 for each in elected.joined], further, threshold)
