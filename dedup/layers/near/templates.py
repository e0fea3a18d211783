"""BUCKETS over the cap -> the pairs and buckets that take their place; proof: docs/internals/templates.md."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally, once, read_histogram
from dedup.kernels import Integers
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import take_equal
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.runs.groups import join_groups
from dedup.kernels.sets import lsh
from dedup.kernels.sets.exact import least_shared
from dedup.kernels.sets.templates import (
    ItemPairs,
    Items,
    choose_bits,
    find_able,
    find_centres,
    has_enough,
    link,
    link_centres,
    shorten,
    sum_marks,
)
from dedup.layers.near.buckets import BUCKET_KEYED, KEYED, to_buckets
from dedup.layers.near.signing import to_sets
from dedup.tables import arrow

SLOTTED = arrow.integers("slot", "shingle", "doc_id")
ROLES = SUMMARY, RARE, HOT = range(3)
TOLD = arrow.integers("doc_id", "role", "one", "two", "three", "four")
"""Rows that a slot sends to a document: hot and lone shingles and two marks; or a rare shingle and its holders. Hot
shingles tell themselves, in place of a document."""
PARTS = pa.schema(
    [
        ("doc_id", pa.int64()),  # null in rows that hold hot shingles
        ("total", pa.int64()),  # shingles
        ("hot", pa.int64()),  # of these the hot ones
        ("is_able", pa.bool_()),  # whether the hot ones alone can be enough for a similar pair
        ("mark_high", pa.int64()),  # equal for equal hot parts
        ("mark_low", pa.int64()),
        ("shingles", pa.binary()),  # uint64, the rare ones of the prefix
    ]
)
"""Parts of the sets of documents in buckets over the cap."""
MEMBERS = arrow.integers("doc_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Settings of the search in buckets over the cap."""

    threshold: float
    cap: int
    exhaust: bool
    """Whether all pairs of hot parts are compared that differ in too many ways: see `kernels.sets.templates.link`."""


def count_pairs(sizes: Mapping[int, int], cap: int | None) -> tuple[int, int]:
    """Return how many pairs buckets of these sizes give, and how many the cap leaves out."""
    listed, frequencies = np.array([*sizes.items()], dtype=np.int64).reshape(-1, 2).T
    compared, uncompared = (int(pairs @ frequencies) for pairs in lsh.pair_counts(listed, cap))
    return compared, uncompared


def list_members(batches: Batches, *, cap: int) -> Batches:
    """BUCKETS -> the documents of those over the cap, with repetitions."""
    for large in take_large(batches, cap=cap):
        doc_ids = np.unique(blocks.unlists(large["doc_ids"], "<i8")[0])
        yield pa.RecordBatch.from_arrays([pa.array(doc_ids)], schema=MEMBERS)


DISTINCT = once(MEMBERS)
"""Documents with repetitions -> each once."""


def take_small(batches: Batches, *, cap: int) -> Batches:
    """Take the BUCKETS up to the cap."""
    for batch in batches:
        yield batch.filter(pa.array(batch["size"].to_numpy() <= cap))


def take_large(batches: Batches, *, cap: int) -> Batches:
    """Take the BUCKETS over the cap."""
    for batch in batches:
        yield batch.filter(pa.array(batch["size"].to_numpy() > cap))


def link_templates(
    engine: Engine[Rows], buckets: Rows, sets: Rows, policy: Policy, set_bytes: int
) -> tuple[Rows, dict[int, int], int]:
    """Return the BUCKETS that take the place of those over the cap.

    Parameters
    ----------
    sets
        SETS of the members of these, one each.
    set_bytes
        Bytes of all.

    Returns
    -------
    linked
    sizes
        Number of buckets over the cap that are left of every size, with none but undecided documents.
    undecided
        Documents whose pairs are compared under the cap.
    """
    if set_bytes <= engine.collectable_bytes:
        found, rare = _link_collected(engine, sets, policy), []
    else:
        parts = engine.group("parts", _count_shingles(engine, sets, policy, set_bytes), _assemble_parts(policy))
        rare = [engine.group("rare", engine.map(parts, _list_rare, KEYED), BUCKET_KEYED, expected=set_bytes // 8)]
        found = _link_parts(engine, parts, sets, policy)
    shrink = partial(_shrink, cap=policy.cap, undecided=found.undecided)
    circled = engine.map(buckets, shrink, arrow.BUCKETS, name="circled")
    pairs = pa.Table.from_batches(_to_pairs(found), arrow.BUCKETS)
    linked = engine.concat(engine.parallelise("linked", pairs), circled, *rare)
    undecided = 0
    if found.undecided.size:
        named = engine.map(circled, partial(list_members, cap=0), MEMBERS)
        undecided = engine.tally(engine.group("undecided", named, DISTINCT))["rows"]
    return linked, read_histogram(engine.tally(circled), "sizes"), undecided


def _to_pairs(found: ItemPairs) -> Iterator[pa.RecordBatch]:
    """Yield pairs as buckets of two."""
    ends = np.stack((found.left, found.right), axis=1).reshape(-1)
    keys = np.arange(found.left.size, dtype=np.uint64)
    yield from to_buckets(keys, ends, 2 * np.arange(found.left.size + 1))


def _link_collected(engine: Engine[Rows], sets: Rows, policy: Policy) -> ItemPairs:
    table = engine.collect(sets).sort_by("doc_id")
    doc_ids = table["doc_id"].to_numpy()
    values, offsets = to_sets(table["shingles"])
    found = link(Items(values, offsets, np.diff(offsets)), policy.threshold, policy.cap, exhaust=policy.exhaust)
    return ItemPairs(doc_ids[found.left], doc_ids[found.right], doc_ids[found.undecided])


def _count_shingles(engine: Engine[Rows], sets: Rows, policy: Policy, set_bytes: int) -> Rows:
    """Turn SETS into TOLD; 24 bytes a shingle travel."""
    shift = 64 - choose_bits(set_bytes // 8)
    shuffle = Shuffle(
        emit=partial(_list_slots, shift=shift),
        emitted=SLOTTED,
        by=("slot",),
        order=("shingle", "doc_id"),
        work=partial(_count_slots, most=policy.cap),
        schema=TOLD,
    )
    return engine.group("slots", sets, shuffle, once=True)


def _list_slots(batches: Batches, *, shift: int) -> Batches:
    for batch in batches:
        values, offsets = blocks.unlists(batch["shingles"], "<u8")
        doc_ids = np.repeat(batch["doc_id"].to_numpy(), np.diff(offsets))
        columns = [(values >> np.uint64(shift)).astype(np.int64), values.view(np.int64), doc_ids]
        yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=SLOTTED)


def _count_slots(batches: Batches, *, most: int) -> Batches:
    """Tell documents of their rare shingles, how many are hot or alone, and what marks the hot ones."""
    for batch in join_groups(batches, ["slot"]):
        slots, values, doc_ids = (column.to_numpy() for column in batch.columns)
        counts = np.diff(find_bounds(slots))
        frequencies = np.repeat(counts, counts)
        is_hot, is_rare = frequencies > most, (frequencies > 1) & (frequencies <= most)
        owners, places = np.unique(doc_ids, return_inverse=True)
        hot, alone = (np.bincount(places[each], minlength=owners.size) for each in (is_hot, frequencies == 1))
        marks = sum_marks(values.view(np.uint64)[is_hot], places[is_hot], owners.size).view(np.int64)
        rare = doc_ids[is_rare], values[is_rare], frequencies[is_rare]
        shingles = np.unique(values[is_hot])
        nothing = np.zeros(max(owners.size, rare[0].size, shingles.size), np.int64)
        columns = [
            (owners, np.full(owners.size, SUMMARY), hot, alone, marks[:, 0], marks[:, 1]),
            (rare[0], np.full(rare[0].size, RARE), rare[1], rare[2], *(nothing[: rare[0].size],) * 2),
            (shingles, np.full(shingles.size, HOT), *(nothing[: shingles.size],) * 4),
        ]
        joined = [np.concatenate(each).astype(np.int64) for each in zip(*columns, strict=True)]
        yield pa.RecordBatch.from_arrays([*map(pa.array, joined)], schema=TOLD)


def _assemble_parts(policy: Policy) -> Shuffle:
    """Return the shuffle TOLD -> PARTS."""
    work = partial(_assemble, threshold=policy.threshold)
    return Shuffle(emitted=TOLD, by=("doc_id",), order=("role", "one"), work=work, schema=PARTS)


def _assemble(batches: Batches, *, threshold: float) -> Batches:
    """Put together what was told of documents, and behind them the hot shingles."""
    for batch in join_groups(batches, ["doc_id"]):
        ids, roles, *told = (column.to_numpy() for column in batch.columns)
        summed, rare = roles == SUMMARY, roles == RARE
        owners, places = np.unique(ids[summed], return_inverse=True)
        hot, alone = np.zeros((2, owners.size), dtype=np.int64)
        marks = np.zeros((2, owners.size), dtype=np.uint64)
        for into, added in zip((hot, alone, *marks), told, strict=True):
            np.add.at(into, places, added[summed].view(into.dtype))
        values, frequencies = told[0][rare].view(np.uint64), told[1][rare].view(np.uint64)
        holders = np.searchsorted(owners, ids[rare])
        sizes = hot + alone + np.bincount(holders, minlength=owners.size)
        lengths = sizes - least_shared(sizes, threshold) + 1 - alone
        kept, holders = shorten(values, holders, frequencies, lengths)
        offsets = np.searchsorted(holders, np.arange(owners.size + 1))
        shingles = np.unique(ids[roles == HOT]).view(np.uint64)
        columns = [
            pa.array([*owners.tolist(), None], pa.int64()),
            pa.array(np.append(sizes, 0)),
            pa.array(np.append(hot, 0)),
            pa.array(np.append(has_enough(hot, sizes, threshold), False)),
            *(pa.array(np.append(mark, np.uint64(0)).view(np.int64)) for mark in marks),
            blocks.lists(np.concatenate((kept, shingles)), np.append(offsets, kept.size + shingles.size)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PARTS)


def _list_rare(batches: Batches) -> Batches:
    """PARTS -> the rare shingles of prefixes, as KEYED."""
    for batch in batches:
        known = batch.filter(batch["doc_id"].is_valid())
        values, offsets = blocks.unlists(known["shingles"], "<i8")
        doc_ids = np.repeat(known["doc_id"].to_numpy(), np.diff(offsets))
        yield pa.RecordBatch.from_arrays([values, doc_ids], schema=KEYED)


def _link_parts(engine: Engine[Rows], parts: Rows, sets: Rows, policy: Policy) -> ItemPairs:
    """Return the pairs of documents that need their hot parts to meet, and the undecided documents.

    Takes 50 bytes of memory for each document that holds little but hot shingles, and the sets of those that stand for
    all of one hot part.
    """
    names = ("doc_id", "total", "hot", "mark_high", "mark_low")
    schema = pa.schema([PARTS.field(name) for name in names])
    take = partial(take_equal, schema=schema, is_able=True)
    able = engine.map(engine.select(parts, *names, "is_able"), take, schema)
    told = engine.collect(able).sort_by("doc_id")
    doc_ids, totals, hot, high, low = (told[name].to_numpy() for name in names)
    chosen = find_able(hot, totals, policy.threshold)
    marks = np.stack((high, low), axis=1).view(np.uint64)[chosen]
    found = find_centres(chosen, hot, marks, totals, policy.threshold)

    def select() -> Items:
        taken = engine.lookup(sets, pa.array(doc_ids[found.centres])).sort_by("doc_id")
        values, offsets = to_sets(taken["shingles"])
        cells = engine.collect(engine.map(engine.select(parts, "doc_id", "shingles"), _take_hot, HOT_SHINGLES))
        is_hot = np.isin(values, cells["shingle"].to_numpy().view(np.uint64))
        return Items(values[is_hot], np.concatenate(([0], np.cumsum(is_hot)))[offsets], totals[found.centres])

    linked = link_centres(select, found, policy.threshold, policy.cap, exhaust=policy.exhaust)
    return ItemPairs(doc_ids[linked.left], doc_ids[linked.right], doc_ids[linked.undecided])


HOT_SHINGLES = arrow.integers("shingle")


def _take_hot(batches: Batches) -> Batches:
    for batch in batches:
        cells = batch.filter(pc.is_null(batch["doc_id"]))["shingles"]
        yield pa.RecordBatch.from_arrays([blocks.unlists(cells, "<i8")[0]], schema=HOT_SHINGLES)


def _shrink(batches: Batches, *, cap: int, undecided: Integers) -> Iterator[pa.RecordBatch | Tally]:
    """BUCKETS -> those over the cap, of two and more undecided documents; the tally has `sizes`."""
    for batch in take_large(batches, cap=cap):
        members, offsets = blocks.unlists(batch["doc_ids"], "<i8")
        keys = batch["key"].to_numpy().view(np.uint64)
        keys, members, offsets = lsh.keep_members(keys, members, offsets, np.isin(members, undecided))
        yield Tally().add_each("sizes", np.diff(offsets))
        yield from to_buckets(keys, members, offsets)
