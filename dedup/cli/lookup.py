"""Say of documents whether a store has them already, exactly or nearly."""

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dedup.cli.common import Parser, read_texts, typed
from dedup.cli.process import command
from dedup.display import printable, to_json

if TYPE_CHECKING:
    from dedup.store.lookup import Match


def share(text: str) -> float:
    """Read a similarity."""
    number = float(text)
    if not 0 < number <= 1:
        raise ValueError
    return number


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(
        prog="dedup lookup",
        description=__doc__,
        epilog='A line of the input is a text, or a JSON object with "text" and perhaps "id"; other formats have such '
        "columns. More: docs/growing.md",
    )
    cli.add_argument("store", metavar="S", help="store, as made by dedup run --store")
    cli.add_argument(
        "--input",
        required=True,
        metavar="PATH",
        help="file, folder or glob of documents, a line or a row each; - for standard input",
    )
    cli.add_argument(
        "--threshold",
        type=typed("a number above 0 and at most 1", share),
        help="least exact Jaccard; default: that of the store",
    )
    cli.add_argument("--key-file", default="", metavar="FILE", help="key of the store's hashes, if it has one")
    cli.add_argument("--json", action="store_true", help="a JSON object a line")
    return cli.parse_args(arguments)


@command
def main(arguments: Sequence[str]) -> int:
    """Answer; return 0, 2 after a user's mistake, 1 after a fault."""
    options = parse_arguments(arguments)
    # NumPy and pyarrow take a third of a second to import, which --help need not wait for.
    from dedup.stores import Store  # noqa: PLC0415

    names: deque[object] = deque()

    def read() -> Iterator[str]:
        for name, text in read_texts("--input", options.input):
            names.append(name)
            yield text

    found = Store(options.store, options.key_file).open().look_up(read(), threshold=options.threshold)
    for matches in found:
        name = names.popleft()
        print(_to_json(name, matches) if options.json else _to_line(name, matches))
        if not names:
            sys.stdout.flush()
    return 0


def _to_json(name: object, matches: "Sequence[Match]") -> str:
    from dedup.files.formats.json_line import mend_all  # noqa: PLC0415 - --help need not wait for pyarrow

    told = {"id": mend_all(name), "matches": [each._asdict() for each in matches]}
    return to_json(told)


def _to_line(name: object, matches: "Sequence[Match]") -> str:
    told = [f"{each.id} ({each.jaccard:.4f}, {each.batch}, {'kept' if each.kept else 'removed'})" for each in matches]
    return f"{printable(str(name))}\t{printable(', '.join(told)) or '-'}"
