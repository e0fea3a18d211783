"""How much of each snapshot is in each other, as one page that needs nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from dedup.report.page import render


def to_page(matrix: Sequence[Mapping[str, Any]], threshold: float) -> str:
    """Write the matrix as HTML, a heat map, without scripts; names are escaped.

    Parameters
    ----------
    matrix
        As of `store.comparing.Compared`.
    threshold
        Least Jaccard similarity of what counts as a duplicate.
    """
    columns = list(dict.fromkeys(cell["of"] for cell in matrix))
    lines = [matrix[begin : begin + len(columns)] for begin in range(0, len(matrix), len(columns))]
    return render("matrix.html.j2", columns=columns, lines=lines, threshold=threshold)
