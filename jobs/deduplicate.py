"""Remove near-duplicate documents from a text corpus: scripts/dedup --input PATH --output DIR, or by spark-submit."""

import argparse
import dataclasses
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup import __version__
from dedup.config import load_config
from dedup.display import printable
from dedup.errors import AlertError, DedupError


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    cli = argparse.ArgumentParser(
        prog="dedup", description=__doc__, epilog="All settings, their meanings and defaults: conf/dedup.toml"
    )
    cli.add_argument("--input", required=True, action="append", metavar="PATH", help="file, folder or glob; repeatable")
    cli.add_argument("--output", required=True, metavar="DIR", help="folder that must not exist yet")
    cli.add_argument("--format", choices=["parquet", "jsonl", "csv", "text"], help="default: told from the names")
    cli.add_argument("--id-column", metavar="NAME", help="integers or strings; default: the digest of the row")
    cli.add_argument("--text-column", metavar="NAME", help='default: "text"')
    cli.add_argument("--config", metavar="FILE", help="settings, as in conf/dedup.toml")
    cli.add_argument("--preset", metavar="NAME", help="settings from conf/presets")
    cli.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; repeatable")
    cli.add_argument("--mode", choices=["filter", "annotate", "ids"], help='what to write; default: "filter"')
    cli.add_argument("--overwrite", action="store_true", help="replace an existing output once the new one is whole")
    cli.add_argument("--baseline", metavar="DIR", help="output of an earlier run, for the report to compare with")
    cli.add_argument("--log-level", choices=["debug", "info", "warning", "error"], help="default: info on a terminal")
    cli.add_argument("--version", action="version", version=f"dedup {__version__}")
    return cli.parse_args(arguments)


def stop_on_sigterm() -> threading.Event:
    """Let SIGTERM end Spark, and with it whatever waits for Spark; return what it sets."""
    stopped = threading.Event()

    def stop(number: int, _: object) -> None:
        stopped.set()
        pyspark = sys.modules.get("pyspark")
        context = pyspark and pyspark.SparkContext._active_spark_context  # noqa: SLF001 - to start none
        if not context:
            raise SystemExit(128 + number)
        # This thread is amid a call to the JVM and cannot make another.
        threading.Thread(target=context.stop, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    return stopped


def main(arguments: Sequence[str]) -> int:
    """Run the job; return 0, 2 after a user's mistake, 3 after an alert, 1 after a fault."""
    options = parse_arguments(arguments)
    stopped = stop_on_sigterm()
    terminal = sys.stderr.isatty()
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    level = options.log_level or ("info" if terminal else "warning")
    # It logs every lost connection, which is raised as well.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("dedup").setLevel(level.upper())
    try:
        config = load_config(options.config, options.preset, options.set)
        given = {"format": options.format, "id_column": options.id_column, "text_column": options.text_column}
        chosen = {name: value for name, value in given.items() if value is not None}
        config = dataclasses.replace(config, input=dataclasses.replace(config.input, **chosen))
        if options.mode:
            config = dataclasses.replace(config, output=dataclasses.replace(config.output, mode=options.mode))

        # Spark's modules take a second to import, which a mistake in the settings need not wait for.
        from dedup.session import open_session  # noqa: PLC0415

        with ThreadPoolExecutor(max_workers=1) as importer:
            # The stages take another half, in which the JVM starts.
            importer.submit(import_module, "dedup.pipeline")
            spark = open_session(quiet=not terminal)
        from dedup.pipeline import run  # noqa: PLC0415
        from dedup.report.build import to_table  # noqa: PLC0415
        from dedup.run import Job  # noqa: PLC0415

        try:
            paths = {"inputs": options.input, "output": options.output, "baseline": options.baseline}
            report = run(spark, Job(**paths, config=config, overwrite=options.overwrite))
        finally:
            spark.stop()
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets an answer and the exit code says so
        if stopped.is_set():
            print("dedup: stopped by SIGTERM; the same command goes on from the last finished stage", file=sys.stderr)
            return 128 + signal.SIGTERM
        if not isinstance(error, DedupError):
            traceback.print_exc()
            return 1
        print(f"dedup: {printable(str(error))}", file=sys.stderr)
        return 3 if isinstance(error, AlertError) else 2
    print(to_table(report))
    print(f"\nresult   {options.output}\nreport   {options.output}/report.html, report.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
