"""Say how much of each snapshot of a corpus is in each other, such as this month's in the last or held-out in training.

A snapshot is a file, folder or glob, or a batch of a store; they are only read.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from dedup.cli.common import READING, Parser, add_options, add_settings, print_json, print_table, read_settings
from dedup.cli.process import command
from dedup.display import hide_secrets, log_to_stderr, printable


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(prog="dedup compare", description=__doc__, epilog="More: docs/growing.md")
    cli.add_argument(
        "--against",
        action="append",
        required=True,
        metavar="[NAME=]PATH",
        help="a snapshot: file, folder or glob; or a store, of which each batch is one; repeatable",
    )
    cli.add_argument(
        "--output", metavar="DIR", help="write matrix.json, matrix.html and duplicates there; it must not exist yet"
    )
    add_options(cli, *READING, "--threshold", "--shingle-size")
    add_settings(cli)
    cli.add_argument("--json", action="store_true", help="a JSON object for every two snapshots")
    return cli.parse_args(arguments)


@command
def main(arguments: Sequence[str]) -> int:
    """Answer; return 0, 2 after a user's mistake, 1 after a fault."""
    options = parse_arguments(arguments)
    log_to_stderr("WARNING")
    config = read_settings(options)
    # The engine takes a second to import, which a mistake in the settings need not wait for.
    from dedup.run.comparing import compare_snapshots, name_snapshots  # noqa: PLC0415

    found = compare_snapshots(name_snapshots(options.against), config, options.output)
    if options.json:
        print_json(found.matrix)
        return 0
    _show(found.matrix)
    if options.output:
        print(f"\nreport   {hide_secrets(options.output)}/matrix.html, matrix.json, duplicates")
    return 0


def _show(matrix: Sequence[Mapping[str, Any]]) -> None:
    """Print the matrix as a table."""
    lines: dict[str, dict[str, str]] = {}
    for cell in matrix:
        name = printable(cell["snapshot"])
        line = lines.setdefault(cell["snapshot"], {"snapshot": name, "documents": f"{cell['documents']}"})
        most = f" to {(cell['found'] + cell['unsure']) / cell['documents']:.1%}" if cell["unsure"] else ""
        line[f"in {printable(cell['of'])}"] = f"{cell['share']:.1%}{most}"
    print_table([*lines.values()])
