"""The report as one page that needs nothing else: report.html."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from dedup.display import change, count, number, printable, share, size
from dedup.report.alerts import to_sentence
from dedup.report.metrics import METRICS


def to_html(report: Mapping[str, Any], plots: Mapping[str, str]) -> str:
    """Write the report as HTML, without scripts; what comes from the input is escaped, control characters too.

    Parameters
    ----------
    plots
        SVG elements, as from `plots.draw_plots`.
    """
    environment = Environment(
        loader=PackageLoader("dedup.report", "."),
        extensions=["jinja2.ext.do"],
        autoescape=select_autoescape(default=True),
        finalize=_escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {each.__name__: each for each in (change, count, number, share, size, to_sentence)}
    return environment.get_template("page.html.j2").render(
        report=report,
        metrics=METRICS,
        plots={name: Markup(svg) for name, svg in plots.items()},  # noqa: S704 - drawn from numbers alone
        sizes={name: group_by_power_of_two(report[f"{name}_sizes"]) for name in ("bucket", "component")},
    )


def _escape(value: object) -> object:
    """Return a text of the input with what cannot be seen as escapes; markup and anything else as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def group_by_power_of_two(counts: Mapping[int, int]) -> dict[str, int]:
    """Sum counts over sizes 2, 3 to 4, 5 to 8, and so on: sizes spread over decades, and rows should not."""
    summed: dict[int, int] = {}
    for each, times in sorted(counts.items()):
        top = 1 << (each - 1).bit_length()
        summed[top] = summed.get(top, 0) + times
    return {f"{top // 2 + 1:,} to {top:,}" if top > 2 else f"{top}": times for top, times in summed.items()}
