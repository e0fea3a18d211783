"""The search of a run, on documents held in memory: what the stages do, with the kernels they do it with.

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
from dedup.kernels.sets.shingles import digest
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
        """Values of a signature that the bands take."""
        return self.bands * self.rows


class SampleDocuments(NamedTuple):
    """Documents to search, n of them."""

    doc_ids: Integers
    """Ascending and distinct."""
    shingles: Hashes
    offsets: Integers
    """Their sets, as from `shingles.shingle`."""
    heads: Integers
    """The result of `find_heads`."""
    signatures: Hashes
    """uint64 [n, K], K no less than the size of any setting tried."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleResult:
    """Result of a search among n documents, known by their positions; pairs are `left * n + right`, ascending."""

    heads: Integers
    """The document with the least doc_id of every document's shingle set."""
    keys: Hashes
    """Band keys, uint64 [n, bands]."""
    paired: Integers
    """Pairs of heads that share a bucket and are within its cap."""
    compared: Integers
    """Pairs that pass the filters by size and estimate."""
    edges: Integers
    """Pairs at or above the threshold."""
    components: Integers
    """The least position in the component of every document."""
    jaccard: Floats
    """Similarities of the pairs compared."""
    buckets: tuple[Hashes, Integers, Integers]
    """Keys, members and offsets of all buckets, as from `lsh.group`."""
    undecided: tuple[Hashes, Integers, Integers]
    """What is left of buckets over the cap to compare in circles."""
    linked: Integers
    """Pairs that members of buckets over the cap give besides, as from `pairs.encode`."""
    pairs_in_buckets: int
    """Pairs that buckets gave, the same pair once for each."""

    def shares_bucket(self, left: Integers, right: Integers) -> Flags:
        """Tell which pairs of documents have a band key in common, caps aside; those of one set have all."""
        shared: Flags = (self.keys[left] == self.keys[right]).any(axis=1)
        return shared

    def holds(self, pairs: Integers, left: Integers, right: Integers) -> Flags:
        """Tell which pairs of documents are among those found, or of one shingle set."""
        one, other = self.heads[left], self.heads[right]
        wanted = np.minimum(one, other) * self.heads.size + np.maximum(one, other)
        places = np.minimum(np.searchsorted(pairs, wanted), max(pairs.size - 1, 0))
        listed = pairs[places] == wanted if pairs.size else np.zeros(wanted.size, dtype=bool)
        held: Flags = listed | (one == other)
        return held


def find_heads(doc_ids: Integers, shingles: Hashes, offsets: Integers) -> Integers:
    """Return for every document the position of the least doc_id with its shingle set; itself if it has no shingle.

    Parameters
    ----------
    doc_ids : int64 [n]
        Ascending and distinct.
    """
    halves = np.frombuffer(b"".join(digest(shingles, offsets)), dtype=">i8").astype(np.int64)
    full = np.flatnonzero(np.diff(offsets))
    copies, set_ids = find_identical(halves[::2][full], halves[1::2][full], doc_ids[full])
    heads = np.arange(doc_ids.size)
    heads[np.searchsorted(doc_ids, copies)] = np.searchsorted(doc_ids, set_ids)
    return heads


def band_keys(signatures: Hashes, setting: Setting) -> Hashes:
    """Return the keys of the setting's bands from signatures of its size or a larger one."""
    return lsh.band_keys(np.ascontiguousarray(signatures[:, : setting.size]), setting.bands, setting.rows)


def search(documents: SampleDocuments, setting: Setting) -> SampleResult:
    """Find the pairs and components that the stages would find among these documents."""
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
    """Return the positions of pairs worth an exact comparison, by the sizes of their sets and their estimate."""
    possible = filters.select_possible(sizes[left], sizes[right], setting.threshold)
    estimates = filters.estimate_pairs(low, left[possible], right[possible])
    return possible[estimates >= least_estimate(setting.threshold, setting.size, setting.estimate_sigmas)]
