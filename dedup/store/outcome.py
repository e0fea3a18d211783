"""Result of a batch added to a store, in the terms of a layer's."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, conform_rows, pass_on
from dedup.kernels.runs.batches import conform, take_equal
from dedup.layers import NEAR
from dedup.layers.layer import Found
from dedup.layers.near import comparison, templates
from dedup.layers.near.buckets import IDENTICAL
from dedup.layers.near.election import IDENTICAL as IS_IDENTICAL
from dedup.layers.near.election import KEPT
from dedup.layers.near.election import NEAR as IS_NEAR
from dedup.layers.near.layer import SAMPLE, SKETCHED, to_edges
from dedup.store.adding import Grown
from dedup.store.growth import name_ends
from dedup.store.reading import select
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot
from dedup.tables import arrow
from dedup.tables.counts import Collapsed, Elected, Near, Signed

DESCRIBED = pa.schema([*arrow.integers("near", "chained"), ("least", pa.float64())])
"""Counts of removals, a row for each batch."""


class BatchOutcome(NamedTuple, Generic[Rows]):
    """Result for the documents of a batch, and for those of earlier ones."""

    found: Found[Rows]
    counts: Near
    changes: Rows
    """Documents of earlier batches whose fate is another now."""


def tell(engine: Engine[Rows], grown: Grown[Rows], signed: Signed, threshold: float) -> BatchOutcome[Rows]:
    """Return what has become of the documents of a batch."""
    documents = grown.arrival.documents
    came, verdicts = engine.select(documents, "doc_id"), grown.decided.verdicts
    schema = arrow.removals(engine.id_type)
    own = engine.join(verdicts, came, "doc_id", how="semi")
    own = engine.join(own, engine.select(grown.known, "doc_id", known="set"), "doc_id", how="left")
    listed = engine.concat(engine.map(own, partial(_to_members, schema=schema), schema), _list_empty(engine, grown))
    members = engine.map(listed, pass_on, schema, name="own")
    removals = engine.map(members, _take_removed, schema)
    pairs = engine.map(engine.select(verdicts, *IDENTICAL.names), _take_copies, IDENTICAL)
    mine = engine.map(engine.join(pairs, came, "doc_id", how="semi"), pass_on, IDENTICAL, name="copies")
    theirs = engine.join(engine.join(pairs, came, "doc_id", how="anti"), came, "set_id", key="doc_id", how="semi")
    same = engine.map(engine.concat(mine, theirs), to_edges, arrow.EDGES)
    edges = engine.concat(name_ends(engine, grown.settled.found, grown.settled.heads), same)
    near_misses = grown.settled.near_misses
    counts = Near(
        signed=signed,
        collapsed=Collapsed(rows=engine.tally(mine)["rows"]),
        bucketed=grown.settled.bucketed,
        paired=grown.settled.paired,
        verified=grown.settled.verified,
        connected=replace(grown.decided.connected, rows=engine.tally(members)["rows"]),
        lost=grown.lost,
        elected=_describe(engine, grown, removals, engine.tally(members)["rows"], threshold),
        labeled=None,
    )
    found = Found(
        documents=engine.select(documents, *arrow.register(engine.id_type).names),
        removals=removals,
        kept=engine.map(members, partial(take_equal, schema=schema, kind=KEPT), schema),
        edges=edges,
        near_misses=near_misses,
        sample=engine.drop_null(engine.select(documents, *SAMPLE), "tokens"),
        sketches=engine.drop_null(engine.select(documents, SKETCHED), SKETCHED),
        counts=counts,
    )
    return BatchOutcome(
        found=found,
        counts=counts,
        changes=engine.map(verdicts, _take_changes, list_changes(engine.id_type)),
    )


def _to_members(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Return the batch's own documents in the form of REMOVALS, those among them that stay.

    A document that was in the store already goes as a copy of itself if it is kept there.
    """
    for batch in batches:
        is_copy = pc.and_(batch["kept"], batch["known"].is_valid())
        kinds = pc.if_else(is_copy, IS_IDENTICAL, batch["kind"])
        yield conform(batch, schema, layer=NEAR, kind=kinds, component_id=batch["component"])


def _list_empty(engine: Engine[Rows], grown: Grown[Rows]) -> Rows:
    """Return the documents without a token that were in the store, which are no voters, as copies of themselves."""
    take = partial(take_equal, schema=templates.MEMBERS, set=NO_SET)
    given = engine.join(grown.known, engine.select(grown.arrival.documents, "doc_id"), "doc_id", how="semi")
    empty = engine.map(given, take, templates.MEMBERS, name="known_empty")
    count, schema = engine.tally(empty)["rows"], arrow.removals(engine.id_type)
    rows = select(engine, grown.snapshot, "documents", ["doc_id", "id"], wanted=empty, count=count)
    named = engine.select(rows, "doc_id", "id", representative_id="id", component_id="id")
    return conform_rows(engine, named, schema, layer=NEAR, kind=IS_IDENTICAL, jaccard=1.0)


def _take_removed(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(pc.not_equal(batch["kind"], KEPT))


def _take_copies(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(pc.not_equal(batch["doc_id"], batch["set_id"]))


def list_changes(id_type: pa.DataType) -> pa.Schema:
    """Return the columns of the table `changes`."""
    flags = [(name, pa.bool_()) for name in ("was_kept", "is_kept", "would_be_kept")]
    # A part of a text, in characters, where the layer is one that cuts.
    part = [("layer", pa.string()), *arrow.integers("begin", "end")]
    return pa.schema([("id", id_type), ("batch", pa.string()), *flags, ("component_id", id_type), *part])


def _take_changes(batches: Batches) -> Batches:
    """VERDICTS -> documents of earlier batches whose fate is another now, or would be after a new election."""
    for batch in batches:
        moved = pc.not_equal(batch["was_kept"], batch["kept"])
        told = pc.or_(moved, pc.not_equal(batch["would_be_kept"], batch["kept"]))
        chosen = batch.filter(pc.and_(pc.equal(batch["is_new"], 0), told))
        schema = list_changes(batch["id"].type)
        yield conform(chosen, schema, is_kept=chosen["kept"], component_id=chosen["component"], layer=NEAR)


def _describe(engine: Engine[Rows], grown: Grown[Rows], removals: Rows, members: int, threshold: float) -> Elected:
    told = engine.collect(engine.map(removals, partial(_count, threshold=threshold), DESCRIBED))
    near, chained = (pc.sum(told[name]).as_py() or 0 for name in ("near", "chained"))
    least = pc.min(told["least"]).as_py()
    return replace(grown.decided.elected, rows=members, near=near, chained=chained, least=least)


def _count(batches: Batches, *, threshold: float) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        near = pc.sum(pc.equal(batch["kind"], IS_NEAR)).as_py() or 0
        chained = pc.sum(pc.less(batch["jaccard"], threshold)).as_py() or 0
        columns = [pa.array([near]), pa.array([chained]), pa.array([pc.min(batch["jaccard"]).as_py()], pa.float64())]
        yield pa.RecordBatch.from_arrays(columns, schema=DESCRIBED)


def name_documents(
    engine: Engine[Rows], snapshot: Snapshot, documents: Rows, pairs: Rows, spans: Rows | None
) -> Rows | None:
    """Return doc_id and id of all documents that pairs or spans name; None where an integer is its own document id.

    Parameters
    ----------
    documents
        Documents of the batch.
    """
    if pa.types.is_integer(engine.id_type):
        return None
    names = ["doc_id", "id"]
    ends = engine.map(engine.select(pairs, *comparison.PAIRS.names), comparison.list_ends, templates.MEMBERS)
    if spans is not None:
        kept = engine.drop_null(engine.select(spans, doc_id="kept_doc_id"), "doc_id")
        ends = engine.concat(ends, kept)
    wanted = engine.group("pair_ends", ends, templates.DISTINCT)
    own = engine.join(engine.select(documents, *names), wanted, "doc_id", how="semi")
    rest = engine.join(wanted, engine.select(documents, "doc_id"), "doc_id", how="anti")
    count = engine.tally(wanted)["rows"]
    return engine.concat(own, select(engine, snapshot, "documents", names, wanted=rest, count=count))
