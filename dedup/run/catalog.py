"""The output as tables of a catalog, which Spark's own writers commit once all else is done.

    NAME             rows that stay; all rows with mode annotate, ids with mode ids, weights with mode weights
    NAME_removed     rows that go, with mode filter
    NAME_duplicates  the reason for each row that goes

Until then rows are files beside the output, as those of any run. Each table is one commit, and NAME is the last.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from dedup.engine import sessions
from dedup.errors import ConfigError, SchemaError, StorageError
from dedup.files.globs import escape
from dedup.files.systems import absolute
from dedup.run.apart import check_apart
from dedup.run.faults import find_cause
from dedup.run.job import Job
from dedup.run.workspace import Workspace
from dedup.settings.options import Output

OWNER = "dedup.output"
"""Property of a table: the output of the run that wrote it."""
PROVIDERS = ("delta", "iceberg")
"""Makers of tables that replace all rows of one in one commit, as the classes of their catalogs are named."""
FOLDERS = {
    "filter": {"removed": "_removed", "duplicates": "_duplicates", "kept": ""},
    "annotate": {"duplicates": "_duplicates", "annotated": ""},
    "ids": {"duplicates": "_duplicates", "kept": ""},
    "weights": {"duplicates": "_duplicates", "weights": ""},
}
"""Ends of the names of tables by the folders that their rows are in before, by output.mode, in the order of commits."""


PART = r"`(?:[^`]|``)+`|\w+"
"""Pattern of a part of a name."""
RULES = {"CURRENT_DEFAULT", "EXISTS_DEFAULT"}
"""Metadata of a column that has a default, which Delta Lake refuses in a table whose feature for it is off."""
UNNAMED = {*" ,;{}()\n\t="}
"""Characters that names of columns in Delta Lake have not."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogTables:
    """Tables that a run is to write."""

    spark: SparkSession
    names: Mapping[str, str]
    """Names for Spark, in the order of commits, by the folders of the result."""
    provider: str
    is_path: bool
    """Whether the names are folders, as delta.`/folder`."""
    output: str
    read: Collection[str]
    """Paths of all that the run reads, as far as Spark knows them."""

    @classmethod
    def open(cls, spark: SparkSession, job: Job) -> Self | None:
        """Return the tables that the settings of a job name; None without any.

        Raises
        ------
        ConfigError
            When no catalog can commit such a table, or it is the input.
        StorageError
            When Spark takes no such name, the database is missing, or a folder is that of the input or the output.
        """
        config = job.config
        if not config.output.table:
            return None
        if config.output.format != "input" or config.output.files:
            raise ConfigError("output.table: takes no output.format and no output.files, which apply to files only")
        with _told(config.output.table):
            parts, names = _parse(config.output.table), name_tables(config.output)
            catalog = parts[0] if _find_class(spark, parts[0]) else str(spark.catalog.currentCatalog())
            kind = _find_class(spark, catalog)
            provider = next((each for each in PROVIDERS if each in kind.lower()), "")
            if not provider:
                raise ConfigError(
                    f"output.table: must be a table of Delta Lake or Iceberg (the catalog {catalog} is "
                    f"{kind or 'of Spark itself'}); docs/formats.md says how Spark gets one"
                )
            place = parts[:-1]
            is_path = place == [provider]
            if is_path:
                suffixes = [*FOLDERS[config.output.mode].values()]
                check_apart([*job.read, job.output], parts[-1], option="output.table", suffixes=suffixes)
            elif place and place != [catalog] and not spark.catalog.databaseExists(_quote(place)):
                raise StorageError(f"output.table: {config.output.table} must be in a database that exists; create it")
            if config.input.table and parts == _parse(config.input.table):
                raise ConfigError(f"output.table: must not be the input (got {config.output.table})")
        return cls(
            spark=spark, names=names, provider=provider, is_path=is_path, output=absolute(job.output), read=job.read
        )

    def check_columns(self, schema: T.StructType) -> None:
        """Refuse names of columns that the catalog does not take.

        Raises
        ------
        SchemaError
            When there is one, with the first of them.
        """
        wrong = [name for name in _list_names(schema) if self.provider == "delta" and {*name} & UNNAMED]
        if wrong:
            shown = "".join(sorted(UNNAMED))
            raise SchemaError(
                f"output.table: names of columns in Delta Lake must have none of {shown!r} (got {wrong[0]!r}); "
                "rename it in a view"
            )

    def check(self, workspace: Workspace, *, overwrite: bool) -> None:
        """Refuse to replace tables of others, and those of earlier runs unless that is wanted.

        Those that this very run committed before a crash are replaced by the same rows.

        Raises
        ------
        StorageError
            When a table may not be replaced, with the first such.
        ConfigError
            When the run reads it, under whatever name.
        """
        for name in self.names.values():
            owner, is_free = self._find_owner(name), True
            if owner is None and self.is_path:
                [*_, path] = _parse(name)
                is_free = not workspace.storage.exists(path)
            if owner == "" or not is_free:
                raise StorageError(
                    f"output.table: {name} must be missing or a table that dedup made (it is there, without the "
                    f"property {OWNER}); choose another name"
                )
            if owner is not None and not {*self.read}.isdisjoint(sessions.list_roots(self.spark.table(name))):
                raise ConfigError(f"output.table: {name} must be no table that the run reads (it is); name another")
            is_left = workspace.is_committing and owner == self.output
            if owner is not None and not (overwrite or is_left):
                raise StorageError(f"output.table: {name} must not exist yet (it does); pass --overwrite to replace it")

    def commit(self, workspace: Workspace) -> None:
        """Write the tables, and delete the files that their rows were in.

        Raises
        ------
        StorageError
            When one cannot be written, or is there by now.
        """
        workspace.begin_commit()
        for folder, name in self.names.items():
            rows = _read_rows(self.spark, f"{workspace.result}/{folder}")
            with _told(name):
                writer = rows.writeTo(name).using(self.provider).tableProperty(OWNER, self.output)
                if self._find_owner(name) is None:
                    writer.create()
                else:
                    writer.createOrReplace()
        for folder in {*self.names} - {"duplicates"}:
            workspace.storage.delete(f"{workspace.result}/{folder}")

    def _find_owner(self, name: str) -> str | None:
        """Return the output of the run that wrote a table; empty for others' tables, None where there is no table."""
        with _told(name):
            try:
                is_there = self.spark.catalog.tableExists(name)
            except AnalysisException as error:
                # Of a name delta.`/folder`; any other table that is missing is no error.
                if error.getCondition() != "DELTA_MISSING_DELTA_TABLE":
                    raise
                is_there = False
            if not is_there:
                return None
            properties = {row["key"]: row["value"] for row in self.spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
            return str(properties.get(OWNER, ""))


def name_tables(chosen: Output) -> dict[str, str]:
    """Return the names of the tables of an output, by the folders that their rows are in before."""
    *place, last = _parse(chosen.table)
    # After the slash of a folder, the other two would lie within it.
    return {folder: _quote([*place, last.rstrip("/") + end]) for folder, end in FOLDERS[chosen.mode].items()}


def _list_names(kind: T.DataType) -> Iterator[str]:
    """Return the names of the columns of a schema, and of fields within them."""
    if isinstance(kind, T.StructType):
        for field in kind:
            yield field.name
            yield from _list_names(field.dataType)
    elif isinstance(kind, T.ArrayType):
        yield from _list_names(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _list_names(kind.keyType)
        yield from _list_names(kind.valueType)


def _read_rows(spark: SparkSession, folder: str) -> DataFrame:
    """Read the rows of a table, whose columns have the comments of those of the input but none of their rules."""
    path = escape(folder)
    fields = [
        T.StructField(
            each.name, each.dataType, each.nullable, {key: each.metadata[key] for key in {*each.metadata} - RULES}
        )
        for each in spark.read.parquet(path).schema
    ]
    return spark.read.schema(T.StructType(fields)).parquet(path)


def _parse(name: str) -> list[str]:
    """Return the parts of a name.

    Raises
    ------
    StorageError
        When Spark would take it for no name.
    """
    if re.fullmatch(rf"({PART})(\.({PART}))*", name) is None:
        raise StorageError(
            f"output.table: {name} must be a table that Spark can write (parts of other signs need `...`)"
        )
    return [part[1:-1].replace("``", "`") if part[0] == "`" else part for part in re.findall(PART, name)]


def _find_class(spark: SparkSession, catalog: str) -> str:
    """Return the class of a catalog; empty where none of this name is set."""
    return str(spark.conf.get(f"spark.sql.catalog.{catalog}", None) or "")


def _quote(parts: list[str]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Tell the name of the table with an error of Spark's."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise StorageError(
            f"output.table: {name} must be a table that Spark can write ({find_cause(error)})"
        ) from error
