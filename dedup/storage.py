"""All paths of a job: its input, its unfinished work, its output. Everything goes through Hadoop's file systems.

An output folder OUT appears in one rename. Until then all is in OUT.partial:

    OUT.partial/run.json          settings and input files of the run, so that only the same run goes on with it
    OUT.partial/stages/NAME       the table of a stage, finished once NAME.json with its measurements is there
    OUT.partial/checkpoints       GraphFrames' own
    OUT.partial/result            becomes OUT
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import StorageError

EXTENSIONS = {
    "parquet": ("parquet",),
    "jsonl": ("jsonl", "json", "ndjson"),
    "csv": ("csv",),
    "text": ("txt", "text", "md", "rst", "html"),
}
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

    def first_file(self, pattern: str) -> str | None:
        """Return the path of the first data file that a file, folder or glob leads to; None if there is none."""
        statuses = self._system(pattern).globStatus(self._path(pattern))
        for status in statuses or ():
            if not status.isDirectory():
                return str(status.getPath())
            files = self._system(pattern).listFiles(status.getPath(), True)  # noqa: FBT003 - recursively, in Java
            while files.hasNext():
                path = str(files.next().getPath())
                if not path.rsplit("/", 1)[-1].startswith(("_", ".")):
                    return path
        return None

    def _path(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        return self._path(path).getFileSystem(self._hadoop_conf)


def guess_format(storage: Storage, inputs: Sequence[str]) -> str:
    """Return the format that the first file of every input is named after.

    Raises
    ------
    StorageError
        When an input is missing or empty, or its name tells no format, or another than the first's.
    """
    found: dict[str, str] = {}
    for path in inputs:
        name = _require_file(storage, path).rsplit("/", 1)[-1].lower()
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


def _require_file(storage: Storage, path: str) -> str:
    first = storage.first_file(path)
    if first is None:
        state = "does not exist" if not storage.exists(path) else "has no file to read"
        raise StorageError(f"--input {path}: must be a file, a folder of files or a glob (it {state})")
    return first


def read_corpus(
    spark: SparkSession, storage: Storage, inputs: Sequence[str], *, kind: str, name_filter: str
) -> DataFrame:
    """Read the input as it is, with every column.

    `text` gives one row a file: `path` and `text`. `csv` has a header and only strings. As everywhere in Hadoop, files
    and folders whose names begin with `_` or `.` are no data.

    Raises
    ------
    StorageError
        When an input is missing or has no files.
    """
    for path in inputs:
        _require_file(storage, path)
    reader = spark.read
    if name_filter:
        reader = reader.option("pathGlobFilter", name_filter)
    paths = list(inputs)
    if kind == "parquet":
        return reader.parquet(*paths)
    if kind == "jsonl":
        return reader.json(paths, mode="FAILFAST")
    if kind == "csv":
        return reader.csv(paths, header=True, mode="FAILFAST", multiLine=True, escape='"')
    texts = reader.text(paths, wholetext=True, recursiveFileLookup=True)
    # The path as Hadoop names it is a URL, in which a plus sign stands for itself.
    encoded = F.regexp_replace("_metadata.file_path", r"\+", "%2B")
    decoded = F.regexp_replace(F.url_decode(encoded), "^file:/+", "/")
    return texts.select(decoded.alias("path"), F.col("value").alias("text"))


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
        record = f"{self.partial}/run.json"
        if self._storage.exists(record):
            earlier = json.loads(self._storage.read_text(record))
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
        self._storage.delete(self.partial)
        self._storage.write_text(record, json.dumps(identity, indent=1))

    def finished(self, name: str) -> dict[str, Any] | None:
        """Return the measurements of a finished stage, None of any other."""
        record = f"{self.partial}/stages/{name}.json"
        return json.loads(self._storage.read_text(record)) if self._storage.exists(record) else None

    def finish(self, name: str, measurements: Mapping[str, Any]) -> None:
        """Record that the table of a stage is whole."""
        self._storage.write_text(f"{self.partial}/stages/{name}.json", json.dumps(measurements))

    def write_table(self, name: str, table: DataFrame) -> None:
        """Write the table of a stage; hashes do not compress, so it is not tried."""
        options = {"compression": "none", "parquet.enable.dictionary": "false"}
        table.write.mode("overwrite").options(**options).parquet(f"{self.partial}/stages/{name}")

    def read_table(self, name: str, schema: T.StructType) -> DataFrame:
        """Read the table of a finished stage."""
        return self._spark.read.schema(schema).parquet(f"{self.partial}/stages/{name}")

    def write_result(self, name: str, rows: DataFrame, kind: str) -> None:
        """Write rows beside the output, in a format of EXTENSIONS other than text."""
        writer: DataFrameWriter = rows.write.mode("overwrite")
        path = f"{self.result}/{name}"
        if kind == "jsonl":
            writer.json(path)
        elif kind == "csv":
            writer.options(header=True, escape='"').csv(path)
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
        self._storage.delete(self.partial)
        self._storage.delete(replaced)
