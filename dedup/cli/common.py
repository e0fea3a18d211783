"""What the command lines have in common: how settings are given, and how an error is told."""

import argparse
import atexit
import contextlib
import gc
import sys
import traceback
from collections.abc import Mapping, Sequence

from dedup.display import hide_secrets, printable
from dedup.errors import DedupError
from dedup.settings.files import load_config
from dedup.settings.options import Config

OPTIONS = {
    "format": "input.format",
    "table": "input.table",
    "id_column": "input.id_column",
    "text_column": "input.text_column",
    "mode": "output.mode",
    "output_files": "output.files",
    "engine": "engine",
}
"""Options that stand for one setting each."""

# As it ends, Python looks through half a million objects for cycles, which takes it a third of a second.
atexit.register(gc.freeze)


def add_settings(cli: argparse._ActionsContainer) -> None:
    """Let a command take settings."""
    cli.add_argument("--config", metavar="FILE", default=None, help="settings, as in conf/dedup.toml")
    cli.add_argument("--preset", metavar="NAME", default=None, help="settings from dedup/settings/presets")
    cli.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; repeatable")


def read_settings(options: argparse.Namespace, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a command line; further overrides come after those of --set.

    Raises
    ------
    DedupError
        When one is refused.
    """
    given = {key: getattr(options, name, None) for name, key in OPTIONS.items()}
    chosen = {key: value for key, value in given.items() if value is not None}
    return load_config(options.config, options.preset, [*options.set, *overrides], chosen)


def tell_error(error: BaseException) -> int:
    """Print one line for what a user can mend and the traceback of anything else; return the exit status, 2 or 1."""
    if isinstance(error, DedupError):
        print_error(printable(hide_secrets(str(error))))
        return 2
    with contextlib.suppress(OSError):
        print(hide_secrets("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    return 1


def print_error(text: str) -> None:
    """Print a line for the user, whose terminal may be closed by now."""
    with contextlib.suppress(OSError):
        print(f"dedup: {text}", file=sys.stderr)


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows of the same columns below their names."""
    if rows:
        cells = [[*rows[0]], *([str(each) for each in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
