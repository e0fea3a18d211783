"""A run that one process searches: files in, layers on the memory engine, files out, with Spark or without."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from dedup.engine.memory import MemoryEngine
from dedup.engines.machine import free_bytes
from dedup.engines.workers import Open, Processes, count_cores, open_beside
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.files.listing import Listing
from dedup.files.source import FileSource
from dedup.files.splits import split_files
from dedup.files.storage import Storage
from dedup.files.systems import absolute
from dedup.informing import PLOTS
from dedup.kernels.sets.identical import find_repeated
from dedup.layers.layer import Context
from dedup.output.file_output import FileOutput
from dedup.output.processes import MemoryTasks
from dedup.report.build import Outcome
from dedup.report.profiles import unite
from dedup.report.summary import FIGURES, Drawing, draw
from dedup.run.clock import Clock
from dedup.run.job import Job
from dedup.run.layers import load_layers, name_repeated
from dedup.run.opening import choose_cores, choose_split_bytes, list_input, open_input
from dedup.run.overlap import check_apart
from dedup.run.pairs import read_pairs
from dedup.run.profiles import Part, list_parts, tell_parts
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.search import search, set_up
from dedup.run.workspace import Workspace, locate
from dedup.settings.keeping import needs_spark
from dedup.settings.options import Config
from dedup.tables.counts import Near

HELD_SHARE = 4
"""Part of the free memory that shingle sets may take, as a divisor: well compressed text can be a hundred times as
much."""
KEY_BYTES = 8
"""A band key."""


class Spark(NamedTuple):
    """A session whose tasks make the passes over the files."""

    version: str
    begin: Open


def run_in_memory(job: Job) -> dict[str, Any]:
    """Remove the duplicates of files on this machine alone, and publish the result.

    Returns
    -------
    dict
        What report.json holds.

    Raises
    ------
    DedupError
        When the input, the settings, the output or the memory do not allow it; nothing is published.
    """
    check_apart(job.read, job.output)
    job, storage = job.settle(), Storage()
    with Workspace(storage, locate(job.output)) as workspace:
        try:
            return search_files(job, list_input(job), workspace, read_baseline(storage, job.baseline))
        except (DataError, SchemaError):
            workspace.abandon()
            raise


def search_files(
    job: Job, listing: Listing, workspace: Workspace, baseline: Mapping[str, Any] | None, spark: Spark | None = None
) -> dict[str, Any]:
    """Do the same while no other run works on the output.

    Parameters
    ----------
    spark
        Whose tasks make the passes over the files; None for processes of this machine.
    """
    config = job.config
    if needs_spark(config.keep.order):
        raise ConfigError('keep.order: an entry "sql:..." needs engine = "spark" (got engine = "memory")')
    source = open_input(config, listing)
    output = FileOutput(config=config, source=source, folder=absolute(workspace.result))
    output.check()
    labels = _read_labels(config, source)
    parts = list_parts(config)
    spec = parts[-1].spec
    workspace.open(identify(job, spec, listing.fingerprint), overwrite=job.overwrite)
    clock = Clock()
    splits = split_files(listing, choose_split_bytes(listing))
    if spark is not None:
        cores, begin = count_cores(), spark.begin
    else:
        cores = choose_cores(listing, [*job.inputs, job.output])
        begin = partial(Processes, min(cores, len(splits)))
    with (
        # A process that talks to a JVM is not forked.
        ThreadPoolExecutor(1) if spark else open_beside(FIGURES) as plotting,
        begin(source, watch=clock.watch) as workers,
    ):
        held_bytes = free_bytes() // HELD_SHARE // max(len(splits), 1)
        context = Context(size=listing.size, labels=labels, held_bytes=held_bytes)
        if spark is None and cores > 1:
            for part in parts:
                for layer in load_layers(config):
                    layer.warm(set_up(layer.name, part, context, clock))
        engine = MemoryEngine(
            workers=workers,
            splits=splits,
            id_type=source.id_type,
            id_column=config.input.id_column,
            threads=cores,
        )
        found = search(engine, parts, config, context, clock)
        counts, removals = unite([*found.near.values()]), found.chain.removals
        sample = list_sample(found.chain.sample)
        gone = () if removals is None else removals["doc_id"].to_pylist()
        removed = {doc_id for doc_id, _ in sample}.intersection(gone)
        findings = found.to_findings(config, _find_repeated(config, engine))
        tasks = MemoryTasks(engine=engine, folder=output.folder)
        # What the report shows takes a second, in which this process only waits for the workers.
        drawing = plotting.submit(draw, config, counts, sample, removed, baseline)
        write = partial(output.write, inform=clock.inform, stage=nullcontext)
        written = clock("output", write, engine, tasks, findings)
        drawn = clock.inform(PLOTS, drawing.result) or Drawing()
        if list_input(job).fingerprint != listing.fingerprint:
            raise DataError("--input: must not change while the job reads it (it did): repeat the command")
        outcome = Outcome(
            layers=found.chain.steps,
            near=counts,
            profiles=tell_parts(parts, found.by_profile, found.near, written.by_profile),
            written=written.counts,
            stages=clock.report(),
            token_ranks=drawn.token_ranks,
            texts=written.texts,
            survival_by_source=written.sources,
            signature_bytes=count_signature_bytes(parts, found.near),
            baseline=baseline,
            engine="memory" if spark is None else "spark",
            search="process",
            reader="files",
            spark=spark and spark.version,
            spec=spec.to_dict(),
            format=listing.format.name,
        )
        return conclude(job, workspace, outcome, drawn, inform=clock.inform, plotting=plotting)


def list_sample(sample: pa.Table | None) -> list[tuple[int, bytes]]:
    """Return the tokens of the documents of the sample by doc_id."""
    return (
        [] if sample is None else list(zip(*(sample[name].to_pylist() for name in ("doc_id", "tokens")), strict=True))
    )


def count_signature_bytes(parts: Sequence[Part], near: Mapping[str, Near]) -> int:
    """Return the bytes of all signatures and band keys."""
    specs = {part.name: part.spec for part in parts}
    return sum(counts.signed.rows * specs[name].bands * (specs[name].rows + KEY_BYTES) for name, counts in near.items())


def _find_repeated(config: Config, engine: MemoryEngine) -> pa.Table | None:
    """Return the ids of rows of equal content, if a layer is for them."""
    if not name_repeated(config)[0]:
        return None
    doc_ids, _ = find_repeated(engine.known.documents["doc_id"].to_numpy())
    return pa.table({"doc_id": doc_ids}) if doc_ids.size else None


def _read_labels(config: Config, source: FileSource) -> pa.Table | None:
    """Return LABELS of the duplicates among the labelled pairs; None where none are given."""
    path = config.evaluation.labeled_pairs
    if not path:
        return None
    pairs = read_pairs(path, id_type=source.id_type, where="evaluation.labeled_pairs")
    return pairs.filter(pairs["duplicate"])
