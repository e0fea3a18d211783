"""The input of a run on Spark: files, which the workers read themselves, or a table, which Spark reads."""

from contextlib import nullcontext
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine import sessions
from dedup.engine.components import Connecting
from dedup.engine.corpus import Corpus, Rows, add_foreign, read_documents
from dedup.engine.exchange import WAVES
from dedup.engine.file_corpus import Files
from dedup.engine.spark import SparkEngine
from dedup.engine.spark_rows import SparkRows
from dedup.errors import ConfigError, DataError
from dedup.files.listing import Listing
from dedup.files.orders import list_asking
from dedup.files.splits import split_files
from dedup.files.systems import absolute
from dedup.output.file_output import check_output
from dedup.output.result_tables import ResultWriter
from dedup.output.row_output import RowOutput
from dedup.output.spark_tasks import SparkOutput
from dedup.run.catalog import CatalogTables
from dedup.run.execution import Given
from dedup.run.faults import find_cause
from dedup.run.input import fingerprint, is_lasting, load_table, take_table
from dedup.run.job import Job
from dedup.run.layers import find_vector, list_noted
from dedup.run.opening import SPLIT_BYTES, check_unchanged, open_input
from dedup.run.session import suit_session
from dedup.run.tables import WorkspaceTables
from dedup.run.workspace import Workspace
from dedup.settings.options import Config

HEAP_PER_TEXT = 8
"""Bytes of a heap for each byte of the longest text that Spark's own readers may put there."""
MOST_SPLIT_BYTES = 128 << 20
"""Bytes of a split of a large corpus, as stored."""
MOST_PARTITIONS = 1 << 20
"""Partitions of a table that is read as it is, whose size nobody knows."""


def open_files(spark: SparkSession, job: Job, listing: Listing, workspace: Workspace) -> Given[SparkRows]:
    """Return the input as files that the workers read themselves."""
    config = job.config
    suit_session(spark, listing.size)
    source = open_input(config, listing)
    schema = check_output(config, source)
    cores = sessions.count_cores(spark)
    splits = split_files(listing, min(max(listing.size // (WAVES * cores), SPLIT_BYTES), MOST_SPLIT_BYTES), cores)
    corpus = Files(spark=spark, source=source, splits=splits)
    id_column = config.input.id_column or listing.format.id_column
    engine = _make_engine(spark, job, workspace, corpus, id_column)

    def open_output(engine: SparkEngine) -> ResultWriter[SparkRows]:
        folder = absolute(workspace.result)
        return SparkOutput(config=config, source=source, schema=schema, folder=folder, corpus=corpus, keep=engine.keep)

    return Given(
        fingerprint=listing.fingerprint,
        id_type=engine.id_type,
        size=listing.size,
        search="tasks",
        format=listing.format.name,
        spark=spark.version,
        begin=lambda: nullcontext(engine),
        open_output=open_output,
        list_repeated=lambda engine: engine.known.repeated,
        check_unchanged=partial(check_unchanged, job, listing),
    )


def open_rows(spark: SparkSession, job: Job, table: DataFrame, workspace: Workspace) -> Given[SparkRows]:
    """Return the input as rows of a table, which Spark reads."""
    config, chosen, tables = job.config, job.config.input, CatalogTables.open(spark, job)
    named = [(chosen.table, table), *job.foreign_tables.items()]
    foreign = [take_table(rows, name, f"--without {name}") for name, rows in job.foreign_tables.items()]
    taken = [take_table(table, chosen.table), *foreign]
    # Not before, as the faults of a table are those of all expressions over it.
    _check_expressions(table, config)
    size = sum(each.size for each in taken)
    suit_session(spark, size)
    table = join_partitions(table, size)
    noted = list_noted(config)
    reading = partial(
        read_documents,
        id_column=chosen.id_column,
        text_columns=config.text_columns,
        has_sets=config.shingles.has_sets,
        noted=noted,
        vector=find_vector(config),
        # Whoever reads a text has it several times.
        max_text_bytes=min(chosen.max_text_bytes, sessions.find_heap(spark) // HEAP_PER_TEXT),
    )
    rows = reading(table, source_column=chosen.source_column, order=list_asking(config.rules))
    if job.foreign_tables:
        rows = add_foreign(rows, [reading(each) for each in job.foreign_tables.values()])
    if tables is not None:
        # Ids alone are written of other columns nothing, and with weights the ids have a name of their own.
        written = {"ids": [chosen.id_column], "weights": []}.get(config.output.mode, table.columns)
        tables.check_columns(T.StructType([field for field in table.schema if field.name in written]))
    output = RowOutput(
        config=config,
        rows=table,
        id_column=chosen.id_column,
        folder=workspace.result,
        parts=workspace.parts,
        move_part=workspace.move_part,
    )
    output.check()
    corpus = Rows(documents=rows, rules=config.rules, noted=noted)
    engine = _make_engine(spark, job, workspace, corpus, chosen.id_column)

    def check_unchanged() -> None:
        """See `opening.check_unchanged`."""
        for (name, _), before in zip(named, taken, strict=True):
            if is_lasting(name) and fingerprint(load_table(spark, name), name) != before.fingerprint:
                option = "--table" if name == chosen.table else "--without"
                raise DataError(f"{option}: must not change while the job reads it (it did): repeat the command")

    return Given(
        fingerprint=", ".join(each.fingerprint for each in taken),
        id_type=engine.id_type,
        size=size,
        search="tasks",
        format="table",
        spark=spark.version,
        begin=lambda: nullcontext(engine),
        open_output=lambda _: output,
        list_repeated=lambda engine: engine.known.repeated,
        check_unchanged=check_unchanged,
        tables=tables,
    )


def join_partitions(table: DataFrame, size: int) -> DataFrame:
    """Read a table of many small partitions by fewer tasks, each of which takes longer to begin than to read some rows.

    Parameters
    ----------
    size
        Bytes as Spark estimates them.
    """
    tasks = max(size // SPLIT_BYTES, WAVES * sessions.count_cores(table.sparkSession))
    return table.coalesce(min(tasks, MOST_PARTITIONS))


def _make_engine(spark: SparkSession, job: Job, workspace: Workspace, corpus: Corpus, id_column: str) -> SparkEngine:
    return SparkEngine(
        corpus=corpus,
        keep=WorkspaceTables(spark, workspace, by_workers=isinstance(corpus, Files)),
        id_column=id_column,
        connecting=Connecting(job.config.components.engine, workspace.checkpoints),
        cores=sessions.count_cores(spark),
    )


def _check_expressions(table: DataFrame, config: Config) -> None:
    """Refuse expressions of `keep.order` that are none, or that give another value each time.

    Raises
    ------
    ConfigError
    """
    for of in (of for rule, of in list_asking(config.rules) if rule == "sql"):
        rule = f"keep.order: sql:{of} must be an expression of Spark SQL over the columns of a row that is a number"
        try:
            keyed = table.select("*", F.expr(of).cast("double"))
            # A client of Spark Connect asks its server by this.
            _ = keyed.schema
        except PySparkException as error:
            raise ConfigError(f"{rule} ({find_cause(error)})") from error
        if not sessions.is_repeatable(keyed):
            raise ConfigError(f"{rule}, the same each time (it has one such as rand())")
