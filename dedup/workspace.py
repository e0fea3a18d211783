"""The unfinished work of a run, and its publication as the output in one step.

An output folder OUT is whole once OUT/_SUCCESS is there. Until then all is in OUT.partial:

    OUT.partial/run.json          settings and input files of the run, so that only the same run goes on with it
    OUT.partial/stages/NAME       the table of a stage, finished once NAME.json with its measurements is there
    OUT.partial/checkpoints       GraphFrames' own
    OUT.partial/parts             rows of the result that still are to be moved to folders of their own
    OUT.partial/result            becomes OUT
    OUT.lock                      the run that works on it now
"""

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.errors import StorageError
from dedup.lock import Lock
from dedup.storage import Storage

LOG = logging.getLogger("dedup")


class Workspace:
    """The folder OUT.partial of one run, and its publication as OUT."""

    def __init__(self, spark: SparkSession, storage: Storage, output: str) -> None:
        self._spark = spark
        self._storage = storage
        self.output = output.rstrip("/")
        self.partial = f"{self.output}.partial"
        self.checkpoints = f"{self.partial}/checkpoints"
        self.result = f"{self.partial}/result"
        self._is_open = False
        self._lock = Lock(storage, f"{self.output}.lock")

    def __enter__(self) -> Self:
        """Keep other runs away from the output."""
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Let other runs come."""
        self._lock.release()

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
        # A crash while the output was made public: what is there of it is this job's, and not whole.
        cut_short = self._storage.exists(self._publishing) and not self._storage.exists(f"{self.output}/_SUCCESS")
        if self._storage.exists(self.output) and not (overwrite or cut_short):
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
        self._lock.check()
        if cut_short:
            self._storage.delete(self.output)
        self._is_open = True
        if earlier is not None and not differing:
            self._storage.delete(self.result)
            return
        self.discard()
        self._storage.write_text(f"{self.partial}/run.json", json.dumps(identity, indent=1))

    @property
    def _publishing(self) -> str:
        return f"{self.partial}/publishing"

    def abandon(self) -> None:
        """Drop the work of this run, if it has begun; nothing goes on with it."""
        if self._is_open:
            self.discard()

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
        except (ValueError, Py4JError):  # cut short by a crash, or damaged: then what it records was not finished
            return None
        return record

    def finished(self, name: str) -> dict[str, Any] | None:
        """Return the measurements of a finished stage, None of any other."""
        return self._read_record(f"stages/{name}.json")

    def finish(self, name: str, measurements: Mapping[str, Any]) -> None:
        """Record that the table of a stage is whole."""
        self._lock.check()
        self._storage.write_text(f"{self.partial}/stages/{name}.json", json.dumps(measurements))

    def write_table(self, name: str, table: DataFrame) -> None:
        """Write the table of a stage; hashes do not compress, so it is not tried."""
        options = {"compression": "none", "parquet.enable.dictionary": "false"}
        table.write.mode("overwrite").options(**options).parquet(f"{self.partial}/stages/{name}")

    def read_table(self, name: str, schema: T.StructType | None = None) -> DataFrame:
        """Read the table of a finished stage, with the schema that its files give if none is given."""
        # Spark takes a path for a glob, whose own characters stand behind backslashes.
        folder = re.sub(r"([\[\]{}*?\\])", r"\\\1", f"{self.partial}/stages/{name}")
        reader = self._spark.read.option("parquet.page.verify-checksum.enabled", "true")
        return (reader.schema(schema) if schema else reader).parquet(folder)

    def is_whole(self, name: str, schema: T.StructType, rows: int) -> bool:
        """Tell whether the table of a finished stage has this schema, can be read to its end, and has so many rows."""
        observation = Observation()
        try:
            if self.read_table(name).schema != schema:
                return False
            table = self.read_table(name, schema).observe(observation, F.count(F.lit(1)).alias("rows"))
            table.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JError):
            return False
        return int(observation.get["rows"]) == rows

    def write_result(self, name: str, rows: DataFrame, kind: str) -> None:
        """Write rows beside the output, in a format of EXTENSIONS other than text."""
        _save(rows.write, f"{self.result}/{name}", kind)

    def write_parts(self, rows: DataFrame, part: str, names: Mapping[str, str], kind: str) -> None:
        """Write rows beside the output in one pass, those of each value of the column `part` to a folder of their own.

        Parameters
        ----------
        names
            The folder for every value of that column, which itself is not written.
        """
        parts = f"{self.partial}/parts"
        _save(rows.write.partitionBy(part), parts, kind)
        for value, name in names.items():
            self._storage.rename(f"{parts}/{part}={value}", f"{self.result}/{name}")
            # As Spark leaves in every other folder of the result.
            self._storage.write_text(f"{self.result}/{name}/_SUCCESS", "")
        self._storage.delete(parts)

    def table_bytes(self, name: str) -> int:
        """Return the size of the table of a finished stage."""
        return self._storage.size(f"{self.partial}/stages/{name}")

    def keep_report(self, files: Mapping[str, str]) -> str:
        """Write the small files of a run that is not published, and return the folder."""
        for name, content in files.items():
            self._storage.write_text(f"{self.partial}/report/{name}", content)
        return f"{self.partial}/report"

    def publish(self, files: Mapping[str, str]) -> None:
        """Add small files to the result and make it the output; then drop the unfinished work.

        The output appears in one rename where the file system has such a thing. An object store copies file by file, so
        everywhere `_SUCCESS` comes last, and only an output with it is whole. One to be replaced is moved aside first
        and deleted last.
        """
        for name, content in files.items():
            self._storage.write_text(f"{self.result}/{name}", content)
        self._lock.check()
        replaced = f"{self.output}.replaced"
        if self._storage.exists(self.output):
            self._storage.delete(replaced)
            self._storage.rename(self.output, replaced)
        self._storage.write_text(self._publishing, "")
        self._storage.rename(self.result, self.output)
        self._storage.write_text(f"{self.output}/_SUCCESS", "")
        self.discard()
        self._storage.delete(replaced)


def _save(writer: DataFrameWriter, path: str, kind: str) -> None:
    writer = writer.mode("overwrite")
    if kind == "jsonl":
        writer.json(path)
    elif kind == "csv":
        # Spark's own defaults take white space off and turn quotes into backslashed ones.
        exact = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
        writer.options(header=True, escape='"', **exact).csv(path)
    else:
        writer.parquet(path)
