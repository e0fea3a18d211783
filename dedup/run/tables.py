"""The tables of a run on Spark: each is written once, and read again by who goes on after a crash."""

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from dedup.engine.engine import Tally
from dedup.engine.relations import Fragment, TableScan
from dedup.engine.spark_rows import SparkRows
from dedup.engine.table import TALLY, Build, Counted, WrittenFiles, read_tallies
from dedup.files.globs import escape
from dedup.files.systems import absolute
from dedup.run.workspace import Workspace

LOG = logging.getLogger("dedup")

Written: TypeAlias = Sequence[Mapping[str, Any]]
"""Files of a table that workers have written, with columns of `dedup.engine.table.WRITTEN`."""


class WorkspaceTables:
    """Writer of tables into a workspace, each under a name that begins as those of a part; see `TableWriter`.

    Parameters
    ----------
    by_workers
        Whether Spark's workers reach the workspace themselves, and write the tables; otherwise Spark does.
    """

    def __init__(self, spark: SparkSession, workspace: Workspace, part: str = "", *, by_workers: bool) -> None:
        self._spark = spark
        self._workspace = workspace
        self._part = part
        self._by_workers = by_workers
        self._made: set[str] = set()

    def of(self, part: str) -> "WorkspaceTables":
        """Return a writer of the tables of a part, whose names begin so."""
        tables = WorkspaceTables(self._spark, self._workspace, part, by_workers=self._by_workers)
        tables._made = self._made
        return tables

    def __call__(self, name: str, schema: T.StructType, build: Build) -> SparkRows:
        """Make a table, unless an earlier try has finished it, and read it again.

        Raises
        ------
        ValueError
            A second table of one name, which would be read as the first.
        """
        name = self._part + name
        if name in self._made:
            raise ValueError(f"tables: each table of a run must have a name of its own (got a second {name!r})")
        self._made.add(name)
        record = self._workspace.finished(name)
        if record is not None and not self._is_whole(name, schema, record):
            LOG.warning("%s: the table of an earlier try is damaged; it is made again", name)
            self._workspace.storage.delete(self._workspace.table(name))
            record = None
        if record is None:
            write = self._let_write if self._by_workers else self._write
            # Through JSON, so that a table made and one found again are seen alike.
            record = json.loads(json.dumps(write(self._workspace.new_table(name), schema, build)))
            self._workspace.finish(name, record)
        files, folder = record["written"], absolute(self._workspace.table(name))
        return SparkRows(
            session=self._spark,
            columns=schema.names,
            plan=partial(self._read, name, files, schema),
            relation=None if files is None else _list_fragments(folder, files, to_arrow_schema(schema)),
            tally=record["counts"],
        )

    def _let_write(self, folder: str, schema: T.StructType, build: Build) -> dict[str, Any]:
        """Make a table whose files workers write, and return its record."""
        ending = WrittenFiles(folder=absolute(folder), rows=schema)
        told = build(ending).toArrow()
        files = told.filter(told["file"].is_valid()).select(["file", "groups", "bytes"]).to_pylist()
        return _record(sum(told["rows"].to_pylist()), read_tallies(told[TALLY].drop_null().to_pylist()), files)

    def _write(self, folder: str, schema: T.StructType, build: Build) -> dict[str, Any]:
        """Make a table that Spark writes, and return its record."""
        observation = Observation()
        counts = F.count(F.lit(1)).alias("rows"), F.collect_list(TALLY).alias("tallies")
        found = build(Counted(rows=schema)).observe(observation, *counts).filter(F.col(TALLY).isNull())
        # What a column is said to be elsewhere is not true of this table.
        own = [F.col(each.name).alias(each.name, metadata=each.metadata) for each in schema.fields]
        # Hashes do not compress, so it is not tried.
        options = {"compression": "none", "parquet.enable.dictionary": "false"}
        found.select(*own).write.mode("overwrite").options(**options).parquet(folder)
        seen = observation.get
        return _record(seen["rows"] - len(seen["tallies"]), read_tallies(seen["tallies"]), None)

    def _read(self, name: str, files: Written | None, schema: T.StructType | None = None) -> DataFrame:
        if files == [] and schema is not None:
            return self._spark.createDataFrame([], schema)
        folder = self._workspace.table(name)
        paths = [folder] if files is None else [f"{folder}/{each['file']}" for each in files]
        reader = self._spark.read.option("parquet.page.verify-checksum.enabled", "true")
        return (reader.schema(schema) if schema else reader).parquet(*map(escape, paths))

    def _is_whole(self, name: str, schema: T.StructType, record: dict[str, Any]) -> bool:
        """Tell whether the table of a finished stage has this schema, can be read to its end, and has all rows."""
        if record.keys() != {"counts", "written"}:
            # An earlier release left it.
            return False
        observation = Observation()
        files, rows = record["written"], int(record["counts"]["rows"])
        if files == []:
            return True
        try:
            # Spark reads any column of a file as one that may hold null.
            if self._read(name, files).schema != schema.toNullable():
                return False
            table = self._read(name, files, schema).observe(observation, F.count(F.lit(1)).alias("rows"))
            table.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JError):
            return False
        return int(observation.get["rows"]) == rows


def _record(rows: int, tally: Tally, files: Written | None) -> dict[str, Any]:
    """Return what is known of a table; no files where all of its folder are."""
    return {"counts": {"rows": rows, **tally.to_dict()}, "written": files}


def _list_fragments(folder: str, files: Written, schema: pa.Schema) -> TableScan:
    """Return a table that workers have written, as they read it."""
    return TableScan(
        [
            Fragment(f"{folder}/{each['file']}", number, each["bytes"] // each["groups"])
            for each in files
            for number in range(each["groups"])
        ],
        schema,
    )
