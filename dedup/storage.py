"""All paths of a job: its input, its unfinished work, its output. Everything goes through Hadoop's file systems.

An output folder OUT appears in one rename. Until then all is in OUT.partial:

    OUT.partial/run.json          settings and input files of the run, so that only the same run goes on with it
    OUT.partial/stages/NAME       the table of a stage, finished once NAME.json with its measurements is there
    OUT.partial/checkpoints       GraphFrames' own
    OUT.partial/result            becomes OUT
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import StorageError

EXTENSIONS = {
    "parquet": ("parquet",),
    "jsonl": ("jsonl", "json", "ndjson"),
    "csv": ("csv",),
    "text": ("txt", "text", "md", "rst", "html"),
}
FILE_STATUS = re.compile(
    r"\{path=(?P<path>.*?); isDirectory=false; length=(?P<length>\d+);.*?modification_time=(?P<changed>\d+)", re.DOTALL
)
"""What Hadoop's FileStatus says of a file in words."""
COMPRESSIONS = ("gz", "zst", "bz2", "lz4", "snappy")


class Storage:
    """The file systems as Spark sees them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Hadoop's API has no other door from Python
        self._hadoop_conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return bool(self._system(path).exists(self._path(path)))

    def delete(self, path: str) -> None:
        """Remove a file or a whole folder, if it is there."""
        self._system(path).delete(self._path(path), True)  # noqa: FBT003 - recursively, in Java

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a name that is free.

        Raises
        ------
        StorageError
            When the file system refuses.
        """
        if self.exists(target) or not self._system(source).rename(self._path(source), self._path(target)):
            raise StorageError(f"{target}: must be free to take {source} (the file system refused the rename)")

    def write_text(self, path: str, content: str) -> None:
        """Write a small UTF-8 file, over an existing one."""
        stream = self._system(path).create(self._path(path))
        try:
            stream.write(bytearray(content, "utf-8"))
        finally:
            stream.close()

    def read_text(self, path: str) -> str:
        """Read a small UTF-8 file."""
        stream = self._system(path).open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def first_file(self, pattern: str, name_filter: str = "") -> tuple[str, str] | None:
        """Return the first data file that a file, folder or glob leads to; None if there is none.

        Parameters
        ----------
        name_filter
            A glob that the file's name must match; empty for any name.

        Returns
        -------
        root, path
            The file or folder that the pattern names, and the file's path below it, empty if it is that file.
        """
        accepts = self._jvm.org.apache.hadoop.fs.GlobFilter(name_filter or "*").accept
        for status in self._system(pattern).globStatus(self._path(pattern)) or ():
            root = str(status.getPath())
            if is_hidden(root.rsplit("/", 1)[-1]):
                continue
            if not status.isDirectory():
                if accepts(status.getPath()):
                    return root, ""
                continue
            files = self._system(pattern).listFiles(status.getPath(), True)  # noqa: FBT003 - recursively, in Java
            while files.hasNext():
                path = files.next().getPath()
                below = str(path)[len(root) + 1 :]
                if not any(map(is_hidden, below.split("/"))) and accepts(path):
                    return root, below
        return None

    def _path(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        return self._path(path).getFileSystem(self._hadoop_conf)


def is_hidden(name: str) -> bool:
    """Tell whether Spark takes a file or folder of this name for no data; `key=value` is a partition of a table."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def guess_format(storage: Storage, inputs: Sequence[str], *, name_filter: str = "") -> str:
    """Return the format that the first file of every input is named after.

    Raises
    ------
    StorageError
        When an input is missing or empty, or its name tells no format, or another than the first's.
    """
    found: dict[str, str] = {}
    for path in inputs:
        name = "/".join(_require_file(storage, path, name_filter)).rstrip("/").rsplit("/", 1)[-1].lower()
        parts = [part for part in name.split(".")[1:] if part not in COMPRESSIONS]
        matches = [kind for kind, extensions in EXTENSIONS.items() if parts and parts[-1] in extensions]
        if not matches:
            raise StorageError(
                f"--input {path}: its format cannot be told from {name!r}; pass --format parquet, jsonl, csv or text"
            )
        found[matches[0]] = path
    if len(found) > 1:
        shown = ", ".join(f"{path} is {kind}" for kind, path in found.items())
        raise StorageError(f"--input: all inputs must have one format ({shown})")
    return next(iter(found))


def _require_file(storage: Storage, path: str, name_filter: str) -> tuple[str, str]:
    try:
        first = storage.first_file(path, name_filter)
    except (Py4JJavaError, IllegalArgumentException) as error:
        reason = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
        raise StorageError(f"--input {path!r}: must be a path or glob ({reason})") from error
    if first is None:
        if storage.first_file(path) is not None:
            raise StorageError(f"input.name_filter: must match the name of a file in {path} (got {name_filter!r})")
        state = "has no file to read" if storage.exists(path) else "does not exist"
        raise StorageError(f"--input {path}: must be a file, a folder of files or a glob (it {state})")
    return first


def read_corpus(
    spark: SparkSession, storage: Storage, inputs: Sequence[str], *, kind: str, name_filter: str
) -> tuple[DataFrame, str]:
    """Read the input as it is, with every column.

    `text` gives one row a file: `path` and `text`. `csv` has a header and only strings. As everywhere in Hadoop, files
    and folders whose names begin with `_` or `.` are no data. Folders in folders are read too; those named `key=value`
    are a column.

    Returns
    -------
    corpus : DataFrame
    fingerprint : str
        Changes when a file comes, goes, or is written again.

    Raises
    ------
    StorageError
        When an input is missing or has no files.
    """
    is_partitioned = any("=" in _require_file(storage, path, name_filter)[1] for path in inputs)
    reader = spark.read.option("recursiveFileLookup", str(kind == "text" or not is_partitioned))
    if name_filter:
        reader = reader.option("pathGlobFilter", name_filter)
    paths = list(inputs)
    if kind == "parquet":
        corpus = reader.parquet(*paths)
    elif kind == "jsonl":
        corpus = reader.json(paths, mode="FAILFAST")
    elif kind == "csv":
        corpus = reader.csv(paths, header=True, mode="FAILFAST", multiLine=True, escape='"')
    else:
        corpus = reader.text(paths, wholetext=True)
    files = _list_files(corpus)
    fingerprint = f"{len(files):,} files, SHA-256 {hashlib.sha256(repr(files).encode()).hexdigest()}"
    return (_one_row_a_file(spark, corpus, files) if kind == "text" else corpus), fingerprint


def _list_files(corpus: DataFrame) -> list[tuple[str, int, int]]:
    """Return path, length in bytes and time of change of every file, as Spark listed them for this DataFrame."""
    # One call for all files: their FileStatus objects one by one would cost a millisecond each.
    location = corpus._jdf.queryExecution().analyzed().collectLeaves().apply(0).relation().location()  # noqa: SLF001
    statuses = location.allFiles()
    files = sorted(
        (match["path"], int(match["length"]), int(match["changed"]))
        for match in FILE_STATUS.finditer(statuses.mkString("\n"))
    )
    if len(files) != statuses.size():
        raise StorageError(f"--input: must be on a file system whose file statuses can be read (got {statuses.head()})")
    return files


def _one_row_a_file(spark: SparkSession, texts: DataFrame, files: Sequence[tuple[str, int, int]]) -> DataFrame:
    """Return (path, text), with the empty files, which Spark's readers leave out."""
    # The path as Spark names it is a URL, in which a plus sign stands for itself.
    url = F.regexp_replace("_metadata.file_path", r"\+", "%2B")
    named = texts.select(_local(F.url_decode(url)).alias("path"), F.col("value").alias("text"))
    empty = [(path, "") for path, length, _ in files if length == 0]
    if not empty:
        return named
    rows = spark.createDataFrame(empty, "path string, text string")
    return named.unionByName(rows.select(_local(F.col("path")).alias("path"), "text"))


def _local(path: Column) -> Column:
    """Return the path without the scheme that says it is on this machine."""
    return F.regexp_replace(path, "^file:/+", "/")


class Workspace:
    """The folder OUT.partial of one run, and its publication as OUT."""

    def __init__(self, spark: SparkSession, storage: Storage, output: str) -> None:
        self._spark = spark
        self._storage = storage
        self.output = output.rstrip("/")
        self.partial = f"{self.output}.partial"
        self.checkpoints = f"{self.partial}/checkpoints"
        self.result = f"{self.partial}/result"

    def open(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin a run, or go on with an unfinished one of the same settings and input.

        Parameters
        ----------
        identity
            What the result depends on; compared key by key with that of an unfinished run.
        overwrite
            Discard an unfinished run that differs, and replace an existing output at publication.

        Raises
        ------
        StorageError
            When the output exists, or an unfinished run differs, and they are not to be overwritten.
        """
        if self._storage.exists(self.output) and not overwrite:
            raise StorageError(f"--output {self.output}: must not exist yet (it does); pass --overwrite to replace it")
        earlier = self._read_record("run.json")
        if earlier is not None:
            differing = [key for key in identity if earlier.get(key) != identity[key]]
            if differing and not overwrite:
                key = differing[0]
                raise StorageError(
                    f"{self.partial}: holds an unfinished run with another {key} (it had {earlier.get(key)!r}, this "
                    f"run has {identity[key]!r}); repeat that run to finish it, or pass --overwrite to discard it"
                )
            if not differing:
                self._storage.delete(self.result)
                return
        self.discard()
        self._storage.write_text(f"{self.partial}/run.json", json.dumps(identity, indent=1))

    def discard(self) -> None:
        """Drop the unfinished work; what is left of it after a crash is not gone on with."""
        self._storage.delete(f"{self.partial}/run.json")
        self._storage.delete(self.partial)

    def _read_record(self, name: str) -> dict[str, Any] | None:
        path = f"{self.partial}/{name}"
        if not self._storage.exists(path):
            return None
        try:
            record: dict[str, Any] = json.loads(self._storage.read_text(path))
        except ValueError:  # cut short by a crash, so what it records was not finished
            return None
        return record

    def finished(self, name: str) -> dict[str, Any] | None:
        """Return the measurements of a finished stage, None of any other."""
        return self._read_record(f"stages/{name}.json")

    def finish(self, name: str, measurements: Mapping[str, Any]) -> None:
        """Record that the table of a stage is whole."""
        self._storage.write_text(f"{self.partial}/stages/{name}.json", json.dumps(measurements))

    def write_table(self, name: str, table: DataFrame) -> None:
        """Write the table of a stage; hashes do not compress, so it is not tried."""
        options = {"compression": "none", "parquet.enable.dictionary": "false"}
        table.write.mode("overwrite").options(**options).parquet(f"{self.partial}/stages/{name}")

    def read_table(self, name: str, schema: T.StructType) -> DataFrame:
        """Read the table of a finished stage."""
        # Spark takes a path for a glob, whose own characters stand behind backslashes.
        folder = re.sub(r"([\[\]{}*?\\])", r"\\\1", f"{self.partial}/stages/{name}")
        return self._spark.read.schema(schema).parquet(folder)

    def write_result(self, name: str, rows: DataFrame, kind: str) -> None:
        """Write rows beside the output, in a format of EXTENSIONS other than text."""
        writer: DataFrameWriter = rows.write.mode("overwrite")
        path = f"{self.result}/{name}"
        if kind == "jsonl":
            writer.json(path)
        elif kind == "csv":
            # Spark's own defaults take white space off and turn quotes into backslashed ones.
            exact = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
            writer.options(header=True, escape='"', **exact).csv(path)
        else:
            writer.parquet(path)

    def publish(self, files: Mapping[str, str]) -> None:
        """Add small files to the result and make it the output, in one rename; then drop the unfinished work.

        An output to be replaced is moved aside first and deleted last.
        """
        for name, content in files.items():
            self._storage.write_text(f"{self.result}/{name}", content)
        replaced = f"{self.output}.replaced"
        self._storage.delete(replaced)
        if self._storage.exists(self.output):
            self._storage.rename(self.output, replaced)
        self._storage.rename(self.result, self.output)
        self.discard()
        self._storage.delete(replaced)
