"""Input of a run on Spark."""

import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedup.errors import DataError, StorageError
from dedup.files.formats import load_format
from dedup.files.systems import redact, redact_text
from dedup.run.corpus import RowInput, guess_format, read_corpus
from dedup.run.storage import HadoopStorage
from dedup.settings import options


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkInput:
    """Input, and its properties found while reading."""

    format: str
    id_column: str
    """Empty where an id is the digest of its row."""
    corpus: RowInput


def read_input(spark: SparkSession, storage: HadoopStorage, inputs: Sequence[str], chosen: options.Input) -> SparkInput:
    """Read the input with the job's settings.

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
    return SparkInput(format=kind, id_column=chosen.id_column or load_format(kind).id_column, corpus=found)


def load_table(spark: SparkSession, inputs: Sequence[str], chosen: options.Input) -> DataFrame | None:
    """Return the table named by the settings; None if the input is files.

    Raises
    ------
    StorageError
        When the table does not exist, or Spark cannot read it.
    """
    if not chosen.is_table:
        return None
    where = f"--table {chosen.table}" if chosen.table else f"--input {', '.join(map(redact, inputs))}"
    try:
        if chosen.table:
            return spark.read.table(chosen.table)
        tables = [spark.read.format("delta").load(path) for path in inputs]
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), tables)
    except (PySparkException, Py4JJavaError) as error:
        said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
        reason = " ".join(redact_text(str(said)).partition("\n")[0].split())
        rule = "a table of Spark's catalog" if chosen.table else "Delta Lake, with its jar among Spark's"
        raise StorageError(f"{where}: must be {rule} ({reason})") from error


_ROOTS: Sequence[Callable[[Any], Any]] = (
    lambda leaf: leaf.relation().location().rootPaths(),
    lambda leaf: leaf.table().fileIndex().rootPaths(),
    lambda leaf: leaf.tableMeta().storage().locationUri().toList(),
)
"""Functions that return the paths of a plan's leaf: in Spark's readers, their second version, and Hive's tables."""


def list_roots(table: DataFrame) -> list[str]:
    """Return the files and folders that a table is read from, if Spark knows them.

    A file that was read by its name stands for itself alone, and not for its folder.
    """
    plan: Any = table._jdf.queryExecution().analyzed()  # noqa: SLF001 - the plan has no other door
    leaves, found = plan.collectLeaves(), set[str]()
    for number in range(leaves.size()):
        for roots in _ROOTS:
            with contextlib.suppress(Py4JError):  # a leaf of another kind has no such method
                found |= {*roots(leaves.apply(number)).mkString("\0").split("\0")} - {""}
    return sorted(found)


def take_table(rows: DataFrame, chosen: options.Input) -> SparkInput:
    """Return a DataFrame as the input.

    Each has a fingerprint of its own, since equal rows in another DataFrame cannot be recognised.

    Raises
    ------
    DataError
        When it is a stream, or its plan has an expression that gives another value each time: a run reads it more than
        once.
    """
    plan: Any = rows._jdf.queryExecution()  # noqa: SLF001 - the plan has no other door
    if rows.isStreaming or not plan.analyzed().deterministic():
        raise DataError(
            "input: must give the same rows each time it is read (got a stream, or an expression such as rand()); "
            "write it to a table first, and read that"
        )
    corpus = RowInput(
        rows=rows,
        rejected=None,
        fingerprint=f"DataFrame {uuid.uuid4()}",
        size=int(plan.optimizedPlan().stats().sizeInBytes()),
    )
    return SparkInput(format="table", id_column=chosen.id_column, corpus=corpus)
