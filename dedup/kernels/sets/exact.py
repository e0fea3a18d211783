"""Exact search: every pair of sets at or above a similarity, by prefix filtering, which misses none.

S. Chaudhuri, V. Ganti, R. Kaushik: A primitive operator for similarity joins in data cleaning. ICDE 2006;
R. J. Bayardo, Y. Ma, R. Srikant: Scaling up all pairs similarity search. WWW 2007.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.kernels import Flags, Hashes, Integers, loops
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.sets.pairs import sort_distinct

ROUNDING = 1e-9
"""Tolerance that keeps a product such as 0.8 x 5 = 4.000000000000001 from asking for one element too many."""
HITS = 1 << 22
"""Common keys of owners and holders worked on at a time: bounds memory to about 200 MB."""


class PrefixIndex(NamedTuple):
    """Sets, indexed by the shingles of their prefixes."""

    shingles: Hashes
    offsets: Integers
    floor: float
    known: Hashes
    """Distinct shingles of all sets, ascending."""
    frequencies: Integers
    """Number of sets in which each occurs."""
    beginnings: Flags
    """Flags of the leading bits that known shingles have: 2^n, of which an eighth at most are set."""
    keys: Hashes
    """Shingles of all prefixes, ascending."""
    owners: Integers
    """Set of each key."""


def index(shingles: Hashes, offsets: Integers, floor: float) -> PrefixIndex:
    """Index sets for searches of similarities of at least `floor`, above 0.

    Parameters
    ----------
    shingles : uint64 [shingles]
        Ascending and distinct within a set.
    offsets : int64 [sets + 1]
    """
    known, frequencies = np.unique(shingles, return_counts=True)
    prefixes, owners = _prefixes(shingles, offsets, known, frequencies, floor)
    order = np.argsort(prefixes, kind="stable")
    beginnings = np.zeros(1 << int(8 * known.size + 1).bit_length(), dtype=bool)
    beginnings[_lead(known, beginnings)] = True
    return PrefixIndex(shingles, offsets, floor, known, frequencies, beginnings, prefixes[order], owners[order])


def search(
    indexed: PrefixIndex, shingles: Hashes, offsets: Integers
) -> Iterator[tuple[Integers, Integers, npt.NDArray[np.float64]]]:
    """Yield all pairs of an indexed set and another at or above the floor: numbers and exact Jaccard.

    A set with Jaccard t to another holds at least t times its own size of shingles that the other has. So sets with
    fewer known shingles than that go first, most of a corpus when the index is of a sample, and their leading bits
    tell enough of them; and of the two sets one of the first `n - ceil(t n) + 1` shingles of each, rarest first, must
    be common.
    """
    sizes = np.diff(offsets)
    may_be_known = indexed.beginnings[_lead(shingles, indexed.beginnings)]
    held = np.diff(np.concatenate(([0], np.cumsum(may_be_known)))[offsets])
    numbers = np.flatnonzero((sizes > 0) & (held >= indexed.floor * sizes - ROUNDING))
    taken = take(shingles, offsets, numbers)
    prefixes, owners = _prefixes(*taken, indexed.known, indexed.frequencies, indexed.floor)
    for left, right in pair_owners(indexed.keys, indexed.owners, prefixes, owners):
        exact = compare((indexed.shingles, indexed.offsets), taken, left, right)
        similar = exact >= indexed.floor
        yield left[similar], numbers[right[similar]], exact[similar]


def pair_owners(
    keys: Hashes, owners: Integers, others: Hashes, holders: Integers
) -> Iterator[tuple[Integers, Integers]]:
    """Yield the distinct pairs of an owner and a holder of an equal key, no pair twice.

    Parameters
    ----------
    keys : uint64 [n]
        Ascending, each with its owner, 0 or more.
    others : uint64 [m]
        Each with its holder, 0 or more and ascending.
    """
    first = np.searchsorted(keys, others)
    hits = np.searchsorted(keys, others, side="right") - first
    ends = np.cumsum(hits)
    # What one holder meets stays together, so that none of its pairs comes twice.
    closes = find_bounds(holders)[1:]
    start = 0
    for number, close in enumerate(closes.tolist()):
        spent = ends[start - 1] if start else 0
        if number + 1 < closes.size and ends[closes[number + 1] - 1] - spent <= HITS:
            continue
        count = hits[start:close]
        met = np.repeat(first[start:close] - (ends[start:close] - count), count) + np.arange(spent, ends[close - 1])
        pairs = sort_distinct(np.repeat(holders[start:close], count) << 32 | owners[met])
        yield pairs & 0xFFFFFFFF, pairs >> 32
        start = close


def compare(
    left_sets: tuple[Hashes, Integers], right_sets: tuple[Hashes, Integers], left: Integers, right: Integers
) -> npt.NDArray[np.float64]:
    """Return the exact Jaccard of pairs between two collections; float64 [pairs]."""
    one, left = np.unique(left, return_inverse=True)
    other, right = np.unique(right, return_inverse=True)
    shingles, offsets = take(*left_sets, one)
    more, bounds = take(*right_sets, other)
    joined = np.concatenate((offsets, offsets[-1] + bounds[1:]))
    return jaccard(np.concatenate((shingles, more)), joined, left, right + one.size)


def least_shared(sizes: Integers, threshold: float) -> Integers:
    """Return the least number of elements, at least 1, that are the share `threshold` of sets of these sizes."""
    least: Integers = np.ceil(threshold * sizes - ROUNDING).astype(np.int64)
    return np.maximum(least, 1)


def take(shingles: Hashes, offsets: Integers, numbers: Integers) -> tuple[Hashes, Integers]:
    """Return the sets of these numbers, end to end, and their offsets."""
    if np.array_equal(numbers, np.arange(numbers.size)):
        return shingles[: offsets[numbers.size]], offsets[: numbers.size + 1]
    bounds = np.concatenate(([0], np.cumsum(np.diff(offsets)[numbers])))
    taken = np.empty(bounds[-1], dtype=np.uint64)
    place(shingles, offsets, numbers, bounds[:-1], taken)
    return taken, bounds


def place(shingles: Hashes, offsets: Integers, numbers: Integers, begins: Integers, placed: Hashes) -> None:
    """Copy the sets of these numbers into `placed`, each from its begin on."""
    sizes = np.diff(offsets)[numbers]
    loops.sets.place(shingles, offsets[numbers], sizes, begins, placed)


def _lead(shingles: Hashes, beginnings: Flags) -> Integers:
    """Return the leading bits of shingles, as an index into the flags."""
    return (shingles >> np.uint64(65 - beginnings.size.bit_length())).astype(np.int64)


def _prefixes(
    shingles: Hashes, offsets: Integers, known: Hashes, frequencies: Integers, floor: float
) -> tuple[Hashes, Integers]:
    """Return the known shingles in the prefix of every set and the set of each, in the order of the sets."""
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(sizes.size), sizes)
    if not known.size:
        return shingles[:0], owners[:0]
    places = np.minimum(np.searchsorted(known, shingles), known.size - 1)
    is_known: Flags = known[places] == shingles
    # Stable, and shingles ascend within a set, so they decide among equals.
    order = np.argsort(owners << 32 | np.where(is_known, frequencies[places], 0), kind="stable")
    lengths = sizes - least_shared(sizes, floor) + 1
    rank = np.arange(shingles.size) - np.repeat(offsets[:-1], sizes)
    taken = order[(rank < np.repeat(lengths, sizes)) & is_known[order]]
    return shingles[taken], owners[taken]
