"""Figures as SVG within a page: text stays text, black is the page's own colour, output is the same every time."""

import io
import logging
import re
from collections.abc import Callable
from typing import Any

# As it is imported it tells where its cache of fonts lies and how long it takes to fill it, which is of no use here.
_LOG = logging.getLogger("matplotlib")
_level = _LOG.level
_LOG.setLevel(logging.ERROR)

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_LOG.setLevel(_level)

WIDTH, HEIGHT = 4.5, 3.1
"""Size of a figure in inches: as wide as a phone's screen at the page's text size."""
PLACE = (0.15, 0.14, 0.83, 0.77)
"""Place of the axes in the figure (left, bottom, width, height), with room for labels and a legend."""
STYLE: Any = {
    "axes.axisbelow": True,
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


def draw(name: str, title: str, plot: Callable[..., None], *given: object) -> str:
    """Return the SVG element of a figure with one pair of axes, which `plot` fills with what is given."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT))
        # To measure its own margins takes matplotlib longer than the whole plot.
        plot(figure.add_axes(PLACE), *given)
        return _render(figure, name, title)


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
