"""Documents of `input.without`, which take part in a search and stay; and the documents that go, as `keep.drop` says.

The first of their `order_keys` is 0 where that of others is 1, as the first rule of an order then asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, conform_rows, once
from dedup.kernels import Flags
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs.batches import conform
from dedup.layers.layer import DOC_ID, EarlierKeys, Found, Layer
from dedup.settings.keeping import FIRST_COME, FOREIGN
from dedup.settings.options import Config
from dedup.tables import arrow

DROPPED = "dropped"
"""Kind of documents that would stay for others, if any did."""
OWNER = pa.field("owner", pa.int64())
"""Document in whose favour another goes; null where there is none."""
NOBODY: Mapping[str, Any] = {"representative_id": None, "jaccard": None}
"""Columns of the removal of a document for which none stays."""


def has_foreign(rules: Sequence[tuple[str, str]]) -> bool:
    """Tell whether there are such documents, by the rules of the order."""
    return FOREIGN in rules


def mark_foreign(rows: pa.RecordBatch, rules: Sequence[tuple[str, str]]) -> Flags:
    """Tell which documents are such, or of earlier batches of a store, by their `order_keys`."""
    if not {FOREIGN, FIRST_COME} & {*rules}:
        return np.zeros(rows.num_rows, dtype=bool)
    first = pc.list_element(rows["order_keys"], 0)
    found: Flags = (pc.equal(first, 0.0) if has_foreign(rules) else pc.is_finite(first)).to_numpy(zero_copy_only=False)
    return found


def list_foreign(engine: Engine[Rows], documents: Rows) -> Rows:
    """Return their doc_id; `documents` is REGISTER with further columns."""
    return engine.map(engine.select(documents, "doc_id", "order_keys"), partial(_take, foreign=True), DOC_ID)


def list_own(engine: Engine[Rows], documents: Rows) -> Rows:
    """Return REGISTER of the others."""
    register = arrow.register(engine.id_type)
    return engine.map(engine.select(documents, *register.names), partial(_take, foreign=False), register)


def _take(batches: Batches, *, foreign: bool) -> Batches:
    for batch in batches:
        chosen = batch.filter(pa.array(mark_foreign(batch, (FOREIGN,)) == foreign))
        yield chosen.select(DOC_ID.names) if foreign else chosen


def leave_foreign(
    engine: Engine[Rows], found: Found[Rows], config: Config, past: EarlierKeys | None = None
) -> Found[Rows]:
    """Return the result of a layer for the documents of the input alone.

    Parameters
    ----------
    past
        Documents of a store; None without one.
    """
    if config.input.without:
        foreign = list_foreign(engine, found.documents)

        def leave(rows: Rows | None) -> Rows | None:
            return None if rows is None else engine.join(rows, foreign, "doc_id", how="anti")

        found = replace(
            found,
            documents=list_own(engine, found.documents),
            removals=leave(found.removals),
            spans=leave(found.spans),
            kept=leave(found.kept),
            sample=leave(found.sample),
        )
    return _leave_own(engine, found, past) if config.keep.drop == "without" else found


def _leave_own(engine: Engine[Rows], found: Found[Rows], past: EarlierKeys | None) -> Found[Rows]:
    """Let all documents and spans stay but those that go for documents that are none of the input, or for nobody."""
    removals, spans, own = found.removals, found.spans, found.documents
    known = None if past is None else past.find_known(engine, own)
    if known is not None:
        # What goes for a row that a store has too goes for the store's.
        own = engine.join(own, known, "doc_id", how="anti")
    if removals is not None:
        left = _select_foreign(engine, removals, own)
        removals = engine.select(left, *arrow.removals(engine.id_type).names)
    if spans is not None:
        spans = engine.join(spans, own, "kept_doc_id", how="anti")
    return replace(found, removals=removals, spans=spans)


def drop_all(engine: Engine[Rows], found: Found[Rows], layer: Layer) -> Found[Rows]:
    """Let the documents of the input go too in whose favour a layer has removed copies: nobody stays for these then.

    Parameters
    ----------
    found
        As from `leave_foreign`.
    """
    if found.removals is None or not layer.copies_kind:
        return found
    schema = arrow.removals(engine.id_type)
    removals = _name_owners(engine, found.removals)
    others = engine.join(removals, found.documents, OWNER.name, how="anti")
    alone = engine.join(removals, found.documents, OWNER.name, how="semi")
    if found.kept is None:
        named = engine.map(alone, partial(_name_dropped, schema=schema), schema)
        heads = engine.group("dropped", named, once(schema))
    else:
        heads = conform_rows(engine, found.kept, schema, name="dropped", kind=DROPPED, **NOBODY)
    counts = found.counts
    if counts is not None:
        near = counts.elected.near + engine.tally(heads)["rows"]
        counts = replace(counts, elected=replace(counts.elected, near=near))
    gone = conform_rows(engine, alone, schema, **NOBODY)
    removals = engine.concat(engine.select(others, *schema.names), gone, heads)
    return replace(found, removals=removals, kept=None, counts=counts)


def count_for_foreign(engine: Engine[Rows], documents: Rows, removals: Rows | None, known: Rows | None = None) -> int:
    """Count the documents that go for documents that are none of the input, each of several equal rows.

    Parameters
    ----------
    documents
        REGISTER of the input.
    known
        doc_id of those that a store has too; None without one.
    """
    if removals is None:
        return 0
    own = documents if known is None else engine.join(documents, known, "doc_id", how="anti")
    gone = engine.drop_null(_select_foreign(engine, removals, own), OWNER.name)
    return engine.measure(engine.join(documents, gone, "doc_id", how="semi"))["rows"]


def _select_foreign(engine: Engine[Rows], removals: Rows, own: Rows) -> Rows:
    """Return the removals in favour of nobody, or of documents that are none of the input, with these.

    Parameters
    ----------
    own
        REGISTER of the input, without the documents that a store has too.
    """
    return engine.join(_name_owners(engine, removals), own, OWNER.name, how="anti")


def _name_owners(engine: Engine[Rows], removals: Rows) -> Rows:
    whole = arrow.removals(engine.id_type).append(OWNER)
    return engine.map(removals, partial(_add_owners, schema=whole), whole)


def _add_owners(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        named = batch["representative_id"]
        owners = pc.if_else(named.is_valid(), pa.array(to_doc_ids(named)), pa.scalar(None, pa.int64()))
        yield conform(batch, schema, owner=owners)


def _name_dropped(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Return a row of those in whose favour some go, as they go themselves."""
    for batch in batches:
        own = {"doc_id": batch[OWNER.name], "id": batch["representative_id"], "kind": DROPPED}
        yield conform(batch, schema, **own, **NOBODY)
