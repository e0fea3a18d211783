"""A batch of documents added to a store."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from dedup.engines.documents import Documents, collapse
from dedup.engines.values import Features
from dedup.errors import DataError
from dedup.kernels import Flags, Hashes, Integers
from dedup.store.arrays import distinct, is_in, look_up
from dedup.store.changing import choose_voters, find_heads, merge, read_links, write_changes
from dedup.store.election import Verdict, Voters, elect
from dedup.store.growth import Links, Rows, Settled, Step, settle
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Places, Snapshot, to_bytes
from dedup.store.state import Label, State
from dedup.store.tables import Tables
from dedup.store.writing import Writing
from dedup.tables.ids import SHOWN

SetsOf: TypeAlias = Callable[[Integers], Iterator[tuple[Hashes, Integers]]]
"""A pass over the text: rows of the features, ascending and distinct, to their shingle sets in that order, part by
part, as from `shingles.shingle`."""
Stage: TypeAlias = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Documents that have come."""

    name: str
    content: str
    """Digest of their ids and shingle sets."""
    features: Features
    """Of their rows, in the order of reading."""
    sets_of: SetsOf
    id_column: str
    """Empty where an id is the digest of its row."""


class Numbered(NamedTuple):
    """Shingle sets of documents that have come."""

    sets: Integers
    """Of every document: int64 [documents]."""
    new: Integers
    """Numbers of the sets that no document of the store has, ascending."""
    rows: Integers
    """A row of each, ascending."""
    met: Rows
    """Rows of the store that share a key with one of the new sets."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grown:
    """What a batch brings, before it is committed."""

    state: State
    """After the batch, but for its number, segments and versions."""
    settled: Settled
    fresh: Links
    """Edges that were not in the store."""
    links: Links
    """All edges."""
    heads: Integers
    """The least document of every set, by number."""
    voters: Voters
    """Documents of the components that the batch touches."""
    verdict: Verdict
    documents: pa.Table
    """Rows of `documents` that have come."""
    known: Integers
    """Documents of the batch that were in the store already, ascending."""
    writing: Writing

    def finish(self, batch: Batch, operation: str) -> State:
        """Let the batch be in the store, all of it.

        Raises
        ------
        Conflict
            When another writer was first; what this one wrote is withdrawn.
        """
        own = is_in(self.verdict.members["doc_id"].to_numpy(), self.documents["doc_id"].to_numpy())
        gone = int(np.count_nonzero(own & ~self.verdict.members["kept"].to_numpy(zero_copy_only=False)))
        count = self.documents.num_rows
        label = Label(operation=operation, batch=batch.name, content=batch.content, documents=count, kept=count - gone)
        return self.writing.finish(self.state, label)

    def drop(self) -> None:
        """Delete what was written for the batch."""
        self.writing.drop()


def grow(
    tables: Tables,
    state: State,
    batch: Batch,
    *,
    anew: bool,
    threads: int = 1,
    stage: Stage = nullcontext,
) -> Grown:
    """Find what a batch resembles, in it and in the store, and decide who stays.

    Parameters
    ----------
    state
        Before the batch, begun.
    anew
        Whether components that the batch touches, or that wait for it, elect anew.

    Raises
    ------
    DataError
        When an id is in the store already, though a column names it.
    """
    search, seed = state.search, state.spec["signature_seed"]
    writing = Writing(tables, state)
    snapshot, features = writing.snapshot, batch.features
    with stage("identical"):
        came = collapse(features)
        places = snapshot.places()
        is_known = look_up(places.doc_ids, came.doc_ids) >= 0
        if batch.id_column and is_known.any():
            raise _refuse_known(batch, came, is_known)
        fresh = np.flatnonzero(~is_known)
        numbered = _number(snapshot, features, came.rows[fresh])
    with stage("sets"):
        writing.write("sets", _list_sets(batch, numbered))
        own = features.band_keys
        assert own is not None, "a store needs band keys"
        own_rows = Rows(
            np.ascontiguousarray(own[numbered.rows]).reshape(-1).view(np.int64), np.repeat(numbered.new, search.bands)
        )
        order = np.argsort(own_rows.keys)
        writing.write("bands", [pa.table({"key": own_rows.keys[order], "set": own_rows.sets[order]})])
    everyone = Places(
        np.concatenate((places.doc_ids, came.doc_ids[fresh])), np.concatenate((places.sets, numbered.sets))
    )
    count = state.sets + numbered.new.size
    old_heads, heads = find_heads(places, count), find_heads(everyone, count)
    snapshot = replace(snapshot, extra={"sets": writing.files["sets"]})
    with stage("edges"):
        known = read_links(snapshot)
        settled = settle(
            snapshot,
            Step(
                rows=Rows(*(np.concatenate(each) for each in zip(numbered.met, own_rows, strict=True))),
                keys=distinct(own_rows.keys),
                new=numbered.new,
                gone=numbered.new[:0],
                moved=np.flatnonzero((heads != old_heads)[: state.sets]),
            ),
            known,
            lambda wanted: heads[wanted],
            search,
            seed=seed,
            threads=threads,
        )
        links, added = merge(known, settled)
    with stage("representatives"):
        before = snapshot.members()
        documents = _list_documents(batch, came, fresh, numbered.sets)
        again = places.sets[look_up(places.doc_ids, came.doc_ids[is_known])]
        touched = np.concatenate((numbered.sets, again, *added[:2], *settled.withdrawn[:2]))
        voters = choose_voters(
            snapshot,
            everyone,
            links,
            before=before,
            touched=touched,
            documents=documents,
            new=came.doc_ids[fresh],
            anew=anew,
        )
        verdict = elect(
            snapshot,
            voters,
            links,
            before=before,
            new=came.doc_ids[fresh],
            search=search,
            anew=anew,
            readmit=False,
            threads=threads,
        )
    with stage("store"):
        write_changes(writing, added, settled.withdrawn, settled.hot, verdict)
        writing.write("documents", [documents])
    return Grown(
        state=replace(state, sets=count),
        settled=settled,
        fresh=added,
        links=links,
        heads=heads,
        voters=voters,
        verdict=verdict,
        documents=documents,
        known=came.doc_ids[is_known],
        writing=writing,
    )


def _refuse_known(batch: Batch, came: Documents, is_known: Flags) -> DataError:
    rows = np.sort(came.rows[is_known])
    shown = ", ".join(map(repr, batch.features.ids.take(pa.array(rows[:SHOWN])).to_pylist()))
    return DataError(
        f"input.id_column: column {batch.id_column!r} must hold ids that the store has not (got {rows.size:,} that it "
        f"has: {shown}); delete these first, or leave them out"
    )


def _number(snapshot: Snapshot, features: Features, rows: Integers) -> Numbered:
    """Give each shingle set its number: that of the store, or the next free one in the order of reading.

    Parameters
    ----------
    rows
        Of the documents that have come.
    """
    full = np.flatnonzero(features.shingle_counts[rows])
    high, low = features.digest_high[rows[full]], features.digest_low[rows[full]]
    order = np.lexsort((rows[full], low, high))
    is_first = np.ones(order.size, dtype=bool)
    is_first[1:] = (high[order][1:] != high[order][:-1]) | (low[order][1:] != low[order][:-1])
    local = np.empty(order.size, dtype=np.int64)
    local[order] = np.cumsum(is_first) - 1
    firsts = full[order[is_first]]
    assert features.band_keys is not None, "a store needs band keys"
    keys = np.ascontiguousarray(features.band_keys[rows[firsts]]).view(np.int64)
    found = snapshot.find("bands", distinct(keys))
    met = Rows(found["key"].to_numpy(), found["set"].to_numpy())
    # Equal sets agree in every band.
    same = snapshot.find(
        "sets", distinct(met.sets[is_in(met.keys, distinct(keys[:, 0]))]), ["set", "digest_high", "digest_low"]
    )
    theirs = (
        {
            (one, other): number
            for number, one, other in zip(*(same[name].to_pylist() for name in same.column_names), strict=True)
        }
        if same.num_rows
        else {}
    )
    mine = zip(high[order[is_first]].tolist(), low[order[is_first]].tolist(), strict=True)
    numbers = np.array([theirs.get(each, NO_SET) for each in mine], dtype=np.int64)
    new = np.flatnonzero(numbers == NO_SET)
    new = new[np.argsort(rows[firsts[new]])]
    numbers[new] = snapshot.state.sets + np.arange(new.size)
    sets = np.full(rows.size, NO_SET)
    sets[full] = numbers[local]
    chosen = is_in(met.keys, distinct(keys[new]))
    return Numbered(sets, numbers[new], rows[firsts[new]], Rows(met.keys[chosen], met.sets[chosen]))


def _list_sets(batch: Batch, numbered: Numbered) -> Iterator[pa.Table]:
    """Yield rows of `sets`."""
    begin, features = 0, batch.features
    for shingles, offsets in batch.sets_of(numbered.rows) if numbered.rows.size else ():
        for column in to_bytes(shingles, offsets):
            part = slice(begin, begin + len(column))
            begin = part.stop
            yield pa.table(
                {
                    "set": numbered.new[part],
                    "digest_high": features.digest_high[numbered.rows[part]],
                    "digest_low": features.digest_low[numbered.rows[part]],
                    "shingles": column,
                }
            )
    if begin != numbered.rows.size:
        raise DataError("--input: must not change while the job reads it (documents are gone): repeat the command")


def _list_documents(batch: Batch, came: Documents, fresh: Integers, sets: Integers) -> pa.Table:
    """Return the rows of `documents` that have come, by doc_id."""
    features, rows = batch.features, pa.array(came.rows[fresh])
    count = fresh.size
    no_source, no_keys = pa.nulls(count, pa.string()), np.empty((count, 0))
    text_bytes = np.zeros(count, np.int64) if features.text_bytes is None else features.text_bytes[came.rows[fresh]]
    keys = no_keys if features.order_keys is None else features.order_keys[came.rows[fresh]]
    offsets = pa.array(np.arange(count + 1) * keys.shape[1], pa.int32())
    return pa.table(
        {
            "doc_id": came.doc_ids[fresh],
            "id": features.ids.take(rows),
            "set": sets,
            "batch": pa.array([batch.name] * count, pa.string()),
            "source": no_source if features.sources is None else features.sources.take(rows),
            "shingle_count": features.shingle_counts[came.rows[fresh]],
            "text_bytes": text_bytes,
            "order_keys": pa.ListArray.from_arrays(offsets, pa.array(keys.reshape(-1), pa.float64())),
        }
    )
