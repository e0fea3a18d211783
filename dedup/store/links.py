"""Edges of a store in memory, and the search for others."""

from typing import NamedTuple

import numpy as np

from dedup.kernels import Flags, Floats, Hashes, Integers
from dedup.kernels.sets import pairs
from dedup.kernels.sets.exact import compare
from dedup.store.arrays import distinct, is_in, list_ranges
from dedup.store.snapshot import Snapshot


class Links(NamedTuple):
    """Edges of sets, left < right where both are of one store."""

    left: Integers
    right: Integers
    jaccard: Floats

    def encode(self) -> Integers:
        """Return a number for each pair."""
        return pairs.encode(self.left, self.right)

    def select(self, chosen: Flags) -> "Links":
        """Return those chosen."""
        return Links(self.left[chosen], self.right[chosen], self.jaccard[chosen])


def join(*links: Links) -> Links:
    """Return all of them."""
    return Links(*(np.concatenate(each) for each in zip(*links, strict=True)))


def read_links(snapshot: Snapshot) -> Links:
    """Return the edges of the table."""
    rows = snapshot.read("edges")
    return Links(*(rows[name].to_numpy() for name in Links._fields))


def find_links(
    snapshot: Snapshot, sets: tuple[Hashes, Integers], keys: Hashes, threshold: float, cap: int | None = None
) -> tuple[Links, tuple[Integers, Integers]]:
    """Search sets in a store: those that share a band key, and are as similar.

    Parameters
    ----------
    sets
        As from `shingles.shingle`; those without a shingle are not looked for.
    keys : uint64 [sets, bands]
    cap
        Sets of a bucket of the store that are compared, the first; None for all.

    Returns
    -------
    links
        From the places of the sets to numbers of the store's.
    doubtful
        Places, and numbers ascending, of sets in buckets over the cap.
    """
    full = np.flatnonzero(np.diff(sets[1]))
    of_keys = np.ascontiguousarray(keys[full]).view(np.int64)
    order = np.argsort(of_keys, axis=None)
    flat, owners = of_keys.reshape(-1)[order], full[order // keys.shape[1]]
    rows = snapshot.find("bands", distinct(flat)).sort_by([("key", "ascending"), ("set", "ascending")])
    met, numbers = rows["key"].to_numpy(), rows["set"].to_numpy()
    is_over = np.arange(met.size) - np.searchsorted(met, met) >= (met.size if cap is None else cap)
    over = distinct(met[is_over])
    doubtful = owners[is_in(flat, over)], distinct(numbers[is_in(met, over)])
    met, numbers = met[~is_over], numbers[~is_over]
    first = np.searchsorted(flat, met)
    counts = np.searchsorted(flat, met, side="right") - first
    left, right = pairs.decode(distinct(pairs.encode(owners[list_ranges(first, counts)], np.repeat(numbers, counts))))
    known = distinct(right)
    exact = compare(sets, snapshot.find_sets(known), left, np.searchsorted(known, right))
    return Links(left, right, exact).select(exact >= threshold), doubtful
