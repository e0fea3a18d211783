"""Remove near-duplicate documents from a text corpus."""

import argparse
import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from dedup.cli.common import add_settings, command, mute, print_error, read_settings, tell_error
from dedup.display import hide_secrets, log_to_stderr
from dedup.errors import AlertError, ConfigError, DedupError, FinishedError
from dedup.files.formats import FORMATS
from dedup.version import __version__


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = argparse.ArgumentParser(
        prog="dedup run", description=__doc__, epilog="All settings, their meanings and defaults: conf/dedup.toml"
    )
    source = cli.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", action="append", metavar="PATH", help="file, folder or glob; repeatable")
    source.add_argument("--table", metavar="NAME", help="table of Spark's catalog")
    cli.add_argument("--output", required=True, metavar="DIR", help="folder that must not exist yet")
    cli.add_argument(
        "--format",
        choices=[*FORMATS, "delta"],
        help="default: guessed from the file names",
    )
    cli.add_argument("--id-column", metavar="NAME", help="integers or strings; default: the digest of the row")
    cli.add_argument("--text-column", metavar="NAME", help='default: "text"')
    add_settings(cli)
    cli.add_argument("--mode", choices=["filter", "annotate", "ids"], help='what to write; default: "filter"')
    cli.add_argument("--engine", choices=["auto", "spark", "memory"], help='default: "auto"')
    cli.add_argument("--output-files", type=int, metavar="N", help="files of the result; default: those of the input")
    cli.add_argument("--output-table", metavar="NAME", help="table of Spark's catalog for the rows, instead of files")
    cli.add_argument("--overwrite", action="store_true", help="replace an existing output once the new one is whole")
    cli.add_argument("--baseline", metavar="DIR", help="output of an earlier run, for the report to compare with")
    cli.add_argument("--store", metavar="DIR", help="add the documents to a store of earlier ones (docs/growing.md)")
    cli.add_argument("--batch", default="", metavar="NAME", help="with --store: what the documents are called there")
    cli.add_argument(
        "--reelect", action="store_true", help="with --store: let documents kept before go for better ones"
    )
    cli.add_argument("--log-level", choices=["debug", "info", "warning", "error"], help="default: info on a terminal")
    cli.add_argument("--version", action="version", version=f"dedup {__version__}")
    options = cli.parse_args(arguments)
    if not options.store and (options.batch or options.reelect):
        cli.error("argument --batch, --reelect: need --store")
    return options


STOPS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a job in order: a scheduler's request, and the close of its terminal."""


def stop_on_signals() -> list[signal.Signals]:
    """End Spark on a signal, and with it every wait for Spark; return the list that the signal will be appended to."""
    stopped: list[signal.Signals] = []

    def stop(number: int, _: object) -> None:
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

    for each in STOPS:
        # nohup has it ignored.
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, stop)
    return stopped


@command
def main(arguments: Sequence[str]) -> int:
    """Run the job; return 0, 2 after a user's mistake, 3 after an alert, 1 after a fault."""
    options = parse_arguments(arguments)
    stopped, begin = stop_on_signals(), time.time_ns()
    terminal = sys.stderr.isatty()
    log_to_stderr()
    level = options.log_level or ("info" if terminal else "warning")
    logging.getLogger("dedup").setLevel(level.upper())
    try:
        config = read_settings(options)
        if options.input and config.input.table:
            where = f"input.table is set ({config.input.table!r})"
            raise ConfigError(f"--input: must not be given where {where}")  # noqa: TRY301 - answered as any other

        # The engines take a second to import, which a mistake in the settings need not wait for.
        from dedup.informing import Inform  # noqa: PLC0415
        from dedup.report.show import to_table  # noqa: PLC0415
        from dedup.run.job import Job  # noqa: PLC0415
        from dedup.run.start import start  # noqa: PLC0415

        with contextlib.suppress(ImportError):  # the file is optional
            from dedup.run.shortcuts import block_pandas  # noqa: PLC0415

            block_pandas()
        paths = {"inputs": options.input or [], "output": options.output, "baseline": options.baseline}
        job = Job(**paths, config=config, overwrite=options.overwrite)
        if options.store:
            from dedup.run.growing import Growth, add_batch  # noqa: PLC0415 - only a store needs Delta Lake

            report = add_batch(job, Growth(store=options.store, batch=options.batch, anew=options.reelect))
        else:
            report = start(job)
        # What is finished is not stopped any more.
        for each in STOPS:
            signal.signal(each, signal.SIG_IGN)
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - whatever it is, the user gets an answer
        if stopped and is_published(options.output, begin):
            return 0
        return answer(error, stopped)
    output = hide_secrets(options.output).rstrip("/")
    engine = report["engine"]
    if engine == "spark" and report["search"] == "process":
        engine = "spark, searched by its driver"
    places = {"engine": engine, "result": output, "report": f"{output}/report.html, report.json"}
    if config.output.table:
        places["table"] = config.output.table
    table = Inform()("the summary", to_table, report) or ""
    show("\n".join([table, "", *(f"{name:<9}{value}" for name, value in places.items())]))
    return 0


def answer(error: BaseException, stopped: Sequence[signal.Signals]) -> int:
    """Tell the user why the job ended, and return its status."""
    if isinstance(error, KeyboardInterrupt):
        print_error("interrupted; the same command goes on")
        return 128 + signal.SIGINT
    if stopped:
        print_error(f"stopped by {stopped[0].name}; the same command goes on")
        return 128 + stopped[0]
    status = tell_error(error)
    if isinstance(error, FinishedError):
        return 0
    return 3 if isinstance(error, AlertError) else status


def is_published(output: str, begin: int) -> bool:
    """Tell whether the output was published after a time; in nanoseconds since 1970."""
    from dedup.files.storage import Storage  # noqa: PLC0415 - as below

    with contextlib.suppress(DedupError):
        entry = Storage().look(f"{output}/_SUCCESS")
        return entry is not None and entry.changed >= begin
    return False


def show(text: str) -> None:
    """Print the result; a finished run does not fail because its reader has gone."""
    try:
        print(text, flush=True)
    except OSError:
        mute()
