"""A run that one process searches: files in, layers on the memory engine, files out, with Spark or without."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from dedup.engine.machine import free_bytes
from dedup.engine.memory import MemoryEngine
from dedup.engine.workers import Open, Processes, count_cores, open_beside
from dedup.errors import DataError, SchemaError
from dedup.files.listing import Listing
from dedup.files.source import FileSource
from dedup.files.splits import split_files
from dedup.files.storage import Storage
from dedup.files.systems import absolute
from dedup.informing import PLOTS
from dedup.kernels.sets.identical import find_repeated
from dedup.layers.layer import Context
from dedup.output.file_output import check_output
from dedup.output.processes import MemoryOutput
from dedup.output.result_tables import write_result
from dedup.report.profiles import unite
from dedup.report.summary import FIGURES, Drawing, draw
from dedup.run.clock import Clock
from dedup.run.job import Job
from dedup.run.layers import load_layers, name_repeated
from dedup.run.opening import choose_batch_split_bytes, choose_cores, choose_split_bytes, list_input, open_input
from dedup.run.overlap import check_apart
from dedup.run.pairs import read_duplicates
from dedup.run.profiles import Part, list_parts
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.search import Deduplication, Run, Searched, Work, set_up
from dedup.run.workspace import Workspace, locate
from dedup.settings.options import Config

HELD_SHARE = 4
"""Part of the free memory that shingle sets may take, as a divisor: well compressed text can be a hundred times as
much."""


class Spark(NamedTuple):
    """A session whose tasks make the passes over the files."""

    version: str
    begin: Open


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
    job, storage = job.settle(), Storage()
    with Workspace(storage, locate(job.output)) as workspace:
        try:
            baseline = read_baseline(storage, job.baseline)
            return search_files(job, list_input(job), workspace, baseline, work=work or Deduplication())
        except (DataError, SchemaError):
            workspace.abandon()
            raise


def search_files(
    job: Job,
    listing: Listing,
    workspace: Workspace,
    baseline: Mapping[str, Any] | None,
    *,
    work: Work,
    spark: Spark | None = None,
) -> dict[str, Any]:
    """Do the same while no other run works on the output.

    Parameters
    ----------
    spark
        Session whose tasks make the passes over the files; None for processes of this machine.
    """
    config = job.config
    source = open_input(config, listing)
    check_output(config, source)
    labels = read_duplicates(config, source.id_type)
    parts = list_parts(config)
    spec = parts[-1].spec
    work.check(config, spec, source.id_type)
    workspace.open({**identify(job, spec, listing.fingerprint), **work.identity}, overwrite=job.overwrite)
    clock = Clock(begun=job.begun)
    with (
        # A process that talks to a JVM is not forked.
        ThreadPoolExecutor(1) if spark else open_beside(FIGURES) as plotting,
        open_engine(job, listing, source, spark=spark, asks_all=work.asks_all, watch=clock.watch) as engine,
    ):
        context = make_context(listing, engine, labels=labels, asks_all=work.asks_all)
        if spark is None and engine.threads > 1:
            for part in parts:
                for layer in load_layers(config):
                    layer.warm(set_up(layer.name, part, context, clock))

        def publish(found: Searched[pa.Table]) -> dict[str, Any]:
            return _publish(
                job,
                listing,
                source,
                workspace,
                found,
                parts=parts,
                clock=clock,
                baseline=baseline or found.earlier,
                plotting=plotting,
                spark=None if spark is None else spark.version,
            )

        run = Run(
            engine=engine,
            parts=parts,
            config=config,
            context=context,
            clock=clock,
            publish=publish,
            start_over=partial(Storage().delete, workspace.result),
        )
        return work(run)


@contextmanager
def open_engine(
    job: Job,
    listing: Listing,
    source: FileSource,
    *,
    spark: Spark | None = None,
    asks_all: bool = False,
    watch: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[MemoryEngine]:
    """Yield the engine of files, with those who share its work."""
    splits = split_files(listing, choose_batch_split_bytes(listing) if asks_all else choose_split_bytes(listing))
    if spark is not None:
        cores, begin = count_cores(), spark.begin
    else:
        cores = choose_cores(listing, [*job.inputs, job.output] if job.output else job.inputs)
        begin = partial(Processes, min(cores, len(splits)))
    with begin(source, watch=watch) as workers:
        id_column = job.config.input.id_column
        yield MemoryEngine(workers=workers, splits=splits, id_type=source.id_type, id_column=id_column, threads=cores)


def make_context(
    listing: Listing, engine: MemoryEngine, *, labels: pa.Table | None = None, asks_all: bool = False
) -> Context:
    """Return what layers need of a run in one process."""
    held_bytes = free_bytes() // HELD_SHARE // max(len(engine.splits), 1)
    return Context(size=listing.size, labels=labels, held_bytes=held_bytes, asks_all=asks_all)


def _publish(
    job: Job,
    listing: Listing,
    source: FileSource,
    workspace: Workspace,
    found: Searched[pa.Table],
    *,
    parts: Sequence[Part],
    clock: Clock,
    baseline: Mapping[str, Any] | None,
    plotting: Executor,
    spark: str | None,
) -> dict[str, Any]:
    """Write what was found, and publish it.

    Parameters
    ----------
    spark
        Version of the Spark whose tasks make the passes; None without.
    """
    config, engine = job.config, found.chain.engine
    assert isinstance(engine, MemoryEngine)
    counts, removals = unite([*found.near.values()]), found.chain.removals
    sample = list_sample(found.chain.sample)
    gone = () if removals is None else removals["doc_id"].to_pylist()
    removed = {doc_id for doc_id, _ in sample}.intersection(gone)
    findings = found.to_findings(config, _find_repeated(config, engine))
    output = MemoryOutput(config=config, source=source, folder=absolute(workspace.result), engine=engine)
    # What the report shows takes a second, in which this process only waits for the workers.
    drawing = plotting.submit(draw, config, counts, sample, removed, baseline)
    write = partial(write_result, inform=clock.inform, stage=nullcontext)
    written = clock("output", write, engine, output, findings)
    drawn = clock.inform(PLOTS, drawing.result) or Drawing()
    check_unchanged(job, listing)
    outcome = found.to_outcome(
        written,
        drawn,
        parts,
        clock,
        baseline=baseline,
        engine="memory" if spark is None else "spark",
        search="process",
        reader="files",
        spark=spark,
        format=listing.format.name,
    )
    return conclude(job, workspace, outcome, drawn, inform=clock.inform, plotting=plotting, first=found.finish)


def check_unchanged(job: Job, listing: Listing) -> None:
    """Make sure that the files are those that were listed.

    Raises
    ------
    DataError
        When one has come, gone, or been written again.
    """
    if list_input(job).fingerprint != listing.fingerprint:
        raise DataError("--input: must not change while the job reads it (it did): repeat the command")


def list_sample(sample: pa.Table | None) -> list[tuple[int, bytes]]:
    """Return the tokens of the documents of the sample by doc_id."""
    return (
        [] if sample is None else list(zip(*(sample[name].to_pylist() for name in ("doc_id", "tokens")), strict=True))
    )


def _find_repeated(config: Config, engine: MemoryEngine) -> pa.Table | None:
    """Return the ids of rows of equal content, if a layer is for them."""
    if not name_repeated(config)[0]:
        return None
    doc_ids, _ = find_repeated(engine.known.documents["doc_id"].to_numpy())
    return pa.table({"doc_id": doc_ids}) if doc_ids.size else None
