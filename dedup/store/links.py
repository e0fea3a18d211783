"""Edges of a store in memory."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.kernels import Flags, Floats, Integers
from dedup.kernels.sets import pairs
from dedup.store.snapshot import Snapshot


class Links(NamedTuple):
    """Edges of sets: left < right."""

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
    return to_links(snapshot.read("edges"))


def to_links(rows: pa.Table) -> Links:
    """Return rows of `edges`."""
    return Links(*(rows[name].to_numpy() for name in Links._fields))
