"""Documents of equal keys -> removals of all but those that stay; what the layers `exact` and `url` share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, once
from dedup.kernels import Flags, Integers, election
from dedup.kernels.digests import number_names
from dedup.kernels.representatives import elect
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import bound_groups, join_groups, rank_groups
from dedup.layers.layer import EarlierKeys, Layer
from dedup.layers.ordering import sourced
from dedup.settings.options import Config
from dedup.tables import arrow

KEYS = pa.schema([("key_high", pa.int64()), ("key_low", pa.int64())])
"""Halves of a 128-bit digest, both null in documents that match no other."""
BY = list(KEYS.names)
PRECEDENCE, NEW = "precedence", 1
"""Column of documents that others of earlier batches meet, by which they stay before any rule, and that of a batch."""
OWNER = "owner"
"""Number of the source that answers for a removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Settings by which documents stay."""

    rules: Sequence[tuple[str, str]]
    """Rules of `keep.order`."""
    per_source: int
    """Documents of other sources that one source may cause to be removed; 0 for any number."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return what the settings say."""
        return cls(rules=config.rules, per_source=config.limits.per_source)


def to_keys(digests: Integers, is_null: Flags) -> dict[str, pa.Array]:
    """Return the columns of KEYS: digests of 128 bits, and null of some documents."""
    return {name: pa.array(digests[:, place].copy(), mask=is_null) for place, name in enumerate(BY)}


def keyed(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of documents with KEYS among those of earlier batches."""
    return _sourced(id_type).append(pa.field(PRECEDENCE, pa.int64()))


def _sourced(id_type: pa.DataType) -> pa.Schema:
    return pa.schema([*KEYS, *sourced(id_type)])


def remove_copies(
    engine: Engine[Rows],
    documents: Rows,
    layer: Layer,
    *,
    jaccard: float | None,
    choice: Choice,
    past: EarlierKeys | None = None,
) -> Rows:
    """Remove all documents of equal keys but the first by the order.

    Parameters
    ----------
    documents
        REGISTER with KEYS.
    layer
        Layer that removes them, by which removals are called.
    jaccard
        Similarity of all removals; None where it is not known.
    past
        Documents of earlier batches, of which none is removed; None without a store.
    """
    names = {"layer": layer.name, "kind": layer.copies_kind}
    removals = arrow.removals(engine.id_type).append(pa.field(OWNER, pa.int64()))
    emitted, identity = _sourced(engine.id_type), ["doc_id"]
    rows = engine.select(documents, *emitted.names)
    if past is not None:
        emitted, identity = keyed(engine.id_type), ["doc_id", PRECEDENCE]
        rows = engine.map(rows, partial(_arrive, schema=emitted), emitted, name="keyed")
        rows = engine.concat(rows, past.find(engine, rows, layer.copies_kind))
    found = engine.group(
        "copies",
        rows,
        Shuffle(
            emit=_emit,
            emitted=emitted,
            by=BY,
            order=identity,
            work=partial(_choose, identity=identity, names=names, jaccard=jaccard, choice=choice, schema=removals),
            schema=removals,
            repeated=True,
        ),
    )
    known = None if past is None else past.find_known(engine, documents)
    if known is not None:
        again = partial(_name_known, names=names, schema=removals)
        others = engine.map(engine.join(known, found, "doc_id", how="anti"), again, removals)
        found = engine.concat(found, engine.group("known_copies", others, once(removals)))
    return spare(engine, found, choice.per_source)


def _name_known(batches: Batches, *, names: Mapping[str, str], schema: pa.Schema) -> Batches:
    """Let documents go that are there already, as copies of themselves."""
    for batch in batches:
        own = batch["id"]
        yield conform(batch, schema, **names, representative_id=own, component_id=own, jaccard=1.0, **{OWNER: 0})


def spare(engine: Engine[Rows], found: Rows, most: int) -> Rows:
    """Return REMOVALS without those that a source answers for beyond the limit, the greatest doc_ids.

    Parameters
    ----------
    found
        REMOVALS with OWNER.
    most
        0 for any number.
    """
    whole = arrow.removals(engine.id_type)
    if not most:
        return engine.select(found, *whole.names)
    return engine.group(
        "removals",
        found,
        Shuffle(
            emitted=whole.append(pa.field(OWNER, pa.int64())),
            by=[OWNER],
            order=["doc_id"],
            work=partial(_spare, most=most, names=whole.names),
            schema=whole,
        ),
    )


def _emit(batches: Batches) -> Batches:
    """Leave out the documents that match no other."""
    for batch in batches:
        yield batch.filter(pc.is_valid(batch["key_high"]))


def _arrive(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in _emit(batches):
        yield conform(batch, schema, **{PRECEDENCE: NEW})


def _choose(
    batches: Batches,
    *,
    identity: Sequence[str],
    names: Mapping[str, str],
    jaccard: float | None,
    choice: Choice,
    schema: pa.Schema,
) -> Batches:
    """Yield the documents that go of groups of one key, each with the source that answers for it."""
    for whole in join_groups(batches, BY):
        # Equal rows, which share a document id, are one document.
        distinct = whole.filter(pa.array(mark_firsts(*(whole[name].to_numpy() for name in (*BY, *identity)))))
        sizes = np.diff(bound_groups(distinct, BY))
        batch = distinct.filter(pa.array(np.repeat(sizes > 1, sizes)))
        if not batch.num_rows:
            continue
        groups = np.repeat(np.arange(np.count_nonzero(sizes > 1)), sizes[sizes > 1])
        ranks = election.rank_rows(choice.rules, batch)
        is_new = np.ones(groups.size, dtype=bool)
        if PRECEDENCE in identity:
            precedence = batch[PRECEDENCE].to_numpy()
            ranks, is_new = np.column_stack((precedence, ranks)), precedence == NEW
        sources = election.number_values(batch["source"])
        order = np.lexsort((*ranks.T[::-1], groups))
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        kept = elect(groups, places)
        gone = np.flatnonzero((kept != np.arange(kept.size)) & is_new)
        owners = kept[gone]
        least = bound_groups(batch, BY)[groups[gone]]
        others = {
            "representative_id": batch["id"].take(pa.array(owners)),
            "component_id": batch["id"].take(pa.array(least)),
            OWNER: name_owners(batch["source"], owners, sources[gone] == sources[owners]),
        }
        yield conform(batch.select(["doc_id", "id"]).take(pa.array(gone)), schema, **names, **others, jaccard=jaccard)


def name_owners(sources: pa.Array, owners: np.ndarray, is_own: np.ndarray) -> pa.Array:
    """Return a number for the source of each document kept, by its name; 0 where it is that of the one removed."""
    # Of many documents there are few.
    named = pc.dictionary_encode(sources.take(pa.array(owners)), null_encoding="encode")
    numbers = (number_names(named.dictionary) | 1)[named.indices.to_numpy(zero_copy_only=False)]
    return pa.array(np.where(is_own, 0, numbers))


def _spare(batches: Batches, *, most: int, names: list[str]) -> Batches:
    """Leave out the removals that a source answers for beyond the limit, those of the greatest doc_ids."""
    for batch, before in rank_groups(batches, OWNER):
        is_within = (batch[OWNER].to_numpy() == 0) | (before < most)
        yield batch.filter(pa.array(is_within)).select(names)
