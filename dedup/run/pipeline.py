"""A run on Spark: of files, searched by the driver or by tasks, or of a table."""

import logging
from dataclasses import replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dedup.display import size
from dedup.engine import sessions
from dedup.engine.tasks import Tasks
from dedup.errors import AlertError, CapacityError, DataError, DedupError, SchemaError
from dedup.files.storage import Storage
from dedup.files.systems import absolute
from dedup.run import local, spark_input
from dedup.run.apart import check_apart
from dedup.run.clock import Clock
from dedup.run.execution import Work, execute
from dedup.run.faults import recognise
from dedup.run.input import is_lasting, load_table
from dedup.run.job import Job
from dedup.run.opening import assume, estimate_need, fits_driver, list_input
from dedup.run.reach import advise, check_sight
from dedup.run.session import WHOLE_STAGE
from dedup.run.storage import open_storage
from dedup.run.workspace import Workspace, locate

LOG = logging.getLogger("dedup")


def run(spark: SparkSession, job: Job, work: Work | None = None) -> dict[str, Any]:
    """Remove the near-duplicates of a corpus and publish the result.

    Parameters
    ----------
    work
        Task of the run; None to remove the duplicates.

    Returns
    -------
    dict
        Content of report.json.

    Raises
    ------
    DedupError
        When the input, the settings or the output do not allow it; nothing is published.
    """
    if work is not None:
        need = estimate_need(list_input(job), job.config, work.count_known())
        if fits_driver(spark, job.config, need):
            LOG.info("the batch needs about %s of memory: the driver adds it without a job of Spark", size(need))
            return local.run_in_memory(job, work)
    if job.config.input.table:
        table = load_table(spark, job.config.input.table)
        job = replace(job, table=table, inputs=sessions.list_roots(table))
    if job.table is not None and job.config.input.without:
        foreign = {name: load_table(spark, name, "--without") for name in job.config.input.without}
        roots = (root for each in foreign.values() for root in sessions.list_roots(each))
        job = replace(job, foreign_tables=foreign, inputs=[*job.inputs, *roots])
    check_apart(job.read, job.output)
    job, storage = job.settle(), open_storage(spark)
    on_disk = storage.is_on_disk(job.output)
    output = locate(job.output) if on_disk else job.output
    if on_disk and (":" in output or sessions.is_connect(spark)):
        # Hadoop takes what stands before a colon for a scheme, and a server works in a folder of its own.
        output = absolute(output)
    # For each file on a disk Hadoop starts a program, and a lock is to be given up even where Spark has died.
    files, locks = (Storage(), Storage()) if on_disk else (storage, storage.without_checksums())
    # A client's settings are the server's, which `suit_session` leaves alone.
    changed = [] if sessions.is_connect(spark) else [WHOLE_STAGE]
    with sessions.suited(spark, *changed), Workspace(files, output, locks=locks) as workspace:
        try:
            return _run(spark, job, workspace, work)
        except (DedupError, PySparkException, Py4JError, OSError) as error:
            if sessions.is_stopped(spark):
                raise
            known = error if isinstance(error, DedupError) else recognise(error)
            # What the user mends may be what the finished stages were made of.
            is_lost = isinstance(known, DataError | SchemaError)
            is_last = job.table is not None and not all(map(is_lasting, [job.config.input.table, *job.foreign_tables]))
            if is_lost or (is_last and not isinstance(known, AlertError)):
                workspace.abandon()
            if known is None or known is error:
                raise
            raise known from error


def _run(spark: SparkSession, job: Job, workspace: Workspace, work: Work | None) -> dict[str, Any]:
    clock = Clock(sessions.Jobs(spark), begun=job.begun)
    check_sight(spark, job, f"{workspace.output}.lock")
    if job.table is not None:
        return execute(job, workspace, spark_input.open_rows(spark, job, job.table, workspace), clock)
    listing = list_input(job)
    if sessions.is_connect(spark) and not sessions.sees(spark, listing.absolute().files[0].path):
        raise advise(job, "--input: must be files that the Python workers of the server reach (they do not)")
    if work is None and fits_driver(
        spark, job.config, estimate_need(listing, job.config, assumed=assume(spark, job.config))
    ):
        # Its tasks ask nothing of Spark's engine, and are told by themselves.
        own, tasks = Clock(begun=job.begun), partial(Tasks, spark)
        try:
            given = local.open_files(job, listing, workspace, own, spark=spark.version, begin=tasks)
            return execute(job, workspace, given, own)
        except CapacityError as error:
            LOG.warning("the driver lacks memory for the search, which the tasks make instead (%s)", error)
    return execute(job, workspace, spark_input.open_files(spark, job, listing, workspace), clock, work=work)
