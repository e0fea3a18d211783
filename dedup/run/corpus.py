"""The input: which files are read and in which format, and malformed records."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from dedup.engine.corpus import column
from dedup.engine.exchange import Batches
from dedup.errors import DataError, StorageError
from dedup.files.formats import load_format
from dedup.run.storage import HadoopStorage
from dedup.tables.schemas import QUARANTINE

READABLE = ("parquet", "jsonl", "csv", "text")
"""Formats of files that Spark reads."""
SHOWN_FORMATS = f"{', '.join(READABLE[:-1])} or {READABLE[-1]}"
FILE_STATUS = re.compile(
    r"\{path=(?P<path>.*?); isDirectory=false; length=(?P<length>\d+);.*?modification_time=(?P<changed>\d+)", re.DOTALL
)
"""Words in which Hadoop's FileStatus describes a file."""
MALFORMED = "_dedup_malformed"
"""Column in which Spark puts a malformed record."""
SHOWN = 3
"""Malformed records shown in an error."""
SHOWN_LENGTH = 60
"""Characters shown of one."""
COMPRESSIONS = ("gz", "zst", "bz2", "lz4", "snappy")


def guess_format(storage: HadoopStorage, inputs: Sequence[str], *, name_filter: str = "") -> str:
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
        matches = [kind for kind in READABLE if parts and parts[-1] in load_format(kind).extensions]
        if not matches:
            raise StorageError(
                f"--input {path}: its format cannot be guessed from {name!r}; pass --format {SHOWN_FORMATS}"
            )
        found[matches[0]] = path
    if len(found) > 1:
        shown = ", ".join(f"{path} is {kind}" for kind, path in found.items())
        raise StorageError(f"--input: all inputs must have one format ({shown})")
    return next(iter(found))


def _require_file(storage: HadoopStorage, path: str, name_filter: str) -> tuple[str, str]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RowInput:
    """The input of a run."""

    rows: DataFrame
    """One row a document, with every column."""
    rejected: DataFrame | None
    """Malformed records: QUARANTINE; None where there are none."""
    fingerprint: str
    """Changes when a file comes, goes, or is written again."""
    size: int
    """Bytes of all files."""


def read_corpus(
    spark: SparkSession,
    storage: HadoopStorage,
    inputs: Sequence[str],
    *,
    kind: str,
    name_filter: str = "",
    on_bad_record: str = "fail",
) -> RowInput:
    """Read the input as it is, with every column, in a format of READABLE.

    `text` gives one row a file: `path` and `text`. `csv` has a header and only strings. As everywhere in Hadoop, files
    and folders whose names begin with `_` or `.` are no data. Folders in folders are read too; those named `key=value`
    are a column. Columns that some parquet files lack are null in their rows.

    Raises
    ------
    StorageError
        When an input is missing or has no files, or Spark does not read the format.
    DataError
        When lines are no JSON and are not to be set aside; malformed rows of CSV are found while they are read.
    """
    if kind not in READABLE:
        raise StorageError(f"--format: must be {SHOWN_FORMATS} where only Spark reaches the files (got {kind})")
    reader = _reader(spark, storage, inputs, kind=kind, name_filter=name_filter)
    paths = list(inputs)
    rejected = None
    if kind == "parquet":
        rows = files = reader.option("mergeSchema", "true").parquet(*paths)
    elif kind == "jsonl":
        # By itself Spark ends a line at a carriage return too, which may stand between the members of an object.
        reader = reader.options(mode="PERMISSIVE", columnNameOfCorruptRecord=MALFORMED, lineSep="\n")
        # The schema is that of all lines, so only a line that does not parse has this column.
        rows = files = reader.json(paths)
        if MALFORMED in rows.columns:
            rows, rejected = _part(reader.schema(rows.schema).json(paths), on_bad_record, "no JSON object")
    elif kind == "csv":
        # Without a header of their own, files whose columns come in another order would be read as if they did not.
        reader = reader.options(header=True, multiLine=True, escape='"', enforceSchema=False)
        rows = files = reader.csv(paths, mode="FAILFAST")
        if on_bad_record == "quarantine":
            schema = rows.schema.add(MALFORMED, "string")
            reader = reader.schema(schema).options(mode="PERMISSIVE", columnNameOfCorruptRecord=MALFORMED)
            rows, rejected = _part(reader.csv(paths), on_bad_record, "more or fewer cells than the header")
    else:
        files = reader.text(paths, wholetext=True)
        rows = _one_row_a_file(spark, files, _list_files(files))
    listed = _list_files(files)
    return RowInput(
        rows=rows, rejected=rejected, fingerprint=_digest(listed), size=sum(length for _, length, _ in listed)
    )


def fingerprint(
    spark: SparkSession, storage: HadoopStorage, inputs: Sequence[str], *, kind: str, name_filter: str
) -> str:
    """Return what `read_corpus` would give as the fingerprint now, without reading the files."""
    reader = _reader(spark, storage, inputs, kind=kind, name_filter=name_filter)
    return _digest(_list_files(reader.text(list(inputs), wholetext=True)))


def _reader(
    spark: SparkSession, storage: HadoopStorage, inputs: Sequence[str], *, kind: str, name_filter: str
) -> DataFrameReader:
    is_partitioned = any("=" in _require_file(storage, path, name_filter)[1] for path in inputs)
    reader = spark.read.option("recursiveFileLookup", str(kind == "text" or not is_partitioned))
    return reader.option("pathGlobFilter", name_filter) if name_filter else reader


def _part(parsed: DataFrame, on_bad_record: str, reason: str) -> tuple[DataFrame, DataFrame]:
    """Part the rows that have a column MALFORMED into whole ones and QUARANTINE."""
    if parsed.columns == [MALFORMED]:
        raise DataError(f"--input: must hold records (got none but such as have {reason})")
    malformed = F.rtrim(MALFORMED, F.lit("\r\n"))

    def strip(batches: Batches) -> Batches:
        for batch in batches:
            yield batch.select(QUARANTINE.names)

    # Spark refuses to read that column without another, and takes away any other that it can see is of no use.
    named = parsed.filter(malformed.isNotNull()).select(
        _file().alias("file"),
        F.lit(reason).alias("reason"),
        malformed.alias("record"),
        F.struct(*[column(name) for name in parsed.columns]).alias("row"),
    )
    rejected = named.mapInArrow(strip, QUARANTINE)
    if on_bad_record == "fail":
        shown = rejected.sort("file", "record").limit(SHOWN).collect()
        listed = ", ".join(f"{row['record'][:SHOWN_LENGTH]!r} in {row['file']}" for row in shown)
        raise DataError(
            f"--input: every record must be whole (got {reason}: {listed}); mend them, or pass "
            "--set input.on_bad_record=quarantine to set such records aside"
        )
    return parsed.filter(malformed.isNull()).drop(MALFORMED), rejected


def _digest(files: Sequence[tuple[str, int, int]]) -> str:
    return f"{len(files):,} files, SHA-256 {hashlib.sha256(repr(files).encode()).hexdigest()}"


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
    named = texts.select(_file().alias("path"), F.col("value").alias("text"))
    empty = [(path, "") for path, length, _ in files if length == 0]
    if not empty:
        return named
    rows = spark.createDataFrame(empty, "path string, text string")
    return named.unionByName(rows.select(_local(F.col("path")).alias("path"), "text"))


def _file() -> Column:
    """Return the path of the file that a row comes from."""
    # The path as Spark names it is a URL, in which a plus sign stands for itself.
    return _local(F.url_decode(F.regexp_replace("_metadata.file_path", r"\+", "%2B")))


def _local(path: Column) -> Column:
    """Return the path without the scheme that says it is on this machine."""
    return F.regexp_replace(path, "^file:/+", "/")
