"""Say why a document was removed or kept, from the output of a run alone."""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from dedup.cli.common import Parser, whole
from dedup.cli.process import command


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(
        prog="dedup explain",
        description=__doc__,
        epilog="Reads OUT without Spark: a local folder, or a URL that pyarrow reads (s3:// or s3a://, gs://, abfs://, "
        "hdfs:// where libhdfs is installed). It reads the ids of all rows and the texts of files that hold one asked "
        "for; without an id column all rows. In differences [-words-] are the first text's, {+words+} the second's.",
    )
    cli.add_argument("output", metavar="OUT", help="output of a finished run")
    what = cli.add_mutually_exclusive_group(required=True)
    what.add_argument("--id", metavar="X", help="the document to explain")
    what.add_argument("--top", type=whole(1), metavar="N", help="the N largest components and most doubtful removals")
    cli.add_argument("--with", dest="other", metavar="Y", help="with --id: what it has to do with this document")
    cli.add_argument("--json", action="store_true", help="all of it as JSON")
    cli.add_argument("--full", action="store_true", help="texts whole, not only where they differ")
    options = cli.parse_args(arguments)
    if options.other is not None and options.id is None:
        cli.error("argument --with: needs --id")
    if options.full and options.id is None:
        cli.error("argument --full: needs --id")
    return options


@command
def main(arguments: Sequence[str]) -> int:
    """Answer; return 0, 2 after a user's mistake, 1 after a fault."""
    options = parse_arguments(arguments)
    # pyarrow and SciPy take half a second to import, which --help need not wait for.
    from dedup.explain.explanation import explain, list_top  # noqa: PLC0415
    from dedup.explain.result import PublishedOutput  # noqa: PLC0415
    from dedup.explain.show import Style, to_json, to_tables, to_text  # noqa: PLC0415

    result = PublishedOutput(options.output)
    terminal = sys.stdout.isatty()
    style = Style(
        width=shutil.get_terminal_size().columns if terminal else Style().width,
        colour=terminal and not os.environ.get("NO_COLOR"),
        full=options.full,
    )
    if options.top is not None:
        top = list_top(result, options.top)
        text = to_json(top) if options.json else to_tables(top)
    else:
        found = explain(result, options.id, options.other)
        text = to_json(found) if options.json else to_text(found, style)
    print(text)
    return 0
