"""Input of a run in rows that Spark reads: a table of its catalog, files as such a table, or a DataFrame."""

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedup.engine import sessions
from dedup.errors import DataError, SchemaError, StorageError
from dedup.run.faults import find_cause
from dedup.run.storage import SparkStorage, open_storage

READERS: Mapping[str, tuple[str, Mapping[str, str | bool]]] = {
    "parquet": ("parquet", {"mergeSchema": True}),
    "orc": ("orc", {"mergeSchema": True}),
    # By itself Spark ends a line at a carriage return too, which may stand between the members of an object.
    "jsonl": ("json", {"lineSep": "\n", "mode": "FAILFAST"}),
    # Without a header of their own, files whose columns come in another order would be read as if they did not.
    "csv": (
        "csv",
        {"header": True, "multiLine": True, "escape": '"', "enforceSchema": False, "mode": "FAILFAST"},
    ),
}
"""Spark's readers of files, with their options, by the names of formats."""
FILES = re.compile(rf"({'|'.join(kind for kind, _ in READERS.values())})\.`([^`]*/[^`]*)`", re.IGNORECASE)
"""Name by which Spark takes files for a table: a reader and a path."""
CASE = "spark.sql.caseSensitive"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowInput:
    """Rows of the input, and its properties found while reading."""

    rows: DataFrame
    """One row a document, with every column."""
    fingerprint: str
    """Changes when a file comes, goes, or is written again; of no other rows the same twice."""
    size: int
    """Bytes as Spark estimates them."""


def load_table(spark: SparkSession, name: str, option: str = "--table") -> DataFrame:
    """Return a table or view of Spark's catalog, or files that are named as one, such as parquet.`/data/pages`.

    Raises
    ------
    StorageError
        When there is no such table, or Spark cannot read it.
    """
    try:
        rows = _read_named(spark, name)
        # A client of Spark Connect asks its server by this.
        _ = rows.schema
    except (PySparkException, Py4JJavaError) as error:
        raise StorageError(f"{option} {name}: must be a table of Spark's catalog ({find_cause(error)})") from error
    return rows


def _read_named(spark: SparkSession, name: str) -> DataFrame:
    found = FILES.fullmatch(name)
    if found is None:
        return spark.read.table(name)
    kind = next(each for each, (reader, _) in READERS.items() if reader == found[1].lower())
    return read_files(spark, open_storage(spark), found[2], kind)


def read_files(spark: SparkSession, storage: SparkStorage, path: str, kind: str) -> DataFrame:
    """Read files, with every column, in a format of READERS.

    As everywhere in Hadoop, files and folders whose names begin with `_` or `.` are no data. Folders in folders are
    read too; those named `key=value` are a column. Columns that some files lack are null in their rows, and all cells
    of CSV, which has a header, are strings.
    """
    reader, options = READERS[kind]
    first = storage.first_file(path)
    is_partitioned = first is not None and "=" in first[1]
    return spark.read.options(**options, recursiveFileLookup=not is_partitioned).format(reader).load(path)


def take_table(rows: DataFrame, name: str, option: str = "input") -> RowInput:
    """Return rows as the input.

    Parameters
    ----------
    name
        Name of the table; empty for a DataFrame.
    option
        Option that named it, for errors.

    Raises
    ------
    DataError
        When it is a stream, or its plan has an expression that gives another value each time: a run reads it more than
        once.
    SchemaError
        When Spark takes the names of two of its columns for one.
    """
    if not sessions.is_repeatable(rows):
        raise DataError(
            f"{option}: must give the same rows each time it is read (got a stream, or an expression such as rand()); "
            "write it to a table first, and read that"
        )
    _check_names(rows, option)
    return RowInput(rows=rows, fingerprint=fingerprint(rows, name), size=sessions.estimate_size(rows))


def _check_names(rows: DataFrame, option: str) -> None:
    is_exact = str(rows.sparkSession.conf.get(CASE)).lower() == "true"
    found: dict[str, str] = {}
    for name in rows.columns:
        known = name if is_exact else name.lower()
        if known in found:
            raise SchemaError(
                f"{option}: columns must have names that Spark tells apart (got {found[known]!r} and {name!r}, {CASE} "
                f"is {str(is_exact).lower()}); rename one of them"
            )
        found[known] = name


def is_lasting(name: str) -> bool:
    """Tell whether a run of a table can be resumed, since its name is that of files, which can be recognised."""
    return FILES.fullmatch(name) is not None


def fingerprint(rows: DataFrame, name: str) -> str:
    """Return the fingerprint of rows as Spark has listed them.

    Files are recognised by their paths, lengths and times of change; equal rows of anything else are not.
    """
    if not is_lasting(name):
        return f"DataFrame {uuid.uuid4()}"
    files = sessions.list_files(rows)
    return f"{len(files):,} files, SHA-256 {hashlib.sha256(repr(files).encode()).hexdigest()}"
