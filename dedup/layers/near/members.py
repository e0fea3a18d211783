"""EDGES, COMPONENTS -> MEMBERS: the election, in rounds where its choice depends on pairs that were no candidates."""

from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from dedup.engine.engine import Engine, Rows, conform_rows, look_up
from dedup.kernels.election import RANKED
from dedup.kernels.removal_statistics import complete_joined, count_joined, list_reached
from dedup.kernels.runs.batches import take_equal
from dedup.layers.near import comparison, election
from dedup.layers.near.election import Election
from dedup.layers.near.sources import count_removers, limit_sources
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
    names = ("doc_id", "source", *RANKED, "size")
    joined = engine.join(engine.select(signatures.documents, *names), components, "doc_id")
    owned = engine.join(joined, signatures.identical, "doc_id", how="left")
    return engine.map(owned, partial(election.to_voters, schema=voters), voters)


def compare_all(
    engine: Engine[Rows],
    sets: ShingleSets[Rows],
    name: str,
    asked: Rows,
    count: int,
) -> Rows:
    """Return EDGES of so many pairs of documents whose sets are given: see `Answer`."""
    compare = comparison.verify(0.0, near_misses=False)
    return engine.compare(name, asked, sets.rows, compare, sets_size(sets, count))


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
    known = conform_rows(engine, connected.edges, election.PAIRED, role=roles[election.UNSETTLED])
    rows = engine.concat(own, engine.map(engine.join(known, connected.components, "left_id"), to_voters, voters))
    elected, told = list[Rows](), list[dict[str, Any]]()
    while True:
        number = len(elected) or ""
        found = engine.group(f"members{number}", rows, elect)
        tally = engine.tally(found)
        elected.append(found)
        told += election.read_told(tally, election.ELECTED)
        kind = next((each for each in roles if each in tally), None)
        if kind is None:
            break
        asking = engine.select(found, *election.ASKED.names)
        count = sum(tally.get(each, 0) for each in roles)
        asked = engine.expect(engine.map(asking, election.list_asked, election.ASKED), count)
        pairs = engine.map(asked, partial(take_equal, schema=comparison.PAIRS, kind=kind), comparison.PAIRS)
        answered = answer(f"answered{number}", pairs, tally[kind])
        known = conform_rows(engine, answered, election.PAIRED, role=roles[kind])
        more = engine.map(engine.join(known, connected.components, "left_id"), to_voters, voters)
        # Components that ask for nothing have elected.
        rows = engine.concat(engine.join(rows, asked, "component_id", key="component_id", how="semi"), more)
    members, counts = limit_sources(engine, setting, engine.concat(*elected), election.merge_elected(told))
    joined_at = _count_joined(engine, counts, setting.policy.threshold, connected)
    removers = count_removers(engine, members) if has_sources else []
    return members, replace(counts, joined=joined_at, removers=removers)


def _count_joined(
    engine: Engine[Rows], elected: Elected, threshold: float, connected: Connection[Rows]
) -> list[int | None]:
    """Count the shingle sets joined at each threshold, below the run's own as far as near misses tell."""
    further = None
    if engine.tally(connected.near_misses)["rows"] <= REACHED:
        table = engine.collect(connected.near_misses)
        left, right = (table[name].to_numpy() for name in ("left_id", "right_id"))
        of = look_up(engine, connected.components, "component_id", np.concatenate((left, right)))
        one, other = (np.array([of.get(each, each) for each in side.tolist()], np.int64) for side in (left, right))
        further = count_joined(one, other, table["jaccard"].to_numpy(), list_reached(threshold))
    return complete_joined([each or 0 for each in elected.joined], further, threshold)
