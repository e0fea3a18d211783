"""A run without Spark: files in, the memory engine, files out."""

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines import passes
from dedup.engines.values import Found
from dedup.engines.workers import Workers, count_cores
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.files.listing import Listing
from dedup.files.source import FileSource
from dedup.files.splits import cut
from dedup.files.storage import Storage
from dedup.files.systems import can_fork
from dedup.kernels.text import Contract
from dedup.report.build import Outcome
from dedup.report.summary import draw
from dedup.run.clock import Clock
from dedup.run.fates import Fates
from dedup.run.job import Job
from dedup.run.opening import ALONE_BYTES, SPLIT_BYTES, list_input, open_input
from dedup.run.overlap import check_apart
from dedup.run.pairs import read_pairs
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.searching import Reading
from dedup.run.sinking import FileWriter
from dedup.run.workspace import Workspace
from dedup.settings.contract import load_contract
from dedup.settings.hashspec import HashSpec
from dedup.settings.keeping import needs_spark
from dedup.settings.options import Config
from dedup.stages.placement import sample_share
from dedup.tables.counts import Labeled, Near, Signed


def run_in_memory(job: Job) -> dict[str, Any]:
    """Remove the near-duplicates of files on this machine alone, and publish the result.

    Returns
    -------
    dict
        What report.json holds.

    Raises
    ------
    DedupError
        When the input, the settings, the output or the memory do not allow it; nothing is published.
    """
    check_apart([*job.inputs, *filter(None, [job.config.evaluation.labeled_pairs])], job.output)
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
    chosen = config.input
    source = open_input(config, listing)
    writer = FileWriter(config=config, source=source, workspace=workspace, storage=storage)
    writer.check()
    labels = _read_labels(config, source)
    contract = load_contract(config)
    spec = HashSpec.of(config, contract)
    workspace.open(identify(config, spec, listing.fingerprint), overwrite=job.overwrite)
    clock = Clock()
    splits = cut(listing, SPLIT_BYTES)
    cores = count_cores() if listing.size > ALONE_BYTES and can_fork([*job.inputs, job.output]) else 1
    signing = choose_signing(config, contract, listing)
    if cores > 1:
        passes.warm(signing)
    with Workers(min(cores, len(splits)), source, watch=clock.watch) as workers:
        reading = Reading(workers=workers, splits=splits, config=config, signing=signing, labels=labels)
        signed = clock("signatures", reading.sign)
        found = reading.find(signed, clock, cores)
        fates = Fates.of(signed.part, found.members, found.repeated["doc_id"].to_numpy())
        write = partial(writer.write, part=signed.part, fates=fates, found=found, rejected=signed.rejected)
        written = clock("output", write, workers, splits)
    counts = _count(signed.counts, found, labels)
    removed = found.members.filter(pc.not_equal(found.members["kind"], "kept"))["doc_id"].to_pylist()
    token_ranks, plots = draw(config, counts, signed.list_sample(), set(removed))
    if list_input(job).fingerprint != listing.fingerprint:
        raise DataError("--input: must not change while the job reads it (it did): repeat the command")
    outcome = Outcome(
        near=counts,
        written=written,
        stages=clock.report(),
        token_ranks=token_ranks,
        texts=writer.read_texts(signed.part, found.elected.largest),
        survival_by_source=fates.count_sources(signed.part) if chosen.source_column else None,
        signature_bytes=signed.part.signature.nbytes + signed.part.band_keys.nbytes,
        baseline=baseline,
        engine="memory",
        reader="files",
        spark=None,
        spec=spec.to_dict(),
        format=listing.format,
    )
    return conclude(job, workspace, outcome, plots)


def _read_labels(config: Config, source: FileSource) -> pa.Table | None:
    """Return LABELS of the duplicates among the labelled pairs; None where none are given."""
    path = config.evaluation.labeled_pairs
    if not path:
        return None
    pairs = read_pairs(path, id_type=source.id_type, where="evaluation.labeled_pairs")
    return pairs.filter(pairs["duplicate"])


def choose_signing(config: Config, contract: Contract, listing: Listing) -> passes.Signing:
    """Return how the texts of these files are signed."""
    return passes.Signing(
        contract=contract,
        shingle_size=config.shingles.shingle_size,
        bands=config.banding.bands if config.mode == "lsh" else 0,
        rows=config.banding.rows,
        signature_seed=config.lsh.seed,
        sample_share=sample_share(listing.size),
    )


def _count(signed: Signed, found: Found, labels: pa.Table | None) -> Near:
    return Near(
        signed=signed,
        collapsed=found.collapsed,
        bucketed=found.bucketed,
        paired=found.paired,
        verified=found.verified,
        connected=found.connected,
        lost=found.lost,
        elected=found.elected,
        labeled=None if labels is None else Labeled(given=labels.num_rows, points=found.recall),
    )
