"""Locality-sensitive hashing: band keys, buckets of equal keys, and the pairs of a bucket."""

from collections.abc import Iterator

import numpy as np

from dedup.kernels import Flags, Hashes, Integers
from dedup.kernels.text import expand, mix

KEY_VERSION_SEED = 0x6B6579
"""Seed of the multipliers that turn a band of a signature into its key."""


def probability(jaccard: float, bands: int, rows: int) -> float:
    """Return the probability that two documents of this similarity share a bucket: 1 - (1 - J^rows)^bands.

    The formula takes rows for independent. Those of small sets repel each other a little, which makes the curve
    steeper: by .01 at most for 21 bands of 6 rows (tests/exercise.py).
    """
    return float(1 - (1 - jaccard**rows) ** bands)


def band_keys(signatures: Hashes, bands: int, rows: int) -> Hashes:
    """Return the key of every band: its rows hashed to 64 bits, the band number mixed in.

    Parameters
    ----------
    signatures : uint64 [n, bands * rows]
        The low 32 bits of every row, as `minhash.from_planes` returns them.

    Returns
    -------
    uint64 [n, bands]
        `mix(sum over the band's rows of mix(value + salt_row))`, one salt for every row of the whole signature.
    """
    salts = expand(KEY_VERSION_SEED, bands * rows)
    summed = mix(signatures + salts).reshape(-1, bands, rows).sum(axis=2, dtype=np.uint64)
    return mix(summed)


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
    order = np.argsort(keys)
    ordered = keys[order]
    shared = _is_shared(ordered)
    keys, members = ordered[shared], doc_ids[order[shared]]
    members = members[np.lexsort((members, keys))]
    # Equal input rows are one document that comes several times.
    distinct = np.ones(keys.size, dtype=bool)
    distinct[1:] = (keys[1:] != keys[:-1]) | (members[1:] != members[:-1])
    keys, members = keys[distinct], members[distinct]
    shared = _is_shared(keys)
    keys, members = keys[shared], members[shared]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: keys.size])
    return keys[starts], members, np.append(starts, keys.size)


def _is_shared(ordered: Hashes) -> Flags:
    """Tell which of the ascending keys equal a neighbour."""
    same = ordered[1:] == ordered[:-1]
    shared = np.zeros(ordered.size, dtype=bool)
    shared[1:] |= same
    shared[:-1] |= same
    return shared


def pairs(
    keys: Hashes, members: Integers, offsets: Integers, max_bucket: int | None, most: int
) -> Iterator[tuple[Integers, Integers]]:
    """Yield the pairs to compare of every bucket, about `most` at a time.

    A bucket of up to `max_bucket` members (None: of any size) gives all its pairs. In a larger one the members stand in
    a circle in the order of their hash with the bucket's key, and each is paired with the `max_bucket // 2` that follow
    it: as many pairs a document as in a bucket of the largest size, and no member is a hub whose failure would part
    the others.

    Parameters
    ----------
    keys, members, offsets
        As from `group`.
    max_bucket
        At least 2.
    most
        Bounds memory: 100 bytes a pair.

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
    followers = size - 1 - position
    if max_bucket is not None and (capped := size > max_bucket).any():
        rank = np.where(capped, mix(members.view(np.uint64) ^ keys[bucket]), position.astype(np.uint64))
        members = members[np.lexsort((rank, bucket))]
        followers[capped] = max_bucket // 2
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


def pair_counts(sizes: Integers, max_bucket: int | None) -> tuple[Integers, Integers]:
    """Return how many pairs each bucket of `sizes` members gives and how many it leaves uncompared, int64 all."""
    everything = sizes * (sizes - 1) // 2
    if max_bucket is None:
        return everything, np.zeros_like(everything)
    compared = np.where(sizes > max_bucket, sizes * (max_bucket // 2), everything)
    return compared, everything - compared
