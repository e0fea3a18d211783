"""Shares of snapshots that are in each other, as a self-contained page."""

from collections.abc import Mapping, Sequence
from typing import Any

from dedup.report.page import render


def to_page(matrix: Sequence[Mapping[str, Any]], *, of: str, told: str) -> str:
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
