"""The logs of a store's tables, by Delta Lake: the one module that its package must be installed for."""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from dedup.errors import StorageError
from dedup.files.systems import (
    FULL,
    OBJECT_STORES,
    absolute,
    read_azure_key,
    readable,
    redact,
    redact_text,
    resolve,
    split_url,
)
from dedup.store.folder import TRIES, Conflict, File, list_named, narrow
from dedup.store.schemas import BATCHES, SEGMENT

COLOUR = re.compile("\x1b\\[[0-9;]*m")
"""Escape sequences that paint the messages of Delta Lake."""
SYSTEM = re.compile(r"\(os error (\d+)\)")
"""End of a message of this machine's file system, with the number of the error."""
ANSWER = "Error performing "
"""Words of Delta Lake's client before a request that an object store has refused, or has not answered."""
TRANSACTION = "dedup"
"""Name of the one line of commits to `batches`: two that follow the same commit exclude each other."""


@dataclass(frozen=True, slots=True)
class Log:
    """The logs in the folder of a store."""

    path: str

    def open(self, name: str, version: int | None = None) -> DeltaTable:
        """Open a table.

        Raises
        ------
        StorageError
            When there is none, or not in this version any more.
        """
        with self._told(name):
            return DeltaTable(self._uri(name), version=version, storage_options=_list_options(self.path))

    def create(self, name: str, schema: pa.Schema) -> None:
        """Make an empty table, unless there is one."""
        # Another process may make it in this very moment.
        with self._told(name), narrow(self.path), contextlib.suppress(CommitFailedError):
            DeltaTable.create(
                self._uri(name),
                schema if name == BATCHES else _list_columns(schema),
                mode="ignore",
                partition_by=[] if name == BATCHES else [SEGMENT],
                storage_options=_list_options(self.path),
            )

    def begin(self, version: int, schemas: Mapping[str, pa.Schema]) -> int:
        """Let tables have these columns, where no version of `batches` up to this one tells of a batch.

        Files that other first batches have committed to tables of other columns are taken out.

        Returns
        -------
        int
            Version of `batches` that a commit is to follow.

        Raises
        ------
        Conflict
            When another writer has changed `batches`, or one of these tables, at the same time.
        """
        # Before all else: who commits a file later than the entry below, and may still get its batch in, is not undone.
        told = {name: (self.open(name), Schema.from_arrow(_list_columns(each))) for name, each in schemas.items()}
        told = {name: (table, own) for name, (table, own) in told.items() if table.schema() != own}
        once, batches = CommitProperties(max_commit_retries=0), self.open(BATCHES, version)
        if told:
            # An empty entry shuts out whoever has read an earlier one: the files of theirs count for nothing.
            with _or_conflict(), self._told(BATCHES), narrow(self.path):
                batches.create_write_transaction([], "append", batches.schema(), [], commit_properties=once)
        for name, (table, own) in told.items():
            with _or_conflict(), self._told(name), narrow(self.path):
                table.create_write_transaction([], "overwrite", own, [SEGMENT], commit_properties=once)
        return version + bool(told)

    def widen(self, name: str, schema: pa.Schema) -> None:
        """Give a table the columns that it lacks of a schema, which are null in the rows that it has.

        Raises
        ------
        Conflict
            When somebody has changed it at the same time.
        """
        table = self.open(name)
        known = {each.name for each in table.schema().fields}
        lacking = [each for each in Schema.from_arrow(schema).fields if each.name not in known]
        if lacking:
            with _or_conflict(), self._told(name), narrow(self.path):
                table.alter.add_columns(lacking)

    def commit(
        self, name: str, added: Sequence[File], removed: Sequence[File] = (), schema: pa.Schema | None = None
    ) -> int:
        """Add files to a table, and take others away; return the table's version.

        Segments are of one writer alone, so what others commit at the same time stands in nobody's way: where Delta
        Lake sees a conflict all the same, as a removal makes it, the commit is repeated.

        Raises
        ------
        Conflict
            When the table has other columns than a schema that is given.
        """
        for _ in range(TRIES):
            table = self.open(name)
            if schema is not None and table.schema() != Schema.from_arrow(_list_columns(schema)):
                raise Conflict
            held = {file.path for file in list_named(table)} if removed else set()
            actions: list[AddAction | RemoveAction] = [_add(each) for each in added]
            actions += [_remove(each) for each in removed if each.path in held]
            if not actions:
                return int(table.version())
            try:
                with self._told(name), narrow(self.path):
                    table.create_write_transaction(actions, "append", table.schema(), [SEGMENT])
            except CommitFailedError:
                continue
            with self._told(name):
                table.update_incremental()
            return int(table.version())
        raise StorageError(f"{redact(self.path)}/{name}: {TRIES} other writers were first; repeat the command")

    def commit_state(self, version: int, number: int, file: File, replaced: Sequence[File] = ()) -> None:
        """Add a file to `batches` in place of some, if nobody has added one since its version was read.

        Raises
        ------
        Conflict
            When somebody has.
        """
        once = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(TRANSACTION, number)])
        table = self.open(BATCHES, version)
        actions: list[AddAction | RemoveAction] = [_add(file), *map(_remove, replaced)]
        try:
            with _or_conflict(), self._told(BATCHES), narrow(self.path):
                table.create_write_transaction(actions, "append", table.schema(), [], commit_properties=once)
        except Conflict:
            # Where the answer of an object store was lost, its client tries again, and is refused for its own commit.
            if file.path not in {each.path for each in list_named(self.open(BATCHES, version + 1))}:
                raise

    def vacuum(self, name: str, hours: int) -> None:
        """Delete files that no version of a table has named for so many hours."""
        table = self.open(name)
        with self._told(name):
            table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True)

    def _uri(self, name: str) -> str:
        # Files are read and written by another client, which knows fewer places.
        resolve(self.path)
        scheme, rest = split_url(absolute(self.path).rstrip("/"))
        # Other names of a store are none to Delta Lake.
        return f"{OBJECT_STORES.get(scheme, scheme)}://{rest}/{name}" if scheme else f"{rest}/{name}"

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Turn what Delta Lake says of a table into a StorageError that names it; a conflict stays one."""
        try:
            yield
        except CommitFailedError:
            raise
        except TableNotFoundError as error:
            raise StorageError(f"{redact(self.path)}: must be a store (it has no table {name!r})") from error
        except (DeltaError, OSError) as error:
            reason = " ".join(COLOUR.sub("", redact_text(str(error))).split())
            number = SYSTEM.search(reason)
            if number and int(number[1]) in FULL:
                with readable(f"{self.path}/{name}"):
                    raise OSError(int(number[1]), reason) from error
            rule = "that can be read and written" if ANSWER in reason else "of Delta Lake"
            raise StorageError(f"{redact(self.path)}/{name}: must be a table {rule} ({reason})") from error


@contextlib.contextmanager
def _or_conflict() -> Iterator[None]:
    """Turn a commit that another writer has shut out into a Conflict."""
    try:
        yield
    except CommitFailedError as error:
        raise Conflict from error


def _list_columns(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field(SEGMENT, pa.string()))


def _add(file: File) -> AddAction:
    # No least and greatest values: the log outlives what is deleted.
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size, _name_segment(file), _now(), data_change=True, stats=stats)


def _remove(file: File) -> RemoveAction:
    return RemoveAction(file.path, True, _now(), file.size, _name_segment(file))  # noqa: FBT003 - data_change


def _name_segment(file: File) -> dict[str, str | None]:
    return {SEGMENT: file.segment} if file.segment else {}


def _now() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _list_options(path: str) -> dict[str, str]:
    """Return what a store's own client must be told besides the environment."""
    scheme = split_url(path)[0]
    if scheme in {"abfs", "abfss"} and (key := read_azure_key()):
        return {"AZURE_STORAGE_ACCOUNT_KEY": key}
    if OBJECT_STORES.get(scheme) != "s3":
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise OSError(f"AWS_ENDPOINT_URL must begin with http:// or https:// (got {endpoint!r})")
    # One of two writers of an object must fail.
    options = {"AWS_CONDITIONAL_PUT": "etag"}
    if endpoint:
        options |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http:")).lower()}
        options.setdefault(
            "AWS_REGION", os.environ.get("AWS_REGION", os.environ.get("AWS_DEFAULT_REGION", "us-east-1"))
        )
    return options
