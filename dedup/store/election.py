"""Documents that stay of the components that a step has changed, those first that were kept before."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally
from dedup.files.orders import add_keys, join_keys, list_asking
from dedup.kernels import Flags, Integers
from dedup.kernels.election import OF_TIME
from dedup.kernels.runs.batches import conform, take_equal
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.runs.groups import join_groups
from dedup.kernels.sets.pairs import decode
from dedup.layers.near import comparison, election, templates
from dedup.layers.near.members import compare_all, find_members
from dedup.layers.near.tables import Connection
from dedup.settings.keeping import FOREIGN
from dedup.store.arrays import look_up
from dedup.store.growth import Settled, list_ends, list_links, name_ends
from dedup.store.numbering import OWNED
from dedup.store.reading import find_sets, read, select
from dedup.store.schemas import list_layouts
from dedup.store.step import COMES, GOES, Step
from dedup.tables import arrow
from dedup.tables.counts import Connected, Elected

KEPT_BEFORE = ("kept_before", "")
"""The rule that stands before all others."""
PLACED = arrow.integers("component_id", "set", "doc_id", "state")
VOTERS = arrow.integers("doc_id", "set", "set_id", "component_id", "is_new", "several")
"""Documents of components; set_id and component_id are the least document of each."""
EARLIER = ("kept", "representative", "kind", "jaccard")
"""Columns of `members` that say what was decided before."""
WAITING = ("doc_id", "since", "settled")
"""Columns of `members` that say which components wait for an election."""
CHOSEN = pa.schema(
    [("doc_id", pa.int64()), ("representative", pa.int64()), ("kind", pa.string()), ("jaccard", pa.float64())]
)
"""Result of a new election."""
RECORDED = ("doc_id", "id", "batch", "source", "shingle_count", "text_bytes", "order_keys")
"""Columns of `documents` that an election looks at."""
DISPLACED = "displaced"
"""Kind of a document that was removed in favour of one that has gone, while nobody else of its component is kept."""


def ballots(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of BALLOTS: documents of components, and what was decided before."""
    documents, members = (list_layouts(id_type)[name].schema for name in ("documents", "members"))
    columns = [documents.field(name) for name in RECORDED[1:]]
    return pa.schema([*VOTERS, *columns, *(members.field(name).with_name(f"was_{name}") for name in EARLIER)])


def elected(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of BALLOTS with the result of a new election."""
    names = ("doc_id", "id", "batch", "is_new", "set_id", "component_id", *(f"was_{name}" for name in EARLIER))
    return pa.schema(
        [*(ballots(id_type).field(name) for name in names), *(CHOSEN.field(name) for name in CHOSEN.names[1:])]
    )


def verdicts(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of VERDICTS, the documents of the components that a step touches.

    Columns of the representative are null where that was deleted.
    """
    found = [
        ("kept", pa.bool_()),
        ("representative_id", id_type),
        ("settled", pa.bool_()),
        ("component", id_type),
        ("would_be_kept", pa.bool_()),
    ]
    return pa.schema([*elected(id_type), *found])


class Decided(NamedTuple, Generic[Rows]):
    """Result of an election."""

    verdicts: Rows
    """VERDICTS."""
    voters: int
    removed: int
    """Documents of them that have come and are not kept."""
    several: Rows
    """COMPONENTS of the documents of those that have several."""
    components: Rows
    """COMPONENTS of all sets of the store, by their least set."""
    connected: Connected
    elected: Elected


def decide(
    engine: Engine[Rows], step: Step[Rows], settled: Settled[Rows], *, anew: bool, readmit: bool, has_sources: bool
) -> Decided[Rows]:
    """Connect the sets that resemble each other, and decide which documents stay.

    Parameters
    ----------
    anew
        Whether nothing that was decided before counts, and components that wait for an election have it.
    readmit
        Whether a document whose representative is gone may be kept.
    """
    links, count = list_links(engine, step, settled)
    components = engine.connect("components", engine.select(links, left_id="left", right_id="right"), count)
    touched = _list_touched(engine, step, settled, anew=anew)
    voting = _choose_components(engine, components, touched)
    placed = engine.join(step.places, engine.select(voting, "component_id", set="doc_id"), "set", key="set")
    voters = engine.group("voters", placed, VOTE)
    listed = _list_ballots(engine, step, voters, anew=anew, readmit=readmit)
    heads = engine.map(engine.select(listed, *OWNED.names, "set_id"), _take_heads, OWNED)
    inner = engine.join(links, engine.select(voting, "doc_id"), "left", how="semi")
    edges = name_ends(engine, inner, heads, name="elected_edges")
    take_several = partial(take_equal, schema=arrow.COMPONENTS, several=1)
    several = engine.select(listed, *arrow.COMPONENTS.names, "several")
    of_documents = engine.map(several, take_several, arrow.COMPONENTS, name="several")
    none = engine.parallelise("no_near_misses_elected", arrow.EDGES.empty_table())
    schema = election.voters(engine.id_type)
    rules = tuple(step.search.rules)
    leading = (FOREIGN if step.all_lead else KEPT_BEFORE, *rules)
    policy = step.search.election.policy._replace(for_fixed=step.for_led)
    found, counts = find_members(
        engine,
        election.Election(rules=rules if anew else leading, policy=policy, per_source=0),
        engine.map(listed, partial(_to_voters, schema=schema), schema),
        Connection(edges, none, of_documents),
        partial(_answer, engine=engine, step=step, heads=heads),
        has_sources=has_sources,
    )
    named = engine.select(found, "doc_id", "representative_doc_id", "kind", "jaccard")
    chosen = engine.map(named, _take_members, CHOSEN)
    given, schema = elected(engine.id_type), verdicts(engine.id_type)
    known = engine.select(listed, *given.names[: -len(CHOSEN) + 1])
    work = partial(_decide, schema=schema, anew=anew, readmit=readmit)
    stick = Shuffle(emitted=given, by=("component_id",), work=work, schema=schema, in_order=False)
    decided = engine.group("verdicts", engine.join(known, chosen, "doc_id", how="left"), stick)
    tally = engine.tally(decided)
    return Decided(
        verdicts=decided,
        voters=tally["rows"],
        removed=tally.get("removed", 0),
        several=of_documents,
        components=components,
        connected=Connected(rows=engine.tally(components)["rows"], engine=engine.tally(components)["engine"]),
        elected=counts,
    )


def _list_touched(engine: Engine[Rows], step: Step[Rows], settled: Settled[Rows], *, anew: bool) -> Rows:
    """Return the sets whose components are decided on, as MEMBERS."""
    lost = np.concatenate(decode(settled.withdrawn))
    found = engine.select(settled.found, left_id="left", right_id="right")
    parts = [
        engine.select(step.touched, doc_id="set"),
        engine.map(found, comparison.list_ends, templates.MEMBERS),
        engine.parallelise("lost_ends", pa.table({"doc_id": lost}, schema=templates.MEMBERS)),
    ]
    if anew:
        rows = read(engine, step.snapshot, "members", WAITING)
        latest = engine.group("waiting", rows, list_newest(step.snapshot.choose("members", WAITING)))
        waiting = engine.map(latest, partial(take_equal, schema=templates.MEMBERS, settled=False), templates.MEMBERS)
        placed = engine.join(step.places, waiting, "doc_id", how="semi")
        parts.append(engine.select(placed, doc_id="set"))
    return engine.group("touched", engine.concat(*parts), templates.DISTINCT)


def list_newest(schema: pa.Schema) -> Shuffle:
    """Return the shuffle rows of `members` -> the newest of every document."""
    return Shuffle(emitted=schema, by=("doc_id",), order=("since",), work=_list_newest, schema=schema)


def _list_newest(batches: Batches) -> Batches:
    for batch in join_groups(batches, ["doc_id"]):
        yield batch.take(pa.array(find_bounds(batch["doc_id"].to_numpy())[1:] - 1))


def _choose_components(engine: Engine[Rows], components: Rows, touched: Rows) -> Rows:
    """Return COMPONENTS of the sets of the components that sets touched are in; a set without an edge is one."""
    linked = engine.join(touched, components, "doc_id")
    chosen = engine.group("chosen", engine.select(linked, doc_id="component_id"), templates.DISTINCT)
    every = engine.join(components, chosen, "component_id", key="doc_id", how="semi")
    alone = engine.join(touched, components, "doc_id", how="anti")
    return engine.concat(every, engine.select(alone, "doc_id", component_id="doc_id"))


def _gather(batches: Batches) -> Batches:
    """Name each component and set by the least document; one that has come and is alone has no need of an election."""
    for batch in join_groups(batches, ["component_id"]):
        here = batch.filter(pc.not_equal(batch["state"], GOES))
        if not here.num_rows:
            continue
        components, sets, doc_ids = (here[name].to_numpy() for name in ("component_id", "set", "doc_id"))
        is_new = here["state"].to_numpy() == COMES
        bounds = find_bounds(components)
        sizes = np.diff(bounds)
        least = np.repeat(np.minimum.reduceat(doc_ids, bounds[:-1]), sizes)
        firsts = find_bounds(components, sets)
        heads = np.repeat(doc_ids[firsts[:-1]], np.diff(firsts))
        several = np.repeat(sizes > 1, sizes)
        told = {"set_id": heads, "component_id": least, "is_new": is_new.astype(np.int64)}
        voters = conform(here, VOTERS, **told, several=several.astype(np.int64))
        yield voters.filter(pa.array(several | ~is_new))


VOTE = Shuffle(emitted=PLACED, by=("component_id",), order=("set", "doc_id"), work=_gather, schema=VOTERS)
"""PLACES with components -> VOTERS."""


def _list_ballots(engine: Engine[Rows], step: Step[Rows], voters: Rows, *, anew: bool, readmit: bool) -> Rows:
    """Return BALLOTS."""
    snapshot, count = step.snapshot, engine.tally(voters)["rows"]
    old = engine.map(voters, partial(take_equal, schema=templates.MEMBERS, is_new=0), templates.MEMBERS)
    stored = select(engine, snapshot, "documents", RECORDED, wanted=old, count=count)
    arrived = engine.join(engine.select(step.documents, *RECORDED), voters, "doc_id", how="semi")
    records = engine.join(voters, engine.concat(stored, arrived), "doc_id")
    names = ("doc_id", *EARLIER, "since")
    told = select(engine, snapshot, "members", names, wanted=old, count=count)
    latest = engine.group("earlier", told, list_newest(snapshot.choose("members", names)))
    earlier = engine.select(latest, "doc_id", **{f"was_{name}": name for name in EARLIER})
    schema = ballots(engine.id_type)
    work = partial(
        _to_ballots,
        schema=schema,
        rules=tuple(step.search.rules),
        anew=anew,
        readmit=readmit,
        all_lead=step.all_lead,
    )
    return engine.map(engine.join(records, earlier, "doc_id", how="left"), work, schema, name="ballots")


def _to_ballots(
    batches: Batches,
    *,
    schema: pa.Schema,
    rules: Sequence[tuple[str, str]],
    anew: bool,
    readmit: bool,
    all_lead: bool,
) -> Batches:
    keyed = list_asking(rules)
    width = len(keyed) + sum(name in OF_TIME for name, _ in keyed)
    for batch in batches:
        is_new = batch["is_new"].to_numpy() > 0
        # A document without a row was alone, and kept.
        was_kept = ~is_new & batch["was_kept"].fill_null(pa.scalar(value=True)).to_numpy(zero_copy_only=False)
        others = np.where(is_new | readmit, 1.0, 0.0 if all_lead else 2.0)
        leading = [] if anew else [np.where(was_kept, 0.0, others)]
        order_keys = join_keys([*map(pa.array, (*leading, *_pad(batch["order_keys"], width).T))], batch.num_rows)
        ballots = conform(batch, schema, was_kept=was_kept, order_keys=order_keys)
        yield add_keys(ballots, rules if anew else (KEPT_BEFORE, *rules))


def _pad(lists: pa.Array, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return lists as rows of a matrix, 0 where earlier releases wrote fewer values."""
    counts = pc.list_value_length(lists).to_numpy()
    keys = np.zeros((len(lists), max(width, counts.max(initial=0))))
    keys[np.arange(keys.shape[1]) < counts[:, None]] = lists.flatten().to_numpy(zero_copy_only=False)
    return keys


def _take_heads(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(pc.equal(batch["doc_id"], batch["set_id"])).select(OWNED.names)


def _to_voters(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        several = batch.filter(pc.equal(batch["several"], 1))
        yield conform(several, schema, size=several["shingle_count"])


def _answer(
    name: str,
    asked: Rows,
    count: int,
    *,
    engine: Engine[Rows],
    step: Step[Rows],
    heads: Rows,
) -> Rows:
    """Return the similarity of pairs, whose sets are read as they are asked for: most pairs are edges already."""
    ends, ends_count = list_ends(engine, f"{name}_ends", asked)
    wanted = engine.join(ends, heads, "doc_id")
    sets = find_sets(engine, step.snapshot, f"{name}_sets", wanted, count=step.count, expected=ends_count)
    return compare_all(engine, sets, name, asked, count)


def _take_members(batches: Batches) -> Batches:
    for batch in batches:
        members = batch.filter(batch["doc_id"].is_valid())
        yield conform(members, CHOSEN, representative=members["representative_doc_id"])


def _decide(batches: Batches, *, schema: pa.Schema, anew: bool, readmit: bool) -> Iterator[pa.RecordBatch | Tally]:
    """BALLOTS with the result of a new election -> VERDICTS; the tally has `removed`."""
    parts = [batch for batch in batches if batch.num_rows]
    if not parts:
        return
    rows = pa.concat_batches(parts).sort_by("doc_id")
    doc_ids, is_new = rows["doc_id"].to_numpy(), rows["is_new"].to_numpy() > 0
    # A document that is alone in its component is no member, and stays.
    result = {
        "representative": pc.coalesce(rows["representative"], rows["doc_id"]),
        "kind": rows["kind"].fill_null(election.KEPT),
        "jaccard": pc.if_else(rows["kind"].is_null(), 1.0, rows["jaccard"]),
    }
    is_elected = pc.equal(result["kind"], election.KEPT).to_numpy(zero_copy_only=False)
    kept = is_elected
    if not anew:
        kept, result = _stay(rows, is_new, is_elected, result, readmit=readmit)
    least = np.searchsorted(doc_ids, rows["component_id"].to_numpy())
    has_old = np.zeros(doc_ids.size, dtype=bool)
    has_old[least[~is_new]] = True
    owners = look_up(doc_ids, result["representative"].fill_null(0).to_numpy())
    missing = (owners < 0) | result["representative"].is_null().to_numpy(zero_copy_only=False)
    yield Tally(removed=int(np.count_nonzero(is_new & ~kept)))
    yield conform(
        rows,
        schema,
        **result,
        kept=kept,
        representative_id=rows["id"].take(pa.array(owners, mask=missing)),
        settled=anew or ~has_old[least],
        component=rows["id"].take(pa.array(least)),
        would_be_kept=is_elected,
    )


def _stay(
    rows: pa.RecordBatch, is_new: Flags, is_elected: Flags, result: dict[str, pa.Array], *, readmit: bool
) -> tuple[Flags, dict[str, pa.Array]]:
    """Let documents that were there be what they were, as far as they can."""
    doc_ids, was_kept = rows["doc_id"].to_numpy(), rows["was_kept"].to_numpy(zero_copy_only=False)
    theirs = rows["was_representative"].fill_null(0).to_numpy()
    kept = np.where(is_new, is_elected, was_kept | is_elected & readmit)

    def is_kept(of: Integers) -> Flags:
        found: Flags = np.append(kept, False)[look_up(doc_ids, of)]
        return found

    was_removed = ~is_new & ~kept
    # Whose representative stays need not be told another.
    stays = was_removed & rows["was_representative"].is_valid().to_numpy(zero_copy_only=False) & is_kept(theirs)
    own = np.select([kept, stays], [doc_ids, theirs], result["representative"].to_numpy())
    # Nobody of its component is kept, and it may not be itself.
    displaced = was_removed & ~stays & ~is_kept(own)
    kinds, was_kinds = (each.to_numpy(zero_copy_only=False) for each in (result["kind"], rows["was_kind"]))
    similarities = [np.float64(1), rows["was_jaccard"].fill_null(0).to_numpy()]
    jaccard = np.select([kept, stays], similarities, result["jaccard"].to_numpy(zero_copy_only=False))
    return kept, {
        "representative": pa.array(own, mask=displaced),
        "kind": pa.array(
            np.select([kept, stays, displaced], [election.KEPT, was_kinds, DISPLACED], kinds), pa.string()
        ),
        "jaccard": pa.array(jaccard, mask=displaced),
    }
