"""Statistics of removals: similarity to the document kept, and removals at other thresholds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Floats, Integers
from dedup.kernels.curve import NEAR_MISS
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.sets.jaccard import BINS, bin_similarities

THRESHOLDS = tuple(percent / 100 for percent in range(70, 100, 5))
"""Thresholds at which removals are counted besides the run's own."""
DOUBTFUL = 10
"""Removals listed: those least similar to the one kept."""
REMOVERS = 20
"""Pairs of sources listed: that of a removed document and that of the one kept."""
DESCRIBED = ("doc_id", "id", "representative_doc_id", "representative_id", "kind", "jaccard", "left_id", "right_id")
"""Columns of MEMBERS that `summarise_removals` reads."""


def choose_thresholds(threshold: float) -> tuple[float, ...]:
    """Return THRESHOLDS and the run's own, ascending."""
    return tuple(sorted({*THRESHOLDS, threshold}))


def summarise_removals(removed: pa.Table, threshold: float) -> dict[str, Any]:
    """Summarise the similarities of removed documents to those kept for them.

    Parameters
    ----------
    removed
        Columns DESCRIBED of n removed members.
    threshold
        Jaccard similarity, above 0 and at most 1.

    Returns
    -------
    dict
        `removed`, their number; `chained`, the number less similar than the threshold; `least`, the least similarity,
        None without any; `similarities`, the number removed as near in each of BINS; `doubtful`, the DOUBTFUL least
        similar of these as dictionaries of DESCRIBED, one for each pair of shingle sets.
    """
    exact = removed["jaccard"].to_numpy()
    near = removed.filter(pc.equal(removed["kind"], "near"))
    similarities, doc_ids = near["jaccard"].to_numpy(), near["doc_id"].to_numpy()
    left, right = (near[name].to_numpy() for name in ("left_id", "right_id"))
    order = np.lexsort((doc_ids, right, left))
    firsts = order[mark_firsts(left[order], right[order])]
    lowest = firsts[np.lexsort((doc_ids[firsts], similarities[firsts]))[:DOUBTFUL]]
    return {
        "removed": exact.size,
        "chained": int(np.count_nonzero(exact < threshold)),
        "least": float(exact.min()) if exact.size else None,
        "similarities": np.bincount(bin_similarities(similarities), minlength=BINS).tolist(),
        "doubtful": near.select([*DESCRIBED]).take(pa.array(lowest)).to_pylist(),
    }


def merge_removals(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the results of `summarise_removals` for parts of the members."""
    told = [*parts]
    listed = sorted(
        (each for part in told for each in part["doubtful"]), key=lambda one: (one["jaccard"], one["doc_id"])
    )
    firsts: dict[tuple[int, int], dict[str, Any]] = {}
    for each in listed:
        firsts.setdefault((each["left_id"], each["right_id"]), each)
    return {
        "removed": sum(part["removed"] for part in told),
        "chained": sum(part["chained"] for part in told),
        "least": min((part["least"] for part in told if part["least"] is not None), default=None),
        "similarities": [sum(part["similarities"][number] for part in told) for number in range(BINS)],
        "doubtful": [*firsts.values()][:DOUBTFUL],
    }


def count_joined(left: Integers, right: Integers, similarities: Floats, thresholds: Sequence[float]) -> list[int]:
    """Count for each threshold the edges of a spanning forest of the pairs at or above it.

    Parameters
    ----------
    left, right : int64 [pairs]
        Ids of any value; a pair of one with itself joins nothing.
    similarities : float64 [pairs]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ids, places = np.unique(np.concatenate((left, right)), return_inverse=True)
    ends = places.reshape(2, -1)
    joined = []
    for threshold in thresholds:
        one, other = ends[:, similarities >= threshold]
        graph = coo_array((np.ones(one.size, dtype=np.int8), (one, other)), shape=(ids.size, ids.size))
        joined.append(int(ids.size - connected_components(graph, directed=False)[0]) if one.size else 0)
    return joined


def list_own(threshold: float) -> list[float]:
    """Return the run's own threshold and those above it, ascending."""
    return [each for each in choose_thresholds(threshold) if each >= threshold]


def list_reached(threshold: float) -> list[float]:
    """Return the thresholds below the run's own that near misses reach, ascending."""
    return [each for each in choose_thresholds(threshold) if threshold - NEAR_MISS - 1e-12 <= each < threshold]


def complete_joined(own: Sequence[int], further: Sequence[int] | None, threshold: float) -> list[int | None]:
    """Return the number joined at each of `choose_thresholds`; None where it is unknown.

    Parameters
    ----------
    own
        Number joined at each of `list_own`; empty without edges.
    further
        Number joined at each of `list_reached` beyond the run's own threshold; None if unknown.
    """
    own = own or [0] * len(list_own(threshold))
    reached = [] if further is None else [own[0] + each for each in further]
    unknown: list[int | None] = [None] * (len(choose_thresholds(threshold)) - len(own) - len(reached))
    return [*unknown, *reached, *own]
