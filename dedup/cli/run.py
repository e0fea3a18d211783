"""Remove near-duplicate documents from a text corpus."""

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Sequence

from dedup.cli.common import READING, SEARCH, Parser, add_options, add_settings, add_source, check_source, read_settings
from dedup.cli.process import STOPS, command, mute, stop_on_signals, tell_error, tell_stop
from dedup.display import hide_secrets, log_to_stderr
from dedup.errors import AlertError, DedupError, FinishedError
from dedup.version import __version__


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = Parser(
        prog="dedup run",
        usage="%(prog)s [-h] --input PATH [PATH ...] --output DIR [OPTION ...]",
        examples=[
            "dedup run --input corpus/*.jsonl --output clean",
            "dedup run --input pages.parquet --id-column id --layers exact,near --threshold 0.7 --output clean",
        ],
        description=__doc__,
        epilog="All settings, their meanings and defaults: conf/dedup.toml. Presets: docs/choosing.md",
    )
    reading = cli.add_argument_group("documents")
    add_source(reading, "files, folders or globs, local or of a store")
    add_options(reading, *READING)
    search = cli.add_argument_group("search")
    add_options(search, *SEARCH, "--without", "--drop", "--engine")
    add_settings(search)
    writing = cli.add_argument_group("output")
    writing.add_argument("--output", required=True, metavar="DIR", help="folder that must not exist yet")
    add_options(writing, "--mode", "--output-files", "--output-table")
    writing.add_argument(
        "--overwrite", action="store_true", help="replace an existing output once the new one is whole"
    )
    writing.add_argument("--baseline", metavar="DIR", help="output of an earlier run, for the report to compare with")
    store = cli.add_argument_group("a corpus that grows (docs/growing.md)")
    store.add_argument("--store", metavar="DIR", help="add the documents to a store of earlier ones")
    store.add_argument("--batch", default="", metavar="NAME", help="with --store: name of the batch")
    store.add_argument(
        "--reelect", action="store_true", help="with --store: let better documents replace those kept before"
    )
    cli.add_argument("--log-level", choices=["debug", "info", "warning", "error"], help="default: info on a terminal")
    cli.add_argument("--version", action="version", version=f"dedup {__version__}")
    options = cli.parse_args(arguments)
    if not options.store and (options.batch or options.reelect):
        cli.error("argument --batch, --reelect: need --store")
    return options


@command
def main(arguments: Sequence[str]) -> int:
    """Run the job; return 0, 2 after a user's mistake, 3 after an alert, 1 after a fault."""
    options = parse_arguments(arguments)
    stopped, begin = stop_on_signals(), time.time_ns()
    terminal = sys.stderr.isatty()
    log_to_stderr((options.log_level or ("info" if terminal else "warning")).upper())
    try:
        config = read_settings(options)
        check_source(options, config)

        # The engines take a second to import, which a mistake in the settings need not wait for.
        from dedup.informing import Inform  # noqa: PLC0415
        from dedup.report.show import to_table  # noqa: PLC0415
        from dedup.run.job import Job  # noqa: PLC0415
        from dedup.run.start import start  # noqa: PLC0415

        with contextlib.suppress(ImportError):  # the file is optional
            from dedup.run.shortcuts import block_pandas  # noqa: PLC0415

            if config.output.format != "jsonl":  # whose nanoseconds are told by pandas
                block_pandas()
        paths = {"inputs": options.input or [], "output": options.output, "baseline": options.baseline}
        job = Job(**paths, config=config, overwrite=options.overwrite, preset=options.preset or "", begun=begin / 1e9)
        work = None
        if options.store:
            from dedup.run.growing import Growth  # noqa: PLC0415 - only a store needs its modules

            work = Growth(store=options.store, batch=options.batch, anew=options.reelect)
        report = start(job, work=work)
        # What is finished is not stopped any more.
        for each in STOPS:
            signal.signal(each, signal.SIG_IGN)
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - whatever it is, the user gets an answer
        is_stopped = bool(stopped) or isinstance(error, KeyboardInterrupt)
        if is_stopped and is_published(options.output, begin):
            return 0
        return answer(error, stopped, options.output)
    output = hide_secrets(options.output).rstrip("/")
    engine = report["engine"]
    if engine == "spark" and report["search"] == "process":
        engine = "spark, searched by its driver"
    places = {"engine": engine, "result": output, "report": f"{output}/report.html, report.json"}
    if config.output.table:
        places["table"] = config.output.table
    table = Inform()("the summary", to_table, report, time.time() - job.begun) or ""
    show("\n".join([table, "", *(f"{name:<9}{value}" for name, value in places.items())]))
    return 0


def answer(error: BaseException, stopped: Sequence[signal.Signals], output: str) -> int:
    """Tell the user why the job ended, and return its status."""
    if stopped or isinstance(error, KeyboardInterrupt):
        return tell_stop(stopped, f"; nothing was published. The same command {tell_rest(output)}.")
    status = tell_error(error)
    if isinstance(error, FinishedError):
        return 0
    return 3 if isinstance(error, AlertError) else status


def tell_rest(output: str) -> str:
    """Say what the same command does after a run that was cut short."""
    try:
        from dedup.files.storage import Storage  # noqa: PLC0415 - as below
        from dedup.run.workspace import count_finished, locate  # noqa: PLC0415 - as below

        finished = count_finished(Storage(), locate(output))
    except (DedupError, OSError, ImportError):
        return "can be given again"
    return f"goes on after the {finished} tables that were finished" if finished else "starts from the beginning"


def is_published(output: str, begin: int) -> bool:
    """Tell whether the output was published after a time; in nanoseconds since 1970."""
    # NumPy cannot be imported again where a signal came amid its import.
    with contextlib.suppress(DedupError, ImportError):
        from dedup.files.storage import Storage  # noqa: PLC0415 - as below

        entry = Storage().look(f"{output}/_SUCCESS")
        return entry is not None and entry.changed >= begin
    return False


def show(text: str) -> None:
    """Print the result; a finished run does not fail because its reader has gone."""
    try:
        print(text, flush=True)
    except OSError:
        mute()
