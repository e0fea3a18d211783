"""Pairs that connect all similar sets among very many that share a template.

The proof is in docs/internals/templates.md, whose words stand here: an item is a part of a set, and the size of the
whole set. A shingle is hot if too many items hold it, rare otherwise. Items that share a rare shingle are paired.
Items that share none can be similar through their hot parts alone: of one and the same hot part the item with the
least besides, the centre, is similar to all that any other is similar to, so all others need it only; and unlike hot
parts are items again, each with the size of its centre.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.kernels import Flags, Floats, Hashes, Integers, loops
from dedup.kernels.hashing import expand, mix
from dedup.kernels.runs.bounds import find_bounds, rank
from dedup.kernels.sets import lsh, pairs
from dedup.kernels.sets.exact import ROUNDING, least_shared, take
from dedup.kernels.sets.jaccard import count_shared

SPARSITY = 2
"""Bits by which slots outnumber the shingles counted in them."""
MARK_SEED = 0x686F74
"""Seed of the two sums that identify hot parts."""
WHOLE = 2
"""Most items of which all pairs are compared, as a multiple of the items that make a shingle hot."""
EXACT = 8
"""Factor by which a bucket of exact mode may be larger: small corpora, in which omitted edges would be missed."""


def choose_cap(max_bucket: int, mode: str) -> int:
    """Return the most members of a bucket of which all pairs are compared."""
    return max_bucket * EXACT if mode == "exact" else max_bucket


class Items(NamedTuple):
    """Parts of sets."""

    shingles: Hashes
    """Shingles; ascending and distinct within a part."""
    offsets: Integers
    totals: Integers
    """Sizes of the whole sets."""


class Slots(NamedTuple):
    """Counts of shingles by their leading bits; they end where shingles are hot."""

    counts: npt.NDArray[Any]
    shift: np.uint64


class Cut(NamedTuple):
    """Items cut into rare and hot shingles by the slots."""

    values: Hashes
    """Rare shingles of all prefixes."""
    owners: Integers
    hot: Integers
    """Number of hot shingles of every item; int64 [n]."""


class Centres(NamedTuple):
    """Items that may be similar to others through their hot parts, and the centre of each hot part."""

    items: Integers
    """Items; ascending."""
    centres: Integers
    """Centres of all hot parts, ascending."""
    places: Integers
    """Number of each item's centre in `centres`."""
    room: Floats
    """Most shingles besides the hot part that two similar items have together."""
    extra: Integers
    """Number of each item's shingles besides its hot part."""


class ItemPairs(NamedTuple):
    """Pairs of items, possibly repeated."""

    left: Integers
    right: Integers
    undecided: Integers
    """Items among which similar pairs may be missing; ascending."""


def link(items: Items, threshold: float, most: int, *, exhaust: bool) -> ItemPairs:
    """Return pairs of items that suffice to connect all pairs at or above the threshold.

    Parameters
    ----------
    most
        Most items that hold a rare shingle.
    exhaust
        Whether hot parts of too many kinds are all compared, in the square of their number; otherwise their items are
        undecided.
    """
    count = items.totals.size
    slots = count_slots(items.shingles, most)
    cut = cut_items(items, slots, threshold, most)
    near = pair_shared(cut.values, cut.owners, count)
    able = find_able(cut.hot, items.totals, threshold)
    found = find_centres(able, cut.hot, mark_hot(items, able, slots, most), items.totals, threshold)
    deeper = link_centres(
        lambda: select_hot(items, found.centres, slots, most), found, threshold, most, exhaust=exhaust
    )
    left, right = pairs.decode(near)
    return ItemPairs(np.concatenate((left, deeper.left)), np.concatenate((right, deeper.right)), deeper.undecided)


def link_centres(
    select: Callable[[], Items], found: Centres, threshold: float, most: int, *, exhaust: bool
) -> ItemPairs:
    """Return the pairs of items that are similar through their hot parts.

    Parameters
    ----------
    select
        Returns the hot parts of the centres; not called if they are undecided.
    """
    none, count = np.empty(0, dtype=np.int64), found.centres.size
    best, room, deeper = np.full(count, -1), np.full(count, -np.inf), ItemPairs(none, none, none)
    if 2 * count > found.items.size and count > WHOLE * most and not exhaust:
        deeper = ItemPairs(none, none, np.arange(count))
    elif count:
        parts = select()
        if 2 * count > found.items.size and count > WHOLE * most:
            deeper = _link_all(parts, threshold)
        elif count <= WHOLE * most:
            left, right = np.triu_indices(count, 1)
            deeper = ItemPairs(left, right, none)
        else:
            deeper = link(parts, threshold, most, exhaust=exhaust)
        best, room = _find_best(parts, deeper, threshold)
    besides = found.extra[np.searchsorted(found.items, found.centres)]
    own, centre = found.items, found.centres[found.places]
    tight = (found.extra + besides[found.places] <= found.room + ROUNDING) & (own != centre)
    roomy = (best[found.places] >= 0) & (found.extra <= room[found.places] + ROUNDING) & (own != centre)
    left = np.concatenate((found.centres[deeper.left], own[tight], own[roomy]))
    right = np.concatenate((found.centres[deeper.right], centre[tight], found.centres[best[found.places][roomy]]))
    undecided = own[np.isin(found.places, deeper.undecided) & ~tight]
    return ItemPairs(np.minimum(left, right), np.maximum(left, right), undecided)


def _link_all(parts: Items, threshold: float) -> ItemPairs:
    """Return all pairs of parts that may reach the threshold: those whose prefixes share a shingle."""
    count = parts.totals.size
    cut = cut_items(parts, count_slots(parts.shingles, count), threshold, count)
    return ItemPairs(*pairs.decode(pair_shared(cut.values, cut.owners, count)), np.empty(0, dtype=np.int64))


def choose_bits(shingles: int) -> int:
    """Return the number of leading bits that number the slots, by the number of shingles."""
    return max(shingles.bit_length() + SPARSITY, 6)


def count_slots(shingles: Hashes, most: int) -> Slots:
    """Count shingles by their leading bits, up to `most + 1`."""
    bits = choose_bits(shingles.size)
    shift = np.uint64(64 - bits)
    kind = np.min_scalar_type(most + 1)
    counts = np.zeros(1 << bits, dtype=kind)
    loops.templates.count_slots(shingles, shift, most, counts)
    return Slots(counts, shift)


def cut_items(items: Items, slots: Slots, threshold: float, most: int) -> Cut:
    """Cut items: the rare shingles of their prefixes, the rarest first, and the number of hot ones.

    Two items that reach the threshold and share a rare shingle share one of the first
    `part - ceil(threshold * total) + 1` of each, hot ones last. Those that are alone in their slot are left out.
    """
    sizes = np.diff(items.offsets)
    lengths = sizes - least_shared(items.totals, threshold) + 1
    hot = np.zeros(sizes.size, dtype=np.int64)
    # Of what is never written to, the system makes no memory.
    positions = np.empty(items.shingles.size, dtype=np.int64)
    positions = positions[: loops.templates.cut(*items[:2], *slots, most, lengths, hot, positions)].copy()
    frequencies = slots.counts[(items.shingles[positions] >> slots.shift).astype(np.int64)]
    owners = np.searchsorted(items.offsets, positions, side="right") - 1
    values, owners = shorten(items.shingles[positions], owners, frequencies, lengths)
    return Cut(values, owners, hot)


def shorten(values: Hashes, owners: Integers, frequencies: Hashes, lengths: Integers) -> tuple[Hashes, Integers]:
    """Return the rarest shingles of every owner, `lengths` of them."""
    order = np.lexsort((values, frequencies, owners))
    values, owners = values[order], owners[order]
    taken = rank(owners) < lengths[owners] if owners.size else owners.astype(bool)
    return values[taken], owners[taken]


def pair_shared(values: Hashes, owners: Integers, count: int) -> Integers:
    """Return the distinct pairs of owners of an equal value, as from `pairs.encode`; owners are below `count`."""
    keys, members, offsets = lsh.group(values, owners)
    return pairs.join(keys, members, offsets, None, doc_ids=np.arange(count))


def sum_marks(shingles: Hashes, owners: Integers, count: int) -> Hashes:
    """Return the marks of hot parts, or the part that some of their shingles add; uint64 [count, 2]."""
    marks = np.zeros((count, 2), dtype=np.uint64)
    for column, seed in enumerate(expand(MARK_SEED, 2)):
        np.add.at(marks[:, column], owners, mix(shingles ^ seed))
    return marks


def has_enough(hot: Integers, totals: Integers, threshold: float) -> Flags:
    """Flag the items whose hot shingles alone could reach the threshold."""
    enough: Flags = hot >= least_shared(totals, threshold)
    return enough


def find_able(hot: Integers, totals: Integers, threshold: float) -> Integers:
    """Return the items that can be similar to another through hot shingles alone.

    An item is left out if it has too much besides its hot part even with the item that has least.
    """
    extra, room = totals - hot, hot * (1 / threshold - 1)
    able = np.flatnonzero(has_enough(hot, totals, threshold))
    if able.size:
        able = able[extra[able] + extra[able].min() <= room[able] + ROUNDING]
    return able


def mark_hot(items: Items, chosen: Integers, slots: Slots, most: int) -> Hashes:
    """Return marks that are equal for equal hot parts of the chosen items; uint64 [chosen, 2]."""
    marks = np.empty((chosen.size, 2), dtype=np.uint64)
    loops.templates.mark(*items[:2], *slots, most, expand(MARK_SEED, 2), chosen, marks)
    return marks


def find_centres(able: Integers, hot: Integers, marks: Hashes, totals: Integers, threshold: float) -> Centres:
    """Return the centres of the hot parts of the able items, `marks` being theirs."""
    extra: Integers = (totals - hot)[able]
    room: Floats = hot[able] * np.float64(1 / threshold - 1)
    order = np.lexsort((extra, marks[:, 1], marks[:, 0]))
    bounds = find_bounds(marks[order, 0], marks[order, 1]) if order.size else np.zeros(1, dtype=np.int64)
    centres = np.empty_like(able)
    centres[order] = np.repeat(able[order[bounds[:-1]]], np.diff(bounds))
    distinct, places = np.unique(centres, return_inverse=True)
    return Centres(able, distinct, places, room, extra)


def select_hot(items: Items, chosen: Integers, slots: Slots, most: int) -> Items:
    """Return the hot parts of some items."""
    shingles, offsets = take(*items[:2], chosen)
    is_hot: Flags = slots.counts[(shingles >> slots.shift).astype(np.int64)] > most
    return Items(shingles[is_hot], np.concatenate(([0], np.cumsum(is_hot)))[offsets], items.totals[chosen])


def _find_best(parts: Items, links: ItemPairs, threshold: float) -> tuple[Integers, Floats]:
    """Return the partner that leaves every item the most room besides its hot part, -1 without one, and that room."""
    best, room = np.full(parts.totals.size, -1), np.full(parts.totals.size, -np.inf)
    if links.left.size:
        sizes = np.diff(parts.offsets)
        shared = count_shared(*parts[:2], links.left, links.right)
        free = shared / threshold - (sizes[links.left] + sizes[links.right] - shared)
        ends, others = np.concatenate((links.left, links.right)), np.concatenate((links.right, links.left))
        found = np.tile(free, 2) - (parts.totals - sizes)[others]
        order = np.lexsort((others, -found, ends))
        first = order[find_bounds(ends[order])[:-1]]
        best[ends[first]], room[ends[first]] = others[first], found[first]
    return best, room
