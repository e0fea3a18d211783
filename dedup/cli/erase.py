"""Take documents out of a store and out of the outputs of its batches, and write a receipt."""

import argparse
import json
from collections.abc import Sequence
from itertools import count

from dedup.cli.common import Parser, print_numbers, read_ids, read_texts, typed
from dedup.cli.process import command
from dedup.display import log_to_stderr
from dedup.errors import StorageError


def pair(text: str) -> tuple[str, str]:
    """Read COLUMN=VALUE."""
    name, sign, value = text.partition("=")
    if name not in {"source", "batch"} or not sign:
        raise ValueError
    return name, value


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(prog="dedup erase", description=__doc__, epilog="More: docs/growing.md")
    cli.add_argument("store", metavar="S", help="store, as made by dedup run --store; nobody may write to it meanwhile")
    chosen = cli.add_mutually_exclusive_group(required=True)
    chosen.add_argument(
        "--ids", metavar="FILE", help='an id a line, or a file of any format with "id"; - for standard input'
    )
    chosen.add_argument(
        "--where", type=typed("source=VALUE or batch=NAME", pair), metavar="NAME=VALUE", help="a source or a batch"
    )
    chosen.add_argument(
        "--texts", metavar="FILE", help="documents of the same shingles as these texts, as for dedup lookup"
    )
    cli.add_argument(
        "--output",
        action="extend",
        nargs="+",
        default=[],
        metavar="DIR",
        help="further outputs of its batches, such as moved ones",
    )
    cli.add_argument(
        "--receipt",
        metavar="FILE",
        help="file of the receipt, which must not exist yet; by default S.erased-NUMBER.json",
    )
    cli.add_argument(
        "--sign-with",
        default="",
        metavar="FILE",
        help="key of the receipt's signature, of at least 16 bytes (chmod 600)",
    )
    cli.add_argument(
        "--key-file", default="", metavar="FILE", help="key of the store's hashes, if it has one, for --texts"
    )
    cli.add_argument("--json", action="store_true", help="print the receipt")
    options = cli.parse_args(arguments)
    if options.key_file and options.texts is None:
        cli.error("argument --key-file: needs --texts")
    return options


@command
def main(arguments: Sequence[str]) -> int:
    """Erase; return 0, 2 after a user's mistake, 1 after a fault."""
    options = parse_arguments(arguments)
    log_to_stderr("WARNING")
    # NumPy and pyarrow take a third of a second to import, which --help need not wait for.
    from dedup.files.storage import Storage  # noqa: PLC0415
    from dedup.files.systems import absolute  # noqa: PLC0415
    from dedup.stores import Store  # noqa: PLC0415

    storage, store = Storage(), Store(options.store, options.key_file)
    # A receipt is the only proof of what was erased, and is printed where it cannot be written.
    if options.receipt and storage.exists(absolute(options.receipt)):
        raise StorageError(f"--receipt {options.receipt}: must not exist yet (it does), as a receipt is never replaced")
    receipt = store.erase(
        ids=None if options.ids is None else read_ids("--ids", options.ids, options.store),
        where=None if options.where is None else dict([options.where]),
        texts=None if options.texts is None else (text for _, text in read_texts("--texts", options.texts)),
        outputs=options.output,
        sign_with=options.sign_with,
    )
    # A call that finds nothing to erase leaves the number as it was.
    path = options.receipt or f"{options.store.rstrip('/')}.erased-{receipt['state_after']}.json"
    content, begin, numbers = json.dumps(receipt, indent=1) + "\n", path.removesuffix(".json"), count(2)
    try:
        while not storage.create_text(absolute(path), content):
            path = f"{begin}-{next(numbers)}.json"
    except StorageError:
        print(content, end="")
        raise
    if options.json:
        print(json.dumps(receipt))
        return 0
    told = {name: receipt[name] for name in ("documents", "absent", "displaced")}
    print_numbers(told | {"outputs": len(receipt["outputs"]), "files changed": len(receipt["files"])})
    for each in receipt["outputs_missing"]:
        print(f"{'output missing':<16}{each}")
    print(f"{'receipt':<16}{path}")
    return 0
