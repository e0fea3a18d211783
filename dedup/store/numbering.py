"""Documents that have come, beside what a store has: who was there already, and the numbers of their shingle sets."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Generic, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally, conform_rows, once, read_histogram
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import find_bounds, mark_firsts
from dedup.kernels.runs.groups import join_groups, rank_groups
from dedup.store.reading import find_digests, find_keys
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot
from dedup.tables import arrow

UNKNOWN = -2
"""Number of a set that the store has not."""
STORED = -1
"""Split of a set that it has."""
DIGESTS = ("digest_high", "digest_low")
SIGNED = ("doc_id", *DIGESTS, "split", "file", "row", "size")
ARRIVING = arrow.integers(*DIGESTS, "doc_id", "split", "file", "row", "set")
"""Documents that have come, and sets of the store with digests of theirs perhaps."""
MATCHED = arrow.integers("doc_id", "first", "split", "file", "row", *DIGESTS, "set")
"""Documents that have come, each once, with the first of the same set in the order of reading."""
PLACED = arrow.integers("split", "file", "row", "doc_id", *DIGESTS)
RANKED = arrow.integers("doc_id", *DIGESTS, "split", "file", "row", "rank")
FRESH = arrow.integers("doc_id", *DIGESTS, "file", "row", "set")
"""Shingle sets that the store has not, each with the document that is read first, and its place."""
OWNED = arrow.integers("doc_id", "set")
"""Documents, with NO_SET those without a token."""
BANDS = arrow.integers("key", "set")
KEYS = arrow.integers("wanted")


class Numbered(NamedTuple, Generic[Rows]):
    """Shingle sets of a batch."""

    owned: Rows
    """OWNED of all its documents."""
    repeated: int
    """Rows that are equal to an earlier one."""
    fresh: Rows
    """FRESH."""
    fresh_count: int
    bands: Rows
    """BANDS of these."""
    met: Rows
    """BANDS of the store with a key of one of the documents."""
    met_count: int


def number(engine: Engine[Rows], snapshot: Snapshot, documents: Rows) -> Numbered[Rows]:
    """Give each shingle set its number: that of the store, or the next free one in the order of reading.

    Parameters
    ----------
    documents
        SIGNATURES.
    """
    count = engine.tally(documents)["rows"]
    met, met_count, stored = _find_met(engine, snapshot, documents, count)
    arriving = engine.concat(stored, engine.map(engine.select(documents, *SIGNED), _to_arriving, ARRIVING))
    matched = engine.group("matched", arriving, MATCH, expected=count)
    ranked = engine.group("ranked", matched, RANK, expected=count)
    begins, begin = dict[int, int](), snapshot.state.sets
    for split, rows in read_histogram(engine.tally(ranked), "splits").items():
        begins[split], begin = begin, begin + rows
    fresh = engine.map(ranked, partial(_count_up, begins=begins), FRESH, name="fresh")
    numbers = engine.select(fresh, "doc_id", number="set")
    owned = engine.map(engine.join(matched, numbers, "first", how="left"), _to_owned, OWNED, name="owned")
    repeated = engine.tally(matched).get("repeated", 0)
    keyed = engine.join(engine.select(documents, "doc_id", "band_keys"), engine.select(fresh, *OWNED.names), "doc_id")
    if repeated:
        keyed = engine.group("fresh_keys", keyed, once(FRESH_KEYS))
    return Numbered(
        owned=owned,
        repeated=repeated,
        fresh=fresh,
        fresh_count=begin - snapshot.state.sets,
        bands=engine.map(keyed, _list_bands, BANDS),
        met=met,
        met_count=met_count,
    )


def _find_met(engine: Engine[Rows], snapshot: Snapshot, documents: Rows, count: int) -> tuple[Rows, int, Rows]:
    """Return BANDS of the store with a key of a document, their number, and the sets that may be equal as ARRIVING."""
    if not snapshot.count("bands"):
        # All keys would be brought together for nothing.
        met = engine.parallelise("no_met", BANDS.empty_table())
        return met, 0, engine.parallelise("no_met_digests", ARRIVING.empty_table())
    bands, signed = snapshot.state.signer.bands, engine.select(documents, "size", "band_keys")
    keys = engine.map(signed, partial(_list_keys, of=slice(None)), KEYS)
    met = find_keys(engine, snapshot, "bands", keys, name="met", expected=count * bands)
    met_count = engine.tally(met)["rows"]
    # Equal sets agree in every band.
    first = engine.map(signed, partial(_list_keys, of=slice(1)), KEYS)
    same = engine.join(met, first, "key", key="wanted", how="semi")
    digests = find_digests(engine, snapshot, "met_digests", engine.select(same, wanted="set"), met_count / bands)
    return met, met_count, conform_rows(engine, digests, ARRIVING, doc_id=STORED, split=STORED, file=STORED, row=STORED)


def _list_keys(batches: Batches, *, of: slice) -> Batches:
    for batch in batches:
        full = batch.filter(pa.array(batch["size"].to_numpy() > 0))
        if full.num_rows:
            keys = blocks.unrows(full["band_keys"]).view(np.int64)[:, of]
            yield pa.RecordBatch.from_arrays([pa.array(keys.reshape(-1))], schema=KEYS)


def _list_bands(batches: Batches) -> Batches:
    for batch in batches:
        keys, bounds = blocks.unlists(batch["band_keys"], "<i8")
        yield pa.RecordBatch.from_arrays([keys, np.repeat(batch["set"].to_numpy(), np.diff(bounds))], schema=BANDS)


FRESH_KEYS = pa.schema([*OWNED, ("band_keys", pa.binary())])
"""FRESH with band keys."""


def _to_arriving(batches: Batches) -> Batches:
    for batch in batches:
        is_full = batch["size"].to_numpy() > 0
        # Documents without a token are alike, but need not come to one place.
        high = np.where(is_full, batch["digest_high"].to_numpy(), batch["doc_id"].to_numpy())
        yield conform(batch, ARRIVING, digest_high=high, set=np.where(is_full, UNKNOWN, NO_SET))


def _match(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    for batch in join_groups(batches, DIGESTS):
        splits, doc_ids, sets = (batch[name].to_numpy() for name in ("split", "doc_id", "set"))
        is_first = mark_firsts(*(batch[name].to_numpy() for name in DIGESTS))
        group, came = np.cumsum(is_first) - 1, np.flatnonzero(splits != STORED)
        _, firsts = np.unique(doc_ids[came], return_index=True)
        chosen = came[np.sort(firsts)]
        yield Tally(repeated=came.size - chosen.size)
        # Rows are in the order of reading, before which stands what is stored.
        leaders = came[mark_firsts(group[came])]
        first = doc_ids[leaders][np.searchsorted(group[leaders], group[chosen])]
        found = np.where(sets == NO_SET, NO_SET, sets[is_first][group])
        yield conform(batch.take(pa.array(chosen)), MATCHED, first=first, set=found[chosen])


MATCH = Shuffle(emitted=ARRIVING, by=DIGESTS, order=("split", "file", "row"), work=_match, schema=MATCHED)
"""ARRIVING -> MATCHED; the tally has the rows `repeated`."""


def _take_fresh(batches: Batches) -> Batches:
    for batch in batches:
        fresh = (batch["set"].to_numpy() == UNKNOWN) & (batch["doc_id"].to_numpy() == batch["first"].to_numpy())
        yield batch.filter(pa.array(fresh)).select(PLACED.names)


def _rank(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    for batch, ranks in rank_groups(batches, "split"):
        yield Tally().add_each("splits", batch["split"].to_numpy())
        yield conform(batch, RANKED, rank=ranks)


RANK = Shuffle(emit=_take_fresh, emitted=PLACED, by=("split",), order=("file", "row"), work=_rank, schema=RANKED)
"""MATCHED -> RANKED; the tally has the histogram `splits`."""


def _count_up(batches: Batches, *, begins: Mapping[int, int]) -> Batches:
    for batch in batches:
        splits = batch["split"].to_numpy()
        numbers = np.array([begins[split] for split in splits[find_bounds(splits)[:-1]].tolist()], np.int64)
        sets = np.repeat(numbers, np.diff(find_bounds(splits))) + batch["rank"].to_numpy()
        yield conform(batch, FRESH, set=sets)


def _to_owned(batches: Batches) -> Batches:
    for batch in batches:
        sets = batch["set"].to_numpy()
        yield conform(batch, OWNED, set=np.where(sets == UNKNOWN, batch["number"].fill_null(UNKNOWN).to_numpy(), sets))
