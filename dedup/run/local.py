"""A run that one process searches: files in, layers on the memory engine, files out, with Spark or without."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from dedup.engine.machine import free_bytes
from dedup.engine.memory import MemoryEngine
from dedup.engine.workers import Open, Processes, count_cores
from dedup.errors import DataError, SchemaError
from dedup.files.listing import Listing
from dedup.files.source import FileSource
from dedup.files.splits import Split, split_files
from dedup.files.storage import Storage
from dedup.files.systems import absolute
from dedup.kernels.sets.identical import find_repeated
from dedup.output.file_output import check_output
from dedup.output.processes import MemoryOutput
from dedup.output.result_tables import ResultWriter
from dedup.run.apart import check_apart
from dedup.run.clock import Clock
from dedup.run.execution import Given, Work, execute
from dedup.run.job import Job
from dedup.run.layers import name_repeated
from dedup.run.opening import check_unchanged, choose_cores, choose_split_bytes, list_input, open_input
from dedup.run.workspace import Workspace, locate

HELD_SHARE = 4
"""Part of the free memory that shingle sets may take, as a divisor: well compressed text can be a hundred times as
much."""


def run_in_memory(job: Job, work: Work | None = None) -> dict[str, Any]:
    """Remove the duplicates of files on this machine alone, and publish the result.

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
        When the input, the settings, the output or the memory do not allow it; nothing is published.
    """
    check_apart(job.read, job.output)
    job, clock = job.settle(), Clock(begun=job.begun)
    with Workspace(Storage(), locate(job.output)) as workspace:
        try:
            given = open_files(job, list_input(job), workspace, clock, asks_all=work is not None)
            return execute(job, workspace, given, clock, work=work)
        except (DataError, SchemaError):
            workspace.abandon()
            raise


def open_files(
    job: Job,
    listing: Listing,
    workspace: Workspace,
    clock: Clock,
    *,
    asks_all: bool = False,
    spark: str | None = None,
    begin: Open | None = None,
) -> Given[pa.Table]:
    """Return the input of a search in this process.

    Parameters
    ----------
    asks_all
        Whether the task asks for the shingle sets of all documents.
    spark
        Version of Spark; None without.
    begin
        Opens what makes the passes over the files; by default processes of this machine.
    """
    source = open_input(job.config, listing)
    schema = check_output(job.config, source)
    cores = count_cores() if spark else choose_cores(listing, [*job.inputs, job.output])
    splits = list_splits(listing, cores, asks_all=asks_all)

    def open_output(engine: MemoryEngine) -> ResultWriter[pa.Table]:
        folder = absolute(workspace.result)
        return MemoryOutput(config=job.config, source=source, schema=schema, folder=folder, engine=engine)

    def list_repeated(engine: MemoryEngine) -> pa.Table | None:
        if not name_repeated(job.config)[0]:
            return None
        doc_ids = find_repeated(engine.known.documents["doc_id"].to_numpy())
        return pa.table({"doc_id": doc_ids}) if doc_ids.size else None

    return Given(
        fingerprint=listing.fingerprint,
        id_type=source.id_type,
        size=listing.size,
        search="process",
        format=listing.format.name,
        spark=spark,
        begin=partial(open_engine, source, splits, cores, begin=begin, watch=clock.watch),
        open_output=open_output,
        list_repeated=list_repeated,
        check_unchanged=partial(check_unchanged, job, listing),
        held_bytes=choose_held_bytes(splits),
        forks=spark is None and cores > 1,
    )


def list_splits(listing: Listing, cores: int, *, asks_all: bool) -> list[Split]:
    """Return the splits of a search in this process, whose files so many cores read."""
    return split_files(listing, choose_split_bytes(listing, asks_all=asks_all), cores)


def choose_held_bytes(splits: list[Split]) -> int:
    """Return the bytes of shingle sets that the first pass may give back for each split."""
    return free_bytes() // HELD_SHARE // max(len(splits), 1)


@contextmanager
def open_engine(
    source: FileSource,
    splits: list[Split],
    cores: int,
    *,
    begin: Open | None = None,
    watch: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[MemoryEngine]:
    """Yield the engine of files, with those who share its work: by default processes of this machine."""
    id_column = "" if source.columns.has_parts else source.columns.id
    with (begin or partial(Processes, min(cores, len(splits))))(source, watch=watch) as workers:
        yield MemoryEngine(workers=workers, splits=splits, id_type=source.id_type, id_column=id_column, threads=cores)
