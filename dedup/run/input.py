"""The input of a run on Spark."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dedup.errors import DataError
from dedup.run.corpus import Input, guess_format, read_corpus
from dedup.run.storage import Storage
from dedup.settings import options


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """The input, and what it was found to be."""

    format: str
    id_column: str
    """Empty where an id is the digest of its row."""
    corpus: Input


def read_input(spark: SparkSession, storage: Storage, inputs: Sequence[str], chosen: options.Input) -> Read:
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
    return Read(format=kind, id_column=chosen.id_column or ("path" if kind == "text" else ""), corpus=found)


def take_table(rows: DataFrame, chosen: options.Input) -> Read:
    """Return a DataFrame as the input.

    Nothing tells whether another DataFrame holds the same rows, so each has a fingerprint of its own.

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
    corpus = Input(
        rows=rows,
        rejected=None,
        fingerprint=f"DataFrame {uuid.uuid4()}",
        size=int(plan.optimizedPlan().stats().sizeInBytes()),
    )
    return Read(format="table", id_column=chosen.id_column, corpus=corpus)
