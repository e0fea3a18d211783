"""The tables of a published output, read by Arrow or by Spark when they are asked for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from dedup.errors import StorageError
from dedup.files.globs import escape
from dedup.files.listing import find_format, list_files
from dedup.files.storage import Storage, find_result
from dedup.files.systems import redact

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

ROWS = ("kept", "removed")
IS_KEPT = "dedup_kept"
"""The column of annotated rows that tells the two apart."""
NEEDS = {
    "weights": 'output.mode = "weights"',
    "cosines": "the layer semantic",
    "changes": "a store",
    "spans": "a layer that cuts or marks parts of texts",
    "edges": "a layer that compares pairs",
    "near_misses": "the layer near",
}
"""Conditions of tables that not every run writes."""


def open_dataset(output: str, name: str, mode: str, table: str = "") -> "ds.Dataset":
    """Return a table of an output as an Arrow dataset; types of CSV and JSON lines are those that Arrow infers.

    Parameters
    ----------
    name
        kept, removed, weights, duplicates, edges or near_misses.
    mode
        `output.mode` of the run.
    table
        `output.table` of the run.

    Raises
    ------
    StorageError
        When the mode does not write it, only Spark reads it, or the output has gone.
    """
    if table and name in {*ROWS, "weights"}:
        raise StorageError(f"{name}: is read by Spark from the table {table}; pass spark to get it as a DataFrame")
    # It imports pandas where that is installed, which takes a third of a second.
    import pyarrow.dataset as ds  # noqa: PLC0415

    if name in ROWS and mode == "annotate":
        return open_dataset(output, "annotated", "").filter(ds.field(IS_KEPT) == (name == "kept"))
    _check_written(name, mode)
    output = find_result(Storage(), output)
    try:
        files = list_files([f"{output}/{name}"]).files
    except StorageError:
        if name != "removed":
            raise _refuse_missing(output, name) from None
        # No file of the input lost a row.
        return ds.dataset(open_dataset(output, "kept", mode).schema.empty_table())
    return files[0].format.open_dataset(files)


def open_frame(
    spark: "SparkSession", output: str, name: str, mode: str, tables: Mapping[str, str] = MappingProxyType({})
) -> "DataFrame":
    """Return a table of an output as a Spark DataFrame.

    Parameters
    ----------
    name, mode
        As for `open_dataset`.
    tables
        Tables of the catalog that hold rows of the output, by the names of folders.

    Raises
    ------
    StorageError
        As for `open_dataset`, and when Spark has no reader for its format.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415 - Spark's modules take a second to import

    from dedup.run.input import READERS, read_files  # noqa: PLC0415 - as above
    from dedup.run.storage import open_storage  # noqa: PLC0415 - as above

    if name in ROWS and mode == "annotate":
        is_kept = F.col(IS_KEPT)
        return open_frame(spark, output, "annotated", "", tables).filter(is_kept if name == "kept" else ~is_kept)
    _check_written(name, mode)
    if name in tables:
        return spark.table(tables[name])
    storage = open_storage(spark)
    output = find_result(storage, output)
    folder = escape(f"{output}/{name}")
    first = storage.first_file(folder)
    if name == "removed" and first is None:
        return open_frame(spark, output, "kept", mode).limit(0)
    if first is None:
        raise _refuse_missing(output, name)
    kind = find_format("/".join(first).rstrip("/"))
    if kind is None or kind.name not in READERS:
        raise StorageError(f"{name}: must be {', '.join(READERS)} to be a DataFrame (got {first[1] or first[0]})")
    return read_files(spark, storage, folder, kind.name)


def _check_written(name: str, mode: str) -> None:
    if (name == "removed" and mode == "ids") or (name in ROWS and mode == "weights"):
        ids = "duplicates" if mode == "ids" else "weights"
        raise StorageError(f'{name}: is not written with output.mode = "{mode}"; the ids are those of {ids}')


def _refuse_missing(output: str, name: str) -> StorageError:
    """Return the error of a table that is not there."""
    needs = f", which only a run with {NEEDS[name]} writes" if name in NEEDS else ""
    return StorageError(f"{redact(output)}/{name}: must be there (it is not{needs})")
