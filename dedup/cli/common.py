"""Options, and what else commands read and print, shared by all of them."""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from dedup.cli.process import print_error
from dedup.display import printable, to_json
from dedup.errors import ConfigError, DataError, StorageError, suggest
from dedup.settings.files import find_field, list_presets, list_settings, load_config
from dedup.settings.options import Config
from dedup.settings.rules import list_choices

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
            self._refuse(words[0], words)
        found, left = super().parse_known_args(words, namespace)
        if left:
            self._refuse(left[0], words)
        return found, left

    def _refuse(self, word: str, words: Sequence[str]) -> NoReturn:
        """Refuse a word that belongs to no option."""
        option, value = ["", "", *words][words.index(word) :][:2]
        takers = [each for each in ("--input", "--against", "--sample") if each in self._option_string_actions]
        meant = f"{takers[0]} {word}" if takers and not word.startswith("-") else ""
        if option in {"--layers", "--without"}:
            meant = f"{option} {value},{word}"
        elif option == "--set" and "=" not in value:
            meant = f"{option} {value}={word}"
        self.error(f"no option takes {word!r}{f'; did you mean {meant}?' if meant else ''}")

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


class Once(argparse.Action):
    """Action of an option that cannot be repeated, as nobody would see that the last value alone counts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - argparse's
        option_string: str | None = None,
    ) -> None:
        """Take the value."""
        del parser, option_string
        if (before := getattr(namespace, self.dest, None)) is not None:
            raise argparse.ArgumentError(self, f"must be given once (got {before!r} and {values!r})")
        setattr(namespace, self.dest, values)


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


def add_source(cli: argparse._ActionsContainer, told: str) -> None:
    """Let a command take documents from files or from a table."""
    source = cli.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", action="extend", nargs="+", metavar="PATH", help=told)
    add_options(source, "--table")


def check_source(options: argparse.Namespace, config: Config) -> None:
    """Refuse files where the settings name a table.

    Raises
    ------
    ConfigError
    """
    if options.input and config.input.table:
        raise ConfigError(f"--input: must not be given where input.table is set ({config.input.table!r})")


def add_settings(cli: argparse._ActionsContainer) -> None:
    """Let a command take settings."""
    cli.add_argument("--config", metavar="FILE", default=None, action=Once, help="settings, as in conf/dedup.toml")
    cli.add_argument(
        "--preset", metavar="NAME", default=None, action=Once, help=f"named settings: {', '.join(list_presets())}"
    )
    cli.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; repeatable")


def read_settings(options: argparse.Namespace, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a command line; further overrides come after those of --set, and in place of options.

    Raises
    ------
    DedupError
        When one is refused.
    """
    given = {name: getattr(options, name.removeprefix("--").replace("-", "_"), None) for name in OPTIONS}
    replaced = {each.partition("=")[0].strip() for each in overrides}
    named = {
        name: (OPTIONS[name].setting, text)
        for name, text in given.items()
        if text is not None and OPTIONS[name].setting not in replaced
    }
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
    from dedup.files.listing import list_files, naming  # noqa: PLC0415 - as above
    from dedup.files.systems import redact  # noqa: PLC0415 - as above

    with naming(option):
        listing = list_files([path])
    for file in listing.files:
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


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows of the same columns below their names."""
    if rows:
        cells = [[*rows[0]], *([printable(str(each)) for each in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def print_json(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as JSON objects, one a line."""
    for row in rows:
        print(to_json(row))


def print_numbers(numbers: Mapping[str, int]) -> None:
    """Print counts by their names, one a line."""
    print("\n".join(f"{name.replace('_', ' '):<16}{value:>12,}" for name, value in numbers.items()))
