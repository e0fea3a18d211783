"""One run of the job as it goes on: its input, and the tables and measurements of the stages so far."""

import contextlib
import logging
import time
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup import __version__
from dedup.config import to_dict
from dedup.contract import load_contract
from dedup.corpus import Corpus, fingerprint, guess_format, read_corpus
from dedup.errors import DataError
from dedup.exchange import Counters
from dedup.kernels.text import VERSION, key_fingerprint
from dedup.settings import Config, Input
from dedup.sizes import SAMPLE_BYTES, TASK_BYTES, tasks
from dedup.stages import documents, output
from dedup.storage import Storage
from dedup.workspace import Workspace

LOG = logging.getLogger("dedup")

KEY_FILE = "hash.key_file"
"""The setting that may change between tries: what counts is what the file holds."""
CODEGEN_BYTES = 128 << 20
"""Input from which on it pays to compile every stage of a plan, which conf/spark-local.conf switches off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a run is asked to do."""

    inputs: Sequence[str]
    output: str
    config: Config
    overwrite: bool = False
    baseline: str | None = None


class Read(NamedTuple):
    """The input, and what it was found to be."""

    format: str
    id_column: str
    corpus: Corpus


def read_input(spark: SparkSession, storage: Storage, inputs: Sequence[str], chosen: Input) -> Read:
    """Read the input as the settings say.

    Raises
    ------
    StorageError, DataError
        As `read_corpus`.
    """
    kind: str = chosen.format
    if kind == "auto":
        kind = guess_format(storage, inputs, name_filter=chosen.name_filter)
    found = read_corpus(
        spark, storage, inputs, kind=kind, name_filter=chosen.name_filter, on_bad_record=chosen.on_bad_record
    )
    return Read(kind, chosen.id_column or ("path" if kind == "text" else ""), found)


class Run:
    """One run as it goes on: its input, and the tables and measurements of the stages so far."""

    def __init__(self, spark: SparkSession, job: Job, storage: Storage, workspace: Workspace) -> None:
        self.spark = spark
        self.config = job.config
        chosen = job.config.input
        read = read_input(spark, storage, job.inputs, chosen)
        self.format, self.id_column, found = read.format, read.id_column, read.corpus
        where = {"kind": self.format, "name_filter": chosen.name_filter}
        self.corpus, self.rejected = found.rows, found.rejected
        self._fingerprint = found.fingerprint
        self._fingerprint_now = partial(fingerprint, spark, storage, job.inputs, **where)
        if found.size > CODEGEN_BYTES:
            spark.conf.set("spark.sql.codegen.wholeStage", "true")
        self.documents = documents.read_documents(
            self.corpus,
            id_column=self.id_column,
            text_column=chosen.text_column,
            source_column=chosen.source_column,
        )
        self.contract = load_contract(job.config)
        self.hashed = {"version": VERSION, "key": key_fingerprint(self.contract.key)}
        if job.config.output.mode == "annotate":
            output.check_annotations(self.corpus)
        self.id_type = self.documents.schema["id"].dataType
        self.workspace = workspace
        identity = {
            "version": __version__,
            **{f"hash {name}": value for name, value in self.hashed.items()},
            "unicode": unicodedata.unidata_version,
            **{
                f"setting {name}": value
                for name, value in flatten(to_dict(job.config)).items()
                # What only judges the result may change before an unfinished run goes on.
                if name != KEY_FILE and not name.startswith("alerts.")
            },
            "input": found.fingerprint,
        }
        self.workspace.open(identity, overwrite=job.overwrite)
        self.tables: dict[str, DataFrame] = {}
        self.measured: dict[str, dict[str, Any]] = {}
        self.stages: dict[str, dict[str, Any]] = {}
        self._begins: dict[str, float] = {}
        self.sample_share = min(SAMPLE_BYTES / max(found.size, 1), 1.0)

    @contextlib.contextmanager
    def stage(self, name: str, table: str) -> Iterator[None]:
        """Time a stage, and say when it is done and how many rows its table has."""
        begin = time.monotonic()
        self._begins[name] = time.time()
        yield
        seconds = time.monotonic() - begin
        measured = self.measured[table]
        self.stages[name] = {**measured, "seconds": round(seconds, 3)}
        LOG.info("%-16s %14s %9.1f s", name, f"{measured['rows']:,} rows", seconds)

    def table(
        self,
        name: str,
        schema: T.StructType,
        build: Callable[[Counters], DataFrame],
        *,
        counted: Sequence[str] = (),
        summed: Mapping[str, str] | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        """Build, write and measure a table, unless an earlier try has finished it.

        Parameters
        ----------
        counted
            Names of the sums that the stage counts in its workers.
        summed
            Measurements that are sums of SQL expressions over the table.
        known
            Measurements known beforehand.
        """
        measured = self.workspace.finished(name)
        if measured is not None and not self.workspace.is_whole(name, schema, measured["rows"]):
            LOG.warning("%s: the table of an earlier try is damaged; it is made again", name)
            measured = None
        if measured is None:
            counters = Counters(self.spark)
            observation = Observation()
            sums = [F.sum(F.expr(expression)).alias(key) for key, expression in (summed or {}).items()]
            rows = build(counters).observe(observation, F.count(F.lit(1)).alias("rows"), *sums)
            self.workspace.write_table(name, rows)
            seen = {key: value or 0 for key, value in observation.get.items()}
            measured = {**seen, **dict.fromkeys(counted, 0), **counters.values(), **(known or {})}
            self.workspace.finish(name, measured)
        self.measured[name] = measured
        self.tables[name] = self.workspace.read_table(name, schema)

    def check_input(self) -> None:
        """Make sure that the files are those that were read.

        Raises
        ------
        DataError
            When one has come, gone, or been written again: the result would be a mixture.
        """
        now = self._fingerprint_now()
        if now != self._fingerprint:
            raise DataError(
                f"--input: must not change while the job reads it (it was {self._fingerprint}, it is {now}); nothing "
                "was published: repeat the command"
            )

    def rows(self, name: str) -> int:
        """Return the number of rows of a finished table."""
        return int(self.measured[name]["rows"])

    def sizes(self, name: str) -> dict[int, int]:
        """Return how often every size was counted as a table was made."""
        counted: dict[str, int] = self.measured[name].pop("sizes", {})
        return dict(sorted((int(size), count) for size, count in counted.items()))

    def texts(self, name: str, key: str) -> list[str]:
        """Return the texts that were counted as a table was made."""
        return [*self.measured[name].pop(key, {})]

    def measure_shuffles(self) -> None:
        """Add to every stage the bytes that it wrote to shuffles in this run, as Spark's own status store has them.

        The store is there without Spark's UI too. A Spark stage belongs to the stage in which it was submitted; the
        oldest are forgotten beyond spark.ui.retainedStages (1,000). Where Spark has no such store nothing is added.
        """
        shuffled = dict.fromkeys(self.stages, 0)
        names, begins = list(self._begins), list(self._begins.values())
        try:
            context: Any = self.spark.sparkContext._jsc.sc()  # noqa: SLF001 - its only door
            context.listenerBus().waitUntilEmpty()
            store = context.statusStore()
            defaults = [getattr(store, f"stageList$default${number}")() for number in range(2, 6)]
            found = store.stageList(None, *defaults).iterator()
            while found.hasNext():
                stage = found.next()
                written = stage.shuffleWriteBytes()
                # Java's clock shows whole milliseconds.
                place = bisect(begins, stage.submissionTime().get().getTime() / 1000 + 0.001) if written else 0
                if place:
                    shuffled[names[place - 1]] += written
        except Py4JError:
            return
        for name, written in shuffled.items():
            self.stages[name]["shuffle_bytes"] = written

    def tasks(self, data_bytes: int, task_bytes: int) -> int:
        """Return how many tasks share so many bytes: enough for the limit of one, and for the cores if it pays."""
        return tasks(data_bytes, task_bytes, self.spark.sparkContext.defaultParallelism, TASK_BYTES)


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Name the keys of tables as `--set` does."""
    tables = {name: value for name, value in settings.items() if isinstance(value, Mapping)}
    single = {name: value for name, value in settings.items() if name not in tables}
    return single | {f"{table}.{name}": value for table, values in tables.items() for name, value in values.items()}
