"""Limits by source: a source is charged for the removals that its documents cause."""

import numpy as np

from dedup.kernels import Floats, Integers
from dedup.kernels.chains import count_steps
from dedup.kernels.representatives import look_up
from dedup.kernels.runs.bounds import find_bounds, mark_firsts


def charge(
    chosen: Integers, heads: Integers, sources: Integers, edges: tuple[Integers, Integers, Floats]
) -> tuple[Integers, Integers]:
    """Return the removed documents and the sources charged for each.

    The shortest chain of edges from a document to the one kept decides; at every step it takes the greatest similarity.
    Charged are the sources of the documents between the two, except the document's own; without any, the source of the
    one kept. So a source that bridges documents of others is charged for the joined documents, and they are not.

    Parameters
    ----------
    chosen, heads : int64 [n]
        Position of the document kept for each, and of the head of its shingle set.
    sources : int64 [n]
    edges
        Positions of heads, left and right, and similarities.

    Returns
    -------
    documents, sources : int64 [charges]
        Distinct, ascending.
    """
    count = chosen.size
    nearer = _find_nearer(edges, count, heads[chosen])
    removed = np.flatnonzero(chosen != np.arange(count))
    ends = heads[removed], heads[chosen[removed]]
    # What is similar to the one kept needs no bridge, wherever others lead.
    is_apart = np.isnan(look_up(np.minimum(*ends), np.maximum(*ends), edges))
    own, bridge = removed, np.where(is_apart, nearer[heads[removed]], -1)
    charged: list[tuple[Integers, Integers]] = []
    while own.size:
        # The set of the one kept has none nearer.
        is_between = (bridge >= 0) & (bridge != heads[chosen[own]])
        own, bridge = own[is_between], bridge[is_between]
        is_foreign = sources[bridge] != sources[own]
        charged.append((own[is_foreign], sources[bridge[is_foreign]]))
        bridge = nearer[bridge]
    free = np.setdiff1d(removed, np.concatenate([documents for documents, _ in charged] or [removed[:0]]))
    free = free[sources[free] != sources[chosen[free]]]
    charged.append((free, sources[chosen[free]]))
    documents, owners = (np.concatenate(column) for column in zip(*charged, strict=True))
    order = np.lexsort((owners, documents))
    documents, owners = documents[order], owners[order]
    distinct = mark_firsts(documents, owners)
    return documents[distinct], owners[distinct]


def _find_nearer(edges: tuple[Integers, Integers, Floats], count: int, ends: Integers) -> Integers:
    """Return the next document on the chain of each to the nearest of the ends; -1 for the ends and without a chain."""
    left, right, similarities = edges
    steps = count_steps(left, right, count, np.unique(ends))
    tails, tips = np.concatenate((left, right)), np.concatenate((right, left))
    on = np.flatnonzero((steps[tips] == steps[tails] - 1) & (steps[tips] >= 0))
    order = on[np.lexsort((tips[on], -np.tile(similarities, 2)[on], tails[on]))]
    best = order[find_bounds(tails[order])[:-1]] if order.size else order
    nearer = np.full(count, -1)
    nearer[tails[best]] = tips[best]
    return nearer
