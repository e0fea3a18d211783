"""Options, error messages and exit statuses shared by all commands."""

import argparse
import contextlib
import difflib
import io
import json
import math
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, NoReturn, ParamSpec, TypeVar

from dedup.display import hide_secrets, printable
from dedup.errors import DataError, DedupError, StorageError, suggest
from dedup.settings.files import find_field, list_presets, list_settings, load_config
from dedup.settings.options import Config
from dedup.settings.rules import list_choices

Given = ParamSpec("Given")
Read = TypeVar("Read")


class Option(NamedTuple):
    """Short name of a setting on a command line, which takes its choices and its default from the setting."""

    setting: str
    metavar: str
    help: str


OPTIONS = {
    "--table": Option("input.table", "NAME", "table of Spark's catalog, instead of --input"),
    "--format": Option("input.format", "NAME", "format of the files, which auto guesses from their names"),
    "--id-column": Option("input.id_column", "NAME", "integers or strings; by default the digest of the row"),
    "--text-column": Option("input.text_column", "NAME", "texts that are compared"),
    "--layers": Option("layers", "NAME[,NAME ...]", "kinds of duplicates, one after another"),
    "--without": Option("input.without", "PATH[,PATH ...]", "documents that the input is to lose: files, or a store"),
    "--drop": Option("keep.drop", "NAME", "documents that go of those found alike"),
    "--threshold": Option("threshold", "J", "least Jaccard similarity of two near duplicates"),
    "--shingle-size": Option("shingles.shingle_size", "N", "consecutive tokens compared as one"),
    "--engine": Option("engine", "NAME", "where the search is made"),
    "--mode": Option("output.mode", "NAME", "what is written"),
    "--output-files": Option("output.files", "N", "files of the result; by default as many as the input has"),
    "--output-table": Option("output.table", "NAME", "table of Spark's catalog for the rows, instead of files"),
}
"""Options that stand for one setting each, which all commands share: nothing else is written for a further one."""
READING = ("--format", "--id-column", "--text-column")
SEARCH = ("--layers", "--threshold", "--shingle-size")
STREAMS = ("stdin", "stdout", "stderr")
STOPS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a job in order: a scheduler's request, and the close of its terminal."""

REPEAT_SECONDS = 5
"""Seconds after a signal in which another says the same."""


def command(main: Callable[Given, int]) -> Callable[Given, int]:
    """Wrap a command's main function: print its errors, end in order on a signal, and quietly when no reader is left.

    Parameters
    ----------
    main
        Returns the exit status. A reader that has gone, such as `head`, has read enough: the status is 0 then.
    """

    @wraps(main)
    def answer(*given: Given.args, **named: Given.kwargs) -> int:
        open_closed()
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Ids and texts have characters that the terminal's encoding may lack.
            sys.stdout.reconfigure(errors="backslashreplace")
        stopped = stop_on_signals()
        try:
            try:
                return main(*given, **named)
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                if stopped or isinstance(error, KeyboardInterrupt):
                    return tell_stop(stopped)
                if isinstance(error, DedupError):
                    return tell_error(error)
                raise
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


def stop_on_signals() -> list[signal.Signals]:
    """End Spark on a signal, and with it every wait for Spark; return the list that the signal will be appended to."""
    stopped: list[signal.Signals] = []
    last = -math.inf

    def stop(number: int, _: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        # A shell tells the close of a terminal after the terminal itself: amid the end it would leave processes behind.
        if last - before < REPEAT_SECONDS:
            return
        stopped.append(signal.Signals(number))
        pyspark = sys.modules.get("pyspark")
        context = pyspark and pyspark.SparkContext._active_spark_context  # noqa: SLF001 - to start none
        if not context:
            raise SystemExit(128 + number)
        # This thread is amid a call to the JVM and cannot make another.
        threading.Thread(target=end, args=(context,), daemon=True).start()

    def end(context: Any) -> None:  # noqa: ANN401 - a SparkContext, where Spark is there
        # The run ends it too, as it is left: what comes second finds its socket gone.
        with contextlib.suppress(Exception):
            context.stop()

    is_main = threading.current_thread() is threading.main_thread()
    for each in STOPS if is_main else ():
        # nohup has it ignored.
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, stop)
    return stopped


def open_closed() -> None:
    """Open to nowhere what the caller has closed of stdin, stdout and stderr, before another file takes its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) < len(STREAMS):
        os.set_inheritable(number, True)  # noqa: FBT003 - its second parameter
        if getattr(sys, STREAMS[number]) is None:
            setattr(sys, STREAMS[number], open(number, "r+" if number else "r"))  # noqa: PTH123, SIM115 - for good
    os.close(number)


def _is_read() -> bool:
    """Tell whether a reader of stdout, if it has one, is still there; broken connections to others are faults."""
    poll = select.poll()
    poll.register(1, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def mute(number: int = 1) -> None:
    """Redirect stdout, or stderr, to nowhere, since Python would try to flush the rest as it ends, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


class Parser(argparse.ArgumentParser):
    """Parser of a command line whose errors are one line, with the nearest word that there is."""

    def __init__(self, *, examples: Sequence[str] = (), **named: Any) -> None:  # noqa: ANN401 - argparse's
        # An abbreviation of today is ambiguous tomorrow.
        super().__init__(allow_abbrev=False, **named)
        if examples:
            self.formatter_class = argparse.RawDescriptionHelpFormatter
            self.description = "\n".join([*(f"    {each}" for each in examples), "", f"{self.description}"])

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - argparse's
        """Parse the words, and refuse an option that there is not before one that is missing."""
        words = sys.argv[1:] if args is None else [*args]
        options = words[: words.index("--")] if "--" in words else words
        for word in options if self._subparsers is None else ():
            name = word.partition("=")[0]
            if word.startswith("--") and name not in self._option_string_actions:
                self.error(f"unknown option {name}{self._suggest(name)}")
        if words and not words[0].startswith("-") and not self._get_positional_actions():
            self._refuse(words[0])
        found, left = super().parse_known_args(words, namespace)
        if left:
            self._refuse(left[0])
        return found, left

    def _refuse(self, word: str) -> NoReturn:
        """Refuse a word that belongs to no option."""
        hint = f"; did you mean --input {word}?" if "--input" in self._option_string_actions else ""
        self.error(f"no option takes {word!r}{hint}")

    def _suggest(self, name: str) -> str:
        """Return the option nearest to a name, or the setting, where settings are taken."""
        settings = (
            {}
            if "--set" not in self._option_string_actions
            else {f"--{key.rpartition('.')[2].replace('_', '-')}": f"--set {key}=VALUE" for key in list_settings()}
        )
        settings |= {name: name for name in self._option_string_actions}
        nearest = difflib.get_close_matches(name.replace("_", "-"), settings, n=1)
        return f"; did you mean {settings[nearest[0]]}?" if nearest else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - argparse's
        if action.choices is not None and value not in action.choices:
            rule = f"must be one of {', '.join(action.choices)}"
            raise argparse.ArgumentError(action, f"{rule} (got {value!r}{suggest(value, action.choices)})")

    def error(self, message: str) -> NoReturn:
        """Print one line, and exit 2."""
        print_error(printable(f"{message} ({self.prog} --help tells more)"))
        sys.exit(2)


def typed(rule: str, read: Callable[[str], Read]) -> Callable[[str], Read]:
    """Return a reader of an option's text that says the rule of a text that `read` refuses by a ValueError."""

    def read_text(text: str) -> Read:
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be {rule} (got {text!r})") from None

    return read_text


def whole(least: int) -> Callable[[str], int]:
    """Return the reader of a whole number of at least this, also written as 1e9."""

    def read(text: str) -> int:
        number = float(text)
        if not number.is_integer() or number < least:
            raise ValueError
        return int(number)

    return typed(f"a whole number of at least {least}", read)


def add_options(cli: argparse._ActionsContainer, *names: str) -> None:
    """Let a command take some of OPTIONS; what follows one is read and checked as a setting."""
    for name in names:
        option = OPTIONS[name]
        entry = find_field(option.setting)
        assert entry is not None
        choices = f": {', '.join(choices)}" if (choices := list_choices(entry)) else ""
        default = ",".join(entry.default) if isinstance(entry.default, tuple) else entry.default
        told = option.help + choices + (f"; default: {default}" if default else "")
        cli.add_argument(name, metavar=option.metavar, help=told)


def add_settings(cli: argparse._ActionsContainer) -> None:
    """Let a command take settings."""
    cli.add_argument("--config", metavar="FILE", default=None, help="settings, as in conf/dedup.toml")
    cli.add_argument("--preset", metavar="NAME", default=None, help=f"named settings: {', '.join(list_presets())}")
    cli.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; repeatable")


def read_settings(options: argparse.Namespace, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a command line; further overrides come after those of --set.

    Raises
    ------
    DedupError
        When one is refused.
    """
    given = {name: getattr(options, name.removeprefix("--").replace("-", "_"), None) for name in OPTIONS}
    named = {name: (OPTIONS[name].setting, text) for name, text in given.items() if text is not None}
    return load_config(options.config, options.preset, [*options.set, *overrides], options=named)


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
    from dedup.files.formats.json_line import parse  # noqa: PLC0415 - --help need not wait for pyarrow

    if not line.startswith("{"):
        return {name: cut_end(line)}
    entry = parse(line.encode())
    if entry is None:
        raise DataError(
            f"{option}: line {number:,} must be a JSON object, since it begins with a brace (got {cut_end(line)!r}); "
            f"write {json.dumps({name: cut_end(line)})} if it is {name} itself"
        )
    return entry


def read_texts(option: str, path: str) -> Iterator[tuple[object, str]]:
    """Yield the name and the text of each line of a file, or of each row where its format has columns.

    A name is the `id`, or else the number, from 1. Folders and globs of formats are read too.

    Raises
    ------
    DedupError
        When a file cannot be read, or has no column `text`.
    """
    from dedup.files.formats.json_line import mend  # noqa: PLC0415 - --help need not wait for pyarrow
    from dedup.files.formats.jsonl import to_sets  # noqa: PLC0415 - as above

    if _has_rows(path):
        entries: Iterator[Mapping[str, Any]] = _read_rows(option, path, "text")
    else:
        lines = enumerate(read_lines(option, path), 1)
        entries = (read_entry(line, number, option=option, name="text") for number, line in lines)
    for number, entry in enumerate(entries, 1):
        found, text = entry.get("id"), entry.get("text") or ""
        [text] = to_sets([text], "text", option).to_pylist() if isinstance(text, list) else [text]
        yield number if found is None else found, mend(str(text))


def _read_rows(option: str, path: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the column of this name of files, which must have it, and `id`."""
    from dedup.files.columns import is_set, is_text  # noqa: PLC0415 - as above
    from dedup.files.conversion import is_valid, to_text  # noqa: PLC0415 - as above
    from dedup.files.listing import list_files  # noqa: PLC0415 - as above
    from dedup.files.systems import redact  # noqa: PLC0415 - as above

    for file in list_files([path]).files:
        known = file.format.list_columns(file)
        wanted = [each for each in dict.fromkeys((name, "id")) if each == name or each in known]
        wrong = [each for each in wanted if known and known.count(each) != 1]
        if wrong:
            raise DataError(f"{option} {path}: must have one column {wrong[0]!r} (got {', '.join(known)})")
        if file.format.name == "jsonl":
            # Their values need not be of one type.
            for values in file.format.read_values(file, wanted):
                yield from (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
            continue
        for _, rows in file.format.read_rows(file, on_bad_record="fail"):
            found = rows.select(wanted)
            if "id" in wanted and not all(is_valid(chunk) for chunk in found["id"].chunks):
                raise DataError(f"{option} {path}: ids must be UTF-8 (got others in {redact(file.path)})")
            if name == "text" and (is_text(found[name].type) or is_set(found[name].type)):
                chunks = [to_text(chunk) for chunk in found[name].chunks]
                found = found.drop_columns([name]).append_column(name, chunks) if chunks else found
            yield from found.to_pylist()


def _has_rows(path: str) -> bool:
    """Tell whether a path is of files with rows of columns, and not of a file of lines or standard input."""
    from dedup.files.globs import find_paths  # noqa: PLC0415 - as above
    from dedup.files.listing import COMPRESSIONS, find_format  # noqa: PLC0415 - as above
    from dedup.files.storage import Storage  # noqa: PLC0415 - as above

    if path == "-":
        return False
    kind, entry = find_format(path), Storage().look(path)
    if entry is None:
        return any(True for _ in find_paths(Storage(), path))
    is_packed = path.rpartition(".")[2].lower() in COMPRESSIONS
    return entry.is_folder or is_packed or (kind is not None and kind.name not in {"jsonl", "text"})


def read_ids(option: str, path: str, store: str) -> list[str]:
    """Return the ids of a file: an id a line, JSON objects with `id`, or rows with a column of this name.

    Raises
    ------
    DedupError
        When one is no string or integer, or lines spell an id of the store that no line can be.
    """
    from dedup.files.formats.json_line import mend  # noqa: PLC0415 - as above
    from dedup.files.listing import naming  # noqa: PLC0415 - as above
    from dedup.store.deleting import find_spelled  # noqa: PLC0415 - as above
    from dedup.store.tables import Tables  # noqa: PLC0415 - as above

    if _has_rows(path):
        with naming(option):
            entries = [*enumerate((entry.get("id") for entry in _read_rows(option, path, "id")), 1)]
    else:
        lines = [*read_lines(option, path)]
        spelled = find_spelled(Tables(store), "".join(lines))
        if spelled is not None:
            raise DataError(
                f"{option}: must hold an id a line (got lines that spell {spelled!r}, an id of {store} that no line "
                f"can be); write {json.dumps({'id': spelled})} for it, or such an object for each id that they are"
            )
        numbered = [(number, line) for number, line in enumerate(lines, 1) if cut_end(line)]
        entries = [(number, read_entry(line, number, option=option, name="id").get("id")) for number, line in numbered]
    for number, found in entries:
        if type(found) not in {str, int}:
            raise DataError(f'{option}: line {number:,} must have a string or an integer as "id" (got {found!r})')
    return [mend(str(found)) for _, found in entries]


def tell_error(error: BaseException) -> int:
    """Print one line for an error that a user can mend, a traceback for any other; return the exit status, 2 or 1."""
    if isinstance(error, DedupError):
        print_error(printable(hide_secrets(str(error))))
        return 2
    with contextlib.suppress(OSError):
        print(hide_secrets("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    return 1


def tell_stop(stopped: Sequence[signal.Signals], rest: str = "") -> int:
    """Print a line for a command that a signal, by default that of Ctrl-C, has ended; return the exit status."""
    by = stopped[0] if stopped else signal.SIGINT
    print_error((f"stopped by {by.name}" if stopped else "interrupted") + rest)
    return 128 + by


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
