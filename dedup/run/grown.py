"""What a store says of a batch, in the terms of a run's output."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.passes import Part
from dedup.engines.values import Found
from dedup.informing import LOSS, Inform
from dedup.kernels import Integers
from dedup.kernels.sets.identical import find_repeated
from dedup.layers import NEAR
from dedup.store.adding import Grown
from dedup.store.arrays import distinct, look_up
from dedup.store.election import find_components
from dedup.store.growth import Links
from dedup.tables import arrow
from dedup.tables.counts import Collapsed, Connected, Lost


def to_members(grown: Grown, part: Part) -> pa.Table:
    """Return MEMBERS of the documents of a batch: doc_id, id, kind, representative_id, component_id, jaccard.

    A document that was in the store already goes as a copy of itself if it is kept there.
    """
    rows, members = grown.voters.rows, grown.verdict.members
    doc_ids = rows["doc_id"].to_numpy()
    kept = members["kept"].to_numpy(zero_copy_only=False)
    owners = pc.fill_null(members["representative"], 0).to_numpy()
    copied = kept & (look_up(grown.known, doc_ids) >= 0)
    table = pa.table(
        {
            "doc_id": doc_ids,
            "id": rows["id"],
            "representative_id": rows["id"].take(pa.array(look_up(doc_ids, owners), mask=look_up(doc_ids, owners) < 0)),
            "component_id": rows["id"].take(pa.array(look_up(doc_ids, members["component_id"].to_numpy()))),
            "kind": pc.if_else(pa.array(copied), "identical", members["kind"]),
            "jaccard": members["jaccard"],
        }
    )
    own = distinct(part.doc_ids)
    table = table.filter(pa.array(look_up(own, doc_ids) >= 0))
    # Documents without a token are no voters.
    empty = np.setdiff1d(grown.known, doc_ids)
    order = np.argsort(part.doc_ids, kind="stable")
    ids = part.ids.take(pa.array(order[np.searchsorted(part.doc_ids, empty, sorter=order)]))
    copies = pa.table(
        {
            "doc_id": empty,
            "id": ids,
            "representative_id": ids,
            "component_id": ids,
            "kind": pa.array(["identical"] * empty.size, pa.string()),
            "jaccard": np.ones(empty.size),
        }
    )
    return pa.concat_tables([table, copies])


def to_removals(members: pa.Table) -> pa.Table:
    """Return REMOVALS of the documents of a batch."""
    schema = arrow.removals(members.schema.field("id").type)
    gone = members.filter(pc.not_equal(members["kind"], "kept"))
    columns = {name: gone[name] for name in schema.names if name != "layer"} | {"layer": pa.repeat(NEAR, gone.num_rows)}
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def to_found(grown: Grown, members: pa.Table, threshold: float, part: Part, inform: Inform) -> Found:
    """Return what a batch has found, as the memory engine tells it."""
    settled, voters, own = grown.settled, grown.voters, distinct(part.doc_ids)
    rows = voters.rows
    doc_ids = rows["doc_id"].to_numpy()
    heads = doc_ids[voters.heads]
    came = look_up(own, doc_ids) >= 0
    copies = (doc_ids != heads) & (came | (look_up(own, heads) >= 0))
    identical = pa.table({"doc_id": doc_ids[copies], "set_id": heads[copies]})
    repeated, _ = find_repeated(part.doc_ids)
    gone = members.filter(pc.not_equal(members["kind"], "kept"))
    similarities = gone["jaccard"].to_numpy()
    elected = replace(
        grown.verdict.counts,
        rows=members.num_rows,
        near=int(pc.sum(pc.equal(gone["kind"], "near")).as_py() or 0),
        chained=int(np.count_nonzero(similarities < threshold)),
        least=float(similarities.min()) if similarities.size else None,
    )
    none = pa.table({"left_id": pa.array([], pa.int64()), "right_id": pa.array([], pa.int64())})
    return Found(
        identical=identical,
        repeated=pa.table({"doc_id": repeated}),
        candidates=none,
        edges=_name(grown.fresh, grown.heads),
        near_misses=_name(settled.near_misses, grown.heads),
        components=none,
        members=members,
        spared=none,
        recall=[],
        collapsed=Collapsed(rows=int(np.count_nonzero(copies & came)), repeated=repeated.size),
        bucketed=settled.bucketed,
        paired=settled.paired,
        verified=settled.verified,
        connected=Connected(rows=members.num_rows, engine="memory"),
        lost=inform(LOSS, _estimate_loss, grown, threshold),
        elected=elected,
    )


def _name(links: Links, heads: Integers) -> pa.Table:
    """Return pairs of sets as pairs of their least documents."""
    left, right = heads[links.left], heads[links.right]
    return pa.table({"left_id": np.minimum(left, right), "right_id": np.maximum(left, right), "jaccard": links.jaccard})


def _estimate_loss(grown: Grown, threshold: float) -> Lost:
    sample = grown.settled.sample
    similar = sample.select(sample.jaccard >= threshold)
    left, right = find_components(grown.links, np.stack(similar[:2]))
    return replace(grown.settled.lost, lost=int(np.count_nonzero(left != right)))


def to_names(grown: Grown, part: Part) -> pa.Table:
    """Return doc_id and id of all documents that the tables of a batch name."""
    ends = [each for links in (grown.fresh, grown.settled.near_misses) for each in links[:2]]
    wanted = distinct(grown.heads[np.concatenate(ends)])
    known = pa.concat_tables(
        [
            pa.table({"doc_id": part.doc_ids, "id": part.ids}),
            grown.voters.rows.select(["doc_id", "id"]),
        ]
    )
    missing = np.setdiff1d(wanted, known["doc_id"].to_numpy())
    return pa.concat_tables([known, grown.writing.snapshot.find("documents", missing, ["doc_id", "id"])])


def to_changes(grown: Grown) -> pa.Table:
    """Return the documents of earlier batches whose lot is another now, or would be after a new election."""
    rows, changes = grown.voters.rows, grown.verdict.changes
    members = grown.verdict.members
    places = look_up(rows["doc_id"].to_numpy(), changes["doc_id"].to_numpy())
    taken = rows.take(pa.array(places))
    columns: dict[str, Any] = {"id": taken["id"], "batch": taken["batch"]}
    columns |= {name: changes[name] for name in ("was_kept", "is_kept", "would_be_kept")}
    columns["component_id"] = members["component_id"].take(pa.array(places))
    return pa.table(columns)
