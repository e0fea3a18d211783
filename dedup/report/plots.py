"""The report's plots."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dedup.settings.layers import NEAR

TITLES = {
    "removals": "Near-duplicates removed by their similarity to the document kept",
    "dial": "Documents removed at other thresholds",
    "curve": "Probability that a pair becomes a candidate, by its Jaccard similarity",
    "labels": "Share of labelled pairs that ended in one component, by their Jaccard similarity",
    "similarities": "Candidates by exact Jaccard similarity, edges apart from those dropped",
    "buckets": "Number of buckets of at least each size",
    "components": "Number of components of at least each size",
    "tokens": "Occurrences of tokens by their rank, in the input and in what is kept",
}


def draw_plots(report: Mapping[str, Any], drawn: Mapping[str, str] | None = None) -> dict[str, str]:
    """Draw the plots for which the report has numbers, with those of the earlier run as a dotted line.

    Parameters
    ----------
    report
        Of what report.json holds: settings, edges, similarities, removal_similarities, dial, bucket_sizes,
        component_sizes, token_ranks, recall_measured, and what the baseline has `plotted`.
    drawn
        Plots that need not be drawn again.

    Returns
    -------
    dict
        SVG elements by name: removals, dial, curve, labels, similarities, buckets, components, tokens. What cannot be
        drawn is missing.
    """
    # Half a second, which a run need not wait for before it begins.
    from dedup.report import figures  # noqa: PLC0415

    found = dict(drawn or {})
    for name, plot in _list_plots(report).items():
        if name not in found:
            found[name] = figures.draw(name, TITLES[name], plot)
    return found


def _list_plots(report: Mapping[str, Any]) -> dict[str, Callable[..., None]]:
    """Return what draws each plot for which there are numbers."""
    # As `figures`, which comes first, as it tells matplotlib to be silent.
    from dedup.report.axes import (  # noqa: PLC0415
        plot_curve,
        plot_dial,
        plot_labels,
        plot_ranks,
        plot_removals,
        plot_similarities,
        plot_sizes,
    )

    settings, earlier = report["settings"], (report.get("baseline") or {}).get("plotted", {})
    threshold, is_lsh = settings["threshold"], settings["mode"] == "lsh"
    # These tell what lies at or above the threshold from what lies below.
    is_one = not settings["profile"]
    plots: dict[str, tuple[bool, Callable[..., None]]] = {
        "removals": (
            any(counts := report.get("removal_similarities") or ()) and is_one,
            partial(plot_removals, counts=counts, threshold=threshold, earlier=earlier.get("removal_similarities")),
        ),
        "dial": (
            any(point["removed"] for point in report.get("dial") or ()),
            partial(plot_dial, dial=report.get("dial") or (), threshold=threshold, earlier=earlier.get("dial")),
        ),
        "curve": (
            is_lsh and is_one and NEAR in settings["layers"],
            partial(plot_curve, settings=settings, earlier=earlier.get("banding")),
        ),
        "labels": (
            bool(measured := report.get("recall_measured") or ()),
            partial(plot_labels, measured=measured, threshold=threshold),
        ),
        "similarities": (
            any(pairs := report.get("similarities") or ()) and is_one,
            partial(
                plot_similarities,
                counts=pairs,
                edges=report["edges"],
                threshold=threshold,
                earlier=earlier.get("similarities"),
            ),
        ),
        "buckets": (
            bool(sizes := report["bucket_sizes"]),
            partial(
                plot_sizes,
                name="bucket",
                counts=sizes,
                cap=settings["buckets"]["max_bucket"] if is_lsh else None,
                earlier=earlier.get("bucket_sizes"),
            ),
        ),
        "components": (
            bool(components := report["component_sizes"]),
            partial(plot_sizes, name="component", counts=components, cap=None, earlier=earlier.get("component_sizes")),
        ),
        "tokens": (
            bool(ranks := report["token_ranks"]),
            partial(plot_ranks, ranks=ranks, earlier=earlier.get("tokens")),
        ),
    }
    return {name: plot for name, (is_known, plot) in plots.items() if is_known}
