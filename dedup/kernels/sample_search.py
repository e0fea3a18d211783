"""Near search on a sample held in memory, by the kernels of a run.

Settings of other bands and rows are tried on one signature of K values: a setting takes the first bands x rows of
them. Signatures of different sizes are not prefixes of one another, since the size decides which row a shingle falls
into; but in each of the K rows two documents agree with probability equal to their Jaccard similarity, so in any of
them. What a setting finds here is therefore one draw of what it finds in a run, and the same bits where it takes all.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dedup.kernels import Flags, Floats, Hashes, Integers
from dedup.kernels.components import connect
from dedup.kernels.curve import least_estimate
from dedup.kernels.sets import exact, filters, lsh, minhash, pairs
from dedup.kernels.sets.identical import find_identical
from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.sets.shingles import digest_halves
from dedup.kernels.sets.templates import Items, link


class Setting(NamedTuple):
    """Settings that can differ between two searches of the same signatures."""

    threshold: float
    bands: int
    rows: int
    max_bucket: int
    estimate_sigmas: float

    @property
    def size(self) -> int:
        """Number of a signature's values in the bands."""
        return self.bands * self.rows


class SampleDocuments(NamedTuple):
    """The n documents of a sample."""

    doc_ids: Integers
    """Document ids; ascending and distinct."""
    shingles: Hashes
    offsets: Integers
    """Offsets of their sets, as from `shingles.shingle`."""
    heads: Integers
    """Position of the head of each, as from `find_heads`."""
    signatures: Hashes
    """Signatures with at least as many values as any setting takes; uint64 [n, K]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleResult:
    """Result of a search among n documents by position; pairs are `left * n + right`, ascending."""

    heads: Integers
    """Position of the document of least doc_id with each document's shingle set."""
    keys: Hashes
    """Band keys; uint64 [n, bands]."""
    paired: Integers
    """Pairs of heads that share a bucket, within its cap."""
    compared: Integers
    """Pairs that pass the filters by size and estimate."""
    edges: Integers
    """Pairs at or above the threshold."""
    components: Integers
    """Least position in the component of each document."""
    jaccard: Floats
    """Similarity of each compared pair."""
    buckets: tuple[Hashes, Integers, Integers]
    """Keys, members and offsets of all buckets, as from `lsh.group`."""
    undecided: tuple[Hashes, Integers, Integers]
    """Buckets of the members that remain of those over the cap, to be compared in circles."""
    linked: Integers
    """Further pairs of members of buckets over the cap, as from `pairs.encode`."""
    pairs_in_buckets: int
    """Number of pairs in buckets, a pair counted once for each bucket."""

    def shares_bucket(self, left: Integers, right: Integers) -> Flags:
        """Flag the pairs of documents with a band key in common, caps aside; equal sets share all."""
        shared: Flags = (self.keys[left] == self.keys[right]).any(axis=1)
        return shared

    def holds(self, known: Integers, left: Integers, right: Integers) -> Flags:
        """Flag the pairs of documents that are among known ones, or of one shingle set."""
        one, other = self.heads[left], self.heads[right]
        wanted = np.minimum(one, other) * self.heads.size + np.maximum(one, other)
        held: Flags = pairs.find_known(wanted, known) | (one == other)
        return held


def find_heads(doc_ids: Integers, shingles: Hashes, offsets: Integers) -> Integers:
    """Return the position of the least doc_id with each document's shingle set; its own without shingles.

    Parameters
    ----------
    doc_ids : int64 [n]
        Ascending and distinct.
    """
    full = np.flatnonzero(np.diff(offsets))
    high, low = digest_halves(shingles, offsets)
    copies, set_ids = find_identical(high[full], low[full], doc_ids[full])
    heads = np.arange(doc_ids.size)
    heads[np.searchsorted(doc_ids, copies)] = np.searchsorted(doc_ids, set_ids)
    return heads


def band_keys(signatures: Hashes, setting: Setting) -> Hashes:
    """Return the keys of the setting's bands from signatures of its size or a larger one."""
    return lsh.band_keys(np.ascontiguousarray(signatures[:, : setting.size]), setting.bands, setting.rows)


def search(documents: SampleDocuments, setting: Setting) -> SampleResult:
    """Find the pairs and components that a run would find among these documents."""
    doc_ids, shingles, offsets, heads, signatures = documents
    count = doc_ids.size
    sizes = np.diff(offsets)
    keys = band_keys(signatures, setting)
    searched = np.flatnonzero((heads == np.arange(count)) & (sizes > 0))
    grouped = lsh.group(keys[searched].reshape(-1), np.repeat(searched, setting.bands))
    large = np.diff(grouped[2]) > setting.max_bucket
    small, over = (lsh.select_buckets(*grouped, chosen) for chosen in (~large, large))
    members = np.unique(over[1])
    items = Items(*exact.take(shingles, offsets, members), sizes[members])
    linked = link(items, setting.threshold, setting.max_bucket, exhaust=False)
    undecided = lsh.keep_members(*over, np.isin(over[1], members[linked.undecided]))
    met = [pairs.join(*each, setting.max_bucket, doc_ids=doc_ids) for each in (small, undecided)]
    chosen = pairs.encode(members[linked.left], members[linked.right])
    left, right = pairs.decode(pairs.sort_distinct(np.concatenate((*met, chosen))))
    paired = left * count + right
    low = minhash.low_bytes(signatures[:, : setting.size])
    likely = select_likely(sizes, low, left, right, setting)
    left, right = left[likely], right[likely]
    exactly = jaccard(shingles, offsets, left, right)
    similar = exactly >= setting.threshold
    copies = np.flatnonzero(heads != np.arange(count))
    ends, least = connect(np.concatenate((left[similar], heads[copies])), np.concatenate((right[similar], copies)))
    components = np.arange(count)
    components[ends] = least
    return SampleResult(
        heads=heads,
        keys=keys,
        paired=paired,
        compared=paired[likely],
        edges=paired[likely][similar],
        components=components,
        jaccard=exactly,
        buckets=grouped,
        undecided=undecided,
        linked=pairs.sort_distinct(chosen),
        pairs_in_buckets=sum(
            int(lsh.pair_counts(np.diff(each[2]), setting.max_bucket)[0].sum()) for each in (small, undecided)
        ),
    )


def select_likely(sizes: Integers, low: np.ndarray, left: Integers, right: Integers, setting: Setting) -> Integers:
    """Return the positions of the pairs that pass the filters by size and estimate."""
    possible = filters.select_possible(sizes[left], sizes[right], setting.threshold)
    estimates = filters.estimate_pairs(low, left[possible], right[possible])
    return possible[estimates >= least_estimate(setting.threshold, setting.size, setting.estimate_sigmas)]
