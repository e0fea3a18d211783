"""Measure how well settings find the duplicates of a corpus, and compare two."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dedup.cli.common import (
    READING,
    SEARCH,
    Parser,
    add_options,
    add_settings,
    add_source,
    check_source,
    read_settings,
    whole,
)
from dedup.cli.process import command
from dedup.display import hide_secrets, log_to_stderr
from dedup.extras import check_extra
from dedup.version import __version__

if TYPE_CHECKING:
    from dedup.evaluate.evaluation import EvaluationQuestion

DRAWN = 10_000


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(prog="dedup evaluate", description=__doc__, epilog="More: docs/evaluating.md")
    add_source(cli, "files, folders or globs")
    truth = cli.add_mutually_exclusive_group(required=True)
    truth.add_argument("--exact", action="store_true", help="hold the result against an exact search")
    truth.add_argument("--planted", type=whole(1), default=0, metavar="N", help="against N edited copies made here")
    truth.add_argument("--pairs", default="", metavar="FILE", help="against pairs: left_id, right_id[, duplicate]")
    cli.add_argument("--sample", type=whole(1), metavar="N", help=f"documents to draw; default: {DRAWN:,}")
    cli.add_argument("--output", default="", metavar="DIR", help="folder to write evaluation.html and .json to")
    add_options(cli, *READING, *SEARCH, "--engine")
    add_settings(cli)
    cli.add_argument(
        "--against", action="append", default=[], metavar="KEY=VALUE", help="compare with this setting too"
    )
    cli.add_argument("--other-config", metavar="FILE", help="compare with these settings, changed by --against")
    cli.add_argument("--overwrite", action="store_true", help="replace an existing evaluation.json")
    cli.add_argument("--version", action="version", version=f"dedup {__version__}")
    options = cli.parse_args(arguments)
    if options.pairs and options.sample:
        cli.error("argument --sample: must be left out with --pairs, whose documents are drawn")
    if options.overwrite and not options.output:
        cli.error("argument --overwrite: needs --output")
    return options


def _evaluate_on_spark(question: "EvaluationQuestion") -> dict[str, Any]:
    from dedup.evaluate.dispatch import evaluate  # noqa: PLC0415 - as below

    check_extra("engine spark", "spark")
    from dedup.run.session import close_session, open_session  # noqa: PLC0415 - as below

    spark = open_session(with_delta=question.config.input.table.lower().startswith("delta."))
    try:
        return evaluate(spark, question)
    finally:
        close_session(spark)


@command
def main(arguments: Sequence[str]) -> int:
    """Run the job; return 0, 2 after a user's mistake, 1 after a fault."""
    options = parse_arguments(arguments)
    log_to_stderr()
    config, other = read_settings(options), None
    check_source(options, config)
    if options.other_config:
        # What else an option sets must be that of the first.
        changed = {"config": options.other_config, "preset": None, "set": [], "threshold": None}
        other = read_settings(argparse.Namespace(**vars(options) | changed), options.against)
    elif options.against:
        other = read_settings(options, options.against)

    # What evaluates takes a second to import, which a mistake in the settings need not wait for.
    from dedup.evaluate.dispatch import evaluate, needs_spark  # noqa: PLC0415
    from dedup.evaluate.evaluation import EvaluationQuestion, check_comparable  # noqa: PLC0415
    from dedup.evaluate.show import to_table  # noqa: PLC0415

    question = EvaluationQuestion(
        inputs=options.input or [],
        config=config,
        other=other,
        pairs=options.pairs,
        planted=options.planted,
        sample=options.sample or DRAWN,
        output=options.output,
        overwrite=options.overwrite,
    )
    check_comparable(question.config, question.other)
    answer = _evaluate_on_spark(question) if needs_spark(question) else evaluate(None, question)
    print(to_table(answer))
    if options.output:
        print(f"\nwritten      {hide_secrets(options.output)}/evaluation.html, evaluation.json")
    return 0
