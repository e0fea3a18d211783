"""The layers other than near in a store: documents of earlier batches by their keys, and what becomes of those removed.

    KEYS of a batch -> `keys` -> documents of earlier batches, with who was kept for them -> removals of the batch
    removals -> `documents` without a shingle set, `members`, `keys`

What such a layer has decided stays: a document of an earlier batch goes before all new ones, and is never removed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Tally, Work, conform_rows, once, pass_on
from dedup.files.orders import add_keys, set_keys
from dedup.kernels.digests import digest_each
from dedup.kernels.election import to_matrix
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs.batches import conform, conform_each
from dedup.layers.chain import Chain
from dedup.layers.copies import KEYS, PRECEDENCE, keyed
from dedup.layers.layer import CHANGED, Fetch, Found
from dedup.layers.near.election import KEPT
from dedup.layers.near.templates import DISTINCT, MEMBERS
from dedup.layers.ordering import sourced
from dedup.store.adding import RECORDED, Grown, to_documents
from dedup.store.election import DISPLACED, list_newest
from dedup.store.numbering import KEYS as WANTED
from dedup.store.outcome import list_changes
from dedup.store.reading import find_keys, read, select
from dedup.store.schemas import KEYED, LATER, NO_SET, list_layouts
from dedup.store.snapshot import Snapshot
from dedup.store.writing import write_rows
from dedup.tables import arrow

TOLD = ("doc_id", "kept", "representative", "kind", "jaccard", "since")
"""Columns of `members` that say in whose favour a document was removed."""
TEXTS = ("doc_id", "text", "since")
"""Columns of `texts` that are read again."""
NEWEST = (1 << 63) - 1
FIRST, SECOND, LAST = -1, 0, 2
"""Precedence of documents in whose favour others go, and of those that were removed themselves with nobody kept.

The second is that of the latter where they too come before new documents.
"""
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
    """Layers of the store, or more."""
    all_lead: bool
    """Whether documents come before new ones that were removed, too."""

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
        work = partial(_to_keyed, salt=salt, kind=kind, all_lead=self.all_lead, rules=rules, schema=schema)
        return engine.map(joined, work, schema)

    def find_known(self, engine: Engine[Rows], documents: Rows) -> Rows | None:
        """See `EarlierKeys.find_known`."""
        if self.snapshot.state.settings.get("input.id_column"):
            return None
        count = engine.measure(documents)["rows"]
        stored = select(engine, self.snapshot, "documents", ["doc_id"], wanted=documents, count=count)
        return engine.join(documents, engine.select(stored, "doc_id"), "doc_id", how="semi")

    def look_up(self, engine: Engine[Rows], table: str, rows: Rows, columns: Sequence[str] | None = None) -> Rows:
        """See `EarlierKeys.look_up`."""
        wanted = engine.select(rows, wanted=self.snapshot.layout(table).key)
        expected = engine.tally(rows)["rows"]
        return find_keys(engine, self.snapshot, table, wanted, columns, name=f"{table}_met", expected=expected)

    def read(self, engine: Engine[Rows], table: str, columns: Sequence[str]) -> Rows:
        """See `EarlierKeys.read`."""
        return read(engine, self.snapshot, table, columns)

    def open(self, engine: Engine[Rows], table: str) -> Fetch[Rows]:
        """See `EarlierKeys.open`."""
        return partial(self._fetch, engine=engine, table=table)

    def _fetch(
        self,
        name: str,
        wanted: Rows,
        work: Work,
        schema: pa.Schema,
        *,
        engine: Engine[Rows],
        table: str,
        once: bool = False,
    ) -> Rows:
        named = engine.map(engine.select(wanted, "doc_id"), pass_on, MEMBERS, name=f"{name}_named")
        count = engine.tally(named)["rows"]
        texts, records = (
            select(engine, self.snapshot, of, columns, wanted=named, count=count)
            for of, columns in ((table, TEXTS), ("documents", RECORDED))
        )
        known = select(engine, self.snapshot, table, ["doc_id"], wanted=named, count=count)
        earlier = engine.join(engine.join(wanted, texts, "doc_id"), records, "doc_id")
        others = engine.join(wanted, known, "doc_id", how="anti")
        dated = partial(_come_first, work=work, rules=self.snapshot.state.search.rules)
        found = engine.map(earlier, dated, schema, name="" if once else f"{name}_earlier")
        return engine.concat(found, engine.fetch(name, others, dated, schema, once=once))

    def date(self, engine: Engine[Rows], table: str, own: Rows, earlier: Rows) -> Rows:
        """See `EarlierKeys.date`."""
        count, schema = engine.tally(earlier)["rows"], sourced(engine.id_type)
        dates, records = (
            select(engine, self.snapshot, of, columns, wanted=earlier, count=count)
            for of, columns in ((table, ("doc_id", "since")), ("documents", RECORDED))
        )
        rows = engine.join(records, dates, "doc_id")
        others = engine.select(engine.join(own, earlier, "doc_id", how="anti"), *schema.names)
        rules = self.snapshot.state.search.rules
        work = partial(_come_first, work=partial(conform_each, schema=schema), rules=rules)
        return engine.concat(*(engine.map(each, work, schema) for each in (rows, others)))


def _come_first(batches: Batches, *, work: Work, rules: Sequence[tuple[str, str]]) -> Iterator[pa.RecordBatch | Tally]:
    """Give documents to some work whose `order_keys` begin with the state that has brought them, the latest of none."""
    return iter(work(_date(batch, rules) for batch in batches))


def _date(batch: pa.RecordBatch, rules: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    since = np.full(batch.num_rows, np.inf)
    if "since" in batch.schema.names:
        since = batch["since"].to_numpy()
        if "text" in batch.schema.names:
            # Of the text that the layer was given.
            place, sizes = batch.schema.get_field_index("text_bytes"), pc.binary_length(batch["text"])
            batch = batch.set_column(place, "text_bytes", sizes.cast(pa.int64()))
        batch = add_keys(batch, rules)
    return set_keys(batch, [*map(pa.array, (since, *to_matrix(batch["order_keys"]).T))])


def resolve(engine: Engine[Rows], snapshot: Snapshot, name: str, wanted: Rows, layers: int) -> Rows:
    """Return RESOLVED of documents of a store, whose removals by so many layers and near lead from one to another."""
    count = engine.measure(wanted)["rows"]
    rows = conform_rows(engine, engine.select(wanted, "doc_id", owner="doc_id"), RESOLVED, kept=True, lost=False)
    for step in range(layers + 1):
        named = engine.group(f"{name}_owners{step}", engine.select(rows, doc_id="owner"), DISTINCT)
        told = select(engine, snapshot, "members", TOLD, wanted=named, count=count)
        if LATER in snapshot.state.segments:
            rows_later = select(engine, snapshot, LATER, TOLD, wanted=named, count=count)
            told = engine.concat(told, conform_rows(engine, rows_later, snapshot.choose("members", TOLD), since=NEWEST))
        latest = engine.group(f"{name}_members{step}", told, list_newest(snapshot.choose("members", TOLD)))
        names = {f"told_{column}": column for column in TOLD[1:-1]}
        joined = engine.join(rows, engine.select(latest, owner="doc_id", **names), "owner", key="owner", how="left")
        rows = engine.map(joined, _lead, RESOLVED, name=f"{name}_resolved{step}")
    return rows


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
    batches: Batches, *, salt: int, kind: str, all_lead: bool, rules: Sequence[tuple[str, str]], schema: pa.Schema
) -> Batches:
    for stored in batches:
        batch = add_keys(stored, rules)
        leads = pc.and_(pc.invert(batch["lost"]), pc.not_equal(batch["kind"], kind).fill_null(pa.scalar(value=True)))
        precedence = np.where(leads.to_numpy(zero_copy_only=False), FIRST, SECOND if all_lead else LAST)
        columns = {KEYS.names[0]: batch["key"].to_numpy() ^ salt, KEYS.names[1]: batch["low"], PRECEDENCE: precedence}
        yield conform(batch, schema, **columns)


def find_owners(engine: Engine[Rows], snapshot: Snapshot, name: str, removals: Rows, layers: int) -> Rows:
    """Return RESOLVED of the documents of a store in whose favour so many layers have removed some of a batch."""
    named = engine.map(removals, _list_representatives, MEMBERS)
    wanted = engine.group(f"{name}_named", named, DISTINCT)
    count = engine.tally(wanted)["rows"]
    stored = select(engine, snapshot, "documents", ["doc_id"], wanted=wanted, count=count)
    return resolve(engine, snapshot, name, stored, layers)


def _list_representatives(batches: Batches) -> Batches:
    for batch in batches:
        held = batch["representative_id"].drop_null()
        yield pa.RecordBatch.from_arrays([pa.array(to_doc_ids(held))], schema=MEMBERS)


def follow(engine: Engine[Rows], grown: Grown[Rows], name: str, owned: Rows, *, all_lead: bool) -> Rows:
    """Return documents of a store in the form of REMOVALS, as `Found.earlier` has them.

    Parameters
    ----------
    owned
        RESOLVED.
    all_lead
        Whether new documents go for those that were removed with nobody kept, too.
    """
    schema, count = arrow.removals(engine.id_type), engine.tally(owned)["rows"]
    named = engine.concat(engine.select(owned, "doc_id"), engine.select(owned, doc_id="owner"))
    wanted = engine.group(name, named, DISTINCT)
    ids = select(engine, grown.snapshot, "documents", ["doc_id", "id"], wanted=wanted, count=2 * count)
    verdicts = engine.join(
        engine.select(grown.decided.verdicts, "component", owner="doc_id"), grown.decided.several, "owner", how="semi"
    )
    rows = engine.join(owned, ids, "doc_id")
    rows = engine.join(rows, engine.select(ids, owner="doc_id", representative_id="id"), "owner", key="owner")
    rows = engine.join(rows, verdicts, "owner", key="owner", how="left")
    return engine.map(rows, partial(_to_followed, schema=schema, all_lead=all_lead), schema)


def _to_followed(batches: Batches, *, schema: pa.Schema, all_lead: bool) -> Batches:
    """Leave out the documents that were kept and resemble no other."""
    for batch in batches:
        is_own = batch["kind"].is_null()
        told = batch.filter(pc.or_(pc.invert(is_own), batch["component"].is_valid()))
        stays = pc.or_(told["kept"], pa.scalar(all_lead))
        owners = pc.if_else(stays, told["representative_id"], pa.scalar(None, schema.field("id").type))
        kinds, components = told["kind"].fill_null(KEPT), pc.coalesce(told["component"], owners)
        yield conform(told, schema, kind=kinds, representative_id=owners, component_id=components)


@dataclass(slots=True, eq=False)
class Aside(Generic[Rows]):
    """Findings of layers other than near, in their order."""

    removals: list[Rows] = field(default_factory=list)
    """REMOVALS of each, in favour of those that it has left itself."""
    changes: list[Rows] = field(default_factory=list)
    """Rows of the table `changes`."""
    keys: dict[str, Rows] = field(default_factory=dict)
    """Documents with KEYS, by the layer that has found these."""
    stored: dict[str, Rows] = field(default_factory=dict)
    """Rows of layers by their tables."""

    def note(self, chain: Chain[Rows], layer: str, found: Found[Rows], snapshot: Snapshot) -> None:
        """Add what a layer has found behind those of a chain."""
        for name, rows in found.stored.items():
            schema = snapshot.choose(name)
            is_placed = "begin" in schema.names
            self.stored[name] = chain.move_back(f"{name}_stored", rows, schema) if is_placed else rows
        if found.changes is not None:
            self.changes.append(_name_changes(chain.engine, snapshot, layer, found.changes))
        if found.removals is not None:
            self.removals.append(found.removals)
        if found.keys is not None:
            self.keys[layer] = found.keys


def _name_changes(engine: Engine[Rows], snapshot: Snapshot, layer: str, changes: Rows) -> Rows:
    """Return CHANGED of a layer, rows with a name, as `changes` has them."""
    named, count = engine.group(f"{layer}_changed", engine.select(changes, "doc_id"), DISTINCT), engine.tally(changes)
    ids = select(engine, snapshot, "documents", ["doc_id", "id", "batch"], wanted=named, count=count["rows"])
    schema = list_changes(engine.id_type)
    flags = engine.select(changes, *CHANGED.names, is_kept="was_kept")
    return conform_rows(engine, engine.join(flags, ids, "doc_id"), schema, layer=layer)


def write_aside(
    engine: Engine[Rows], grown: Grown[Rows], first: Aside[Rows], last: Aside[Rows], *, has_near: bool
) -> Grown[Rows]:
    """Write what other layers have made of a batch, those before near and those behind it; return it with its counts.

    Without near all are before it, and nothing else has written the documents.
    """
    known = engine.select(grown.known, "doc_id")
    _write_stored(engine, grown, known, {**first.keys, **last.keys}, {**first.stored, **last.stored})
    gone = _write_removed(engine, grown, known, "members", first.removals)
    later = _write_removed(engine, grown, known, LATER, last.removals)
    own = engine.join(engine.select(grown.arrival.register, *RECORDED), known, "doc_id", how="anti")
    if has_near:
        own = engine.join(own, gone, "doc_id", how="semi")
    schema = grown.snapshot.choose("documents")
    name, rules = grown.arrival.name, grown.snapshot.state.search.rules
    listed = partial(to_documents, schema=schema, batch=name, rules=rules, set=NO_SET, shingle_count=0)
    documents = engine.group("aside", engine.map(own, listed, schema), once(schema))
    count: int = engine.tally(documents)["rows"]
    write_rows(engine, grown.writing, "documents", documents, count)
    lost = [engine.tally(each)["rows"] for each in (gone, later)]
    return replace(grown, aside=count, spared=count - sum(lost))


def _write_stored(
    engine: Engine[Rows], grown: Grown[Rows], known: Rows, keys: Mapping[str, Rows], stored: Mapping[str, Rows]
) -> None:
    writing, snapshot = grown.writing, grown.snapshot
    for name, rows in stored.items():
        own = engine.join(rows, known, "doc_id", how="anti")
        dated = conform_rows(engine, own, snapshot.choose(name), since=snapshot.state.number + 1)
        write_rows(engine, writing, name, dated, engine.measure(own)["rows"])
    schema = snapshot.choose(KEYED)
    for layer, rows in keys.items():
        found = engine.map(engine.select(rows, "doc_id", *KEYS.names), partial(_to_keys, salt=_salt(layer)), schema)
        own = engine.join(found, known, "doc_id", how="anti")
        listed = engine.group(f"{layer}_keys", own, once(schema))
        write_rows(engine, writing, KEYED, listed, engine.tally(listed)["rows"])


def _write_removed(engine: Engine[Rows], grown: Grown[Rows], known: Rows, table: str, removals: Sequence[Rows]) -> Rows:
    """Write in whose favour documents have gone; return their doc_id."""
    snapshot = grown.snapshot
    none = engine.parallelise(f"no_{table}", arrow.removals(engine.id_type).empty_table())
    aside = engine.join(engine.concat(none, *removals), known, "doc_id", how="anti")
    reasons = engine.select(aside, "doc_id", "representative_id", "kind", "jaccard")
    schema = list_layouts(engine.id_type)["members"].schema
    work = partial(_to_members, schema=schema, since=snapshot.state.number + 1)
    # Equal rows, which share a document id, go for one.
    members = engine.group(f"{table}_aside", engine.map(reasons, work, schema), once(schema))
    count = engine.tally(members)["rows"]
    if count:
        write_rows(engine, grown.writing, table, members, count)
    return engine.map(engine.select(members, "doc_id"), pass_on, MEMBERS, name=f"{table}_gone")


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
