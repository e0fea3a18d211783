"""Connected components of edges held in memory."""

import numpy as np

from dedup.kernels import Integers

DRIVER_EDGES = 5_000_000
"""Edges of the largest forest that Spark's driver connects where it has the choice, a few times 16 bytes each."""


def connect(left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """Return the ends of the edges and the least id of the component each lies in.

    Parameters
    ----------
    left, right : int64 [edges]
        Ids of any value.

    Returns
    -------
    ids : int64 [vertices]
        Distinct, ascending.
    component_ids : int64 [vertices]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ids, positions = np.unique(np.concatenate((left, right)), return_inverse=True)
    ends = positions.reshape(2, -1)
    graph = coo_array((np.ones(left.size, dtype=np.int8), (ends[0], ends[1])), shape=(ids.size, ids.size))
    _, labels = connected_components(graph, directed=False)
    _, firsts = np.unique(labels, return_index=True)
    return ids, ids[firsts][labels]
