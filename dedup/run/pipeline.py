"""A run on Spark: the layers in order, then the output, then the report."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.components import Connecting
from dedup.engine.corpus import Corpus, Rows, read_documents
from dedup.engine.file_corpus import WAVES, Files
from dedup.engine.spark import SparkEngine
from dedup.engine.tasks import Tasks
from dedup.errors import AlertError, CapacityError, DataError, DedupError, SchemaError
from dedup.files.listing import Listing
from dedup.files.splits import split_files
from dedup.files.storage import Storage
from dedup.files.systems import absolute
from dedup.informing import PLOTS
from dedup.layers.chain import Chain
from dedup.layers.layer import Context
from dedup.output.file_output import check_output
from dedup.output.result_tables import ResultWriter, write_result
from dedup.output.row_output import RowOutput
from dedup.output.spark_tasks import SparkOutput
from dedup.report.profiles import unite
from dedup.report.summary import Drawing, draw
from dedup.run.catalog import CatalogTables
from dedup.run.clock import Clock
from dedup.run.faults import recognise
from dedup.run.input import fingerprint, is_lasting, list_roots, load_table, take_table
from dedup.run.job import Job
from dedup.run.layers import list_noted
from dedup.run.local import Spark, list_sample, search_files
from dedup.run.opening import SPLIT_BYTES, assume, estimate_need, fits_driver, list_input, open_input
from dedup.run.overlap import check_apart
from dedup.run.pairs import read_duplicates
from dedup.run.profiles import Part, list_parts
from dedup.run.publication import conclude, identify, read_baseline
from dedup.run.reach import check_reach_beside, is_on_disk
from dedup.run.search import Deduplication, Run, Searched, Work
from dedup.run.session import find_heap
from dedup.run.storage import HadoopStorage
from dedup.run.tables import WorkspaceTables
from dedup.run.workspace import Workspace, locate
from dedup.settings.keeping import list_columns
from dedup.settings.options import Config
from dedup.tables.counts import Near

LOG = logging.getLogger("dedup")

HEAP_PER_TEXT = 8
"""Bytes of a heap for each byte of the longest text that Spark's own readers may put there."""
MOST_SPLIT_BYTES = 128 << 20
"""Bytes of a split of a large corpus, as stored."""


def run(spark: SparkSession, job: Job, work: Work | None = None) -> dict[str, Any]:
    """Remove the near-duplicates of a corpus and publish the result.

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
        When the input, the settings or the output do not allow it; nothing is published.
    """
    if job.config.input.table:
        table = load_table(spark, job.config.input.table)
        job = replace(job, table=table, inputs=list_roots(table))
    check_apart(job.read, job.output)
    on_disk = is_on_disk(spark, job.output)
    output = locate(job.output) if on_disk else job.output
    if on_disk and ":" in output:
        # Hadoop takes what stands before a colon for a scheme.
        output = absolute(output)
    job, storage = job.settle(), HadoopStorage(spark)
    # A lock on a disk is given up even where Spark has died.
    locks = Storage() if on_disk else storage.without_checksums()
    with Workspace(storage, output, locks=locks) as workspace:
        try:
            return _run(spark, job, storage, workspace, work or Deduplication())
        except (DedupError, PySparkException, Py4JError, ConnectionError) as error:
            if spark.sparkContext._jsc is None:  # noqa: SLF001 - stopped: what fails then has no cause of its own
                raise
            known = error if isinstance(error, DedupError) else recognise(error)
            # What the user mends may be what the finished stages were made of.
            is_lost = isinstance(known, DataError | SchemaError)
            is_last = job.table is not None and not is_lasting(job.config.input.table)
            if is_lost or (is_last and not isinstance(known, AlertError)):
                workspace.abandon()
            if known is None or known is error:
                raise
            raise known from error


def _run(spark: SparkSession, job: Job, storage: HadoopStorage, workspace: Workspace, work: Work) -> dict[str, Any]:
    baseline = read_baseline(storage, job.baseline)
    listing = list_readable(spark, job)
    if listing is not None and not work.by_tasks and _serves_driver(spark, job, listing):
        tasks = Spark(spark.version, partial(Tasks, spark))
        try:
            return search_files(job, listing, workspace, baseline, work=work, spark=tasks)
        except CapacityError as error:
            LOG.warning("the driver lacks memory for the search, which the tasks make instead (%s)", error)
    return _search(spark, job, storage, workspace, work, listing=listing, baseline=baseline)


def _serves_driver(spark: SparkSession, job: Job, listing: Listing) -> bool:
    """Tell whether the driver has the memory for the search."""
    need = estimate_need(listing, job.config, assumed=assume(spark, job.config))
    return fits_driver(spark, job.config, need)


def _search(
    spark: SparkSession,
    job: Job,
    storage: HadoopStorage,
    workspace: Workspace,
    work: Work,
    *,
    listing: Listing | None,
    baseline: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Search by tasks of Spark."""
    config = job.config
    parts = list_parts(config)
    spec = parts[-1].spec
    clock = Clock(spark, begun=job.begun)
    tables = CatalogTables.open(spark, job)
    if listing is None:
        given = _open_rows(spark, job, workspace, tables=tables)
    else:
        given = open_files(spark, job, listing, workspace)
    connecting = Connecting(config.components.engine, workspace.checkpoints)
    engine = SparkEngine(
        corpus=given.corpus,
        keep=WorkspaceTables(spark, workspace),
        id_column=given.id_column,
        connecting=connecting,
        cores=spark.sparkContext.defaultParallelism,
    )
    work.check(config, spec, engine.id_type)
    workspace.open({**identify(job, spec, given.fingerprint), **work.identity}, overwrite=job.overwrite)
    if tables is not None:
        tables.check(workspace, overwrite=job.overwrite)
    id_type = pa.string() if isinstance(given.corpus.id_type, T.StringType) else pa.int64()
    labels = read_duplicates(config, id_type)

    def publish(found: Searched[DataFrame]) -> dict[str, Any]:
        own = found if tables is None else replace(found, finish=partial(tables.commit, workspace))
        held = baseline or found.earlier
        return _publish(job, workspace, given, own, parts=parts, clock=clock, baseline=held)

    run = Run(
        engine=engine,
        parts=parts,
        config=config,
        context=Context(size=given.size, labels=labels),
        clock=clock,
        publish=publish,
        start_over=partial(storage.delete, workspace.result),
    )
    return work(run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """The input of a run, and what writes its output."""

    corpus: Corpus
    reader: str
    """Reader of the input: files, read by the workers themselves, or spark."""
    format: str
    id_column: str
    """Empty where an id is the digest of its row."""
    fingerprint: str
    size: int
    """Bytes of all files."""
    open_output: Callable[[SparkEngine], ResultWriter[DataFrame]]
    look: Callable[[], str]
    """Returns the fingerprint as it is now."""

    def check_unchanged(self) -> None:
        """Make sure that the files are those that were read.

        Raises
        ------
        DataError
            When one has come, gone, or been written again: the result would be a mixture.
        """
        now = self.look()
        if now != self.fingerprint:
            raise DataError(
                f"--input: must not change while the job reads it (it was {self.fingerprint}, it is {now}); nothing "
                "was published: repeat the command"
            )


def _publish(
    job: Job,
    workspace: Workspace,
    given: Given,
    found: Searched[DataFrame],
    *,
    parts: Sequence[Part],
    clock: Clock,
    baseline: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Write what was found, and publish it."""
    config, engine = job.config, found.chain.engine
    assert isinstance(engine, SparkEngine)
    counts = unite([*found.near.values()])
    findings = found.to_findings(config, engine.known.repeated)
    with ThreadPoolExecutor() as beside:
        # The drawing takes as long as the writing of a small corpus, and another core.
        drawing = beside.submit(_draw, clock, config, counts, found.chain, baseline)
        write = partial(write_result, inform=clock.inform, stage=partial(clock.group, "output"))
        written = clock("output", write, engine, given.open_output(engine), findings)
        drawn = clock.inform(PLOTS, drawing.result) or Drawing()
    given.check_unchanged()
    outcome = found.to_outcome(
        written,
        drawn,
        parts,
        clock,
        baseline=baseline,
        engine="spark",
        search="tasks",
        reader=given.reader,
        spark=found.documents.sparkSession.version,
        format=given.format,
    )
    return conclude(job, workspace, outcome, drawn, inform=clock.inform, first=found.finish)


def list_readable(spark: SparkSession, job: Job) -> Listing | None:
    """Return the files that workers read themselves; None where the input is a table.

    Raises
    ------
    StorageError
        When only Spark reaches them.
    """
    if job.table is not None:
        return None
    check_reach_beside(spark, job)
    return list_input(job)


def open_files(spark: SparkSession, job: Job, listing: Listing, workspace: Workspace) -> Given:
    """Return the input as files that the workers read themselves."""
    config, chosen = job.config, job.config.input
    source = open_input(config, listing)
    check_output(config, source)
    tasks = WAVES * spark.sparkContext.defaultParallelism
    splits = split_files(listing, min(max(listing.size // tasks, SPLIT_BYTES), MOST_SPLIT_BYTES))
    corpus = Files(spark=spark, source=source, splits=splits)

    def open_output(engine: SparkEngine) -> ResultWriter[DataFrame]:
        folder = absolute(workspace.result)
        return SparkOutput(config=config, source=source, folder=folder, corpus=corpus, keep=engine.keep)

    return Given(
        corpus=corpus,
        reader="files",
        format=listing.format.name,
        id_column=chosen.id_column or listing.format.id_column,
        fingerprint=listing.fingerprint,
        size=listing.size,
        open_output=open_output,
        look=lambda: list_input(job).fingerprint,
    )


def _open_rows(spark: SparkSession, job: Job, workspace: Workspace, *, tables: CatalogTables | None) -> Given:
    """Return the input as rows that Spark reads."""
    config, chosen = job.config, job.config.input
    assert job.table is not None
    read = take_table(job.table, chosen.table)
    rows = read_documents(
        read.rows,
        id_column=chosen.id_column,
        text_column=chosen.text_column,
        source_column=chosen.source_column,
        order=list_columns(config.keep.order),
        noted=list_noted(config),
        # Whoever reads a text has it several times.
        max_text_bytes=min(chosen.max_text_bytes, find_heap(spark) // HEAP_PER_TEXT),
    )
    if tables is not None:
        tables.check_columns(read.rows.schema)
    output = RowOutput(
        config=config,
        rows=read.rows,
        id_column=chosen.id_column,
        folder=workspace.result,
        parts=workspace.parts,
        move_part=workspace.move_part,
    )
    output.check()

    def look() -> str:
        is_listed = is_lasting(chosen.table)
        return fingerprint(load_table(spark, chosen.table), chosen.table) if is_listed else read.fingerprint

    return Given(
        corpus=Rows(documents=rows, order=list_columns(config.keep.order), noted=list_noted(config)),
        reader="spark",
        format="table",
        id_column=chosen.id_column,
        fingerprint=read.fingerprint,
        size=read.size,
        open_output=lambda _: output,
        look=look,
    )


def _draw(
    clock: Clock, config: Config, counts: Near, chain: Chain[DataFrame], baseline: Mapping[str, Any] | None
) -> Drawing:
    """Read the sample of tokens, and draw the plots."""
    sample, removed = list[tuple[int, bytes]](), set[int]()
    if chain.sample is not None and chain.removals is not None:
        sample, removed = read_sample(clock, chain.sample, chain.removals)
    return draw(config, counts, sample, removed, baseline)


def read_sample(clock: Clock, sample: DataFrame, removals: DataFrame) -> tuple[list[tuple[int, bytes]], set[int]]:
    """Return the tokens of the documents of a sample, and which of these REMOVALS name; none where that fails."""
    return clock.inform("the sample of tokens", _read_sample, clock, sample, removals) or ([], set())


def _read_sample(clock: Clock, sample: DataFrame, removals: DataFrame) -> tuple[list[tuple[int, bytes]], set[int]]:
    with clock.group("output"):
        rows = sample.toArrow()
        drawn = F.broadcast(removals.sparkSession.createDataFrame(rows.select(["doc_id"])))
        gone = removals.select("doc_id").join(drawn, on="doc_id", how="left_semi").toArrow()
    return list_sample(rows), {*gone["doc_id"].to_pylist()}
