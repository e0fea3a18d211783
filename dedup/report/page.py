"""Report as a self-contained page: report.html."""

import math
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from dedup.display import change, count, duration, number, printable, share, size
from dedup.layers import NEAR
from dedup.report.details import list_details
from dedup.report.explorer import explore_run
from dedup.report.metrics import METRICS
from dedup.report.plots import list_plots
from dedup.settings.files import write_toml

LABELLED = {"stage_seconds": "seconds of stage", "survival_by_source": "share kept of source"}
"""Measurements per stage or source, with names for people."""
PAIRS = {
    "all": "of all documents",
    "in_buckets": "in buckets, counted once for each bucket",
    "distinct": "distinct",
    "candidates": "candidates, after the filters of length and signature",
    "edges": "edges: exact Jaccard at or above the threshold",
}
"""Steps that narrow down the pairs."""
SHORT = 8
"""Characters of folders that are worth leaving out."""


def to_html(report: Mapping[str, Any], plots: Mapping[str, str]) -> str:
    """Return the report as HTML; strings of the input are escaped, control characters too; only its own script runs.

    Parameters
    ----------
    plots
        SVG elements, as from `plots.draw_plots`; what is missing was left out.
    """
    prefix = find_prefix(list_shown_ids(report))
    return render_scripted(
        "page.html.j2",
        ("tables.js.j2", "explorer.js.j2"),
        report=report,
        corpus=name_corpus(report["input"]),
        prefix=prefix,
        shorten=partial(shorten, prefix=prefix),
        toml=write_toml(report["settings"]).splitlines(),
        explorer=explore_run(report),
        metrics=METRICS,
        plots={name: Markup(svg) for name, svg in plots.items()},  # noqa: S704 - drawn from numbers alone
        shown=list_plots(report),
        sizes={name: group_by_power_of_two(report[f"{name}_sizes"]) for name in ("bucket", "component")},
        layers=list_layers(report),
        details=list_details(report),
        profiles=list_profiles(report),
        earlier={"survival": {}, "seconds": {}} | ((report.get("baseline") or {}).get("plotted") or {}),
        funnel=list_pairs(report),
        sources=list_sources(report),
    )


def name_corpus(inputs: Sequence[str]) -> str:
    """Return a short name of the input: that of its first path, and how many more there are."""
    first = inputs[0].rstrip("/").rpartition("/")[2] or inputs[0] if inputs else "rows"
    return first if len(inputs) < 2 else f"{first} and {len(inputs) - 1} more"


def list_shown_ids(report: Mapping[str, Any]) -> list[object]:
    """Return the ids that the page shows."""
    doubtful = [pair[name] for pair in report["doubtful"] for name in ("id", "representative_id")]
    members = [each["id"] for component in report["largest_components"] for each in component["examples"]]
    return [*doubtful, *(component["representative_id"] for component in report["largest_components"]), *members]


def find_prefix(names: Sequence[object]) -> str:
    """Return the folders that all names lie in, if these are worth leaving out; else an empty string.

    >>> find_prefix(["/data/crawl/2026/a.txt", "/data/crawl/2026/b/c.txt"]), find_prefix(["a/b", "a/c"])
    ('/data/crawl/2026/', '')
    """
    told = {str(name) for name in names}
    # By characters, as URLs are no paths: what least and greatest share all share.
    shared = os.path.commonprefix([min(told), max(told)]) if len(told) > 1 else ""  # noqa: RUF071 - as said
    folder, _, _ = shared.rpartition("/")
    return f"{folder}/" if len(folder) >= SHORT else ""


def shorten(name: object, prefix: str) -> object:
    """Return a name with an ellipsis for the folders that it begins with."""
    return f"\u2026/{str(name)[len(prefix) :]}" if prefix and str(name).startswith(prefix) else name


def render_scripted(template: str, scripts: Sequence[str], **values: object) -> str:
    """Fill in a template of this folder that has one script, and lets no other run."""
    script = "".join(map(render, scripts))
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return render(template, script=Markup(script), script_digest=digest, **values)  # noqa: S704 - of this package


def render(template: str, **values: object) -> str:
    """Fill in a template of this folder."""
    return _open_templates().get_template(template).render(**values)


@cache
def _open_templates() -> Environment:
    """Return the templates of this folder, compiled once per process, which takes 0.1 s."""
    environment = Environment(
        loader=PackageLoader("dedup.report", "."),
        extensions=["jinja2.ext.do"],
        autoescape=select_autoescape(default=True),
        finalize=_escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {each.__name__: each for each in FILTERS}
    return environment


def _escape(value: object) -> object:
    """Escape invisible characters of the input; markup and other characters stay as they are."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def capitalize_first(text: str) -> str:
    """Capitalise a sentence's first letter, unless a name begins it."""
    return text[:1].upper() + text[1:]


def with_error(value: float, error: float) -> str:
    """Write a number to the digit that its standard error leaves certain, and that error."""
    digits = min(max(-math.floor(math.log10(error)), 1), 4) if error > 0 else 2
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def tell_breach(breach: Mapping[str, Any]) -> str:
    """Return a breach in words, followed by the setting's name."""
    name, side = breach["metric"], breach["alert"].rpartition("_")[2]
    metric = METRICS.get(name)
    label = metric.label if metric else LABELLED[name]
    show = metric.show if metric else share if name == "survival_by_source" else number
    of = f" {breach['label']!r}" if breach["label"] else ""
    if breach["value"] is None:
        return f"{label}{of}: unknown, and has a limit of {show(breach['limit'])} (alerts.{breach['alert']})"
    beyond = f"{side} the limit of {show(breach['limit'])} (alerts.{breach['alert']})"
    return f"{label}{of}: {show(breach['value'])}, {beyond}"


def list_layers(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the removals of each layer in order: its `name`, and `removed` of the documents `before`.

    The layer near counts as two: identical documents, and near ones.
    """
    left, listed = report["documents"], []
    for layer in report["layers"]:
        parts = [(layer["layer"], layer["removed"])]
        if layer["layer"] == NEAR:
            parts = [(METRICS[name].label, report[name]) for name in ("identical", "near")]
        for name, removed in parts:
            listed.append({"name": name, "removed": removed, "before": left})
            left -= removed
    return listed


def list_profiles(report: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of the table of profiles."""
    return [
        [
            each["name"],
            count(each["documents"]),
            count(each["removed"]),
            share(each["removal_rate"]),
            count(each["edges"]),
            f"{each['threshold']:g}",
            str(each["shingle_size"]),
            f"{each['bands']} x {each['rows']}" if "bands" in each else "all pairs",
            share(each["recall_at_threshold"]),
        ]
        for each in report["profiles"]
    ]


def list_pairs(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps that narrow down the pairs: `name`, `pairs`, `width` and `earlier`, shares on a log scale."""
    pairs, earlier = report["pairs"], (report.get("baseline") or {}).get("plotted", {}).get("pairs", {})
    most = math.log10(max([2, *(pairs[name] for name in PAIRS), *(earlier.get(name, 0) for name in PAIRS)]))

    def scale(value: float | None) -> float | None:
        return None if value is None else math.log10(max(value, 1)) / most

    return [
        {"name": label, "pairs": pairs[name], "width": scale(pairs[name]), "earlier": scale(earlier.get(name))}
        for name, label in PAIRS.items()
    ]


def list_sources(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources, the greatest loss first."""
    listed = [
        {"name": name, **counts, "removed": counts["documents"] - counts["kept"]}
        for name, counts in (report["survival_by_source"] or {}).items()
    ]
    return sorted(listed, key=lambda one: (one["name"] == "(others)", -one["removed"], one["name"]))


def group_by_power_of_two(counts: Mapping[int, int]) -> dict[str, int]:
    """Sum counts over sizes 2, 3 to 4, 5 to 8, and so on: sizes spread over decades, and rows should not."""
    summed: dict[int, int] = {}
    for each, times in sorted(counts.items()):
        top = 1 << (each - 1).bit_length()
        summed[top] = summed.get(top, 0) + times
    return {f"{top // 2 + 1:,} to {top:,}" if top > 2 else f"{top}": times for top, times in summed.items()}


FILTERS = (change, count, duration, number, share, size, tell_breach, capitalize_first, with_error)
