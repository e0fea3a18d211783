"""Start of a run on the engine that it asks for, or that suits it."""

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dedup.display import size
from dedup.engine.machine import free_bytes
from dedup.errors import ConfigError
from dedup.extras import check_extra
from dedup.run.job import Job
from dedup.run.opening import SHARE, estimate_need, list_input
from dedup.run.reach import check_reach, check_schemes, find_session

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
        is_delta = job.config.input.table.startswith("delta.") or bool(job.config.output.table)
        spark = open_session(with_delta=is_delta)
    try:
        return _run_on(spark, job, work)
    finally:
        close_session(spark)


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
