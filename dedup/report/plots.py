"""The report's plots as SVG to stand in a page: text as text, black as the page's own colour, and the same every time.

What colour tells is told by line styles, markers, hatches and words too.
"""

import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# As it is imported it tells where its cache of fonts lies and how long it takes to fill it, which is of no use here.
_LOG = logging.getLogger("matplotlib")
_level = _LOG.level
_LOG.setLevel(logging.ERROR)

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from dedup.kernels.curve import probability

_LOG.setLevel(_level)

WIDTH, HEIGHT = 4.5, 3.1
"""Inches: as wide as a phone's screen at the size of the page's text."""
PLACE = (0.15, 0.14, 0.83, 0.77)
"""Place of the axes in the figure (left, bottom, width, height), with room for labels and a legend."""
BLUE, ORANGE = "#1f78c8", "#d1600a"
"""Colours that the colour-blind can tell apart, legible on white and on black."""
MOST_POINTS = 40
STYLE: Any = {
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.color": "black",
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "dedup",
}


def draw_plots(report: Mapping[str, Any]) -> dict[str, str]:
    """Draw the plots for which the report has numbers.

    Parameters
    ----------
    report
        Of what report.json holds: settings, edges, similarities, bucket_sizes, component_sizes, token_ranks and
        recall_measured.

    Returns
    -------
    dict
        SVG elements by name: curve, similarities, buckets, components, tokens. What cannot be drawn is missing.
    """
    settings = report["settings"]
    drawn: dict[str, str] = {}

    def add(name: str, title: str, plot: Callable[[Axes], None]) -> None:
        figure = Figure(figsize=(WIDTH, HEIGHT))
        # To measure its own margins takes matplotlib longer than the whole plot.
        axes = figure.add_axes(PLACE)
        plot(axes)
        drawn[name] = _render(figure, name, title)

    with mpl.rc_context(STYLE):
        if settings["mode"] == "lsh":
            add(
                "curve",
                "Probability that a pair becomes a candidate, by its Jaccard similarity",
                lambda axes: _plot_curve(axes, settings, report.get("recall_measured") or []),
            )
        if report.get("similarities") and sum(report["similarities"]):
            add(
                "similarities",
                "Candidates by exact Jaccard similarity, edges apart from those dropped",
                lambda axes: _plot_similarities(axes, report["similarities"], report["edges"], settings["threshold"]),
            )
        if report["bucket_sizes"]:
            cap = settings["buckets"]["max_bucket"] if settings["mode"] == "lsh" else None
            title = "Number of buckets of at least each size"
            add("buckets", title, lambda axes: _plot_sizes(axes, "bucket", report["bucket_sizes"], cap))
        if report["component_sizes"]:
            title = "Number of components of at least each size"
            add("components", title, lambda axes: _plot_sizes(axes, "component", report["component_sizes"], None))
        if report["token_ranks"]:
            title = "Occurrences of tokens by their rank, in the input and in what is kept"
            add("tokens", title, lambda axes: _plot_ranks(axes, report["token_ranks"]))
    return drawn


def _plot_curve(axes: Axes, settings: Mapping[str, Any], measured: Sequence[Mapping[str, float]]) -> None:
    """Plot the S-curve, the threshold, and measured recall with its interval where there is any."""
    threshold, lsh = settings["threshold"], settings["lsh"]
    similarities = np.linspace(0, 1, 101)
    chances = [probability(each, lsh["bands"], lsh["rows"]) for each in similarities]
    axes.plot(similarities, chances, color=BLUE, label=f"{lsh['bands']} bands of {lsh['rows']} rows")
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    axes.text(threshold - 0.01, 0.03, f"threshold {threshold:g}", ha="right")
    if measured:
        recall = np.array([point["recall"] for point in measured])
        bars = np.array([[point["recall"] - point["low"], point["high"] - point["recall"]] for point in measured])
        where = [point["jaccard"] for point in measured]
        style: dict[str, Any] = {"fmt": "s", "color": ORANGE, "capsize": 2, "linewidth": 1, "label": "measured"}
        axes.errorbar(where, recall, yerr=bars.T.clip(0), **style)
    axes.legend(loc="upper left")
    axes.set(xlim=(0, 1), ylim=(0, 1.04), xlabel="Jaccard similarity", ylabel="probability")


def _plot_similarities(axes: Axes, counts: Sequence[int], edges: int, threshold: float) -> None:
    """Plot candidates in bins of equal width; those at or above the threshold, which are edges, filled."""
    borders = np.linspace(0, 1, len(counts) + 1)
    total = np.array(counts)
    above = np.where(borders[:-1] >= threshold - 1e-12, total, 0)
    # The bin that the threshold divides holds the edges that are in no other; the last one includes its upper border.
    divided = (borders[:-1] < threshold - 1e-12) & (borders[1:] > threshold + 1e-12)
    divided[-1] = borders[-2] < threshold - 1e-12
    above += np.where(divided, np.clip(edges - above.sum(), 0, total), 0)
    first = int(np.flatnonzero(total)[0])
    where: dict[str, Any] = {"x": borders[first:-1], "width": 1 / len(counts), "align": "edge"}
    where |= {"linewidth": 0.7, "edgecolor": "black"}
    dropped = (total - above)[first:]
    axes.bar(height=dropped, facecolor="none", hatch="////", label=f"dropped: {dropped.sum():,}", **where)
    axes.bar(height=above[first:], bottom=dropped, facecolor=BLUE, label=f"edges: {above.sum():,}", **where)
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    axes.yaxis.set_major_formatter(_COUNT)
    axes.set(xlim=(borders[first], 1), xlabel="exact Jaccard similarity", ylabel="candidates (pairs)")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)


def _plot_sizes(axes: Axes, name: str, counts: Mapping[int, int], cap: int | None) -> None:
    """Plot how many have at least a size, over that size: heavy tails are straight, and nothing needs bins."""
    sizes = np.array(sorted(map(int, counts)))
    at_least = np.cumsum([counts[size] for size in sizes[::-1].tolist()])[::-1]
    # Where sizes are many, those next to points of equal distance on the axis, the ends among them.
    wanted = np.searchsorted(sizes, np.geomspace(sizes[0], sizes[-1], MOST_POINTS).round())
    shown = np.unique(np.append(np.minimum(wanted, sizes.size - 1), [0, sizes.size - 1]))
    if sizes.size <= MOST_POINTS:
        shown = np.arange(sizes.size)
    axes.loglog(sizes[shown], at_least[shown], color=BLUE, marker="o", linewidth=1)
    right = max(sizes[-1], 10, cap or 0) * 1.3
    if cap:
        axes.axvline(cap, color="black", linestyle="--", linewidth=1)
        axes.text(cap / 1.06, 0.98, f"cap {cap:,}", ha="right", va="top", transform=axes.get_xaxis_transform())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_major_formatter(_COUNT)
        axis.set_minor_locator(NullLocator())
    axes.set(
        xlim=(1.7, right),
        ylim=(0.7, max(at_least[0], 10) * 1.5),
        xlabel=f"documents in a {name}, at least",
        ylabel=f"{name}s",
    )


def _plot_ranks(axes: Axes, ranks: Mapping[str, Any]) -> None:
    """Plot frequency over rank before and after."""
    for part, style in (
        ("input", {"color": BLUE, "marker": "o", "linestyle": "-"}),
        ("kept", {"color": ORANGE, "marker": "x", "linestyle": "--"}),
    ):
        label = f"{part}: slope {ranks[part]['slope']:.3f}"
        axes.loglog(ranks["ranks"], ranks[part]["per_million"], label=label, linewidth=1, **style)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_major_formatter(_COUNT)
        axis.set_minor_locator(NullLocator())
    axes.set(xlabel="rank of the token", ylabel="occurrences in a million tokens")
    axes.legend(loc="upper right")


_COUNT = EngFormatter(sep="")
"""1, 10, 100, 1k: as wide at a billion as at a hundred."""


def _render(figure: Figure, name: str, title: str) -> str:
    """Return the SVG element of a figure, its ids its own within a page of several."""
    target = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    FigureCanvasSVG(figure).print_svg(target, metadata=nothing)  # type: ignore[no-untyped-call]
    text = target.getvalue()
    text = text[text.index("<svg") :]
    view = re.search(r'viewBox="[^"]*"', text)
    assert view
    body = text[text.index(">") + 1 :]
    # A style element would hold for the whole page; what it says is in the page's own style sheet.
    body = re.sub(r"<style.*?</style>|<metadata.*?</metadata>", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href", "href").replace("#000000", "currentColor")
    used = set(re.findall(r'(?:href="|url\()#([\w-]+)', body))
    body = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", body)
    body = re.sub(r'(href="|url\()#', rf"\1#{name}-", body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    return f'<svg {view[0]} role="img" aria-labelledby="{name}-title"><title id="{name}-title">{title}</title>{body}'
