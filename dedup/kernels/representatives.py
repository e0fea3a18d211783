"""Representatives: the document kept of every component, and the similarity of others to it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.kernels import Integers
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.sets.pairs import sort_distinct

LARGEST = 5
"""Number of the largest components that are reported in detail."""
EXAMPLES = 3
"""Members reported for each of them besides the document kept."""


def elect(component_ids: Integers, ranks: Integers) -> Integers:
    """Return for every document the position of the member of least rank in its component.

    Parameters
    ----------
    component_ids, ranks : int64 [n]

    Returns
    -------
    int64 [n]
    """
    order = np.lexsort((ranks, component_ids))
    bounds = find_bounds(component_ids[order])
    elected = np.empty_like(order)
    elected[order] = np.repeat(order[bounds[:-1]], np.diff(bounds))
    return elected


def count_copies(rule: int | str, sizes: Integers) -> Integers:
    """Return how many documents stay of clusters of these sizes, by a rule of `keep.copies`.

    Parameters
    ----------
    rule
        A number, of which no more stay; "log2" for 1 + log2(size), or "sqrt" for the root of size, both rounded down.
    sizes : int64 [n]
        From 1 to 2^52.

    Returns
    -------
    int64 [n]
        From 1 to the size.

    Examples
    --------
    >>> [count_copies(rule, np.array([1, 3, 9, 1000])).tolist() for rule in (2, "log2", "sqrt")]
    [[1, 2, 2, 2], [1, 2, 4, 10], [1, 1, 3, 31]]
    """
    if rule == "log2":
        return np.frexp(sizes)[1].astype(np.int64)
    return np.sqrt(sizes).astype(np.int64) if rule == "sqrt" else np.minimum(sizes, rule)


def look_up(
    left: Integers, right: Integers, edges: tuple[Integers, Integers, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Return the similarity of every pair; 1 for equal ends, NaN without an edge.

    Parameters
    ----------
    left, right : int64 [n]
        left <= right.
    edges
        left < right and jaccard of distinct edges.
    """
    ends = sort_distinct(np.concatenate((left, right, *edges[:2])))

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


def describe_largest(members: pa.Table, component_ids: Integers, chosen: Integers) -> list[dict[str, Any]]:
    """Describe the LARGEST components, largest first; among equals the lesser component_id comes first.

    Parameters
    ----------
    members
        doc_id and id, ascending by doc_id.
    component_ids, chosen : int64 [n]
        The component of every member and, as from `elect`, the position of the one kept.

    Returns
    -------
    list of dict
        `documents`, `doc_id`, the least, `component_id`, the id of that one, and `examples`, the one kept first, with
        doc_id and id.
    """
    found, sizes = np.unique(component_ids, return_counts=True)
    told = []
    for largest in np.lexsort((found, -sizes))[:LARGEST].tolist():
        rows = np.flatnonzero(component_ids == found[largest])
        kept = int(chosen[rows[0]])
        shown = members.take(pa.array([kept, *[row for row in rows.tolist() if row != kept][:EXAMPLES]]))
        told.append(
            {
                "documents": rows.size,
                "doc_id": int(found[largest]),
                "component_id": members["id"][int(rows[0])].as_py(),
                "examples": shown.select(["doc_id", "id"]).to_pylist(),
            }
        )
    return told
