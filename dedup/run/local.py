"""A run without Spark: files in, layers on the memory engine, files out."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines import passes
from dedup.engines.tables import MemoryEngine
from dedup.engines.values import Register
from dedup.engines.workers import Workers
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.files.source import FileSource
from dedup.files.splits import cut
from dedup.files.storage import Storage
from dedup.kernels.identical import find_repeated
from dedup.layers.chain import Chain
from dedup.layers.layer import NothingToSearchError
from dedup.layers.spans import write_spans
from dedup.report.build import Outcome
from dedup.report.summary import draw
from dedup.run.clock import Clock
from dedup.run.fates import Fates, Repeated
from dedup.run.job import Job
from dedup.run.layers import make_layer, name_repeated
from dedup.run.opening import SPLIT_BYTES, choose_cores, list_input, open_input
from dedup.run.overlap import check_apart
from dedup.run.pairs import read_pairs
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.searching import Reading, Searched, choose_signing
from dedup.run.sinking import Explained, FileWriter
from dedup.run.workspace import Workspace
from dedup.settings.contract import load_contract
from dedup.settings.hashspec import HashSpec
from dedup.settings.keeping import needs_spark
from dedup.settings.layers import NEAR
from dedup.settings.options import Config
from dedup.tables import arrow
from dedup.tables.counts import Near, Written


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
    with Workspace(storage, job.output) as workspace:
        try:
            return _run(job, storage, workspace)
        except (DataError, SchemaError):
            workspace.abandon()
            raise


def _run(job: Job, storage: Storage, workspace: Workspace) -> dict[str, Any]:
    config = job.config
    if needs_spark(config.keep.order):
        raise ConfigError('keep.order: an entry "sql:..." needs engine = "spark" (got engine = "memory")')
    baseline = read_baseline(storage, job.baseline)
    listing = list_input(job)
    source = open_input(config, listing)
    writer = FileWriter(config=config, source=source, workspace=workspace, storage=storage)
    writer.check()
    labels = _read_labels(config, source)
    contract = load_contract(config)
    spec = HashSpec.of(config, contract)
    workspace.open(identify(job, spec, listing.fingerprint), overwrite=job.overwrite)
    clock = Clock()
    splits = cut(listing, SPLIT_BYTES)
    cores = choose_cores(listing, [*job.inputs, job.output])
    signing = choose_signing(config, contract, listing)
    if cores > 1 and NEAR in config.layers:
        passes.warm(signing)
    with Workers(min(cores, len(splits)), source, watch=clock.watch) as workers:
        engine = MemoryEngine(workers=workers, splits=splits, id_type=source.id_type, id_column=config.input.id_column)
        chain: Chain[pa.Table] = Chain(engine=engine)
        searched: Searched | None = None
        for name in config.layers:
            if name == NEAR:
                rest = chain.rest(name)
                assert isinstance(rest, MemoryEngine)
                reading = Reading(engine=rest, config=config, signing=signing, labels=labels)
                try:
                    searched = reading.search(clock, cores)
                except NothingToSearchError:
                    chain = chain.skip(name)
                else:
                    chain = chain.add(name, searched.to_found(), searched.to_step(), searched.list_kept())
            else:
                layer = make_layer(name, config, contract)
                with clock.time(name):
                    chain = chain.add(name, layer.find(chain.rest(name)))
                clock.note(name, chain.steps[-1])
        assert chain.documents is not None
        register = Register.of(chain.documents)
        removals = chain.removals if chain.removals is not None else arrow.removals(source.id_type).empty_table()
        fates = Fates.of(register, removals, _find_repeated(config, engine, searched))
        write = partial(_write, writer, chain, register, fates, searched)
        written = clock("output", write)
    counts = Near.none() if searched is None else searched.count(labels)
    sample = [] if searched is None else searched.signed.list_sample()
    token_ranks, plots = draw(config, counts, sample, set(removals["doc_id"].to_pylist()), baseline)
    if list_input(job).fingerprint != listing.fingerprint:
        raise DataError("--input: must not change while the job reads it (it did): repeat the command")
    outcome = Outcome(
        layers=chain.steps,
        near=counts,
        written=written,
        stages=clock.report(),
        token_ranks=token_ranks,
        texts={} if searched is None else writer.read_texts(register, searched.found.elected.shown),
        survival_by_source=fates.count_sources(register) if config.input.source_column else None,
        signature_bytes=0 if searched is None else searched.signed.nbytes,
        baseline=baseline,
        engine="memory",
        reader="files",
        spark=None,
        spec=spec.to_dict(),
        format=listing.format,
    )
    return conclude(job, workspace, outcome, plots)


def _find_repeated(config: Config, engine: MemoryEngine, searched: Searched | None) -> Repeated:
    """Return the rows of equal content that go, if a layer is for them."""
    doc_ids, members = np.empty(0, np.int64), arrow.removals(engine.id_type).empty_table()
    layer, kind = name_repeated(config.layers)
    if layer:
        doc_ids = find_repeated(engine.known.documents["doc_id"].to_numpy())[0]
    if searched is not None:
        members = searched.list_kept()
    return Repeated(doc_ids, layer, kind, members)


def _write(
    writer: FileWriter, chain: Chain[pa.Table], register: Register, fates: Fates, searched: Searched | None
) -> Written:
    """Write what was found, and the tables that explain it."""
    engine = chain.engine
    assert isinstance(engine, MemoryEngine)
    assert chain.documents is not None
    edges = near_misses = arrow.EDGES.empty_table()
    if searched is not None:
        edges, near_misses = searched.list_edges(), searched.found.near_misses
    if chain.edges is not None:
        edges = pa.concat_tables([edges, chain.edges])
    spans = of_text = None
    if chain.spans is not None:
        spans = write_spans(engine, chain.spans)
        of_text = chain.spans.filter(pc.equal(chain.spans["effect"], "cut"))
    return writer.write(
        engine.workers,
        engine.splits,
        register=register,
        fates=fates,
        explained=Explained(edges, near_misses, spans),
        cuts=engine.leave(None, of_text, "output").left.cuts,
        rejected=engine.known.rejected,
    )


def _read_labels(config: Config, source: FileSource) -> pa.Table | None:
    """Return LABELS of the duplicates among the labelled pairs; None where none are given."""
    path = config.evaluation.labeled_pairs
    if not path:
        return None
    pairs = read_pairs(path, id_type=source.id_type, where="evaluation.labeled_pairs")
    return pairs.filter(pairs["duplicate"])
