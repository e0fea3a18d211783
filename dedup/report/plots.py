"""Plots of the report."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dedup.informing import Inform
from dedup.layers import NEAR

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
    # Half a second, which a run need not wait for before it begins.
    from dedup.report import figures  # noqa: PLC0415

    inform, found, plots = inform or Inform(), dict(drawn or {}), _prepare(report)
    for name in list_plots(report):
        if name not in found:
            found[name] = inform(f"the plot of {name}", figures.draw, name, TITLES[name], plots[name]) or ""
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
        "cosines": _find_curve(report),
    }
    return [name for name, is_known in known.items() if is_known]


def _find_curve(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the details of the layer whose threshold was chosen by vectors; none of other reports."""
    found = (layer.get("details", {}) for layer in report.get("layers") or ())
    return next((details for details in found if details.get("curve")), {})


def _prepare(report: Mapping[str, Any]) -> dict[str, Callable[..., None]]:
    """Return the functions that draw the plots that have numbers, by name."""
    # As `figures`, which comes first, as it tells matplotlib to be silent.
    from dedup.report.axes import (  # noqa: PLC0415
        plot_cosines,
        plot_curve,
        plot_dial,
        plot_labels,
        plot_ranks,
        plot_removals,
        plot_similarities,
        plot_sizes,
    )

    settings, earlier = report["settings"], (report.get("baseline") or {}).get("plotted", {})
    threshold = settings["threshold"]
    cap = settings["buckets"]["max_bucket"] if settings["mode"] == "lsh" else None
    of_removals, of_pairs = "removal_similarities", "similarities"
    return {
        "removals": partial(
            plot_removals, counts=report.get(of_removals) or (), threshold=threshold, earlier=earlier.get(of_removals)
        ),
        "dial": partial(plot_dial, dial=report.get("dial") or (), threshold=threshold, earlier=earlier.get("dial")),
        "curve": partial(plot_curve, settings=settings, earlier=earlier.get("banding")),
        "labels": partial(plot_labels, measured=report.get("recall_measured") or (), threshold=threshold),
        "similarities": partial(
            plot_similarities,
            counts=report.get(of_pairs) or (),
            edges=report["edges"],
            threshold=threshold,
            earlier=earlier.get(of_pairs),
        ),
        "buckets": partial(
            plot_sizes, name="bucket", counts=report["bucket_sizes"], cap=cap, earlier=earlier.get("bucket_sizes")
        ),
        "components": partial(
            plot_sizes,
            name="component",
            counts=report["component_sizes"],
            cap=None,
            earlier=earlier.get("component_sizes"),
        ),
        "tokens": partial(plot_ranks, ranks=report["token_ranks"], earlier=earlier.get("tokens")),
        "cosines": partial(plot_cosines, details=_find_curve(report)),
    }
