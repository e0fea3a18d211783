"""Look after a store: its history, a check, compaction, deletion, other settings."""

import argparse
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dedup.cli.common import (
    READING,
    Parser,
    add_options,
    add_settings,
    print_json,
    print_numbers,
    print_table,
    read_ids,
    read_lines,
    read_settings,
    typed,
    whole,
)
from dedup.cli.process import command
from dedup.display import log_to_stderr
from dedup.errors import ConfigError

if TYPE_CHECKING:
    from dedup.stores import Store

Work: TypeAlias = "Callable[[argparse.Namespace, Store], int]"
"""Work of a verb, which returns the exit status."""
TOKEN_LENGTH = 16


def pair(text: str) -> tuple[str, str]:
    """Read BATCH=PATH."""
    name, _, path = text.partition("=")
    if not name or not path:
        raise ValueError
    return name, path


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(prog="dedup store", description=__doc__, epilog="More: docs/growing.md")
    verbs = cli.add_subparsers(dest="verb", metavar="VERB", required=True)

    def add(verb: str, work: Work, purpose: str) -> argparse.ArgumentParser:
        found = verbs.add_parser(verb, help=purpose, description=f"{purpose[:1].upper()}{purpose[1:]}.")
        found.set_defaults(work=work)
        found.add_argument("store", metavar="S", help="store, as made by dedup run --store")
        found.add_argument("--json", action="store_true", help="a JSON object a line")
        return found

    add("history", _history, "operations on the store, oldest first")
    check = add("check", _check, "read the whole store, and check its tables against each other")
    check.add_argument("--mend", action="store_true", help="delete rows and files that belong to nothing")
    check.add_argument(
        "--hours",
        type=whole(0),
        default=24,
        help="hours after which unfinished files count as left by a crash; default: 24",
    )
    add("compact", _compact, "write many small files as few large ones")
    vacuum = add("vacuum", _vacuum, "delete files that are no longer part of it")
    vacuum.add_argument(
        "--hours",
        type=whole(0),
        default=168,
        help="hours since a file was last needed; more than any writer takes; default: 168, a week",
    )
    delete = add("delete", _delete, "delete documents from all tables; vacuum makes it final")
    delete.add_argument(
        "--ids",
        required=True,
        metavar="FILE",
        help='an id a line, or a file of any format with "id"; - for standard input',
    )
    delete.add_argument(
        "--readmit", action="store_true", help="keep one of the documents that were removed in favour of a deleted one"
    )
    serve = add("serve", _serve, "take documents one by one over HTTP, and say at once which are duplicates")
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; default: %(default)s, this machine alone"
    )
    serve.add_argument("--port", type=whole(0), default=8080, help="default: %(default)s; 0 for any that is free")
    serve.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that requests must bring; default: one that is made and printed",
    )
    serve.add_argument("--key-file", default="", metavar="FILE", help="key of the store's hashes, if it has one")
    migrate = add(
        "migrate",
        _migrate,
        "make a new store of its batches with other settings, beside it or, with --cut-over, in its place",
    )
    migrate.add_argument("--to", required=True, metavar="NEW", help="the new store; batches that it already has stay")
    migrate.add_argument(
        "--input",
        action="extend",
        nargs="+",
        default=[],
        type=typed("BATCH=PATH", pair),
        metavar="BATCH=PATH",
        help="files of a batch, where texts must be read again; repeatable",
    )
    migrate.add_argument(
        "--cut-over",
        action="store_true",
        help="give the store the tables and settings of the new one, in one commit",
    )
    add_options(migrate, *READING, "--threshold", "--shingle-size")
    add_settings(migrate)
    return cli.parse_args(arguments)


@command
def main(arguments: Sequence[str]) -> int:
    """Run the verb; return 0, 1 if a check found something or after a fault, 2 after a user's mistake."""
    options = parse_arguments(arguments)
    log_to_stderr("WARNING")
    # NumPy and pyarrow take a third of a second to import, which --help need not wait for.
    from dedup.stores import Store  # noqa: PLC0415

    work: Work = options.work
    return work(options, Store(options.store))


def _history(options: argparse.Namespace, store: "Store") -> int:
    rows = [each._asdict() | {"time": each.time.isoformat(timespec="seconds")} for each in store.history()]
    _show(options, rows, ("number", "time", "operation", "batch", "documents", "kept"))
    return 0


def _check(options: argparse.Namespace, store: "Store") -> int:
    found = store.check(mend=options.mend, hours=options.hours)
    _show(options, [each._asdict() for each in found], ("table", "what", "rows", "mended"))
    if not found and not options.json:
        print("sound")
    return int(not all(each.mended for each in found))


def _compact(options: argparse.Namespace, store: "Store") -> int:
    _tell(options, store.compact()._asdict())
    return 0


def _vacuum(options: argparse.Namespace, store: "Store") -> int:
    _tell(options, {"files_deleted": store.vacuum(hours=options.hours)})
    return 0


def _delete(options: argparse.Namespace, store: "Store") -> int:
    found = store.delete(read_ids("--ids", options.ids, options.store), readmit=options.readmit)
    _tell(options, {"deleted": found.documents, "not_there": found.absent, "displaced": found.displaced.num_rows})
    _show(options, found.displaced.to_pylist(), ("id", "batch", "is_kept"))
    return 0


def _migrate(options: argparse.Namespace, store: "Store") -> int:
    inputs, config = dict(options.input), read_settings(options)
    changes, edges = store.migrate(options.to, inputs, config=config, cut_over=options.cut_over)
    fresh = sum(edges["is_new"].to_pylist())
    _tell(options, {"changed": changes.num_rows, "edges_gone": edges.num_rows - fresh, "edges_new": fresh})
    _show(options, changes.to_pylist(), ("id", "batch", "was_kept", "is_kept"))
    return 0


def _serve(options: argparse.Namespace, store: "Store") -> int:
    from dedup.serving import serve  # noqa: PLC0415 - as above

    made = "" if options.token_file else secrets.token_urlsafe()
    token = made or next(read_lines("--token-file", options.token_file), "").strip()
    if len(token) < TOKEN_LENGTH:
        raise ConfigError(f"--token-file: must hold a token of at least {TOKEN_LENGTH} characters (got {len(token)})")

    def tell(address: str) -> None:
        told = {"address": address, "token": made} if made else {"address": address}
        print(
            json.dumps(told) if options.json else "\n".join(f"{name:<9}{word}" for name, word in told.items()),
            flush=True,
        )

    serve(replace(store, key_file=options.key_file), token, host=options.host, port=options.port, tell=tell)
    return 0


def _tell(options: argparse.Namespace, numbers: Mapping[str, int]) -> None:
    if options.json:
        print(json.dumps(numbers))
    else:
        print_numbers(numbers)


def _show(options: argparse.Namespace, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Print rows as a table, or as JSON."""
    if options.json:
        print_json(rows)
    else:
        print_table([{name: row[name] for name in names} for row in rows])
