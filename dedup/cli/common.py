"""Options, error messages and exit statuses shared by all commands."""

import argparse
import atexit
import contextlib
import gc
import json
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

from dedup.display import hide_secrets, printable
from dedup.errors import DataError, DedupError, StorageError
from dedup.settings.files import load_config
from dedup.settings.options import Config

Given = ParamSpec("Given")
OPTIONS = {
    "format": "input.format",
    "table": "input.table",
    "id_column": "input.id_column",
    "text_column": "input.text_column",
    "mode": "output.mode",
    "output_files": "output.files",
    "output_table": "output.table",
    "engine": "engine",
}
"""Command-line options that stand for one setting each."""

# As it ends, Python looks through half a million objects for cycles, which takes it a third of a second.
atexit.register(gc.freeze)


def command(main: Callable[Given, int]) -> Callable[Given, int]:
    """Wrap a command's main function: print its errors, and end quietly when the reader of its output has gone.

    Parameters
    ----------
    main
        Returns the exit status. A reader that has gone, such as `head`, has read enough: the status is 0 then.
    """

    @wraps(main)
    def answer(*given: Given.args, **named: Given.kwargs) -> int:
        try:
            try:
                return main(*given, **named)
            except DedupError as error:
                return tell_error(error)
            finally:
                # --help too: as Python ends there is nobody to tell.
                if sys.stdout is not None:
                    sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 - whatever it is, the user gets an answer and the exit code says so
            status = 0 if isinstance(error, OSError) and not _is_read() else tell_error(error)
            mute()
            return status
        finally:
            # A terminal that is gone has taken no message, which is no other status.
            try:
                if sys.stderr is not None:
                    sys.stderr.flush()
            except OSError:
                mute(2)

    return answer


def _is_read() -> bool:
    """Tell whether a reader of stdout, if it has one, is still there; broken connections to others are faults."""
    poll = select.poll()
    poll.register(1, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def mute(number: int = 1) -> None:
    """Redirect stdout, or stderr, to nowhere, since Python would try to flush the rest as it ends, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


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


def read_lines(option: str, path: str) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, or of standard input for "-", with their ends: a line feed ends one.

    Raises
    ------
    StorageError
        When the file cannot be read.
    DataError
        When a line is not UTF-8.
    """
    number = 0
    try:
        with open(sys.stdin.fileno() if path == "-" else path, "rb") as stream:  # noqa: PTH123 - a number
            for number, line in enumerate(stream, 1):
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except OSError as error:
        raise StorageError(f"{option} {path}: must be a file that can be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{option} {path}: line {number:,} must be UTF-8 ({error.reason})") from error


def cut_end(line: str) -> str:
    """Return a line without its line feed and the carriage return before it; any other is a character of its own."""
    return line.removesuffix("\r\n").removesuffix("\n")


def read_entry(line: str, number: int, *, option: str, name: str) -> dict[str, Any]:
    """Parse a line: the JSON object that it holds if it begins with a brace, else an object with this one name.

    Raises
    ------
    DataError
        When the line begins with a brace and is no JSON object.
    """
    from dedup.files.formats.jsonl import parse  # noqa: PLC0415 - --help need not wait for pyarrow

    if not line.startswith("{"):
        return {name: cut_end(line)}
    entry = parse(line.encode())
    if entry is None:
        raise DataError(
            f"{option}: line {number:,} must be a JSON object, since it begins with a brace (got {cut_end(line)!r}); "
            f"write {json.dumps({name: cut_end(line)})} if it is {name} itself"
        )
    return entry


def tell_error(error: BaseException) -> int:
    """Print one line for an error that a user can mend, a traceback for any other; return the exit status, 2 or 1."""
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
        cells = [[*rows[0]], *([printable(str(each)) for each in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
