"""Overlap of snapshots as a self-contained page."""

from collections.abc import Mapping, Sequence
from typing import Any

from dedup.report.page import render


def to_page(matrix: Sequence[Mapping[str, Any]], threshold: float) -> str:
    """Return the matrix as an HTML heat map without scripts; names are escaped.

    Parameters
    ----------
    matrix
        Shares, as from `store.comparing`.
    threshold
        Least Jaccard similarity of duplicates.
    """
    columns = list(dict.fromkeys(cell["of"] for cell in matrix))
    lines = [matrix[begin : begin + len(columns)] for begin in range(0, len(matrix), len(columns))]
    return render("matrix.html.j2", columns=columns, lines=lines, threshold=threshold)
