"""A run without Spark: files in, the memory engine, files out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines import memory, passes
from dedup.engines.capacity import estimate_bytes
from dedup.engines.machine import free_bytes
from dedup.engines.values import Features, Found, Search
from dedup.engines.workers import Workers, count_cores
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.files.guess import guess
from dedup.files.listing import Listing, list_files
from dedup.files.records import Rejected
from dedup.files.source import FileSource, open_source
from dedup.files.splits import Split, cut
from dedup.files.storage import Storage
from dedup.files.systems import can_fork
from dedup.kernels import Hashes, Integers
from dedup.kernels.exact import take
from dedup.kernels.runs import find_bounds
from dedup.kernels.text import Contract
from dedup.report.build import Outcome
from dedup.report.summary import draw
from dedup.run.clock import Clock
from dedup.run.fates import Fates
from dedup.run.job import Job
from dedup.run.overlap import check_apart
from dedup.run.pairs import read_pairs
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.sinking import FileWriter
from dedup.run.workspace import Workspace
from dedup.settings.contract import load_contract
from dedup.settings.hashspec import HashSpec
from dedup.settings.keeping import list_columns, list_merged, needs_spark, parse_order
from dedup.settings.options import Config
from dedup.stages.placement import sample_share
from dedup.tables.counts import Labeled, Near, Signed
from dedup.tables.ids import SHOWN

SPLIT_BYTES = 8 << 20
"""Of a split, as stored: several for each core of a corpus worth more than one, so that cores end together."""
ALONE_BYTES = 4 << 20
"""Input up to which other processes cost more than they save."""


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


def list_input(job: Job) -> Listing:
    """Return the files of a job.

    Raises
    ------
    StorageError
        When there are none, or their names do not tell one format.
    """
    chosen = job.config.input
    return list_files(job.inputs, format=chosen.format, name_filter=chosen.name_filter)


def estimate_need(listing: Listing, config: Config) -> int:
    """Return the bytes of memory that a run is likely to take, from a look at a few of the files.

    Raises
    ------
    DataError
        When one of these is damaged.
    """
    found = guess(listing, config.input.text_column)
    return estimate_bytes(
        documents=found.documents,
        bands=config.banding.bands,
        rows=config.banding.rows,
        mode=config.mode,
        text_bytes=found.text_bytes,
    )


def _run(job: Job, storage: Storage, workspace: Workspace) -> dict[str, Any]:
    config = job.config
    if needs_spark(config.keep.order):
        raise ConfigError('keep.order: an entry "sql:..." needs engine = "spark" (got engine = "memory")')
    baseline = read_baseline(storage, job.baseline)
    listing = list_input(job)
    chosen = config.input
    source = open_source(
        # The id of a text is its path, on Spark a whole one.
        listing.absolute(),
        id_column=chosen.id_column,
        text_column=chosen.text_column,
        source_column=chosen.source_column,
        on_bad_record=chosen.on_bad_record,
        order=list_columns(config.keep.order),
        merge=list_merged(config.keep.merge),
        max_text_bytes=chosen.max_text_bytes,
    )
    writer = FileWriter(config=config, source=source, workspace=workspace, storage=storage)
    writer.check()
    labels = _read_labels(config, source)
    contract = load_contract(config)
    spec = HashSpec.of(config, contract)
    workspace.open(identify(config, spec, listing.fingerprint), overwrite=job.overwrite)
    clock = Clock()
    splits = cut(listing, SPLIT_BYTES)
    cores = count_cores() if listing.size > ALONE_BYTES and can_fork([*job.inputs, job.output]) else 1
    signing = _choose_signing(config, contract, listing)
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


def _choose_signing(config: Config, contract: Contract, listing: Listing) -> passes.Signing:
    return passes.Signing(
        contract=contract,
        shingle_size=config.shingles.shingle_size,
        bands=config.banding.bands if config.mode == "lsh" else 0,
        rows=config.banding.rows,
        signature_seed=config.lsh.seed,
        sample_share=sample_share(listing.size),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signatures:
    """Result of the first pass over the text."""

    part: passes.Part
    splits: Integers
    """The split of every document, int64, ascending."""
    begins: Sequence[str]
    """Beginnings of the texts of some documents without an id."""
    rejected: Sequence[tuple[int, Rejected]]
    counts: Signed

    def list_sample(self) -> list[tuple[int, bytes]]:
        """Return the tokens of the documents of the sample by doc_id."""
        drawn = np.flatnonzero(self.part.tokens.is_valid().to_numpy(zero_copy_only=False))
        tokens = self.part.tokens.take(pa.array(drawn)).to_pylist()
        return list(zip(self.part.doc_ids[drawn].tolist(), tokens, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """The passes over the text, and the search between them."""

    workers: Workers
    splits: Sequence[Split]
    config: Config
    signing: passes.Signing
    labels: pa.Table | None
    """LABELS of the duplicates among labelled pairs."""

    def sign(self) -> Signatures:
        """Sign all documents.

        Raises
        ------
        DataError
            When there is none.
        """
        found = list(self.workers.map(partial(_sign_split, signing=self.signing), self.splits))
        parts = [part for each in found for part in each.parts]
        if not parts:
            raise DataError("--input: must hold at least one document (it has none)")
        sizes = [sum(part.doc_ids.size for part in each.parts) for each in found]
        part = passes.join(parts)
        part = part._replace(doc_ids=memory.resolve_ids(part.doc_ids, part.ids))
        is_short = (part.token_counts > 0) & (part.token_counts < self.signing.shingle_size)
        counts = Signed(
            rows=part.doc_ids.size,
            text_bytes=int(part.text_bytes.sum()),
            tokens=int(part.token_counts.sum()),
            shingles=int(part.shingle_counts.sum()),
            documents_empty=int(np.count_nonzero(part.token_counts == 0)),
            documents_short=int(np.count_nonzero(is_short)),
            ids_null=part.ids.null_count,
            sample_bytes=int(pc.sum(pc.binary_length(part.tokens)).as_py() or 0),
        )
        return Signatures(
            part=part,
            splits=np.repeat(np.arange(len(found)), sizes),
            begins=[begin for each in found for begin in each.begins],
            rejected=[rejected for each in found for rejected in each.rejected],
            counts=counts,
        )

    def find(self, signed: Signatures, clock: Clock, threads: int) -> Found:
        """Search the documents that were signed."""
        config, part = self.config, signed.part
        is_lsh = config.mode == "lsh"
        features = Features(
            doc_ids=part.doc_ids,
            ids=part.ids,
            shingle_counts=part.shingle_counts.astype(np.int32),
            digest_high=part.digest_high,
            digest_low=part.digest_low,
            band_keys=part.band_keys if is_lsh else None,
            signature=part.signature if is_lsh else None,
            sources=part.sources if config.input.source_column else None,
            text_bytes=part.text_bytes,
            order_keys=part.order_keys.flatten().to_numpy(zero_copy_only=False).reshape(part.doc_ids.size, -1),
        )
        memory.check_ids(features, id_column=config.input.id_column, null_texts=signed.begins[:SHOWN])
        search = Search(
            threshold=config.threshold,
            mode=config.mode,
            bands=config.banding.bands,
            rows=config.banding.rows,
            max_bucket=config.buckets.max_bucket,
            estimate_sigmas=config.candidates.estimate_sigmas,
            per_source=config.limits.per_source,
            rules=parse_order(config.keep.order, "keep"),
            by_representative=config.cluster.linkage == "representative",
            max_component=config.cluster.max_component,
            copies=config.keep.copies,
            copies_per_source=config.keep.copies_per_source,
        )
        found = memory.find(
            features,
            partial(self._collect_sets, signed),
            search,
            self.labels,
            threads=threads,
            free_bytes=free_bytes(),
            stage=clock.time,
        )
        for name, counts in _list_counts(found).items():
            clock.note(name, counts)
        return found

    def _collect_sets(self, signed: Signatures, doc_ids: Integers) -> tuple[Hashes, Integers]:
        """Read the shingle sets of some documents, in their order."""
        part = signed.part
        order = np.argsort(part.doc_ids, kind="stable")
        places = order[np.searchsorted(part.doc_ids, doc_ids, sorter=order)]
        as_read = np.argsort(places)
        ordered = places[as_read]
        bounds = find_bounds(signed.splits[ordered])
        items = []
        for begin, end in pairwise(bounds.tolist()):
            files, rows = part.files[ordered[begin:end]], part.rows[ordered[begin:end]]
            wanted = {int(files[a]): rows[a:b] for a, b in pairwise(find_bounds(files).tolist())}
            items.append((self.splits[int(signed.splits[ordered[begin]])], wanted))
        task = partial(_shingle_split, contract=self.signing.contract, shingle_size=self.signing.shingle_size)
        found = list(self.workers.map(task, items))
        shingles = np.concatenate([values for values, _ in found])
        offsets = np.concatenate(([0], np.cumsum(np.concatenate([sizes for _, sizes in found]))))
        if offsets.size - 1 != doc_ids.size:
            raise DataError("--input: must not change while the job reads it (documents are gone): repeat the command")
        numbers = np.empty_like(as_read)
        numbers[as_read] = np.arange(as_read.size)
        return take(shingles, offsets, numbers)


def _sign_split(source: FileSource, split: Split, *, signing: passes.Signing) -> passes.SignedSplit:
    return passes.sign_split(source, split, signing)


def _shingle_split(
    source: FileSource, item: tuple[Split, Mapping[int, Integers]], *, contract: Contract, shingle_size: int
) -> tuple[Hashes, Integers]:
    return passes.shingle_split(source, *item, contract, shingle_size)


def _list_counts(found: Found) -> dict[str, Any]:
    """Return the counts of the stages by their names."""
    return {
        "identical": found.collapsed,
        "buckets": found.bucketed,
        "candidates": found.paired,
        "edges": found.verified,
        "components": found.connected,
        "representatives": found.elected,
    }


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
