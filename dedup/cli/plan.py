"""Choose bands and rows by what they are to find, and see what a run will take."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dedup.cli.common import Parser, add_options, add_settings, read_settings, typed, whole
from dedup.cli.process import command
from dedup.errors import StorageError
from dedup.plan.answer import answer
from dedup.plan.question import PlanQuestion
from dedup.plan.show import to_text
from dedup.version import __version__

SETTINGS = ("config", "preset", "set", "text_column", "layers", "shingle_size")
"""Options of the command that are settings, as for the job; all others are fields of the question, but for --json."""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; options left out keep the defaults of the question."""
    cli = Parser(
        prog="dedup plan",
        description=__doc__,
        epilog="Worked examples: docs/choosing.md",
        argument_default=argparse.SUPPRESS,
    )
    number = typed("a number", float)
    wishes = cli.add_argument_group("what is wished for")
    share = "SHARE@SIMILARITY"
    wishes.add_argument(
        "--recall",
        action="append",
        metavar=share,
        help="least share of pairs to find at a similarity, as in 0.99@0.8; repeatable",
    )
    wishes.add_argument(
        "--candidates",
        action="append",
        metavar=share,
        help="largest share of pairs that may become candidates, as in 0.001@0.3; repeatable",
    )
    wishes.add_argument("--threshold", type=number, metavar="J", help="default: the least similarity of a --recall")
    wishes.add_argument("--max-signature-bytes", type=whole(1), metavar="N", help="most bytes stored for a document")
    wishes.add_argument(
        "--max-candidates-per-doc", type=number, metavar="X", help="most candidate pairs for each document"
    )
    wishes.add_argument("--check", metavar="BANDSxROWS", help="check whether these bands and rows meet the targets")
    corpus = cli.add_argument_group("the corpus")
    corpus.add_argument(
        "--sample", metavar="PATH", help="local file or folder of any format to measure similarities in"
    )
    corpus.add_argument(
        "--sample-documents", type=whole(1), metavar="N", help="most documents of the sample; default: 40000"
    )
    corpus.add_argument("--sample-of", type=whole(1), metavar="N", help="documents that the sample was drawn from")
    corpus.add_argument(
        "--documents", type=whole(1), metavar="N", help="plan the capacity for a corpus of this size, as in 1e9"
    )
    corpus.add_argument(
        "--mean-tokens",
        type=number,
        metavar="N",
        help="tokens of a document, without a sample; default: 200, or 1400 characters, or 350 ids",
    )
    corpus.add_argument(
        "--mean-bytes", type=number, metavar="N", help="bytes of a text; default: 7 a token, 1 a character, 4 an id"
    )
    corpus.add_argument(
        "--id-bytes", type=number, metavar="N", help="bytes of an id: 8 for integers (default), 4 + length for strings"
    )
    corpus.add_argument("--duplication", type=number, metavar="SHARE", help="share of documents removed; default: 0.1")
    cluster = cli.add_argument_group("the cluster")
    cluster.add_argument("--executors", type=whole(1), metavar="N", help="default: 10")
    cluster.add_argument("--cores", type=whole(1), metavar="N", help="cores of each executor; default: 4")
    cluster.add_argument(
        "--efficiency", type=number, metavar="SHARE", help="share of core time that does work; default: 0.4"
    )
    cluster.add_argument("--price-per-core-hour", type=number, metavar="X", help="price, in any currency")
    cluster.add_argument("--calibrate", action="store_true", help="measure a core of this machine, some seconds")
    settings = cli.add_argument_group("settings, as for the job")
    add_options(settings, "--text-column", "--layers", "--shingle-size")
    add_settings(settings)
    cli.add_argument("--json", action="store_true", default=False, help="print everything as JSON")
    cli.add_argument("--output", default="", metavar="DIR", help="folder to write plan.html to, a page with plots")
    cli.add_argument("--version", action="version", version=f"dedup {__version__}")
    return cli.parse_args(arguments)


@command
def main(arguments: Sequence[str]) -> int:
    """Answer; return 0, 2 after a user's mistake, 1 after a fault."""
    asked = vars(parse_arguments(arguments))
    as_json, output = asked.pop("json"), asked.pop("output")
    settings = {name: asked.pop(name) for name in SETTINGS if name in asked}
    config = read_settings(argparse.Namespace(**settings))
    write = _open_page(output) if output else None
    found = answer(PlanQuestion(config=config, **asked))
    print(json.dumps(found, indent=1) if as_json else to_text(found))
    if write is not None:
        write(found)
    return 0


def _open_page(output: str) -> Callable[[Mapping[str, Any]], None]:
    """Return what writes the page of an answer, once nothing is in its place.

    Raises
    ------
    StorageError
        When something is.
    """
    # pyarrow and matplotlib take a second to import, which an answer on the terminal need not wait for.
    from dedup.files.storage import Storage  # noqa: PLC0415
    from dedup.report.answers import show_plan  # noqa: PLC0415

    storage, page = Storage(), f"{output.rstrip('/')}/plan.html"
    if storage.exists(page):
        raise StorageError(f"--output {page}: must not exist yet (it does)")

    def write(found: Mapping[str, Any]) -> None:
        storage.write_text(page, show_plan(found, to_text(found)))

    return write
