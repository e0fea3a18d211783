"""Axes of each plot: those of `plots.TITLES` by their names, for a report and what an earlier one has `plotted`.

What colour tells is told by line styles, markers, hatches and words too. An earlier run is a dotted line.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullLocator

from dedup.kernels.curve import probability
from dedup.kernels.sets.jaccard import BINS
from dedup.report.details import find_curve

BLUE, ORANGE = "#1f78c8", "#d1600a"
"""Colours that the colour-blind can tell apart and that are legible on white and on black."""
MOST_POINTS = 40
FEW = 20
"""Largest count that is shown on a linear scale, where it is easier to read; a thin tail beside it shows there, too."""
GHOST: Any = {"color": "#808080", "linestyle": ":", "linewidth": 1.6}
"""The earlier run, below the colours of this one."""
_COUNT = EngFormatter(sep="")
"""Formatter of counts: 1, 10, 100, 1k, as wide at a billion as at a hundred."""


def plot_removals(axes: Axes, report: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Plot removed documents by similarity; bins below the threshold, joined through others, are hatched."""
    counts, before = report["removal_similarities"], earlier.get("removal_similarities", ())
    threshold = report["settings"]["threshold"]
    chained, direct = _divide(counts, threshold, None)
    first = _first([*map(sum, zip(counts, before or counts, strict=True))], threshold)
    names = f"through others: {sum(chained):,}", f"directly: {sum(direct):,}"
    _plot_bins(axes, (chained, direct), names, first=first, earlier=before)
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    most = max([*counts, *before])
    if most <= FEW:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(ylim=(0, 1.08 * most))
    else:
        # The tail is what matters, and is small beside the rest.
        axes.set_yscale("log")
        axes.set(ylim=(0.7, 1.6 * most))
        _mark_decades(axes.yaxis)
    axes.set(xlim=(first / BINS, 1))
    axes.set(xlabel="similarity to the document kept", ylabel="documents removed")


def plot_dial(axes: Axes, report: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Plot removed documents over the threshold; lower bounds are hollow points on a dashed line."""
    threshold, before = report["settings"]["threshold"], earlier.get("dial", ())
    known = [point for point in report["dial"] if point["removed"] is not None]
    points = [(point["threshold"], point["removed"], point["is_least"]) for point in known]
    styles: dict[bool, Any] = {
        True: {"linestyle": "--", "markerfacecolor": "none", "label": "at least"},
        False: {"linestyle": "-", "label": "removed"},
    }
    for is_least, style in styles.items():
        # The line of what is at least removed begins at the run's own threshold.
        shown = [(x, y) for x, y, least in points if least == is_least or (is_least and x == threshold)]
        if len(shown) > is_least:
            axes.plot(*zip(*shown, strict=True), color=BLUE, marker="o", linewidth=1, **style)
    if before:
        axes.plot(*zip(*before, strict=True), label="earlier run", **GHOST)
    most = max([1, *(y for _, y, _ in points), *(y for _, y in before)])
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    axes.yaxis.set_major_formatter(_COUNT)
    axes.set(ylim=(0, 1.1 * most), xlabel="threshold", ylabel="documents removed")
    axes.legend(loc="lower left")


def plot_curve(axes: Axes, report: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Plot the S-curve and the threshold."""
    lsh, before, similarities = report["settings"]["lsh"], earlier.get("banding"), np.linspace(0, 1, 101)
    chances = [probability(each, lsh["bands"], lsh["rows"]) for each in similarities]
    axes.plot(similarities, chances, color=BLUE, label=f"{lsh['bands']} bands of {lsh['rows']} rows")
    if before:
        axes.plot(similarities, [probability(each, *before) for each in similarities], label="earlier run", **GHOST)
    _frame_chances(axes, report["settings"]["threshold"])


def _frame_chances(axes: Axes, threshold: float) -> None:
    """Mark the threshold of S-curves, and name what they show."""
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    axes.text(threshold - 0.01, 0.03, f"threshold {threshold:g}", ha="right")
    axes.legend(loc="upper left")
    axes.set(xlim=(0, 1), ylim=(0, 1.04), xlabel="Jaccard similarity", ylabel="probability to be compared")


def plot_labels(axes: Axes, report: Mapping[str, Any], _: Mapping[str, Any]) -> None:
    """Plot the share of labelled pairs joined, directly or through others, with its interval."""
    threshold = report["settings"]["threshold"]
    _plot_measured(axes, report["recall_measured"])
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    # At the top, as it is pairs below the threshold that seldom end in one component.
    axes.text(threshold - 0.01, 0.97, f"threshold {threshold:g}", ha="right")
    axes.set(xlim=(0, 1.02), ylim=(0, 1.04), xlabel="Jaccard similarity", ylabel="share in one component")


def _plot_measured(axes: Axes, points: Sequence[Mapping[str, float]]) -> None:
    """Plot the recall measured of each similarity, with its interval."""
    recall, low, high = (np.array([point[name] for point in points]) for name in ("recall", "low", "high"))
    bars, where = np.array([recall - low, high - recall]).clip(0), [point["jaccard"] for point in points]
    axes.errorbar(where, recall, yerr=bars, fmt="s", color=ORANGE, capsize=2, linewidth=1, label="measured")


def plot_similarities(axes: Axes, report: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Plot candidates by similarity; bins at or above the threshold, which are edges, are filled."""
    counts, before = report["similarities"], earlier.get("similarities", ())
    threshold = report["settings"]["threshold"]
    dropped, above = _divide(counts, threshold, report["edges"])
    first = _first([*map(sum, zip(counts, before or counts, strict=True))], threshold)
    names = f"dropped: {sum(dropped):,}", f"edges: {sum(above):,}"
    _plot_bins(axes, (dropped, above), names, first=first, earlier=before)
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    axes.yaxis.set_major_formatter(_COUNT)
    axes.set(ylim=(0, 1.08 * max([*counts, *before])), xlim=(first / BINS, 1))
    axes.set(xlabel="exact Jaccard similarity", ylabel="candidates (pairs)")


def plot_cosines(axes: Axes, report: Mapping[str, Any], _: Mapping[str, Any]) -> None:
    """Plot neighbours in a sample by cosine, those parted by guards hatched, and labelled pairs as lines."""
    details = find_curve(report)
    curve, threshold = details["curve"], details["threshold"]
    parts = "parted_by_guards", "pairs", "labeled_duplicates", "labeled_others"
    parted, pairs, *labels = (np.zeros(BINS, np.int64) for _ in parts)
    for point in curve:
        place = min(round(point["cosine"] * BINS), BINS - 1)
        for counts, name in zip((parted, pairs, *labels), parts, strict=True):
            counts[place] += point[name]
    first = _first((pairs + sum(labels)).tolist(), threshold)
    names = f"facts differ: {parted.sum():,}", f"others: {(pairs - parted).sum():,}"
    _plot_bins(axes, (parted.tolist(), (pairs - parted).tolist()), names, first=first)
    borders = np.linspace(0, 1, BINS + 1)[first:]
    for counts, style, name in zip(labels, ("-", ":"), ("labelled duplicates", "labelled others"), strict=True):
        if counts.any():
            axes.stairs(counts[first:], borders, label=name, baseline=None, color=ORANGE, linestyle=style)
            axes.legend(loc="upper left")
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1)
    axes.text(threshold - 0.01, 0.97, f"threshold {threshold:g}", ha="right", transform=axes.get_xaxis_transform())
    axes.yaxis.set_major_formatter(_COUNT)
    axes.set(xlim=(first / BINS, 1), xlabel="cosine", ylabel="pairs of neighbours")


def _first(counts: Sequence[int], threshold: float) -> int:
    """Return the first bin to show: the one before the threshold, or before the first non-empty one."""
    return max(min(int(np.flatnonzero([*counts, 1])[0]), math.floor(threshold * BINS)) - 1, 0)


def _divide(counts: Sequence[int], threshold: float, above: int | None) -> tuple[list[int], list[int]]:
    """Divide the count of each bin at the threshold, given the total count at or above it.

    The bin that holds the threshold has the rest of the total above it; where the total is not known, it counts as
    below.
    """
    borders, total = np.linspace(0, 1, len(counts) + 1), np.array(counts)
    reached = np.where(borders[:-1] >= threshold - 1e-12, total, 0)
    if above is not None:
        divided = (borders[:-1] < threshold - 1e-12) & (borders[1:] > threshold + 1e-12)
        # The last one includes its upper border.
        divided[-1] = borders[-2] < threshold - 1e-12
        reached += np.where(divided, np.clip(above - reached.sum(), 0, total), 0)
    return (total - reached).tolist(), reached.tolist()


def _plot_bins(
    axes: Axes,
    parts: tuple[Sequence[int], Sequence[int]],
    names: tuple[str, str],
    *,
    first: int,
    earlier: Sequence[int] = (),
) -> None:
    """Plot two parts of every bin on top of each other, the lower one hatched, and an earlier run as a line."""
    lower, upper = (np.array(part)[first:] for part in parts)
    borders = np.linspace(0, 1, BINS + 1)[first:]
    where: dict[str, Any] = {"x": borders[:-1], "width": 1 / BINS, "align": "edge"}
    where |= {"linewidth": 0.7, "edgecolor": "black"}
    axes.bar(height=lower, facecolor="none", hatch="////", label=names[0], **where)
    axes.bar(height=upper, bottom=lower, facecolor=BLUE, label=names[1], **where)
    if earlier:
        axes.stairs(earlier[first:], borders, label="earlier run", baseline=None, **GHOST)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.08, 1), ncols=3, borderaxespad=0, columnspacing=1, handlelength=1.5
    )


def plot_buckets(axes: Axes, report: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Plot the sizes of buckets, and where they are capped."""
    settings = report["settings"]
    cap = settings["buckets"]["max_bucket"] if settings["mode"] == "lsh" else None
    _plot_sizes(axes, "bucket", report["bucket_sizes"], earlier.get("bucket_sizes"), cap)


def plot_components(axes: Axes, report: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Plot the sizes of components."""
    _plot_sizes(axes, "component", report["component_sizes"], earlier.get("component_sizes"))


def _plot_sizes(
    axes: Axes, name: str, counts: Mapping[int, int], earlier: Mapping[int, int] | None, cap: int | None = None
) -> None:
    """Plot the number of groups of at least each size, over that size: heavy tails are straight, and need no bins."""
    sizes, at_least = _sum_from_above(counts)
    axes.plot(sizes, at_least, color=BLUE, marker="o", linewidth=1, label="this run")
    largest, top = sizes[-1], at_least[0]
    if earlier:
        before = _sum_from_above(earlier)
        axes.plot(*before, label="earlier run", **GHOST)
        axes.legend(loc="upper right")
        largest, top = max(largest, before[0][-1]), max(top, before[1][0])
    axes.set(xlabel=f"documents in a {name}, at least", ylabel=f"{name}s")
    if max(largest, top) <= FEW:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlim=(1.7, max(largest, 3) + 0.3), ylim=(0, 1.08 * top))
        return
    axes.set(xscale="log", yscale="log")
    right, top = max(largest, 10, cap or 0), max(top, 10)
    if cap:
        axes.axvline(cap, color="black", linestyle="--", linewidth=1)
        axes.text(cap / 1.06, 0.98, f"cap {cap:,}", ha="right", va="top", transform=axes.get_xaxis_transform())
    _mark_decades(axes.xaxis, axes.yaxis)
    axes.set(xlim=(1.7, right * 1.3), ylim=(0.7, top * 1.5))


def _sum_from_above(counts: Mapping[int, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return sizes and the number of groups of at least each; MOST_POINTS of them about evenly spaced on a log axis."""
    sizes = np.array(sorted(map(int, counts)))
    at_least = np.cumsum([counts[size] for size in sizes[::-1].tolist()])[::-1]
    if sizes.size <= MOST_POINTS:
        return sizes, at_least
    wanted = np.searchsorted(sizes, np.geomspace(sizes[0], sizes[-1], MOST_POINTS).round())
    shown = np.unique(np.append(np.minimum(wanted, sizes.size - 1), [0, sizes.size - 1]))
    return sizes[shown], at_least[shown]


def _mark_decades(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_major_formatter(_COUNT)
        axis.set_minor_locator(NullLocator())


def plot_tokens(axes: Axes, report: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Plot frequency over rank before and after."""
    ranks = report["token_ranks"]
    for part, style in (
        ("input", {"color": BLUE, "marker": "o", "linestyle": "-"}),
        ("kept", {"color": ORANGE, "marker": "x", "linestyle": "--"}),
    ):
        label = f"{part}: slope {ranks[part]['slope']:.2f}"
        axes.loglog(ranks["ranks"], ranks[part]["per_million"], label=label, linewidth=1, **style)
    if before := earlier.get("tokens"):
        axes.loglog(*before, label="earlier run, kept", **GHOST)
    _mark_decades(axes.xaxis, axes.yaxis)
    axes.set(xlabel="rank of the token", ylabel="occurrences in a million tokens")
    axes.legend(loc="upper right")


def plot_choices(axes: Axes, choices: Sequence[tuple[int, int]], threshold: float) -> None:
    """Plot the S-curves of bands and rows, and the threshold."""
    similarities = np.linspace(0, 1, 101)
    for style, (bands, rows) in zip(cycle(("-", "--", "-.", ":")), choices, strict=False):
        chances = [probability(each, bands, rows) for each in similarities]
        axes.plot(similarities, chances, linestyle=style, linewidth=1.2, label=f"{bands} x {rows}")
    _frame_chances(axes, threshold)


def plot_costs(axes: Axes, costs: Mapping[str, float], unit: str) -> None:
    """Plot costs by name, the first at the top."""
    # Names take room, of which the other plots have none.
    axes.set_position((0.3, 0.14, 0.68, 0.77))
    axes.barh([*costs], [*costs.values()], facecolor=BLUE, edgecolor="black", linewidth=0.7)
    axes.invert_yaxis()
    axes.set(xlabel=unit)


def plot_recall(axes: Axes, tried: Mapping[str, Any]) -> None:
    """Plot what share a bucket by similarity, with intervals, beside the S-curve of its settings."""
    chosen = tried["settings"]
    plot_choices(axes, [(chosen["lsh.bands"], chosen["lsh.rows"])], chosen["threshold"])
    points = [
        {"jaccard": (each["from"] + each["to"]) / 2, "recall": share["share"], **share}
        for each in tried["bins"]
        if (share := each["in_bucket"])["share"] is not None
    ]
    if points:
        _plot_measured(axes, points)
        axes.legend(loc="upper left")
