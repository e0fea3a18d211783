"""The input: which files are read and as what, and the records that are none."""

import hashlib
import re
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dedup.errors import StorageError
from dedup.storage import Storage

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
) -> tuple[DataFrame, str, int]:
    """Read the input as it is, with every column.

    `text` gives one row a file: `path` and `text`. `csv` has a header and only strings. As everywhere in Hadoop, files
    and folders whose names begin with `_` or `.` are no data. Folders in folders are read too; those named `key=value`
    are a column.

    Returns
    -------
    corpus : DataFrame
    fingerprint : str
        Changes when a file comes, goes, or is written again.
    size : int
        Bytes of all files.

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
    size = sum(length for _, length, _ in files)
    return (_one_row_a_file(spark, corpus, files) if kind == "text" else corpus), fingerprint, size


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
