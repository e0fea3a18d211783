"""Check that a job's own workers reach its files, since Spark reads tables alone."""

import os
import re
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dedup.errors import StorageError
from dedup.files.globs import MAGIC
from dedup.files.storage import Storage
from dedup.files.systems import (
    OBJECT_STORES,
    SCHEMES,
    is_local,
    redact,
    redact_text,
    refuse_scheme,
    split_url,
)
from dedup.run.job import Job
from dedup.run.layers import list_references

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 30.0
"""Seconds for all stores to answer."""
UNLISTED = {"http", "https", "hf"}
"""Schemes of places whose files Spark can never list."""
ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "access.key": ("AWS_ACCESS_KEY_ID",),
    "secret.key": ("AWS_SECRET_ACCESS_KEY",),
    "session.token": ("AWS_SESSION_TOKEN",),
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
}
"""Environment variables that pyarrow reads, by the name of Spark's setting `fs.s3a.` for the same."""
OWN_SETTINGS = {
    "s3": r"fs\.s3a\.(?:bucket\.{authority}\.)?(?P<name>access\.key|secret\.key|session\.token|endpoint"
    r"|aws\.credentials\.provider|assumed\.role\.arn|security\.credential\.provider\.path|encryption\.(?:key|algorithm)"
    r"|server-side-encryption.*|proxy\.host|requester\.pays\.enabled)",
    "gs": r"(?P<name>(?:fs\.gs|google\.cloud)\.(?:.*auth.*|.*root\.url|proxy\.address|encryption.*))",
    "abfs": r"(?P<name>fs\.azure\.(?:account\.(?:key|auth|oauth|keyprovider)|sas|encryption).*)",
}
"""Settings of Spark that decide the place and the credentials of a store, by the store's name."""


def find_session() -> "SparkSession | None":
    """Return the session of this process; None without one."""
    pyspark = sys.modules.get("pyspark")
    if pyspark is None or pyspark.SparkContext._active_spark_context is None:  # noqa: SLF001 - to start none
        return None
    from pyspark.sql import SparkSession  # noqa: PLC0415 - imported by now

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

    Raises
    ------
    StorageError
        Says how Spark reads them as a table.
    """
    if obstacle := find_obstacle(job):
        raise advise(job, obstacle)


def check_reach_beside(spark: "SparkSession", job: Job) -> None:
    """Refuse the same beside a running Spark, which may have other credentials, file systems and machines.

    Raises
    ------
    StorageError
        As `check_reach`.
    """
    if obstacle := find_obstacle_beside(spark, job):
        raise advise(job, obstacle)


def advise(job: Job, obstacle: str) -> StorageError:
    """Return the error of files that only Spark may reach, with the option by which it reads them."""
    path = redact(next(iter(job.inputs), "PATH"))
    return StorageError(
        f"{obstacle}; files that only Spark reaches are a table: --table 'parquet.`{path}`' (or orc, json, csv) in "
        "place of --input"
    )


def find_obstacle(job: Job) -> str:
    """Return the reason why the machine's own credentials cannot read and write a job's files; empty if they can.

    Cost: beside an output elsewhere it writes and deletes a small file of a unique name.
    """
    labels = filter(None, [job.config.evaluation.labeled_pairs])
    return _find_obstacle([*_select_remote(job.inputs), *_select_remote(labels)], *_select_remote([job.output]))


def find_obstacle_beside(spark: "SparkSession", job: Job) -> str:
    """Return the same beside a running Spark, which may have other credentials, file systems and machines."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - Hadoop's settings have no other door
    paths = [*job.inputs, job.output]
    remote = _select_remote(paths)
    obstacle = next(filter(None, (_compare(conf, path) for path in paths)), "")
    obstacle = obstacle or _find_obstacle(_select_remote(job.inputs), *_select_remote([job.output]))
    if obstacle or not remote or str(spark.sparkContext.master).startswith("local"):
        return obstacle
    count = spark.sparkContext.defaultParallelism
    # Credentials of the driver's own environment are none of an executor's.
    probes = spark.sparkContext.parallelize(range(count), count).map(lambda _: _find_obstacle(remote))
    return next((f"on an executor: {found}" for found in probes.collect() if found), "")


def is_on_disk(spark: "SparkSession", path: str) -> bool:
    """Tell whether Spark, too, takes a path for one on the machines' own disks."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    return is_local(path) and not _compare(conf, path)


def _select_remote(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not is_local(path)]


def _find_obstacle(readable: Sequence[str], output: str = "") -> str:
    """Return the reason why these paths cannot be read or this output cannot be written."""
    if not readable and not output:
        return ""
    said: list[str] = []
    probe = f".probe-{uuid.uuid4().hex}"

    def ask() -> None:
        storage = Storage()
        try:
            for path in readable:
                storage.exists(_fixed(path))
            if output:
                storage.write_text(f"{output.rstrip('/')}{probe}", "")
                storage.delete(f"{output.rstrip('/')}{probe}")
            said.append("")
        except StorageError as error:
            said.append(str(error).replace(probe, ""))

    # Some clients have no time limits of their own, and a thread that waits for one must not hold up the end.
    asking = threading.Thread(target=ask, name="reach", daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    shown = ", ".join(redact(path) for path in filter(None, [*readable, output]))
    return said[0] if said else f"{shown}: no answer within {PATIENCE_SECONDS:.0f} s"


def _fixed(path: str) -> str:
    """Return the part of a path before its first glob."""
    parts = path.rstrip("/").split("/")
    first = next((number for number, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    return "/".join(parts[:first])


def _compare(conf: Any, path: str) -> str:  # noqa: ANN401 - a Java object
    """Return the reason why Spark reads another place under this path than pyarrow, or with other credentials."""
    default = str(conf.get("fs.defaultFS", "file:///"))
    if is_local(path):
        is_same = default.startswith("file:") or path.startswith("file:")
        return "" if is_same else f"{path}: is on Spark's file system {redact_text(default)}"
    scheme, rest = split_url(path)
    store = OBJECT_STORES.get(scheme, "abfs" if scheme == "abfss" else scheme)
    for name, own in _list_settings(conf, store, rest.partition("/")[0]):
        if own != next(filter(None, map(os.environ.get, ENVIRONMENT.get(name, ()))), ""):
            return f"{redact(path)}: Spark has settings of its own for it ({name})"
    return ""


def _list_settings(conf: Any, store: str, authority: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - as above
    """Yield the user's settings of a store, by name."""
    if store not in OWN_SETTINGS:
        return
    pattern = OWN_SETTINGS[store].replace("{authority}", re.escape(authority))
    for key in conf.getValByRegex(pattern.replace("?P<", "?<")):
        sources = conf.getPropertySources(key)
        found = re.fullmatch(pattern, key)
        if found and not (sources and str(sources[0]).endswith("-default.xml")):
            yield found["name"], str(conf.get(key) or "").rstrip("/")
