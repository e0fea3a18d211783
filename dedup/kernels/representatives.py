"""The document kept of every component, and how its other documents resemble it."""

import numpy as np
import numpy.typing as npt

from dedup.kernels import Integers


def elect(component_ids: Integers, ranks: Integers) -> Integers:
    """Return for every document the position of the least in rank of its component.

    Parameters
    ----------
    component_ids, ranks : int64 [n]

    Returns
    -------
    int64 [n]
    """
    order = np.lexsort((ranks, component_ids))
    ordered = component_ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: order.size])
    elected = np.empty_like(order)
    elected[order] = np.repeat(order[starts], np.diff(np.append(starts, order.size)))
    return elected


def look_up(
    left: Integers, right: Integers, edges: tuple[Integers, Integers, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Return the similarity of every pair, 1 to itself and NaN where no edge joins it.

    Parameters
    ----------
    left, right : int64 [n]
        left <= right.
    edges
        left < right and jaccard of distinct edges.
    """
    ends = np.unique(np.concatenate((left, right, *edges[:2])))

    def number(first: Integers, second: Integers) -> Integers:
        return np.searchsorted(ends, first) * ends.size + np.searchsorted(ends, second)

    numbers = number(*edges[:2])
    order = np.argsort(numbers)
    similarities = np.where(left == right, 1.0, np.nan)
    if order.size:
        wanted = number(left, right)
        places = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), order.size - 1)]
        similarities = np.where(numbers[places] == wanted, edges[2][places], similarities)
    return similarities
