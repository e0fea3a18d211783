"""The tables of a run on Spark: each is written once, and read again by who goes on after a crash."""

import json
import logging
import re
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.exchange import Counters
from dedup.engine.table import KeptTable
from dedup.run.workspace import Workspace

LOG = logging.getLogger("dedup")


class WorkspaceTables:
    """Writer of tables into a workspace, each under a name that begins as those of a part; see `TableWriter`."""

    def __init__(self, spark: SparkSession, workspace: Workspace, part: str = "") -> None:
        self._spark = spark
        self._workspace = workspace
        self._part = part

    def of(self, part: str) -> "WorkspaceTables":
        """Return a writer of the tables of a part, whose names begin so."""
        return WorkspaceTables(self._spark, self._workspace, part)

    def __call__(
        self,
        name: str,
        schema: T.StructType,
        build: Callable[[Counters], DataFrame],
        *,
        summed: Mapping[str, str] | None = None,
    ) -> KeptTable:
        """Make a table, unless an earlier try has finished it, and read it again."""
        name = self._part + name
        seen = self._workspace.finished(name)
        if seen is not None and not self._is_whole(name, schema, seen["rows"]):
            LOG.warning("%s: the table of an earlier try is damaged; it is made again", name)
            seen = None
        if seen is None:
            counters = Counters(self._spark)
            observation = Observation()
            sums = [F.sum(F.expr(expression)).alias(key) for key, expression in (summed or {}).items()]
            # What a column is said to be elsewhere is not true of this table.
            own = [F.col(each.name).alias(each.name, metadata=each.metadata) for each in schema.fields]
            rows = build(counters).select(*own).observe(observation, F.count(F.lit(1)).alias("rows"), *sums)
            # Hashes do not compress, so it is not tried.
            options = {"compression": "none", "parquet.enable.dictionary": "false"}
            rows.write.mode("overwrite").options(**options).parquet(self._workspace.new_table(name))
            # Through JSON, so that a table made and one found again are seen alike.
            found = {key: value or 0 for key, value in observation.get.items()} | counters.values()
            seen = json.loads(json.dumps(found))
            self._workspace.finish(name, seen)
        return KeptTable(frame=self._read(name, schema), counts=seen)

    def _read(self, name: str, schema: T.StructType | None = None) -> DataFrame:
        # Spark takes a path for a glob, whose own characters stand behind backslashes.
        folder = re.sub(r"([\[\]{}*?\\])", r"\\\1", self._workspace.table(name))
        reader = self._spark.read.option("parquet.page.verify-checksum.enabled", "true")
        return (reader.schema(schema) if schema else reader).parquet(folder)

    def _is_whole(self, name: str, schema: T.StructType, rows: int) -> bool:
        """Tell whether the table of a finished stage has this schema, can be read to its end, and has so many rows."""
        observation = Observation()
        try:
            if self._read(name).schema != schema:
                return False
            table = self._read(name, schema).observe(observation, F.count(F.lit(1)).alias("rows"))
            table.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JError):
            return False
        return int(observation.get["rows"]) == rows
