"""Estimate how much of each corpus is in each other, within seconds and without texts, from sketches that runs leave.

A corpus is the output of a run, a store, or a file or folder of sketches; they are only read.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from dedup.cli.common import Parser, print_json, print_table
from dedup.cli.process import command
from dedup.display import hide_secrets


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(prog="dedup overlap", description=__doc__, epilog="More: docs/growing.md")
    cli.add_argument("corpora", nargs="+", metavar="[NAME=]PATH", help="an output, a store or a sketch")
    cli.add_argument("--by-source", action="store_true", help="take each source, or batch of a store, for a corpus")
    cli.add_argument("--output", metavar="DIR", help="write matrix.json and matrix.html there; it must not exist yet")
    cli.add_argument("--json", action="store_true", help="a JSON object for every two corpora")
    return cli.parse_args(arguments)


@command
def main(arguments: Sequence[str]) -> int:
    """Answer; return 0, 2 after a user's mistake, 1 after a fault."""
    options = parse_arguments(arguments)
    # pyarrow takes a third of a second to import, which --help need not wait for.
    from dedup.run.sketches import estimate_overlaps  # noqa: PLC0415

    matrix = estimate_overlaps(options.corpora, by_source=options.by_source, output=options.output)
    if options.json:
        print_json(matrix)
        return 0
    _show(matrix)
    if options.output:
        print(f"\nreport   {hide_secrets(options.output)}/matrix.html, matrix.json")
    return 0


def _show(matrix: Sequence[Mapping[str, Any]]) -> None:
    """Print the sizes, then what is known of every two."""
    cells = {(cell["snapshot"], cell["of"]): cell for cell in matrix}
    own = [cell for (one, other), cell in cells.items() if one == other]
    print_table([{"corpus": cell["snapshot"], "shingles": _tell(cell, "shingles")} for cell in own])
    names = [cell["snapshot"] for cell in own]
    pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
    if pairs:
        print()
    print_table(
        [
            {
                "one": one,
                "other": other,
                "union": _tell(cells[one, other], "union"),
                "Jaccard": _tell(cells[one, other], "jaccard"),
                "one in other": _tell(cells[one, other], "share"),
                "other in one": _tell(cells[other, one], "share"),
            }
            for one, other in pairs
        ]
    )


def _tell(cell: Mapping[str, Any], name: str) -> str:
    """Return a number with its standard error."""
    value, error = cell[name], cell[f"{name}_error"]
    if value is None:
        return "-"
    form = ",.0f" if name in {"shingles", "union"} else ".4f"
    return f"{value:{form}} ± {error:{form}}" if error else f"{value:{form}}"
