"""Numbers from which a page computes other bands, rows and thresholds by itself."""

from collections.abc import Mapping
from typing import Any

from dedup.kernels.curve import probability
from dedup.layers import NEAR

POINTS = 5
"""Similarities for which one bin of a histogram stands, so that a threshold may lie within it."""
MOST_BANDS, MOST_ROWS = 100, 20
"""Ends of the scales, unless a setting lies beyond."""


def explore_run(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what `explore` does, of the pairs that a run compared; None without them, and for several profiles.

    A pair found stands for 1 / P pairs of its similarity, P being the chance of the run's bands to find one.
    """
    settings, counts = report["settings"], report["similarities"]
    if settings["profile"] or NEAR not in settings["layers"] or not any(counts):
        return None
    bands, rows = settings["lsh"]["bands"], settings["lsh"]["rows"]
    has_bands = settings["mode"] == "lsh"
    pairs = []
    for number, count in enumerate(counts):
        for point in range(POINTS if count else 0):
            jaccard = (number + (point + 0.5) / POINTS) / len(counts)
            chance = probability(jaccard, bands, rows) if has_bands else 1.0
            pairs.append([jaccard, count / POINTS / chance])
    return explore(
        bands=bands,
        rows=rows,
        threshold=settings["threshold"],
        documents=report["index_bytes"] // (16 * bands) if has_bands else report["documents"],
        pairs=pairs,
    )


def explore_plan(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `explore` does, of the pairs that a plan expects."""
    documents = answer["corpus"]["documents"]
    return explore(
        **answer["best"],
        threshold=answer["settings"]["threshold"],
        documents=documents,
        # A pair is one partner of two documents.
        pairs=[[each["jaccard"], each["partners"] * documents / 2] for each in answer["corpus"]["partners"]],
    )


def explore(*, bands: int, rows: int, threshold: float, documents: int, pairs: list[list[float]]) -> dict[str, Any]:
    """Return the values that explorer.js.j2 reads.

    Parameters
    ----------
    bands, rows, threshold
        The choice that is shown first.
    documents
        Documents that have a signature.
    pairs
        Similarities and numbers of pairs of the corpus.
    """
    return {
        "bands": bands,
        "rows": rows,
        "threshold": threshold,
        "documents": documents,
        "pairs": [each for each in pairs if each[1] > 0],
        "most": {"bands": max(MOST_BANDS, 2 * bands), "rows": max(MOST_ROWS, 2 * rows)},
    }
