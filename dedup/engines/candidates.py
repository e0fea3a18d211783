"""Documents -> buckets -> distinct pairs worth an exact comparison."""

from typing import NamedTuple

import numpy as np

from dedup.engines.capacity import KEY_BYTES, PAIR_BYTES, check_fits
from dedup.engines.documents import Documents
from dedup.engines.parts import Floats, by_part
from dedup.engines.values import Features, Search
from dedup.engines.verification import Sets
from dedup.kernels import Hashes, Integers, curve
from dedup.kernels.runs.shared import find_shared
from dedup.kernels.sets import filters, lsh, pairs
from dedup.kernels.sets.prefixes import select_prefixes
from dedup.tables.counts import Bucketed, Paired


class Buckets(NamedTuple):
    """Buckets of two and more, as from `lsh.group`, their members as positions."""

    keys: Hashes
    members: Integers
    offsets: Integers
    counts: Bucketed


class Candidates(NamedTuple):
    """Distinct pairs left < right of positions, ascending."""

    left: Integers
    right: Integers
    estimates: Floats
    """NaN in exact mode."""
    distinct: Integers
    """All pairs that were looked at, as from `pairs.encode`."""
    counts: Paired


def bucket_bands(documents: Documents, features: Features, free_bytes: int | None) -> Buckets:
    """Return the buckets of heads that agree in a band.

    Raises
    ------
    DedupError
        When the keys that several have exceed `free_bytes` of memory.
    """
    keys = features.band_keys
    assert keys is not None, "lsh mode needs band keys"
    heads = np.flatnonzero(documents.is_head)
    owners = np.full(keys.shape[0], -1)
    owners[documents.rows[heads]] = heads
    flat = keys.reshape(-1)
    # Five keys of six go here; those of documents that are no head go next.
    shared = find_shared(flat)
    members = owners[shared // max(keys.shape[1], 1)]
    shared, members = shared[members >= 0], members[members >= 0]
    check_fits(shared.size * KEY_BYTES, free_bytes)
    return _bucket(flat[shared], members, keys.shape[1] * int(documents.copies[heads].sum()))


def bucket_prefixes(documents: Documents, sets: Sets, threshold: float) -> Buckets:
    """Return the buckets of heads whose prefixes share a shingle.

    Parameters
    ----------
    sets
        Of all heads.
    """
    copies = documents.copies[sets.positions]
    prefixes, owners, count = select_prefixes(sets.shingles, sets.offsets, copies, threshold)
    return _bucket(prefixes, sets.positions[owners], count)


def _bucket(keys: Hashes, members: Integers, band_rows: int) -> Buckets:
    grouped = lsh.group(keys, members)
    sizes, frequencies = np.unique(np.diff(grouped[2]), return_counts=True)
    counted = Bucketed(
        rows=grouped[0].size,
        members=grouped[1].size,
        band_rows=band_rows,
        sizes=dict(zip(sizes.tolist(), frequencies.tolist(), strict=True)),
    )
    return Buckets(*grouped, counted)


def part(buckets: Buckets, cap: int) -> tuple[Buckets, Buckets]:
    """Return the buckets up to the cap, and those over it."""
    large = np.diff(buckets.offsets) > cap
    small, over = (lsh.select_buckets(*buckets[:3], chosen) for chosen in (~large, large))
    return Buckets(*small, buckets.counts), Buckets(*over, buckets.counts)


def count_pairs(buckets: Buckets, cap: int | None) -> tuple[int, int]:
    """Return how many pairs the buckets give and how many the cap leaves out, one for each bucket a pair shares."""
    compared, uncompared = lsh.pair_counts(np.diff(buckets.offsets), cap)
    return int(compared.sum()), int(uncompared.sum())


def pair_documents(
    documents: Documents,
    buckets: Buckets,
    features: Features,
    search: Search,
    *,
    threads: int,
    free_bytes: int | None,
) -> Candidates:
    """Return the distinct pairs of the buckets, less those that sizes or, in `lsh` mode, the estimate rules out.

    Raises
    ------
    DedupError
        When the pairs exceed `free_bytes` of memory.
    """
    distinct = pairs.join(
        *buckets[:3],
        None,
        doc_ids=documents.doc_ids,
        check=lambda count: check_fits(count * PAIR_BYTES, free_bytes),
    )
    return select_likely(documents, distinct, count_pairs(buckets, None)[0], features, search, threads=threads)


def select_likely(
    documents: Documents, distinct: Integers, in_buckets: int, features: Features, search: Search, *, threads: int
) -> Candidates:
    """Return those of distinct pairs, as `pairs.encode` has them, that sizes and the estimate do not rule out."""
    possible = select_possible(distinct, documents.sizes, search.threshold)
    left, right = pairs.decode(possible)
    estimates = np.full(possible.size, np.nan)
    if search.mode == "lsh":
        low, rows = features.signature, documents.rows
        assert low is not None, "lsh mode needs signatures"
        estimates = by_part(
            lambda part: filters.estimate_pairs(low, rows[left[part]], rows[right[part]]), possible.size, threads
        )
        floor = curve.least_estimate(search.threshold, search.bands * search.rows, search.estimate_sigmas)
        likely = estimates >= floor
        left, right, estimates = left[likely], right[likely], estimates[likely]
    counted = Paired(
        rows=left.size,
        pairs_in_buckets=in_buckets,
        pairs_distinct=distinct.size,
        pairs_after_length=possible.size,
    )
    return Candidates(left, right, estimates, distinct, counted)


def select_possible(distinct: Integers, sizes: Integers, threshold: float) -> Integers:
    """Return the pairs, as `pairs.encode` has them, whose sizes allow the threshold; PAIRS_AT_A_TIME at once."""
    kept = []
    for part in np.split(distinct, range(filters.PAIRS_AT_A_TIME, distinct.size, filters.PAIRS_AT_A_TIME)):
        left, right = pairs.decode(part)
        kept.append(part[filters.select_possible(sizes[left], sizes[right], threshold)])
    return np.concatenate(kept)


def draw_uncompared(
    documents: Documents, buckets: Buckets, features: Features, search: Search, *, threads: int
) -> Candidates:
    """Return those of a sample of the pairs that the cap leaves out which neither sizes nor the estimate rule out."""
    _, uncompared = count_pairs(buckets, search.cap)
    drawn = np.empty(0, dtype=np.int64)
    if uncompared:
        share = lsh.uncompared_share(uncompared)
        drawn = pairs.select_distinct(
            [lsh.sample_uncompared(*buckets[:3], search.cap, share, doc_ids=documents.doc_ids)]
        )
    return select_likely(documents, drawn, uncompared, features, search, threads=threads)
