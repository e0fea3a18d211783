"""Sessions of Spark: what a classic one has beside DataFrames, and what stands for it in one of Spark Connect.

A classic session has the JVM of this process. One of Spark Connect is a client: it has DataFrames, observations,
artifacts and settings. All else that this package asks of a session that runs is asked here.
"""

import contextlib
import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.errors import StorageError
from dedup.files.globs import escape
from dedup.files.storage import Storage

if TYPE_CHECKING:
    from pyspark import SparkContext

Item = TypeVar("Item")
Value = TypeVar("Value")
PIECE_BYTES = 16 << 20
"""Bytes of a row that a task gives back: messages of Spark Connect have an end."""
TASK_BYTES = 1 << 20
"""Bytes of rows of the driver that travel with tasks, at most."""
ROWS = 1 << 16
"""Rows of a batch of the driver's."""
PIECES = pa.schema({"number": pa.int64(), "piece": pa.binary()})
"""Pieces of what tasks made of an item, in their order."""
GROUP = "spark.jobGroup.id"
GRAPHFRAME = "org/graphframes/GraphFrame.class"
ADAPTIVE = "spark.sql.adaptive.enabled"
LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
MOST_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
GROUP_COLUMNS = "spark.sql.retainGroupColumns"
LONGEST, MOST_LETTERS = "spark.sql.maxMetadataStringLength", str(1 << 30)
"""Setting of how much a plan tells of the paths it reads, and a value with which it tells all."""
PLUGINS = "spark.connect.extensions.relation.classes"
"""Setting of a Connect server with the classes of its plugins."""
MOST_CORES = 1 << 14
"""Rows of a table of numbers that shows into how many partitions a server divides."""
UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
"""Powers of two of the units in which Spark has sizes."""
SIZE = re.compile(r"sizeInBytes=([\d.E+]+) ([KMGTPE]?)i?B")
LOCATION = re.compile(r"Location: \w+\s*(?:\(\d+ paths\))?\[([^\]]*)\]")
FILE_STATUS = re.compile(
    r"\{path=(?P<path>.*?); isDirectory=false; length=(?P<length>\d+);.*?modification_time=(?P<changed>\d+)", re.DOTALL
)
"""Words in which Hadoop's FileStatus describes a file."""
_ROOTS: tuple[Callable[[Any], str], ...] = (
    lambda leaf: leaf.relation().location().rootPaths().mkString("\0"),
    lambda leaf: leaf.table().fileIndex().rootPaths().mkString("\0"),
    lambda leaf: leaf.tableMeta().storage().locationUri().toList().mkString("\0"),
    lambda leaf: leaf.table().table().location(),
)
"""Functions that return the paths of a plan's leaf: in Spark's readers, their second version, Hive's tables, and those
of Iceberg."""

_cores: dict[str, int] = {}
"""Cores of Connect servers, by their sessions."""


def is_connect(spark: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def identify(spark: SparkSession) -> str:
    """Return the name of a session, or of the application of a classic one."""
    if is_connect(spark):
        return str(getattr(spark, "session_id"))  # noqa: B009 - mypy knows classic sessions alone
    return str(spark.sparkContext.applicationId)


def is_stopped(spark: SparkSession) -> bool:
    """Tell whether a session has ended: what fails then has no cause of its own."""
    if is_connect(spark):
        return bool(getattr(spark, "is_stopped"))  # noqa: B009 - as above
    return spark.sparkContext._jsc is None  # noqa: SLF001 - its only door


def count_cores(spark: SparkSession) -> int:
    """Return the tasks that a session runs at a time; a client asks its server once, by a job of JVM tasks."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    name = identify(spark)
    if name not in _cores:
        numbers = spark.range(MOST_CORES).select(F.spark_partition_id().alias("number"))
        _cores[name] = numbers.distinct().count()
    return _cores[name]


def to_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table of Arrow as one of Spark, of which a client asks for a schema where there are no rows.

    Spark sends the rows with its tasks, as many of them in each as there are cores: of millions the driver's heap holds
    several copies at once, or the limit of a message is passed. They are read from a broadcast instead.
    """
    schema = from_arrow_schema(table.schema)
    if is_connect(spark) or table.nbytes <= TASK_BYTES:
        return spark.createDataFrame(table, schema)
    length = -(-table.num_rows // min(-(-table.nbytes // TASK_BYTES), count_cores(spark)))
    packed = [pack(table.slice(begin, length)) for begin in range(0, table.num_rows, length)]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from pa.ipc.open_stream(packed[number])

    return spark.range(0, len(packed), 1, len(packed)).mapInArrow(read, schema)


def pack(table: pa.Table) -> bytes:
    """Return a table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, ROWS)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def run_tasks(spark: SparkSession, work: Callable[[Item], Value], items: Sequence[Item], tasks: int) -> list[Value]:
    """Return what the work makes of each item, in one job of at most so many tasks.

    A server makes a table of it, which takes .05 s a job and half as long again for values of megabytes.
    """
    tasks = min(len(items), tasks)
    if not is_connect(spark):
        return spark.sparkContext.parallelize(items, tasks).map(work).collect()
    packed = [pickle.dumps(item) for item in items]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                value = memoryview(pickle.dumps(work(pickle.loads(packed[number]))))  # noqa: S301 - from the driver
                for begin in range(0, len(value), PIECE_BYTES):
                    piece = {"number": number, "piece": value[begin : begin + PIECE_BYTES]}
                    yield pa.RecordBatch.from_pylist([piece], PIECES)

    found = spark.range(0, len(items), 1, tasks).mapInArrow(run, from_arrow_schema(PIECES)).toArrow()
    values = [io.BytesIO() for _ in items]
    for number, piece in zip(found["number"].to_pylist(), found["piece"], strict=True):
        values[number].write(piece.as_buffer())
    return [pickle.loads(value.getbuffer()) for value in values]  # noqa: S301 - from workers of the session


def sees(spark: SparkSession, path: str) -> bool:
    """Tell whether a server and its Python workers see a file that a client has written."""
    try:
        _ = spark.read.text(escape(path)).schema
    except AnalysisException:
        return False
    return run_tasks(spark, Storage().exists, [path], 1) == [True]


def find_master(spark: SparkSession) -> str:
    """Return the master of a classic session; empty for a client, which has none."""
    return "" if is_connect(spark) else str(spark.sparkContext.master)


def has_memory(spark: SparkSession) -> bool:
    """Tell whether the driver has this machine's memory for itself, as a client has, and not a container's rest."""
    return is_connect(spark) or find_master(spark).startswith("local")


def find_heap(spark: SparkSession) -> int:
    """Return the heap that Spark's readers work in, in bytes: an executor's, or the driver's in local mode."""
    if is_connect(spark):
        return _find_heap_of_server(spark)
    context: Any = spark.sparkContext
    if context.master.startswith("local"):
        return int(context._jvm.java.lang.Runtime.getRuntime().maxMemory())  # noqa: SLF001 - its only door
    return int(context._jsc.sc().executorMemory()) << 20  # noqa: SLF001 - as above


def _find_heap_of_server(spark: SparkSession) -> int:
    given = "1g"
    # Serverless ones tell nothing.
    with contextlib.suppress(AnalysisException):
        is_local = (spark.conf.get("spark.master", None) or "").startswith("local")
        given = spark.conf.get(f"spark.{'driver' if is_local else 'executor'}.memory", None) or given
    number, unit = re.fullmatch(r"(\d+)([kmgt]?)b?", given.lower()).groups()  # type: ignore[union-attr]
    return int(number) << UNITS[unit]


class Jobs:
    """Jobs of a classic session, in named groups; of a server's jobs a client knows nothing."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: SparkContext | None = None if is_connect(spark) else spark.sparkContext

    @contextlib.contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Name the jobs of this thread."""
        if self._context is None:
            yield
            return
        before = self._context.getLocalProperty(GROUP)
        self._context.setLocalProperty(GROUP, name)
        try:
            yield
        finally:
            with contextlib.suppress(Py4JError):  # stopped amid the stage: that error is the one to see
                self._context.setLocalProperty(GROUP, before)  # type: ignore[arg-type] # null takes it away

    def count_tasks(self, name: str) -> tuple[int, int] | None:
        """Return the finished tasks of a group, and all that Spark has planned so far."""
        if self._context is None:
            return None
        try:
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(name)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        except (Py4JError, OSError):
            return None
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)

    def count_shuffled(self, groups: Iterable[str]) -> dict[str, int] | None:
        """Return the bytes that each group wrote to shuffles, from Spark's status store.

        The store exists without Spark's UI too. It forgets the oldest jobs beyond spark.ui.retainedJobs (1,000). None
        where there is no such store.
        """
        if self._context is None:
            return None
        written = dict.fromkeys(groups, 0)
        try:
            context: Any = self._context._jsc.sc()  # noqa: SLF001 - its only door
            context.listenerBus().waitUntilEmpty()
            store, tracker = context.statusStore(), self._context.statusTracker()
            jobs = {job: name for name in written for job in tracker.getJobIdsForGroup(name)}
            known: set[int] = set()
            # A stage that several jobs share was run by the first.
            for job in sorted(jobs):
                found = tracker.getJobInfo(job)
                stages = set(found.stageIds) - known if found else set()
                written[jobs[job]] += sum(_read_shuffled(store, stage) for stage in stages)
                known |= stages
        except Py4JError:
            return None
        return written


def _read_shuffled(store: Any, stage: int) -> int:  # noqa: ANN401 - of the JVM
    """Return the bytes that a stage wrote to its shuffle; 0 for one that Spark has forgotten."""
    try:
        return int(store.lastStageAttempt(stage).shuffleWriteBytes())
    except Py4JJavaError:
        return 0


def list_roots(table: DataFrame) -> list[str]:
    """Return the files and folders that a table is read from, if Spark knows them.

    A file that was read by its name stands for itself alone, and not for its folder.
    """
    if is_connect(table.sparkSession):
        with restored(table.sparkSession, LONGEST):
            table.sparkSession.conf.set(LONGEST, MOST_LETTERS)
            told = _explain(table)
        return sorted({path for listed in LOCATION.findall(told) for path in listed.split(", ")})
    plan: Any = table._jdf.queryExecution().analyzed()  # noqa: SLF001 - the plan has no other door
    leaves, found = plan.collectLeaves(), set[str]()
    for number in range(leaves.size()):
        for roots in _ROOTS:
            with contextlib.suppress(Py4JError):  # a leaf of another kind has no such method
                found |= {*roots(leaves.apply(number)).split("\0")} - {""}
    return sorted(found)


def list_files(table: DataFrame) -> list[tuple[str, int, int]]:
    """Return path, length and time of change of the files that a table is read from; a client looks at each.

    Raises
    ------
    StorageError
        When they cannot be read.
    """
    if is_connect(table.sparkSession):
        entries = [(path, Storage().look(path)) for path in table.inputFiles()]
        return sorted((path, entry.size, entry.changed) for path, entry in entries if entry is not None)
    leaf: Any = table._jdf.queryExecution().analyzed().collectLeaves().apply(0)  # noqa: SLF001 - as above
    try:
        index = leaf.relation().location()
    except Py4JError:  # of the second version of Spark's readers, as in _ROOTS
        index = leaf.table().fileIndex()
    # One call for all files: their FileStatus objects one by one would cost a millisecond each.
    statuses = index.allFiles()
    files = sorted(
        (match["path"], int(match["length"]), int(match["changed"]))
        for match in FILE_STATUS.finditer(statuses.mkString("\n"))
    )
    if len(files) != statuses.size():
        raise StorageError(f"--table: must be on a file system whose file statuses can be read (got {statuses.head()})")
    return files


def estimate_size(rows: DataFrame) -> int:
    """Return the bytes of rows as Spark estimates them."""
    if not is_connect(rows.sparkSession):
        plan: Any = rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - the plan has no other door
        return int(plan.stats().sizeInBytes())
    [number, unit] = SIZE.search(_explain(rows)).groups()  # type: ignore[union-attr] # the first is of the whole plan
    return int(float(number) * 1024 ** "_KMGTPE".index(unit or "_"))


@contextlib.contextmanager
def restored(spark: SparkSession, *names: str) -> Iterator[None]:
    """Give settings of a session back afterwards."""
    before = {name: spark.conf.get(name, None) for name in names}
    try:
        yield
    finally:
        # Stopped meanwhile, or its server is: that error is the one to see.
        with contextlib.suppress(Py4JError, PySparkException, OSError):
            for name, value in before.items():
                if value is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, value)


@contextlib.contextmanager
def suited(spark: SparkSession, *names: str) -> Iterator[None]:
    """Let rows come to workers with offsets of 32 bits, in limited batches, and groups with the columns they are of.

    These settings and others are given back.
    """
    changed = {LARGE_TYPES: "false"} if str(spark.conf.get(LARGE_TYPES, None)).lower() == "true" else {}
    changed |= {GROUP_COLUMNS: "true"} if str(spark.conf.get(GROUP_COLUMNS, None)).lower() == "false" else {}
    # Python's side of Spark takes none where the JVM's takes no limit.
    changed |= {MOST_ROWS: "10000"} if int(spark.conf.get(MOST_ROWS, None) or 1) < 1 else {}
    with restored(spark, *names, *changed):
        for name, value in changed.items():
            spark.conf.set(name, value)
        yield


def _explain(rows: DataFrame) -> str:
    told: str = rows._explain_string(mode="cost")  # type: ignore[operator] # noqa: SLF001 - else it is printed
    return told


def is_repeatable(rows: DataFrame) -> bool:
    """Tell whether rows are the same each time, as far as Spark knows: no stream, and no expression such as rand()."""
    if rows.isStreaming:
        return False
    try:
        # Such rows may not be joined to each of several others, which Spark finds before anything runs.
        _ = rows.sparkSession.range(2).lateralJoin(rows).schema
    except AnalysisException as error:
        return "NON_DETERMINISTIC" not in (error.getCondition() or "")
    return True


def has_graphframes(spark: SparkSession) -> bool:
    """Tell whether GraphFrames' Python package is installed and Spark has its classes; of a server, its plugin."""
    if find_spec("graphframes") is None:
        return False
    if is_connect(spark):
        with contextlib.suppress(AnalysisException):
            return "graphframes" in (spark.conf.get(PLUGINS, None) or "").lower()
        return False
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - class loaders have no other door from Python
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(GRAPHFRAME) is not None


@contextlib.contextmanager
def checkpointed(spark: SparkSession, folder: str) -> Iterator[None]:
    """Give GraphFrames a checkpoint folder, and the session its own and adaptive execution back afterwards.

    A server has a folder of its own (spark.checkpoint.dir).
    """
    if is_connect(spark):
        yield
        return
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001 - the folder of before has no other door
    before = context.checkpointDir()
    spark.sparkContext.setCheckpointDir(folder)
    try:
        with restored(spark, ADAPTIVE):
            yield
    finally:
        getattr(context, "checkpointDir_$eq")(before)
