"""Locality-sensitive hashing: band keys, buckets of equal keys, and the pairs of a bucket."""

import math
from collections.abc import Iterator

import numpy as np

from dedup.kernels import Flags, Hashes, Integers, loops
from dedup.kernels.hashing import GOLDEN, KEY_SEED, LOW, expand, mix
from dedup.kernels.runs.bounds import find_bounds, mark_firsts, mark_repeated

FOLLOWERS = 16
"""Least number of partners that a member of a bucket over the cap chooses; as many choose it."""
DRAWN_PAIRS = 1_000_000
"""Uncompared pairs drawn to estimate the cost of the cap on buckets, by sizes and signatures."""
SAMPLED_PAIRS = 10_000
"""Drawn pairs that are verified, about this many at most."""


def band_keys(signatures: Hashes, bands: int, rows: int) -> Hashes:
    """Return the key of every band: its rows hashed to 64 bits, the band number mixed in.

    Parameters
    ----------
    signatures : uint64 [n, bands * rows]
        As from `minhash.sign`; of each value the low 32 bits count, the uniform ones, which tell rows apart as well
        as all 64.

    Returns
    -------
    uint64 [n, bands]
        `mix(sum over the band's rows of mix(low + salt_row))`, one salt for every row of the whole signature.
    """
    salts = expand(KEY_SEED, bands * rows)
    keys = np.empty((signatures.shape[0], bands), dtype=np.uint64)
    loops.sets.band_keys(signatures, rows, salts, keys)
    return keys


def group(keys: Hashes, doc_ids: Integers) -> tuple[Hashes, Integers, Integers]:
    """Return the buckets of two and more members; 85 to 99 % of keys occur once and end here.

    Parameters
    ----------
    keys : uint64 [n]
    doc_ids : int64 [n]
        The same row twice counts once.

    Returns
    -------
    keys : uint64 [buckets]
        Ascending.
    members : int64 [members]
        Document ids, ascending within a bucket.
    offsets : int64 [buckets + 1]
        Bucket i holds `members[offsets[i]:offsets[i + 1]]`.
    """
    # Most keys occur once. Sorting numbers is several times faster than sorting positions by numbers, so the position
    # takes the place of a key's lowest bits: what is left of them tells nearly all singletons apart.
    below = np.uint64((1 << keys.size.bit_length()) - 1)
    order = np.sort((keys & ~below) | np.arange(keys.size, dtype=np.uint64))
    order = (order & below)[mark_repeated(order & ~below)].astype(np.int64)
    order = order[np.argsort(keys[order])]
    ordered = keys[order]
    shared = mark_repeated(ordered)
    keys, members = ordered[shared], doc_ids[order[shared]]
    members = members[np.lexsort((members, keys))]
    # Equal input rows are one document that comes several times.
    distinct = mark_firsts(keys, members)
    keys, members = keys[distinct], members[distinct]
    shared = mark_repeated(keys)
    keys, members = keys[shared], members[shared]
    offsets = find_bounds(keys)
    return keys[offsets[:-1]], members, offsets


def select_buckets(
    keys: Hashes, members: Integers, offsets: Integers, chosen: Flags
) -> tuple[Hashes, Integers, Integers]:
    """Return the chosen buckets."""
    sizes = np.diff(offsets)
    bounds = np.concatenate(([0], np.cumsum(sizes[chosen])))
    return keys[chosen], members[np.repeat(chosen, sizes)], bounds


def keep_members(keys: Hashes, members: Integers, offsets: Integers, kept: Flags) -> tuple[Hashes, Integers, Integers]:
    """Return the buckets of the members kept, a flag for each, without buckets of less than two."""
    bounds = np.concatenate(([0], np.cumsum(kept)))[offsets]
    return select_buckets(keys, members[kept], bounds, np.diff(bounds) > 1)


def pairs(
    keys: Hashes,
    members: Integers,
    offsets: Integers,
    max_bucket: int | None,
    most: int,
    *,
    doc_ids: Integers | None = None,
) -> Iterator[tuple[Integers, Integers]]:
    """Yield the pairs to compare of every bucket, about `most` at a time.

    A bucket of up to `max_bucket` members (None: of any size) gives all its pairs. In a larger one the members stand in
    a circle in the order of their hash with the bucket's key, and each is paired with those that follow it, so no
    member is a hub whose failure would part the others: as many as make the pairs of a bucket of the largest size, but
    at least FOLLOWERS (or `max_bucket // 2` if that is less).

    Parameters
    ----------
    keys, members, offsets
        As from `group`.
    max_bucket
        At least 2.
    most
        Bounds memory: 100 bytes a pair.
    doc_ids : int64 [n]
        Ascending; if given, members and pairs are positions in it.

    Yields
    ------
    left, right : int64 [pairs]
        left < right within each pair; pairs of different buckets can be equal.
    """
    sizes = np.diff(offsets)
    starts = offsets[:-1]
    bucket = np.repeat(np.arange(sizes.size), sizes)
    position = np.arange(members.size) - starts[bucket]
    size = sizes[bucket]
    members, steps = arrange(keys, members, offsets, max_bucket, doc_ids=doc_ids)
    followers = np.where(steps[bucket], steps[bucket], size - 1 - position)
    ends = np.cumsum(followers)
    start = 0
    while start < members.size:
        spent = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, spent + most, side="right")), start + 1)
        left = np.repeat(np.arange(start, end), followers[start:end])
        distance = np.arange(spent, ends[end - 1]) - (ends - followers)[left] + 1
        right = starts[bucket[left]] + (position[left] + distance) % size[left]
        yield np.minimum(members[left], members[right]), np.maximum(members[left], members[right])
        start = end


def arrange(
    keys: Hashes, members: Integers, offsets: Integers, max_bucket: int | None, *, doc_ids: Integers | None = None
) -> tuple[Integers, Integers]:
    """Return the members, those of capped buckets in circles, and the steps of every bucket.

    Each member of a bucket is paired with as many that follow it, round the circle, as the bucket has steps; with all
    others where that is 0.
    """
    sizes = np.diff(offsets)
    if max_bucket is None or not (capped := sizes > max_bucket).any():
        return members, np.zeros_like(sizes)
    members = _in_circles(keys, members, offsets, np.repeat(capped, sizes), doc_ids)
    return members, np.where(capped, _followers(sizes, max_bucket), 0)


def _followers(sizes: Integers, max_bucket: int) -> Integers:
    """Return the number of followers that a member of a capped bucket is paired with."""
    # A larger one has no square of 64 bits, and no bucket so many members.
    max_bucket = min(max_bucket, math.isqrt(2**63 - 1))
    return np.clip(max_bucket**2 // (2 * sizes), min(FOLLOWERS, max_bucket // 2), max_bucket // 2)


def _in_circles(
    keys: Hashes, members: Integers, offsets: Integers, capped: Flags, doc_ids: Integers | None
) -> Integers:
    """Order the members of capped buckets by the hash of doc_id and key, those of others as they are."""
    sizes = np.diff(offsets)
    bucket = np.repeat(np.arange(sizes.size), sizes)
    named = members if doc_ids is None else doc_ids[members]
    rank = np.where(capped, mix(named.view(np.uint64) ^ keys[bucket]), np.arange(members.size, dtype=np.uint64))
    return members[np.lexsort((rank, bucket))]


def uncompared_share(pairs: int) -> float:
    """Return the share of uncompared pairs that is drawn, given their number."""
    return min(DRAWN_PAIRS / pairs, 1.0)


def verified_share(pairs: int) -> float:
    """Return the probability that a possibly lost pair is verified, given the number of these."""
    return min(SAMPLED_PAIRS / max(pairs, 1), 1.0)


def thin(left: Integers, right: Integers, share: float) -> Flags:
    """Draw pairs of document ids, each with the probability `share`, the same ones every time; bool [pairs]."""
    hashes = mix(mix(left.view(np.uint64)) ^ right.view(np.uint64) ^ np.uint64(KEY_SEED))
    chosen: Flags = (hashes >> np.uint64(11)) < np.uint64(share * (1 << 53))
    return chosen


def sample_uncompared(
    keys: Hashes,
    members: Integers,
    offsets: Integers,
    max_bucket: int,
    share: float,
    *,
    doc_ids: Integers | None = None,
) -> tuple[Integers, Integers]:
    """Draw from the pairs that `pairs` leaves out, each with the same probability, the same ones every time.

    Parameters
    ----------
    keys, members, offsets
        As from `group`.
    share
        Pairs to draw of those left out, above 0.
    doc_ids
        As for `pairs`.

    Returns
    -------
    left, right : int64 [drawn]
        left < right.
    """
    sizes = np.diff(offsets)
    large = sizes > max_bucket
    members = _in_circles(keys, members, offsets, np.repeat(large, sizes), doc_ids)
    keys, starts, sizes = keys[large], offsets[:-1][large], sizes[large]
    # Rounded at random, so that many buckets of few pairs are drawn from as well.
    chance = (mix(keys ^ np.uint64(KEY_SEED)) >> np.uint64(11)) / float(1 << 53)
    drawn = np.floor(pair_counts(sizes, max_bucket)[1] * share + chance).astype(np.int64)
    bucket = np.repeat(np.arange(sizes.size), drawn)
    number = np.arange(bucket.size) - (np.cumsum(drawn) - drawn)[bucket]
    hashes = mix(keys[bucket] + (number.astype(np.uint64) + np.uint64(1)) * GOLDEN)
    # As many steps round the circle as no pair that is compared is apart.
    followers = _followers(sizes, max_bucket)
    free = sizes - 2 * followers - 1
    high, low = hashes >> np.uint64(32), hashes & LOW
    position = ((high * sizes[bucket].astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
    steps = ((low * free[bucket].astype(np.uint64)) >> np.uint64(32)).astype(np.int64) + followers[bucket] + 1
    left, right = (members[starts[bucket] + place % sizes[bucket]] for place in (position, position + steps))
    return np.minimum(left, right), np.maximum(left, right)


def pair_counts(sizes: Integers, max_bucket: int | None) -> tuple[Integers, Integers]:
    """Return the numbers of compared and of uncompared pairs of each bucket by its members, in their type."""
    everything = sizes * (sizes - 1) // 2
    if max_bucket is None:
        return everything, np.zeros_like(everything)
    compared = np.where(sizes > max_bucket, sizes * _followers(sizes, max_bucket), everything)
    return compared, everything - compared
