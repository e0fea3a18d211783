"""Start of a run on the engine that it asks for, or that suits it."""

import logging
import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dedup.display import size
from dedup.engine.machine import free_bytes
from dedup.errors import ConfigError
from dedup.extras import check_extra
from dedup.files.systems import redact
from dedup.run.job import Job
from dedup.run.lineage import follow
from dedup.run.opening import SHARE, estimate_need, list_input
from dedup.run.reach import check_reach, check_schemes, find_session
from dedup.store.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dedup.run.execution import Work

LOG = logging.getLogger("dedup")


def start(job: Job, *, spark: "SparkSession | None" = None, work: "Work | None" = None) -> dict[str, Any]:
    """Run a job on the engine of its settings, in a Spark session of its own if it takes one and there is none.

    Parameters
    ----------
    spark
        The caller's session, which "auto" takes.
    work
        Task of the run; None to remove the duplicates.

    Returns
    -------
    dict
        Contents of report.json.

    Raises
    ------
    DedupError
        As `run.local.run_in_memory` and `run.pipeline.run`.
    """
    with follow(job, work) as tell:
        report = _start(job, spark, work)
        tell(report)
    return report


def _start(job: Job, spark: "SparkSession | None", work: "Work | None") -> dict[str, Any]:
    job.check_foreign()
    job, work = choose_work(job, work)
    check_schemes(job, *([] if work is None else [work.store]))
    if job.config.engine != "memory" and not job.has_table:
        check_reach(job)
    if work is not None:
        work.prepare(job)
    known = 0 if work is None else work.count_known()
    if (spark is None or job.config.engine == "memory") and choose_engine(job, known) == "memory":
        from dedup.run.local import run_in_memory  # noqa: PLC0415 - for Spark it is imported while the JVM starts

        return run_in_memory(job, work)
    check_extra("engine spark", "spark")
    from dedup.run.session import check_workers, close_session, open_session  # noqa: PLC0415 - needs Spark's packages

    spark = spark or find_session()
    if spark is not None:
        check_workers(spark)
        return _run_on(spark, job, work)
    LOG.info("starting Spark ...")
    # Its modules take a second to import, and the stages another half, in which the JVM starts.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(max_workers=1) as importer:
        importer.submit(import_module, "dedup.run.pipeline")
        names = [job.config.input.table, *(job.config.input.without if job.has_table else ())]
        is_delta = any(name.lower().startswith("delta.") for name in names) or bool(job.config.output.table)
        spark = open_session(with_delta=is_delta)
    try:
        return _run_on(spark, job, work)
    finally:
        close_session(spark)


def choose_work(job: Job, work: "Work | None") -> tuple[Job, "Work | None"]:
    """Return a job and its task, which compares with a store where the input is to lose what that has.

    Raises
    ------
    ConfigError
        When the input is to lose what a store has, and other things besides, or is to be added to another.
    """
    without, batches = job.config.input.without, job.config.input.without_batches
    if without and work is not None:
        raise ConfigError("--without: must not be given with --store, which compares with what it has")
    stores = [] if job.has_table else [path for path in without if Tables(path).exists()]
    if batches and not stores:
        raise ConfigError("input.without_batches: needs a store as input.without")
    if not stores:
        if work is None and not job.config.shingles.stored:
            LOG.warning("shingles.stored: changes nothing without --store, as only a store holds shingle sets")
        return job, work
    if len(without) > 1:
        raise ConfigError(f"--without: must be files, or one store (got {', '.join(map(redact, without))})")
    from dedup.run.growing import Growth  # noqa: PLC0415 - only a store needs its modules

    plain = replace(job.config, input=replace(job.config.input, without=(), without_batches=()))
    return replace(job, config=plain), Growth(store=stores[0], batch="", keeps=False, batches=batches)


def _run_on(spark: "SparkSession", job: Job, work: "Work | None") -> dict[str, Any]:
    from dedup.run.pipeline import run  # noqa: PLC0415 - as above

    return run(spark, job, work)


def choose_engine(job: Job, known: int = 0) -> str:
    """Return "memory" or "spark".

    Under spark-submit it is Spark. Where "auto" leaves the choice, it is memory if the estimate of what the search
    needs is at most half of the memory that is free.

    Parameters
    ----------
    known
        Documents of the store that those of the job are added to.

    Raises
    ------
    StorageError
        When the input is missing, or its names do not tell one format.
    ConfigError
        When memory is to hold a table, which only Spark reads and writes.
    """
    chosen = job.config.engine
    job.check_rows()
    if job.has_table and chosen == "memory":
        raise ConfigError('engine: must be "spark" or "auto" where the input is a table (got "memory")')
    if "PYSPARK_GATEWAY_PORT" in os.environ or job.has_table or chosen == "spark":
        return "spark"
    if chosen == "memory":
        return chosen
    listing = list_input(job)
    need, free = estimate_need(listing, job.config, known), free_bytes()
    fits = need * SHARE <= free
    LOG.info(
        "engine %s: %s of input need about %s of memory, %s are free",
        "memory" if fits else "spark",
        size(listing.size),
        size(need),
        size(free),
    )
    return "memory" if fits else "spark"
