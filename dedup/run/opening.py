"""Opening of a job's files as the source of a run on any engine, and estimates of their size."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from dedup.engine.capacity import MOST, USUAL, Assumed, estimate_bytes
from dedup.engine.machine import free_bytes
from dedup.engine.workers import count_cores
from dedup.errors import DataError
from dedup.files.listing import Listing, list_files, naming, part_formats
from dedup.files.source import FileSource, open_source
from dedup.files.systems import can_fork
from dedup.run.job import Job
from dedup.run.layers import find_vector, list_noted
from dedup.settings.options import Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = 2
"""Divisor of the free memory that gives the part expected for a search in one process."""
CLUSTER_BYTES = 1_000_000_000
"""Memory for a cluster's driver, whose container has little room beside its JVM; in bytes."""
SPLIT_BYTES = 8 << 20
"""Bytes of a split, as stored: several for each core of a large corpus, so that cores end together."""
LEAST_SPLIT_BYTES = 512 << 10
"""Bytes of a split of a small corpus, whose text may be ten times as large."""
ALONE_BYTES = 1 << 20
"""Bytes of input up to which other processes cost more than they save."""
PARTS_BYTES = 4
"""Memory per byte of text of documents in several rows: token hashes, as scanned and in order, and shingle sets."""
KNOWN_BYTES = 400
"""Memory per document of a store while a batch is added, for place, set and component: a process took 745 MB for 1.15
million; in bytes."""


def list_input(job: Job) -> Listing:
    """Return the files of a job.

    Raises
    ------
    StorageError
        When there are none, or their names do not tell one format.
    """
    chosen = job.config.input
    found = list_files(job.inputs, format=chosen.format, name_filter=chosen.name_filter)
    if not job.foreign:
        return found
    with naming("--without"):
        return replace(found, foreign=tuple(file for path in job.foreign for file in list_files([path]).files))


def open_input(config: Config, listing: Listing) -> FileSource:
    """Return the source of a job's files, read with its settings.

    Raises
    ------
    SchemaError, DataError
        As `open_source`.
    """
    chosen = config.input
    return open_source(
        # Workers of a cluster run in folders of their own, and the id of a text is its whole path.
        listing.absolute(),
        id_column=chosen.document_column,
        has_parts=bool(chosen.part_of),
        text_columns=config.text_columns,
        has_sets=config.shingles.has_sets,
        source_column=chosen.source_column,
        on_bad_record=chosen.on_bad_record,
        rules=config.rules,
        noted=list_noted(config),
        vector=find_vector(config),
        max_text_bytes=chosen.max_text_bytes,
    )


def check_unchanged(job: Job, listing: Listing) -> None:
    """Make sure that the files are those that were listed.

    Raises
    ------
    DataError
        When one has come, gone, or been written again: the result would be a mixture.
    """
    if list_input(job).fingerprint != listing.fingerprint:
        raise DataError("--input: must not change while the job reads it (it did): repeat the command")


def choose_cores(listing: Listing, paths: Sequence[str]) -> int:
    """Return the number of processes for the passes over files: one where more cost more than they save.

    Parameters
    ----------
    paths
        All paths read and written.
    """
    return count_cores() if listing.size > ALONE_BYTES and can_fork(paths) else 1


def choose_split_bytes(listing: Listing, *, asks_all: bool) -> int:
    """Return the bytes of a split, small enough for two splits per core of a small corpus.

    Parameters
    ----------
    asks_all
        Whether it is a batch for a store, each split of which may leave a file there.
    """
    size = min(SPLIT_BYTES, max(listing.size // (2 * count_cores()), LEAST_SPLIT_BYTES))
    return max(size, listing.size // (8 * count_cores())) if asks_all else size


def estimate_need(listing: Listing, config: Config, known: int = 0, *, assumed: Assumed = MOST) -> int:
    """Estimate the memory of a run from a look at a few of its files; in bytes.

    Parameters
    ----------
    known
        Documents of the store that the job's are added to.

    Raises
    ------
    DataError
        When one of these is damaged.
    """
    own, foreign = (part_formats(files) for files in (listing.files, listing.foreign))
    guessed = [[kind.guess(files, name) for name in config.text_columns] for kind, files in own]
    with naming("--without"):
        guessed += [[kind.guess(files, name) for name in config.text_columns] for kind, files in foreign]
    # Nothing tells how many documents are of each profile: all could be of that which needs most.
    profiles = config.by_profile.values()
    bands, rows = max((each.banding for each in profiles), key=prod)
    if any(each.shingles.unit == "char" for each in profiles):
        assumed = assumed._replace(text_bytes=1)
    text_bytes = sum(one.text_bytes for each in guessed for one in each)
    need = estimate_bytes(
        documents=sum(each[0].documents for each in guessed),
        bands=bands,
        rows=rows,
        mode=config.mode,
        text_bytes=text_bytes,
        assumed=assumed,
    )
    return need + known * KNOWN_BYTES + (PARTS_BYTES * text_bytes if config.input.part_of else 0)


def fits_driver(spark: "SparkSession", config: Config, need: int) -> bool:
    """Tell whether Spark's driver may hold a search that needs this much memory."""
    most = config.driver.search_bytes
    return need <= (choose_bytes(spark) if most == "auto" else most)


def choose_bytes(spark: "SparkSession") -> int:
    """Return the memory for Spark's driver where the settings leave it open."""
    from dedup.engine.sessions import has_memory  # noqa: PLC0415 - as below

    return free_bytes() // SHARE if has_memory(spark) else CLUSTER_BYTES


def assume(spark: "SparkSession", config: Config) -> Assumed:
    """Return the assumptions about a driver's search: the usual ones where tasks take over if memory runs out."""
    from dedup.engine.sessions import has_memory  # noqa: PLC0415 - a run in memory has no Spark

    return USUAL if config.driver.search_bytes == "auto" and has_memory(spark) else MOST
