"""EDGES -> COMPONENTS -> MEMBERS: the election, in which of copies of one text and vector the first stands for all.

The cap on pairs leaves out edges between copies in a crowd, which are as good as there.
"""

from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, conform_rows, once
from dedup.kernels.election import RANKED
from dedup.layers.layer import to_edges
from dedup.layers.near import buckets, comparison, election
from dedup.layers.near.election import Election
from dedup.layers.near.members import find_members
from dedup.layers.near.tables import Connection
from dedup.tables import arrow
from dedup.tables.counts import Elected

PAIR = comparison.PAIRS.names
COLLAPSE = replace(buckets.COLLAPSE, emit=None)
"""Digests -> IDENTICAL."""
ONCE = once(arrow.EDGES, by=PAIR)
"""EDGES with repetitions -> each once."""


def elect(
    engine: Engine[Rows], setting: Election, documents: Rows, edges: Rows, digests: Rows | None
) -> tuple[Rows, Rows, Elected]:
    """Choose who stays of the documents that have an edge, or a copy.

    Parameters
    ----------
    documents
        All, with the columns that an election looks at.
    digests
        Digests of the text and vector of all that had a near neighbour and may stay, where pairs were left out; None
        where none was, so that an edge of a document is one of its copies too.

    Returns
    -------
    decided
        The columns DECIDED of MEMBERS.
    edges
        EDGES; where pairs were left out also those of each document that goes and the one kept for it.
    elected
        Counts of the election.
    """
    schema, links, known, copies = election.voters(engine.id_type), engine.select(edges, *PAIR), edges, None
    if digests is not None:
        copies = engine.group("copies", digests, COLLAPSE)
        links = engine.concat(links, engine.select(copies, left_id="set_id", right_id="doc_id"))
        known = engine.group("edges_of_firsts", _name_firsts(engine, edges, copies), ONCE)
    components = engine.connect("components", links, engine.measure(links)["rows"])
    voters = engine.join(engine.select(documents, "doc_id", "source", *RANKED), components, "doc_id")
    if copies is not None:
        voters = engine.join(voters, copies, "doc_id", how="left")
    voters = engine.map(
        conform_rows(engine, voters, schema, size=1), partial(election.to_voters, schema=schema), schema
    )
    near_misses = engine.parallelise("no_near_misses", arrow.EDGES.empty_table())
    connected = Connection(known, near_misses, components)
    members, elected = find_members(
        engine, setting, voters, connected, partial(_answer, engine=engine), has_sources=False
    )
    decided = engine.select(members, *election.DECIDED)
    if copies is not None:
        edges = engine.group("edges_told", engine.concat(edges, _list_removed(engine, decided)), ONCE)
    return decided, edges, elected


def _name_firsts(engine: Engine[Rows], edges: Rows, copies: Rows) -> Rows:
    """Return EDGES in which the first stands for its copies, perhaps repeated."""
    for end in ("left", "right"):
        firsts = engine.select(copies, "doc_id", **{f"{end}_first": "set_id"})
        edges = engine.join(edges, firsts, f"{end}_id", how="left")
    return engine.map(edges, _replace_copies, arrow.EDGES)


def _replace_copies(batches: Batches) -> Batches:
    for batch in batches:
        one, other = (pc.coalesce(batch[f"{end}_first"], batch[f"{end}_id"]) for end in ("left", "right"))
        columns = [pc.min_element_wise(one, other), pc.max_element_wise(one, other), batch["jaccard"]]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow.EDGES).filter(pc.not_equal(one, other))


def _list_removed(engine: Engine[Rows], decided: Rows) -> Rows:
    """Return EDGES of the documents that go and those kept for them, as far as their cosine is known."""
    schema = arrow.removals(engine.id_type)
    work = partial(election.to_removals, layer="", schema=schema, kept=False)
    return to_edges(engine, engine.drop_null(engine.map(decided, work, schema), "jaccard"))


def _answer(name: str, asked: Rows, count: int, *, engine: Engine[Rows]) -> Rows:
    """Return EDGES of pairs that an election asks for: see `members.Answer`; one that is no edge stays none."""
    del count
    return conform_rows(engine, asked, arrow.EDGES, name=name, jaccard=0.0)
