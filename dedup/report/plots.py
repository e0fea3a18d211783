"""Plots of the report."""

from collections.abc import Mapping
from typing import Any

from dedup.informing import Inform
from dedup.layers import NEAR
from dedup.report.details import find_curve

TITLES = {
    "removals": "Near-duplicates removed by their similarity to the document kept",
    "dial": "Documents removed at other thresholds",
    "curve": "Probability that a pair becomes a candidate, by its Jaccard similarity",
    "labels": "Share of labelled pairs that ended in one component, by their Jaccard similarity",
    "similarities": "Candidates by exact Jaccard similarity, edges apart from those dropped",
    "buckets": "Number of buckets of at least each size",
    "components": "Number of components of at least each size",
    "tokens": "Occurrences of tokens by their rank, in the input and in what is kept",
    "cosines": "Nearest neighbours by the cosine of their vectors, those that facts part apart",
}


def draw_plots(
    report: Mapping[str, Any], drawn: Mapping[str, str] | None = None, inform: Inform | None = None
) -> dict[str, str]:
    """Draw the plots that the report has numbers for, with the earlier run as a dotted line.

    Parameters
    ----------
    report
        Entries of report.json: settings, edges, similarities, removal_similarities, dial, bucket_sizes,
        component_sizes, token_ranks, recall_measured, and what the baseline has `plotted`.
    drawn
        Plots that need not be drawn again.
    inform
        Draws each of the others.

    Returns
    -------
    dict
        SVG elements by the names of `list_plots`, an empty text where one could not be drawn.
    """
    # Half a second, which a run need not wait for before it begins; the first tells matplotlib to be silent.
    from dedup.report import figures  # noqa: PLC0415, I001
    from dedup.report import axes  # noqa: PLC0415

    inform, found, earlier = inform or Inform(), dict(drawn or {}), (report.get("baseline") or {}).get("plotted", {})
    for name in list_plots(report):
        if name not in found:
            drawing = name, TITLES[name], getattr(axes, f"plot_{name}"), report, earlier
            found[name] = inform(f"the plot of {name}", figures.draw, *drawing) or ""
    return found


def list_plots(report: Mapping[str, Any]) -> list[str]:
    """Return the names of the plots for which a report has numbers."""
    settings = report["settings"]
    # These tell what lies at or above the threshold from what lies below.
    is_one = not settings["profile"]
    known = {
        "removals": is_one and any(report.get("removal_similarities") or ()),
        "dial": any(point["removed"] for point in report.get("dial") or ()),
        "curve": is_one and settings["mode"] == "lsh" and NEAR in settings["layers"],
        "labels": report.get("recall_measured"),
        "similarities": is_one and any(report.get("similarities") or ()),
        "buckets": report["bucket_sizes"],
        "components": report["component_sizes"],
        "tokens": report["token_ranks"],
        "cosines": find_curve(report),
    }
    return [name for name, is_known in known.items() if is_known]
