"""A batch added to a store: files in, the memory engine, the store, files out; `joining.py` is the same on Spark."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.memory import MemoryEngine
from dedup.engines import passes
from dedup.engines.workers import Processes, open_beside
from dedup.errors import ConfigError, DataError, SchemaError, StorageError
from dedup.extras import check_extra
from dedup.files.listing import Listing
from dedup.files.source import FileSource
from dedup.files.splits import split_files
from dedup.files.storage import Storage
from dedup.files.systems import absolute, redact
from dedup.informing import BASELINE, PLOTS
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers import NEAR
from dedup.output.file_output import FileOutput
from dedup.output.processes import MemoryTasks
from dedup.output.row_decisions import Findings
from dedup.report.build import Outcome
from dedup.report.summary import FIGURES, Drawing, draw
from dedup.run.arrivals import to_batch
from dedup.run.clock import Clock
from dedup.run.grown import to_changes, to_found, to_members, to_names, to_removals
from dedup.run.job import Job
from dedup.run.opening import SPLIT_BYTES, choose_cores, list_input, open_input
from dedup.run.overlap import check_apart, check_store
from dedup.run.publication import KEY_FILE, conclude, identify, read_baseline
from dedup.run.reach import check_schemes
from dedup.run.searching import KEPT, Searched, to_search
from dedup.run.signing import Reading, Signatures, choose_signing
from dedup.run.start import choose_engine, run_on_spark
from dedup.run.workspace import Workspace, locate
from dedup.settings.contract import load_tokenizer
from dedup.settings.files import to_dict
from dedup.settings.hashspec import HashSpec
from dedup.settings.keeping import needs_spark
from dedup.settings.options import Config
from dedup.settings.profiles import refuse_profiles
from dedup.settings.rules import require_text
from dedup.store.adding import Grown, grow
from dedup.store.folder import TRIES, Conflict
from dedup.store.state import State, choose_deciding, create, find_state, read_rows, read_state
from dedup.store.tables import Tables
from dedup.tables.counts import Stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger("dedup")
Brought = TypeVar("Brought")
REMEMBERED = 10
"""Batches whose mean the removal rate is held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Where a batch goes."""

    store: str
    batch: str
    anew: bool = False
    """Whether components that the batch touches elect anew."""

    @property
    def identity(self) -> dict[str, Any]:
        """What an unfinished run must have in common with this one to be resumed, besides that of its job."""
        return {"store": self.store, "batch": self.batch, "reelect": self.anew}


def add_batch(job: Job, growth: Growth, *, spark: "SparkSession | None" = None) -> dict[str, Any]:
    """Add documents to a store on the engine of the settings, and publish what becomes of them.

    Parameters
    ----------
    spark
        The caller's session, which "auto" takes.

    Returns
    -------
    dict
        What report.json holds.

    Raises
    ------
    DedupError
        When the input, the settings, the output, the store or the memory do not allow it; nothing is published, and
        the store is what it was.
    """
    check_extra("--store", "store")
    check_schemes(job, growth.store)
    check_apart([*job.inputs, growth.store], job.output)
    check_store(job.inputs, growth.store)
    check_settings(job.config, growth)
    if (spark is not None and job.config.engine != "memory") or choose_engine(job, count_known(growth)) == "spark":
        return run_on_spark(
            job, "dedup.run.joining", lambda module, session: module.add_batch(session, job, growth), spark=spark
        )
    return add_alone(job, growth)


def count_known(growth: Growth) -> int:
    """Return about how many documents the store has."""
    tables = Tables(growth.store)
    return read_state(tables).sets if tables.exists() else 0


def add_alone(job: Job, growth: Growth) -> dict[str, Any]:
    """Add documents to a store in the memory of this process; see `add_batch`."""
    job, storage = job.settle(), Storage()
    with Workspace(storage, locate(job.output)) as workspace:
        try:
            return _run(job, growth, storage, workspace)
        except (DataError, SchemaError):
            workspace.abandon()
            raise


def check_settings(config: Config, growth: Growth) -> None:
    """Refuse settings that a store does not know.

    Raises
    ------
    ConfigError
    """
    if not growth.batch:
        raise ConfigError("--batch: must name the batch where --store is given, such as 2026-11")
    require_text("--batch", growth.batch)
    if config.input.is_table:
        raise ConfigError("--store: needs files (got a table); write it to files first")
    if config.mode != "lsh":
        raise ConfigError(f'--store: needs mode = "lsh" (got {config.mode!r})')
    if config.layers != (NEAR,):
        raise ConfigError(f'--store: needs layers = ["near"] (got {list(config.layers)})')
    if needs_spark(config.keep.order):
        raise ConfigError('--store: keep.order must have no entry "sql:...", which only Spark knows')
    refuse_profiles(config.profile, "in a store, whose features are of one specification")
    unset = {
        "limits.per_source": config.limits.per_source,
        "keep.merge": config.keep.merge,
        "output.table": config.output.table,
        "evaluation.labeled_pairs": config.evaluation.labeled_pairs,
    }
    for name, value in unset.items():
        if value:
            raise ConfigError(f"--store: {name} is of single runs and must not be set (got {value!r})")


def _run(job: Job, growth: Growth, storage: Storage, workspace: Workspace) -> dict[str, Any]:
    config, tables = job.config, Tables(growth.store)
    listing = list_input(job)
    source = open_input(config, listing)
    output = FileOutput(config=config, source=source, folder=absolute(workspace.result))
    output.check()
    tokenizer = load_tokenizer(config)
    spec = HashSpec.of(config, tokenizer)
    if tables.exists():
        read_state(tables).check(config, spec, source.id_type)
    workspace.open({**identify(job, spec, listing.fingerprint), **growth.identity}, overwrite=job.overwrite)
    cores = choose_cores(listing, [*job.inputs, job.output])
    clock = Clock()
    with (
        open_beside(FIGURES) as plotting,
        open_reading(config, tokenizer, listing, source, cores, watch=clock.watch) as reading,
    ):
        signed = clock("signatures", reading.sign)
        batch = to_batch(reading, signed, growth.batch)
        create(tables, source.id_type)

        def bring(state: State) -> Grown:
            state = begin(state, config, spec, source.id_type)
            return grow(tables, state, batch, anew=growth.anew, threads=cores, stage=clock.time)

        def publish(grown: Grown, operation: str) -> dict[str, Any]:
            return _publish(
                job,
                growth,
                workspace,
                output,
                reading=reading,
                signed=signed,
                grown=grown,
                clock=clock,
                spec=spec,
                listing=listing,
                plotting=plotting,
                finish=partial(grown.finish, batch, operation) if operation else grown.drop,
            )

        start_over = partial(storage.delete, workspace.result)
        return try_until_first(growth, tables, batch.content, bring=bring, publish=publish, start_over=start_over)


@contextlib.contextmanager
def open_reading(
    config: Config,
    tokenizer: Tokenizer,
    listing: Listing,
    source: FileSource,
    cores: int,
    *,
    watch: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[Reading]:
    """Yield the reader of a batch's documents, with the processes that share its work."""
    signing, splits = choose_signing(config, tokenizer, listing, asks_all=True), split_files(listing, SPLIT_BYTES)
    with Processes(min(cores, len(splits)), source, watch=watch) as workers:
        # Loading what is compiled is no part of the first stage, as in a run without a store.
        passes.warm(signing)
        engine = MemoryEngine(workers=workers, splits=splits, id_type=source.id_type, id_column=config.input.id_column)
        yield Reading(engine=engine, config=config, signing=signing)


def check_unchanged(job: Job, listing: Listing) -> None:
    """Make sure that the files are those that were listed.

    Raises
    ------
    DataError
        When one has come, gone, or been written again.
    """
    if list_input(job).fingerprint != listing.fingerprint:
        raise DataError("--input: must not change while the job reads it (it did): repeat the command")


def begin(state: State, config: Config, spec: HashSpec, id_type: pa.DataType) -> State:
    """Return the state to which a batch is added.

    Raises
    ------
    ConfigError
        When the settings are not those of the first batch.
    """
    state.check(config, spec, id_type)
    settings = {**choose_deciding(config), KEY_FILE: config.hash.key_file}
    return state.begin(id_type=id_type, spec=spec, settings=settings, search=to_search(config))


def try_until_first(
    growth: Growth,
    tables: Tables,
    content: str,
    *,
    bring: Callable[[State], Brought],
    publish: Callable[[Brought, str], dict[str, Any]],
    start_over: Callable[[], None],
) -> dict[str, Any]:
    """Return the report of a batch that no other writer came before, once it is published.

    Parameters
    ----------
    content
        Digest of its documents, see `content.name_content`.
    bring
        Given a state of the store, finds what the batch brings.
    publish
        Given that and as which operation, none where the store has it already, lets it be in the store.
    start_over
        Deletes what `publish` has left.

    Raises
    ------
    StorageError
        When others have been first each time, or the output of a batch of before vacuum is to be made again.
    """
    for _ in range(TRIES):
        state, operation = _find_base(tables, content, growth)
        try:
            brought = bring(state)
        except StorageError as error:
            if operation:
                raise
            raise StorageError(
                f"--batch: {growth.batch!r} is in the store, which stays as it is; its output cannot be made again "
                f"since vacuum has deleted what was there before it ({error})"
            ) from error
        try:
            return publish(brought, operation)
        except Conflict:
            LOG.info("%s: another writer was first; starting over with what it has added", redact(growth.store))
            start_over()
    raise StorageError(f"{redact(growth.store)}: {TRIES} other writers were first; repeat the command")


def _find_base(tables: Tables, content: str, growth: Growth) -> tuple[State, str]:
    """Return the state that a batch is added to, and as which operation; none where it is in the store already.

    Parameters
    ----------
    content
        Digest of its documents, see `content.name_content`.

    Raises
    ------
    DataError
        When other documents are in the store under the batch's name.
    """
    operation = "reelect" if growth.anew else "add"
    rows, log = read_rows(tables)
    for place, row in enumerate(rows.select(["operation", "batch", "content"]).to_pylist()):
        if row["batch"] == growth.batch:
            if (row["content"], row["operation"]) != (content, operation):
                raise DataError(
                    f"--batch: {growth.batch!r} is in the store with other documents, or was added with another "
                    "--reelect; give these a batch of their own"
                )
            LOG.info("batch %s is in the store already, which stays as it is", growth.batch)
            return find_state(tables, rows.slice(0, place), log), ""
    return find_state(tables, rows, log), operation


def _publish(
    job: Job,
    growth: Growth,
    workspace: Workspace,
    output: FileOutput,
    *,
    reading: Reading,
    signed: Signatures,
    grown: Grown,
    clock: Clock,
    spec: HashSpec,
    listing: Listing,
    plotting: Executor,
    finish: Callable[[], object],
) -> dict[str, Any]:
    """Write the batch's own output, commit the batch, and publish the output."""
    config, part = job.config, signed.part
    members = to_members(grown, part)
    searched = Searched(signed=signed, found=to_found(grown, members, config.threshold, part, clock.inform))
    found = searched.found
    clock.note("identical", found.collapsed)
    clock.note("sets", Stored(rows=grown.state.sets - grown.writing.snapshot.state.sets))
    clock.note("edges", found.verified)
    clock.note("representatives", found.elected)
    clock.note("store", Stored(rows=grown.documents.num_rows))
    removals, repeated = to_removals(members), found.repeated
    findings = Findings(
        documents=signed.to_register(),
        steps=[searched.to_step()],
        removals=removals,
        repeated=repeated if repeated.num_rows else None,
        copies=(NEAR, "identical"),
        kept=members.filter(pc.equal(members["kind"], KEPT)),
        edges=searched.list_edges(),
        near_misses=found.near_misses,
        pairs=found.verified.rows,
        named=to_names(grown, part),
        shown=found.elected.shown,
    )
    tasks = MemoryTasks(engine=reading.engine, folder=output.folder)
    tasks.save("changes", to_changes(grown))
    counts, writing, sample = searched.count(None), grown.writing, signed.list_sample()
    removed = {doc_id for doc_id, _ in sample}.intersection(removals["doc_id"].to_pylist())
    baseline = read_baseline(Storage(), job.baseline) or clock.inform(
        BASELINE, remember, writing.tables, writing.snapshot.state, growth, config
    )
    drawing = plotting.submit(draw, config, counts, sample, removed, baseline)
    write = partial(output.write, inform=clock.inform, stage=contextlib.nullcontext)
    written = clock("output", write, reading.engine, tasks, findings)
    drawn = clock.inform(PLOTS, drawing.result) or Drawing()
    check_unchanged(job, listing)
    outcome = Outcome(
        layers=[searched.to_step()],
        near=counts,
        written=written.counts,
        stages=clock.report(),
        token_ranks=drawn.token_ranks,
        texts=written.texts,
        survival_by_source=written.sources,
        signature_bytes=signed.nbytes,
        baseline=baseline,
        engine="memory",
        search="process",
        reader="files",
        spark=None,
        spec=spec.to_dict(),
        format=listing.format.name,
    )
    return conclude(job, workspace, outcome, drawn, inform=clock.inform, plotting=plotting, first=finish)


def remember(tables: Tables, state: State, growth: Growth, config: Config) -> dict[str, Any] | None:
    """Return what the last batches before a state had in common, as an earlier run's report; None without any."""
    rows, _ = read_rows(tables)
    listed = rows.drop_columns(["state"]).to_pylist()
    earlier = [row for row in listed if row["batch"] and row["number"] <= state.number]
    documents = sum(row["documents"] for row in earlier[-REMEMBERED:])
    if not documents:
        return None
    removed = documents - sum(row["kept"] for row in earlier[-REMEMBERED:])
    named = f"{growth.store}, its last {len(earlier[-REMEMBERED:])} batches"
    return {"removal_rate": removed / documents, "settings": to_dict(config), "output": named}
