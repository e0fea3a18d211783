"""MEMBERS -> removals by the source of the document kept: their limit, and their counts."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally
from dedup.kernels.digests import digest_each
from dedup.kernels.removal_statistics import REMOVERS, merge_removals
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.groups import rank_groups
from dedup.layers.near import election, templates
from dedup.layers.near.election import KEPT, NEAR, TOLD, Election, is_removed, read_told, summarise
from dedup.tables import arrow
from dedup.tables.counts import Elected

OWNED = arrow.integers("owner", "doc_id")
"""Removals by the sources that answer for them, each a number."""
BY_SOURCE = pa.schema([*arrow.integers("key", "documents"), ("source", pa.string()), ("by", pa.string())])
"""Removals of a source in favour of documents of another."""


def limit_sources(engine: Engine[Rows], setting: Election, members: Rows, counts: Elected) -> tuple[Rows, Elected]:
    """Return MEMBERS of which a limit for each source has spared some."""
    if not setting.per_source:
        return members, counts
    schema = election.members(engine.id_type)
    charged = engine.select(members, "doc_id", "charged")
    exceeding = engine.group("exceeding", charged, _limit(setting.per_source), once=True)
    spared = engine.select(engine.group("spared", exceeding, templates.DISTINCT), "doc_id", spared="doc_id")
    marked = engine.join(members, spared, "doc_id", how="left")
    spare = partial(_spare, schema=schema, threshold=setting.policy.threshold)
    left = engine.map(marked, spare, schema, name="members_left")
    tally = engine.tally(left)
    removals = merge_removals(read_told(tally, TOLD))
    return left, replace(counts, near=counts.near - tally.get("near", 0), spared=tally.get("spared", 0), **removals)


def count_removers(engine: Engine[Rows], members: Rows) -> list[dict[str, Any]]:
    """Count the removals of each source by that of the document kept."""
    sources = engine.select(members, "kind", "source", "representative_source")
    by_source = engine.collect(engine.group("removers", sources, COUNT_REMOVERS))
    removers: list[dict[str, Any]] = _take_removers(by_source).select(["source", "by", "documents"]).to_pylist()
    return removers


def _list_owners(batches: Batches) -> Batches:
    for batch in batches:
        places = pc.list_parent_indices(batch["charged"])
        columns = [batch["charged"].flatten(), batch["doc_id"].take(places)]
        yield pa.RecordBatch.from_arrays(columns, schema=OWNED)


def _limit(per_source: int) -> Shuffle:
    """Return the shuffle MEMBERS -> duplicates that the sources which answer for them may not have removed.

    Of the documents that one source causes to be removed, the `per_source` least by doc_id are removed.
    """
    work = partial(_exceed, most=per_source)
    return Shuffle(
        emit=_list_owners, emitted=OWNED, by=("owner",), order=("doc_id",), work=work, schema=templates.MEMBERS
    )


def _exceed(batches: Batches, *, most: int) -> Batches:
    for batch, before in rank_groups(batches, "owner"):
        yield batch.filter(pa.array(before >= most)).select(templates.MEMBERS.names)


def _spare(batches: Batches, *, schema: pa.Schema, threshold: float) -> Iterator[pa.RecordBatch | Tally]:
    """MEMBERS with a column `spared`, null of others -> MEMBERS.

    The tally has `spared`, `near` of these, and `told`, a summary of the removals of each call as JSON.
    """
    told = list[dict[str, Any]]()
    for batch in batches:
        is_spared = batch["spared"].is_valid()
        near = pc.and_(is_spared, pc.equal(batch["kind"], NEAR))
        yield Tally(spared=pc.sum(is_spared).as_py() or 0, near=pc.sum(near).as_py() or 0)
        own = {
            "representative_doc_id": batch["doc_id"],
            "representative_id": batch["id"],
            "kind": pa.scalar(KEPT),
            "jaccard": pa.scalar(1.0),
        }
        left = conform(batch, schema, **{name: pc.if_else(is_spared, each, batch[name]) for name, each in own.items()})
        told.append(summarise(left, threshold))
        yield left
    yield Tally({(TOLD, json.dumps(merge_removals(told))): 1})


def _emit_removers(batches: Batches) -> Batches:
    for batch in batches:
        removed = pa.Table.from_batches([batch]).filter(is_removed(batch))
        table = removed.select(["source", "representative_source"]).rename_columns(["source", "by"])
        sums = table.group_by(["source", "by"], use_threads=False).aggregate([([], "count_all")]).combine_chunks()
        names = zip(sums["source"].to_pylist(), sums["by"].to_pylist(), strict=True)
        keys = digest_each(pa.array([json.dumps(each) for each in names], pa.string()))[:, 0].copy()
        columns = [pa.array(keys), sums["count_all"], sums["source"], sums["by"]]
        yield from pa.Table.from_arrays(columns, schema=BY_SOURCE).to_batches()


def _add_removers(batches: Batches) -> Batches:
    """Add up, and take the pairs of sources with most."""
    table = pa.Table.from_batches(batches, BY_SOURCE)
    sums = table.group_by(["key", "source", "by"], use_threads=False).aggregate([("documents", "sum")])
    rows = sums.rename_columns(["key", "source", "by", "documents"]).select(BY_SOURCE.names)
    yield from _take_removers(rows).to_batches()


def _take_removers(rows: pa.Table) -> pa.Table:
    """Return the REMOVERS pairs of sources with most removals, of BY_SOURCE."""
    keys = [("documents", "descending", "at_end"), *((name, "ascending", "at_start") for name in ("source", "by"))]
    return rows.sort_by(keys).slice(0, REMOVERS)


COUNT_REMOVERS = Shuffle(
    emit=_emit_removers, emitted=BY_SOURCE, by=("key",), work=_add_removers, schema=BY_SOURCE, in_order=False
)
"""MEMBERS -> the removals of each source by that of the document kept, of the REMOVERS pairs with most of a call."""
