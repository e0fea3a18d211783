"""The edges of a run as a graph of document ids."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Integers
from dedup.kernels.chains import count_steps, find_chain
from dedup.kernels.components import connect

PAIR = ("left_id", "right_id")


class Graph:
    """Edges by the numbers of their documents, in the order of ids."""

    def __init__(self, edges: pa.Table) -> None:
        ends = pc.unique(pa.chunked_array(edges["left_id"].chunks + edges["right_id"].chunks, edges["left_id"].type))
        self.ids: pa.Array = ends.take(pc.sort_indices(ends))
        self.left, self.right = (self.numbers(edges[name]) for name in PAIR)
        self.similarities = edges["jaccard"].to_numpy()

    def numbers(self, ids: pa.Array | pa.ChunkedArray) -> Integers:
        """Return the numbers of documents; -1 for those without an edge."""
        found: Integers = pc.fill_null(pc.index_in(ids, value_set=self.ids), -1).to_numpy().astype(np.int64)
        return found

    def connect(self, ids: pa.ChunkedArray) -> tuple[Integers, Integers]:
        """Return the group of each document that edges connect, and its size; one without an edge has its own."""
        places, (_, groups) = self.numbers(ids), connect(self.left, self.right)
        # One more group is what those without an edge find at -1.
        groups = np.append(groups, len(groups))
        found, is_alone = groups[places], places < 0
        return np.where(is_alone, -1 - np.arange(places.size), found), np.bincount(groups)[found]

    def steps(self, ids: pa.ChunkedArray, sources: pa.ChunkedArray) -> Integers:
        """Return the number of edges from each document to the nearest source; 0 where none leads there."""
        places, starts = self.numbers(ids), np.unique(self.numbers(sources))
        counted = count_steps(self.left, self.right, len(self.ids), starts[starts >= 0])
        return np.where(places < 0, 0, np.maximum(counted, 0)[places] if counted.size else 0)

    def chain(self, start: Any, end: Any) -> list[Any]:  # noqa: ANN401 - integers or strings
        """Return the ids of the strongest among the shortest chains; empty without one."""
        first, last = self.numbers(pa.array([start, end], self.ids.type)).tolist()
        if min(first, last) < 0:
            return []
        found = find_chain(self.left, self.right, self.similarities, vertices=len(self.ids), start=first, end=last)
        chain: list[Any] = self.ids.take(pa.array(found, pa.int64())).to_pylist()
        return chain
