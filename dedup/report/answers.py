"""Answers of commands as self-contained pages: plots or a matrix, and all that a terminal shows."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from dedup.report.explorer import explore_plan
from dedup.report.page import render, render_scripted

SHOWN = 6
"""Most choices that a plot shows, those that cost least."""
TITLES = {
    "curve": "Chance that a pair is compared, by its Jaccard similarity, with the choices that cost least",
    "costs": "Time for what depends on the choice, of the choices that cost least",
    "stages": "Time of the stages of a run",
    "recall": "Share of the pairs that share a bucket, by their Jaccard similarity, with intervals of 95 %",
}


def show_plan(answer: Mapping[str, Any], text: str) -> str:
    """Return the page of a plan.

    Parameters
    ----------
    answer
        As from `plan.answer`.
    text
        All of it for a terminal.
    """
    # Half a second, which nobody else need wait for.
    from dedup.report.figures import draw  # noqa: PLC0415, I001 - first, as it tells matplotlib to be silent
    from dedup.report.axes import plot_choices, plot_costs  # noqa: PLC0415

    threshold, choices = answer["settings"]["threshold"], answer["choices"]
    cheapest = sorted(choices, key=lambda each: float(each["core_seconds"]))[:SHOWN]
    bandings = [(each["bands"], each["rows"]) for each in cheapest]
    costs = {f"{each['bands']} x {each['rows']}": each["core_seconds"] * 1e6 for each in cheapest}
    plots = {
        "curve": partial(plot_choices, choices=bandings, threshold=threshold),
        "costs": partial(plot_costs, costs=costs, unit="microseconds of a core for each document"),
    }
    if answer["capacity"]:
        costs = {each["name"]: each["core_hours"] for each in answer["capacity"]["stages"]}
        plots["stages"] = partial(plot_costs, costs=costs, unit="hours of a core")
    title = f"Plan: {answer['best']['bands']} bands of {answer['best']['rows']} rows at a threshold of {threshold:g}"
    return _render(
        title, [(name, draw(name, TITLES[name], plot)) for name, plot in plots.items()], text, explore_plan(answer)
    )


def show_evaluation(answer: Mapping[str, Any], text: str) -> str:
    """Return the page of an evaluation.

    Parameters
    ----------
    answer
        As from `evaluate.dispatch`.
    text
        All of it for a terminal.
    """
    from dedup.report.figures import draw  # noqa: PLC0415, I001 - as above
    from dedup.report.axes import plot_recall  # noqa: PLC0415

    tried = [*answer["trials"].values()]
    drawn = [
        draw(f"recall{number}", TITLES["recall"], partial(plot_recall, tried=each)) for number, each in enumerate(tried)
    ]
    found = tried[0]["recall"]["edges"]
    share = f"{found['share']:.2%} of {found['of']:,} duplicates found" if found["of"] else "there are no duplicates"
    return _render(f"Evaluation: {share}", [("recall", each) for each in drawn], text)


def show_matrix(matrix: Sequence[Mapping[str, Any]], *, of: str, told: str) -> str:
    """Return the matrix as an HTML heat map without scripts; names are escaped.

    Parameters
    ----------
    matrix
        Shares of every two snapshots, as from `store.comparing` or `run.sketches`.
    of
        Name of the things that are counted, which each cell has.
    told
        Meaning of a share, in a clause.
    """
    columns = list(dict.fromkeys(cell["of"] for cell in matrix))
    lines = [matrix[begin : begin + len(columns)] for begin in range(0, len(matrix), len(columns))]
    return render("matrix.html.j2", columns=columns, lines=lines, of=of, told=told)


def _render(
    title: str, figures: Sequence[tuple[str, str]], text: str, explorer: Mapping[str, Any] | None = None
) -> str:
    return render_scripted(
        "answer.html.j2",
        ("explorer.js.j2",),
        explorer=explorer,
        title=title,
        figures=[(TITLES[name], Markup(svg)) for name, svg in figures],  # noqa: S704 - drawn from numbers alone
        lines=text.splitlines(),
    )
