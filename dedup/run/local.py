"""A run that one process searches: files in, layers on the memory engine, files out, with Spark or without."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.memory import MemoryEngine
from dedup.engines.machine import free_bytes
from dedup.engines.values import Register
from dedup.engines.workers import Open, Processes, count_cores, open_beside
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.files.listing import Listing
from dedup.files.source import FileSource
from dedup.files.splits import split_files
from dedup.files.storage import Storage
from dedup.informing import PLOTS, SOURCES, TEXTS, Inform
from dedup.kernels.sets.identical import find_repeated
from dedup.layers.chain import Chain
from dedup.layers.layer import Context
from dedup.layers.spans import write_spans
from dedup.report.build import Outcome
from dedup.report.profiles import unite
from dedup.report.summary import FIGURES, Drawing, draw
from dedup.run.clock import Clock
from dedup.run.fates import Fates, Repeated
from dedup.run.job import Job
from dedup.run.layers import load_layers, name_repeated
from dedup.run.opening import choose_cores, choose_split_bytes, list_input, open_input
from dedup.run.overlap import check_apart
from dedup.run.pairs import read_pairs
from dedup.run.profiles import PROFILE, Part, list_parts, tell_parts
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.search import Searched, search, set_up
from dedup.run.sinking import Explained, FileWriter
from dedup.run.workspace import Workspace, locate
from dedup.settings.keeping import needs_spark
from dedup.settings.options import Config
from dedup.tables import arrow
from dedup.tables.counts import Near, Written

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
    writer = FileWriter(config=config, source=source, workspace=workspace, storage=Storage())
    writer.check()
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
        register = Register.of(found.documents)
        removals = found.chain.removals
        if removals is None:
            removals = arrow.removals(source.id_type).empty_table()
        fates = Fates.of(register, removals, _find_repeated(config, engine, found.chain))
        counts = unite([*found.near.values()])
        sample = list_sample(found.chain.sample)
        removed = {doc_id for doc_id, _ in sample}.intersection(removals["doc_id"].to_pylist())
        # What the report shows takes a second, in which this process only waits for the workers.
        drawing = plotting.submit(draw, config, counts, sample, removed, baseline)
        with ThreadPoolExecutor(1) as beside:
            reading = beside.submit(writer.read_texts, register, counts.elected.shown if found.near else ())
            written = clock("output", partial(_write, writer, found, register, fates, clock.inform))
            drawn = clock.inform(PLOTS, drawing.result) or Drawing()
            texts = clock.inform(TEXTS, reading.result) or {}
        if list_input(job).fingerprint != listing.fingerprint:
            raise DataError("--input: must not change while the job reads it (it did): repeat the command")
        outcome = Outcome(
            layers=found.chain.steps,
            near=counts,
            profiles=tell_parts(
                parts, found.by_profile, found.near, _count_removals(found, fates) if config.profile else {}
            ),
            written=written,
            stages=clock.report(),
            token_ranks=drawn.token_ranks,
            texts=texts,
            survival_by_source=clock.inform(SOURCES, fates.count_sources, register)
            if config.input.source_column
            else None,
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


def _count_removals(found: Searched[pa.Table], fates: Fates) -> dict[tuple[int, str], int]:
    """Return the documents removed by the number of their profile and the layer."""
    profiles = found.documents[PROFILE].take(pa.array(fates.places))
    counted = pa.table({PROFILE: profiles, "layer": fates.removals["layer"]}).group_by([PROFILE, "layer"])
    rows = counted.aggregate([([], "count_all")]).to_pylist()
    return {(row[PROFILE], row["layer"]): row["count_all"] for row in rows}


def _find_repeated(config: Config, engine: MemoryEngine, chain: Chain[pa.Table]) -> Repeated:
    """Return the rows of equal content that go, if a layer is for them."""
    doc_ids, members = np.empty(0, np.int64), arrow.removals(engine.id_type).empty_table()
    layer, kind = name_repeated(config)
    if layer:
        doc_ids = find_repeated(engine.known.documents["doc_id"].to_numpy())[0]
    return Repeated(doc_ids, layer, kind, members if chain.kept is None else chain.kept)


def _write(writer: FileWriter, found: Searched[pa.Table], register: Register, fates: Fates, inform: Inform) -> Written:
    """Write what was found, and the tables that explain it."""
    chain = found.chain
    engine = chain.engine
    assert isinstance(engine, MemoryEngine)
    assert chain.documents is not None
    spans = of_text = None
    if chain.spans is not None:
        spans = write_spans(engine, chain.spans)
        of_text = chain.spans.filter(pc.equal(chain.spans["effect"], "cut"))
    none = arrow.EDGES.empty_table()
    edges, near_misses = (none if each is None else each for each in (chain.edges, chain.near_misses))
    return writer.write(
        engine.workers,
        engine.splits,
        inform=inform,
        register=register,
        fates=fates,
        explained=Explained(edges, near_misses, spans),
        cuts=engine.without(None, of_text, "output").left.cuts,
        rejected=engine.known.rejected,
    )


def _read_labels(config: Config, source: FileSource) -> pa.Table | None:
    """Return LABELS of the duplicates among the labelled pairs; None where none are given."""
    path = config.evaluation.labeled_pairs
    if not path:
        return None
    pairs = read_pairs(path, id_type=source.id_type, where="evaluation.labeled_pairs")
    return pairs.filter(pairs["duplicate"])
