"""A batch added to a store on Spark: files in, joins with the store, files out."""

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from dedup.display import size
from dedup.engine.spark import SparkEngine
from dedup.errors import ConfigError
from dedup.files.storage import Storage as FileStorage
from dedup.informing import BASELINE, PLOTS
from dedup.output.spark_tasks import save_counted
from dedup.report.build import Outcome
from dedup.report.summary import Drawing, draw
from dedup.run.clock import Clock
from dedup.run.growing import Growth, add_alone, begin, count_known, remember, try_until_first
from dedup.run.job import Job
from dedup.run.joined import tell
from dedup.run.opening import estimate_need, fits_driver, list_input
from dedup.run.pipeline import Given, open_files, read_sample, run
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.reach import find_obstacle_beside
from dedup.run.storage import Storage
from dedup.run.tables import Tables as Kept
from dedup.run.workspace import Workspace
from dedup.settings.contract import load_tokenizer
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.stages.components import Connecting
from dedup.stages.placement import sample_share
from dedup.stages.signatures import select_sample
from dedup.stages.table import Keep
from dedup.store.joins.adding import Arrival, Grown, grow
from dedup.store.joins.arriving import digest_content
from dedup.store.joins.signing import Read, Signer
from dedup.store.joins.step import name_under
from dedup.store.state import State, create, read_state
from dedup.store.tables import Tables
from dedup.tables.counts import Stored

LOG = logging.getLogger("dedup")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Batch:
    """A batch that has been decided on."""

    growth: Growth
    given: Given
    read: Read
    grown: Grown
    spec: HashSpec
    keep: Keep


def add_batch(spark: SparkSession, job: Job, growth: Growth) -> dict[str, Any]:
    """Add documents to a store, and publish what becomes of them; see `growing.add_batch`."""
    if obstacle := find_obstacle_beside(spark, replace(job, inputs=[*job.inputs, growth.store])):
        raise ConfigError(f"--store: the workers themselves must read and write the files ({obstacle})")
    need = estimate_need(list_input(job), job.config, count_known(growth))
    if fits_driver(spark, job.config, need):
        LOG.info("the batch needs about %s of memory: the driver adds it without a job of Spark", size(need))
        return add_alone(job, growth)
    return run(spark, job, partial(_run, growth))


def _run(growth: Growth, spark: SparkSession, job: Job, storage: Storage, workspace: Workspace) -> dict[str, Any]:
    config, tables, clock = job.config, Tables(growth.store), Clock(spark)
    given = open_files(spark, job, list_input(job), workspace, clock)
    tokenizer = load_tokenizer(config)
    spec = HashSpec.of(config, tokenizer)
    is_string = given.corpus.id_type.typeName() == "string"
    id_type = pa.string() if is_string else pa.int64()
    if tables.exists():
        read_state(tables).check(config, spec, id_type)
    workspace.open({**identify(job, spec, given.fingerprint), **growth.identity}, overwrite=job.overwrite)
    keep, cores = Kept(spark, workspace), spark.sparkContext.defaultParallelism
    near = Signer(
        tokenizer=tokenizer,
        spec=spec,
        id_column=given.id_column,
        sample_share=sample_share(given.size),
        cores=cores,
        keep=keep,
        stage=clock,
    )
    read = near.read(given.corpus)
    arrival = Arrival(
        name=growth.batch,
        content=digest_content(read.signed.frame),
        corpus=read.corpus,
        signed=read.signed,
        id_column=config.input.id_column,
        tokenizer=tokenizer,
        shingle_size=spec.shingle_size,
    )
    create(tables, id_type)

    def bring(state: State) -> _Batch:
        # Of this try alone: the store may be another in the next.
        own = name_under(keep, secrets.token_hex(4))
        grown = grow(
            own,
            tables,
            begin(state, config, spec, id_type),
            arrival,
            anew=growth.anew,
            connecting=Connecting(
                engine=config.components.engine,
                checkpoints=workspace.checkpoints,
            ),
            cores=cores,
            stage=clock.time,
            inform=clock.inform,
        )
        return _Batch(growth=growth, given=given, read=read, grown=grown, spec=spec, keep=own)

    def publish(batch: _Batch, operation: str) -> dict[str, Any]:
        finish = partial(batch.grown.finish, arrival, operation) if operation else batch.grown.drop
        return _publish(job, batch, workspace, clock, is_added=bool(operation), finish=finish)

    start_over = partial(storage.delete, workspace.result)
    return try_until_first(growth, tables, arrival.content, bring=bring, publish=publish, start_over=start_over)


def _make_engine(batch: _Batch, config: Config, workspace: Workspace) -> SparkEngine:
    """Return the engine of the documents of a batch."""
    engine = SparkEngine(
        corpus=batch.read.corpus,
        keep=batch.keep,
        id_column=batch.given.id_column,
        connecting=Connecting(config.components.engine, workspace.checkpoints),
        cores=batch.read.signed.frame.sparkSession.sparkContext.defaultParallelism,
    )
    engine.known.note(batch.read.signed.frame, batch.read.renamed, None)
    return engine


def _publish(
    job: Job, batch: _Batch, workspace: Workspace, clock: Clock, *, is_added: bool, finish: Callable[[], object]
) -> dict[str, Any]:
    """Write the batch's own output, commit the batch, and publish the output.

    Parameters
    ----------
    is_added
        False where the store has it.
    """
    config, given, grown, signed = job.config, batch.given, batch.grown, batch.read.signed
    writing, spark = grown.writing, grown.step.reader.spark
    with ThreadPoolExecutor() as beside:
        storing = beside.submit(grown.write) if is_added else None
        with clock.time("representatives"):
            told = tell(batch.keep, grown, batch.read, config.threshold)
        if storing:
            storing.result()
    counts = told.counts
    clock.note("meeting", Stored(rows=grown.step.met.rows.counts))
    clock.note("sets", Stored(rows=grown.step.numbered.fresh.counts))
    clock.note("edges", counts.verified)
    clock.note("representatives", counts.elected)
    baseline = read_baseline(FileStorage(), job.baseline) or clock.inform(
        BASELINE, remember, writing.tables, writing.snapshot.state, batch.growth, config
    )

    def draw_plots() -> Drawing:
        sample, removed = read_sample(clock, select_sample(signed.frame), told.removals)
        return draw(config, counts, sample, removed, baseline)

    with ThreadPoolExecutor() as beside:
        drawing = beside.submit(draw_plots)
        changes = beside.submit(save_counted, told.changes, f"{workspace.result}/changes")
        written = clock("output", given.write, _make_engine(batch, config, workspace), told.findings)
        drawn = clock.inform(PLOTS, drawing.result) or Drawing()
        changes.result()
    given.check_unchanged()
    outcome = Outcome(
        layers=told.findings.steps,
        near=counts,
        written=written.counts,
        stages=clock.report(),
        token_ranks=drawn.token_ranks,
        texts=written.texts,
        survival_by_source=written.sources,
        signature_bytes=workspace.table_bytes("signatures") - signed.counts.sample_bytes,
        baseline=baseline,
        engine="spark",
        search="tasks",
        reader=given.reader,
        spark=spark.version,
        spec=batch.spec.to_dict(),
        format=given.format,
    )
    return conclude(job, workspace, outcome, drawn, inform=clock.inform, first=finish)
