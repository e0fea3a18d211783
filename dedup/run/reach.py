"""Check that a job's own workers reach its files, since Spark reads tables alone."""

import sys
import threading
import uuid
from typing import TYPE_CHECKING

from dedup.errors import StorageError
from dedup.files.globs import split_fixed
from dedup.files.storage import Storage
from dedup.files.systems import SCHEMES, is_local, redact, refuse_scheme, split_url
from dedup.run.job import Job
from dedup.run.layers import list_references

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 30.0
"""Seconds for all stores to answer."""
UNLISTED = {"http", "https", "hf"}
"""Schemes of places whose files Spark can never list."""


def find_session() -> "SparkSession | None":
    """Return the session of this process; None without one."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark import SparkContext  # noqa: PLC0415 - imported by now
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - as above

    if is_remote():
        return SparkSession.getActiveSession()
    if SparkContext._active_spark_context is None:  # noqa: SLF001 - to start none
        return None
    return SparkSession.builder.getOrCreate()


def check_schemes(job: Job, *more: str) -> None:
    """Refuse paths of unknown schemes before Spark is started only to refuse them.

    Parameters
    ----------
    more
        Further paths of the job, which Spark does not read.

    Raises
    ------
    StorageError
        Names the path.
    """
    ends = [job.output, *filter(None, [job.baseline])]
    labels = filter(None, [job.config.evaluation.labeled_pairs])
    own = [*labels, *(each.path for each in list_references(job.config)), *more]
    for path in [*own, *ends, *([] if job.has_table else job.inputs)]:
        scheme = split_url(path)[0] or "file"
        if scheme not in SCHEMES and (path in own or scheme in UNLISTED):
            raise refuse_scheme(path)
        if scheme not in SCHEMES and not job.has_table:
            raise advise(job, str(refuse_scheme(path)))


def check_reach(job: Job) -> None:
    """Refuse files that the machine's own credentials cannot read and write.

    Cost: beside an output elsewhere it writes and deletes a small file of a unique name.

    Raises
    ------
    StorageError
        Says how Spark reads them as a table.
    """
    readable = [split_fixed(path.rstrip("/"))[0] for path in job.read if not is_local(path)]
    output = "" if is_local(job.output) else job.output.rstrip("/")
    if not readable and not output:
        return
    said: list[str] = []
    probe = f".probe-{uuid.uuid4().hex}"

    def ask() -> None:
        storage = Storage()
        try:
            for path in readable:
                storage.exists(path)
            if output:
                storage.write_text(f"{output}{probe}", "")
                storage.delete(f"{output}{probe}")
            said.append("")
        except StorageError as error:
            said.append(str(error).replace(probe, ""))

    # Some clients have no time limits of their own, and a thread that waits for one must not hold up the end.
    asking = threading.Thread(target=ask, name="reach", daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    shown = ", ".join(map(redact, filter(None, [*readable, output])))
    if obstacle := said[0] if said else f"{shown}: no answer within {PATIENCE_SECONDS:.0f} s":
        raise advise(job, obstacle)


def check_sight(spark: "SparkSession", job: Job, lock: str) -> None:
    """Refuse an output that Spark takes to be elsewhere than its Python workers, which must see the lock there.

    Raises
    ------
    StorageError
        As `check_reach`.
    """
    from dedup.engine.sessions import is_connect, sees  # noqa: PLC0415 - a run in memory has no Spark

    if is_connect(spark):
        if not sees(spark, lock):
            raise StorageError(
                f"--output {redact(job.output)}: must be one place for this process, the server of Spark Connect and "
                "its Python workers (these do not see what is written there); choose one that all reach, as of a store"
            )
    elif not job.has_table and not Storage().exists(lock):
        rule = "must be one place for Spark and for its Python workers (these do not see what it writes)"
        raise advise(job, f"--output {redact(job.output)}: {rule}; give both the same credentials and a whole URL")


def advise(job: Job, obstacle: str) -> StorageError:
    """Return the error of files that only Spark may reach, with the option by which it reads them."""
    path = redact(next(iter(job.inputs), "PATH"))
    return StorageError(
        f"{obstacle}; files that only Spark reaches are a table: --table 'parquet.`{path}`' (or orc, json, csv) in "
        "place of --input"
    )
