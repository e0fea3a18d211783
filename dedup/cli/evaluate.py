"""Measure how well settings find the duplicates of a corpus, and compare two."""

import argparse
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dedup import __version__
from dedup.display import hide_secrets, log_to_stderr, printable
from dedup.errors import DedupError
from dedup.settings.files import change_input, load_config

if TYPE_CHECKING:
    from dedup.evaluate.evaluation import Question


def count(text: str) -> int:
    """Read a number of documents or copies."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def parse_arguments(arguments: Sequence[str], prog: str = "evaluate") -> argparse.Namespace:
    """Parse the command line."""
    cli = argparse.ArgumentParser(prog=prog, description=__doc__, epilog="More: docs/evaluating.md")
    cli.add_argument("--input", required=True, action="append", metavar="PATH", help="file, folder or glob; repeatable")
    truth = cli.add_mutually_exclusive_group(required=True)
    truth.add_argument("--exact", action="store_true", help="hold the result against an exact search")
    truth.add_argument("--planted", type=count, default=0, metavar="N", help="against N edited copies made here")
    truth.add_argument("--pairs", default="", metavar="FILE", help="against pairs: left_id, right_id[, duplicate]")
    cli.add_argument("--sample", type=count, default=10_000, metavar="N", help="documents to draw; default: 10,000")
    cli.add_argument("--output", default="", metavar="DIR", help="folder to write evaluation.json to")
    cli.add_argument(
        "--format", choices=["parquet", "arrow", "orc", "jsonl", "csv", "text"], help="default: told from the names"
    )
    cli.add_argument("--id-column", metavar="NAME", help="integers or strings; default: the digest of the row")
    cli.add_argument("--text-column", metavar="NAME", help='default: "text"')
    cli.add_argument("--config", metavar="FILE", help="settings, as in conf/dedup.toml")
    cli.add_argument("--preset", metavar="NAME", help="settings from dedup/settings/presets")
    cli.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; repeatable")
    cli.add_argument(
        "--against", action="append", default=[], metavar="KEY=VALUE", help="compare with this setting too"
    )
    cli.add_argument("--other-config", metavar="FILE", help="compare with these settings, changed by --against")
    cli.add_argument("--overwrite", action="store_true", help="replace an existing evaluation.json")
    cli.add_argument("--version", action="version", version=f"dedup {__version__}")
    return cli.parse_args(arguments)


def _evaluate_on_spark(question: "Question") -> dict[str, Any]:
    from dedup.evaluate.evaluation import evaluate  # noqa: PLC0415 - as below
    from dedup.run.session import close_session, open_session  # noqa: PLC0415 - as below

    spark = open_session(quiet=not sys.stderr.isatty())
    try:
        return evaluate(spark, question)
    finally:
        close_session(spark)


def main(arguments: Sequence[str], prog: str = "evaluate") -> int:
    """Run the job; return 0, 2 after a user's mistake, 1 after a fault."""
    options = parse_arguments(arguments, prog)
    log_to_stderr()
    try:
        layers = [(options.config, options.preset, options.set)]
        if options.other_config:
            layers.append((options.other_config, None, options.against))
        elif options.against:
            layers.append((options.config, options.preset, options.set + options.against))
        given = {"format": options.format, "id_column": options.id_column, "text_column": options.text_column}
        configs = [change_input(load_config(*layer), **given) for layer in layers]

        # What evaluates takes a second to import, which a mistake in the settings need not wait for.
        from dedup.evaluate.evaluation import Question, check_comparable, evaluate, needs_spark, to_table  # noqa: PLC0415

        question = Question(
            inputs=options.input,
            config=configs[0],
            other=configs[1] if len(configs) > 1 else None,
            pairs=options.pairs,
            planted=options.planted,
            sample=options.sample,
            output=options.output,
            overwrite=options.overwrite,
        )
        check_comparable(question.config, question.other)
        answer = _evaluate_on_spark(question) if needs_spark(question) else evaluate(None, question)
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets an answer and the exit code says so
        if not isinstance(error, DedupError):
            print(hide_secrets(traceback.format_exc()), end="", file=sys.stderr)
            return 1
        print(f"dedup: {printable(hide_secrets(str(error)))}", file=sys.stderr)
        return 2
    print(to_table(answer))
    if options.output:
        print(f"\nwritten      {hide_secrets(options.output)}/evaluation.json")
    return 0
