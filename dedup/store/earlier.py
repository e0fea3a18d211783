"""The layers before near in a store: documents of earlier batches by their keys, and what becomes of those removed.

    KEYS of a batch -> `keys` -> documents of earlier batches, with who was kept for them -> removals of the batch
    removals -> `documents` without a shingle set, `members`, `keys`

What such a layer has decided stays: a document of an earlier batch goes before all new ones, and is never removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, once
from dedup.files.orders import add_keys, drop_keys
from dedup.kernels.digests import digest_each
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs.batches import conform
from dedup.layers.copies import KEYS, PRECEDENCE, keyed
from dedup.layers.near.election import KEPT
from dedup.layers.near.templates import DISTINCT, MEMBERS
from dedup.store.adding import Grown
from dedup.store.election import DISPLACED, list_newest
from dedup.store.numbering import KEYS as WANTED
from dedup.store.reading import find_keys, select
from dedup.store.schemas import KEYED, NO_SET
from dedup.store.snapshot import Snapshot
from dedup.store.writing import write_rows
from dedup.tables import arrow

RECORDED = ("doc_id", "id", "source", "text_bytes", "order_keys")
TOLD = ("doc_id", "kept", "representative", "kind", "jaccard", "since")
"""Columns of `members` that say in whose favour a document was removed."""
FIRST, LAST = 0, 2
"""Precedence of documents in whose favour others go, and of those that were removed themselves with nobody kept."""
RESOLVED = pa.schema(
    [
        *arrow.integers("doc_id", "owner"),
        ("kept", pa.bool_()),
        ("lost", pa.bool_()),
        ("kind", pa.string()),
        ("jaccard", pa.float64()),
    ]
)
"""Documents of a store, the one that stays for each, and whether it was kept, or has lost the one it was removed for.

`kind` and `jaccard` are of a document's own removal, the similarity to the one that stays; null of one that was kept.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKeys:
    """Documents of a store by the keys of a layer: see `layers.layer.EarlierKeys`."""

    snapshot: Snapshot
    layer: str
    layers: int
    """Layers before near."""

    def find(self, engine: Engine[Rows], rows: Rows, kind: str) -> Rows:
        """See `EarlierKeys.find`."""
        salt, snapshot, rules = _salt(self.layer), self.snapshot, self.snapshot.state.search.rules
        wanted = engine.map(engine.select(rows, KEYS.names[0]), partial(_want, salt=salt), WANTED)
        met = find_keys(engine, snapshot, KEYED, wanted, name="met", expected=engine.tally(rows)["rows"])
        count = engine.tally(met)["rows"]
        named = engine.group("met_documents", engine.select(met, "doc_id"), DISTINCT)
        records = select(engine, snapshot, "documents", RECORDED, wanted=named, count=count)
        told = engine.select(resolve(engine, snapshot, "met", named, self.layers), "doc_id", "lost", "kind")
        joined = engine.join(engine.join(met, records, "doc_id"), told, "doc_id")
        schema = keyed(engine.id_type)
        return engine.map(joined, partial(_to_keyed, salt=salt, kind=kind, rules=rules, schema=schema), schema)


def resolve(engine: Engine[Rows], snapshot: Snapshot, name: str, wanted: Rows, layers: int) -> Rows:
    """Return RESOLVED of documents of a store, whose removals by so many layers and near lead from one to another."""
    count = engine.measure(wanted)["rows"]
    rows = engine.map(wanted, _begin, RESOLVED)
    for step in range(layers + 1):
        named = engine.group(f"{name}_owners{step}", engine.select(rows, doc_id="owner"), DISTINCT)
        told = select(engine, snapshot, "members", TOLD, wanted=named, count=count)
        latest = engine.group(f"{name}_members{step}", told, list_newest(snapshot.choose("members", TOLD)))
        names = {f"told_{column}": column for column in TOLD[1:-1]}
        joined = engine.join(rows, engine.select(latest, owner="doc_id", **names), "owner", key="owner", how="left")
        rows = engine.map(joined, _lead, RESOLVED, name=f"{name}_resolved{step}")
    return rows


def _begin(batches: Batches) -> Batches:
    for batch in batches:
        yield conform(batch, RESOLVED, owner=batch["doc_id"], kept=True, lost=False)


def _lead(batches: Batches) -> Batches:
    """Take one step from documents removed to those in whose favour they were; one without a row was kept."""
    for batch in batches:
        kept = batch["told_kept"].fill_null(pa.scalar(value=True))
        leads = pc.and_(pc.invert(kept), batch["told_representative"].is_valid())
        is_first = batch["kind"].is_null()
        # Of two documents of one text, each is as similar to a third as the other.
        is_same = pc.or_(is_first, pc.equal(batch["jaccard"], 1.0).fill_null(pa.scalar(value=False)))
        passed = pc.if_else(is_same, batch["told_jaccard"], pa.scalar(None, pa.float64()))
        yield conform(
            batch,
            RESOLVED,
            owner=pc.if_else(leads, batch["told_representative"], batch["owner"]),
            kept=kept,
            lost=pc.equal(batch["told_kind"], DISPLACED).fill_null(pa.scalar(value=False)),
            kind=pc.if_else(pc.and_(is_first, pc.invert(kept)), batch["told_kind"], batch["kind"]),
            jaccard=pc.if_else(kept, batch["jaccard"], passed),
        )


def _salt(layer: str) -> int:
    """Return the number that tells the keys of a layer from those of others."""
    return int(digest_each(pa.array([layer]))[0, 0])


def _want(batches: Batches, *, salt: int) -> Batches:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array(batch[KEYS.names[0]].to_numpy() ^ salt)], schema=WANTED)


def _to_keyed(
    batches: Batches, *, salt: int, kind: str, rules: Sequence[tuple[str, str]], schema: pa.Schema
) -> Batches:
    for stored in batches:
        batch = add_keys(stored, rules)
        leads = pc.and_(pc.invert(batch["lost"]), pc.not_equal(batch["kind"], kind).fill_null(pa.scalar(value=True)))
        precedence = np.where(leads.to_numpy(zero_copy_only=False), FIRST, LAST)
        columns = {KEYS.names[0]: batch["key"].to_numpy() ^ salt, KEYS.names[1]: batch["low"], PRECEDENCE: precedence}
        yield conform(batch, schema, **columns)


def find_owners(engine: Engine[Rows], snapshot: Snapshot, removals: Rows, layers: int) -> Rows:
    """Return RESOLVED of the documents of a store in whose favour so many layers have removed some of a batch."""
    named = engine.map(removals, _list_representatives, MEMBERS)
    wanted = engine.group("owners_named", named, DISTINCT)
    count = engine.tally(wanted)["rows"]
    stored = select(engine, snapshot, "documents", ["doc_id"], wanted=wanted, count=count)
    return resolve(engine, snapshot, "owners", stored, layers)


def _list_representatives(batches: Batches) -> Batches:
    for batch in batches:
        held = batch["representative_id"].drop_null()
        yield pa.RecordBatch.from_arrays([pa.array(to_doc_ids(held))], schema=MEMBERS)


def follow(engine: Engine[Rows], grown: Grown[Rows], owned: Rows) -> Rows:
    """Return documents of a store in the form of REMOVALS, as `Found.earlier` has them.

    Parameters
    ----------
    owned
        RESOLVED.
    """
    schema, count = arrow.removals(engine.id_type), engine.tally(owned)["rows"]
    named = engine.concat(engine.select(owned, "doc_id"), engine.select(owned, doc_id="owner"))
    wanted = engine.group("followed", named, DISTINCT)
    ids = select(engine, grown.snapshot, "documents", ["doc_id", "id"], wanted=wanted, count=2 * count)
    verdicts = engine.join(
        engine.select(grown.decided.verdicts, "component", owner="doc_id"), grown.decided.several, "owner", how="semi"
    )
    rows = engine.join(owned, ids, "doc_id")
    rows = engine.join(rows, engine.select(ids, owner="doc_id", representative_id="id"), "owner", key="owner")
    rows = engine.join(rows, verdicts, "owner", key="owner", how="left")
    return engine.map(rows, partial(_to_followed, schema=schema), schema)


def _to_followed(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Leave out the documents that were kept and resemble no other."""
    for batch in batches:
        is_own = batch["kind"].is_null()
        told = batch.filter(pc.or_(pc.invert(is_own), batch["component"].is_valid()))
        owners = pc.if_else(told["kept"], told["representative_id"], pa.scalar(None, schema.field("id").type))
        kinds, components = told["kind"].fill_null(KEPT), pc.coalesce(told["component"], owners)
        yield conform(told, schema, kind=kinds, representative_id=owners, component_id=components)


def write_aside(engine: Engine[Rows], grown: Grown[Rows], removals: Sequence[Rows], keys: Mapping[str, Rows]) -> int:
    """Write what layers before near have made of a batch; return how many documents these removed, if not known.

    Parameters
    ----------
    removals
        REMOVALS of each layer before near, in favour of those that it has left itself.
    keys
        Documents with KEYS, by the layer that has found these.
    """
    writing, snapshot = grown.writing, grown.snapshot
    schema = snapshot.choose(KEYED)
    for layer, rows in keys.items():
        found = engine.map(engine.select(rows, "doc_id", *KEYS.names), partial(_to_keys, salt=_salt(layer)), schema)
        own = engine.join(found, engine.select(grown.known, "doc_id"), "doc_id", how="anti")
        stored = engine.group(f"{layer}_keys", own, once(schema))
        write_rows(engine, writing, KEYED, stored, engine.tally(stored)["rows"])
    if not removals:
        return 0
    aside = engine.concat(*removals)
    new = engine.join(engine.select(aside, "doc_id"), engine.select(grown.known, "doc_id"), "doc_id", how="anti")
    own = engine.join(engine.select(grown.arrival.register, *RECORDED), new, "doc_id", how="semi")
    schema = snapshot.choose("documents")
    listed = partial(_to_documents, schema=schema, batch=grown.arrival.name, rules=snapshot.state.search.rules)
    documents = engine.group("aside", engine.map(own, listed, schema), once(schema))
    count: int = engine.tally(documents)["rows"]
    write_rows(engine, writing, "documents", documents, count)
    schema = snapshot.choose("members")
    reasons = engine.select(aside, "doc_id", "representative_id", "kind", "jaccard")
    work = partial(_to_members, schema=schema, since=snapshot.state.number + 1)
    members = engine.map(engine.join(reasons, new, "doc_id", how="semi"), work, schema)
    write_rows(engine, writing, "members", members, count)
    return count


def _to_documents(batches: Batches, *, schema: pa.Schema, batch: str, rules: Sequence[tuple[str, str]]) -> Batches:
    for rows in batches:
        yield conform(drop_keys(rows, rules), schema, batch=batch, set=NO_SET, shingle_count=0)


def _to_members(batches: Batches, *, schema: pa.Schema, since: int) -> Batches:
    for batch in batches:
        held = batch["representative_id"].is_valid()
        owners = pa.array(to_doc_ids(batch["representative_id"]))
        owners = pc.if_else(held, owners, pa.scalar(None, pa.int64()))
        yield conform(batch, schema, kept=False, representative=owners, settled=True, since=since)


def _to_keys(batches: Batches, *, salt: int) -> Batches:
    schema = arrow.integers("key", "low", "doc_id")
    for batch in batches:
        full = batch.filter(batch[KEYS.names[0]].is_valid())
        key = full[KEYS.names[0]].to_numpy() ^ salt
        yield conform(full, schema, key=key, low=full[KEYS.names[1]])
