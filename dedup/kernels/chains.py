"""Shortest chains of edges between documents, and the strongest of these."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dedup.kernels import Integers


def count_steps(left: Integers, right: Integers, vertices: int, sources: Integers) -> Integers:
    """Count the edges from every vertex to the nearest source; -1 without a chain.

    Parameters
    ----------
    left, right : int64 [edges]
        Vertices from 0 to `vertices - 1`.
    sources : int64 [sources]

    Returns
    -------
    int64 [vertices]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    if not sources.size:
        return np.full(vertices, -1)
    graph = coo_array((np.ones(left.size, dtype=np.int8), (left, right)), shape=(vertices, vertices)).tocsr()
    steps = dijkstra(graph, directed=False, indices=sources, unweighted=True, min_only=True)
    return np.where(np.isfinite(steps), steps, -1).astype(np.int64)


def find_chain(
    left: Integers, right: Integers, similarities: npt.NDArray[np.float64], *, vertices: int, start: int, end: int
) -> list[int]:
    """Return the vertices of a shortest chain from `start` to `end`, both included; empty without a chain.

    Of the shortest chains it is one whose least similarity is greatest, the same for any order of the edges.

    Parameters
    ----------
    left, right : int64 [edges]
        Vertices from 0 to `vertices - 1`.
    similarities : float64 [edges]
        Above 0.
    """
    steps = count_steps(left, right, vertices, np.array([end]))
    if steps[start] < 0:
        return []
    tails, heads = np.concatenate((left, right)), np.concatenate((right, left))
    strengths = np.tile(similarities, 2)
    nearer = np.flatnonzero((steps[heads] == steps[tails] - 1) & (steps[tails] <= steps[start]) & (steps[heads] >= 0))
    nearer = nearer[np.argsort(-steps[tails[nearer]], kind="stable")]
    bounds = np.searchsorted(-steps[tails[nearer]], np.arange(-steps[start], 1))
    strongest = np.zeros(vertices)
    strongest[start] = np.inf
    previous = np.full(vertices, -1)
    for begin, stop in pairwise(bounds.tolist()):
        arcs = nearer[begin:stop]
        arcs = arcs[strongest[tails[arcs]] > 0]
        reached = np.minimum(strongest[tails[arcs]], strengths[arcs])
        order = np.lexsort((tails[arcs], -reached, heads[arcs]))
        best = order[np.unique(heads[arcs][order], return_index=True)[1]]
        strongest[heads[arcs][best]] = reached[best]
        previous[heads[arcs][best]] = tails[arcs][best]
    chain = [end]
    while chain[-1] != start:
        chain.append(int(previous[chain[-1]]))
    return chain[::-1]
