"""Tables of Delta Lake in the folder of a store: files written and read as they are, and their commits."""

import contextlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from dedup.errors import StorageError
from dedup.files.storage import Storage
from dedup.files.systems import absolute, is_local, redact, resolve, split_url
from dedup.store.schemas import BATCHES, SEGMENT, Layout

FIRSTS = b"dedup.firsts"
"""Metadata of a file: the first key of each of its groups, int64."""
TRANSACTION = "dedup"
"""Name of the one line of commits to `batches`: two that follow the same commit exclude each other."""


TRIES = 20
"""Other writers that may be first before one gives up."""


class Conflict(Exception):  # noqa: N818 - no error: the writer starts over
    """Another writer has committed since the state was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a table."""

    path: str
    """Below the folder of the table."""
    size: int
    segment: str
    rows: int
    changed: int = 0
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The folder of a store."""

    path: str
    storage: Storage = field(default_factory=Storage)

    def open(self, name: str, version: int | None = None) -> DeltaTable:
        """Open a table.

        Raises
        ------
        StorageError
            When there is none, or not in this version any more.
        """
        try:
            return DeltaTable(self._uri(name), version=version, storage_options=_list_options(self.path))
        except TableNotFoundError as error:
            raise StorageError(f"{redact(self.path)}: must be a store (it has no table {name!r})") from error
        except (DeltaError, OSError) as error:
            reason = " ".join(str(error).split())
            raise StorageError(f"{redact(self.path)}/{name}: must be a table of Delta Lake ({reason})") from error

    def exists(self) -> bool:
        """Tell whether there is a store."""
        # The folder of the log is there before its first entry.
        return DeltaTable.is_deltatable(self._uri(BATCHES), _list_options(self.path))

    def create(self, name: str, schema: pa.Schema) -> None:
        """Make an empty table, unless there is one."""
        partition_by = []
        if name != BATCHES:
            schema, partition_by = schema.append(pa.field(SEGMENT, pa.string())), [SEGMENT]
        self._make_folder(name)
        with self._narrow(), contextlib.suppress(CommitFailedError):  # another process makes it in this very moment
            DeltaTable.create(
                self._uri(name),
                schema,
                mode="ignore",
                partition_by=partition_by,
                storage_options=_list_options(self.path),
            )

    def write(self, name: str, segment: str, layout: Layout, parts: Iterable[pa.Table]) -> list[File]:
        """Write a file of a segment, that no commit names yet; none where there are no rows.

        Parameters
        ----------
        parts
            Rows of the whole file in the order of the key, in parts of any size.
        """
        path = f"{SEGMENT}={segment}/part-{secrets.token_hex(4)}.parquet"
        firsts, rows, waiting = [], 0, layout.schema.empty_table()
        with self._narrow(), contextlib.ExitStack() as stack:
            writer = None
            for part, is_last in _look_ahead(parts):
                waiting = pa.concat_tables([waiting, part.select(layout.schema.names).cast(layout.schema)])
                whole = waiting.num_rows if is_last else waiting.num_rows // layout.group * layout.group
                if not whole:
                    continue
                if writer is None:
                    stream = stack.enter_context(self.storage.create(f"{self.path}/{name}/{path}"))
                    writer = pq.ParquetWriter(stream, layout.schema, **_choose_encoding(name))
                taken, waiting = waiting.slice(0, whole), waiting.slice(whole)
                firsts.append(taken[layout.key].to_numpy()[:: layout.group])
                writer.write_table(taken, row_group_size=layout.group)
                rows += whole
            if writer is None:
                return []
            writer.add_key_value_metadata({FIRSTS: np.concatenate(firsts).astype(np.int64).tobytes().hex()})
            writer.close()
        size = self.storage.size(f"{self.path}/{name}/{path}")
        return [File(path=path, size=size, segment=segment, rows=rows)]

    def commit(self, name: str, added: Sequence[File], removed: Sequence[File] = ()) -> int:
        """Add files to a table, and take others away; return the table's version.

        Segments are of one writer alone, so what others commit at the same time stands in nobody's way: where Delta
        Lake sees a conflict all the same, as a removal makes it, the commit is repeated.
        """
        table = self.open(name)
        for _ in range(TRIES) if added or removed else ():
            held = {file.path for file in list_named(table)} if removed else set()
            actions: list[AddAction | RemoveAction] = [self._add(each) for each in added]
            actions += [_remove(each) for each in removed if each.path in held]
            try:
                with self._narrow():
                    if actions:
                        table.create_write_transaction(actions, "append", table.schema(), [SEGMENT])
                table.update_incremental()
                return int(table.version())
            except CommitFailedError:
                table = self.open(name)
        if added or removed:
            raise StorageError(f"{redact(self.path)}/{name}: {TRIES} other writers were first; repeat the command")
        return int(table.version())

    def commit_state(self, version: int, number: int, row: pa.Table) -> None:
        """Add a row to `batches`, if nobody has since its version was read.

        Raises
        ------
        Conflict
            When somebody has.
        """
        path = f"{number:09}-{secrets.token_hex(4)}.parquet"
        with self._narrow(), self.storage.create(f"{self.path}/{BATCHES}/{path}") as stream:
            pq.write_table(row, stream)
        size = self.storage.size(f"{self.path}/{BATCHES}/{path}")
        once = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(TRANSACTION, number)])
        table = self.open(BATCHES, version)
        action = self._add(File(path=path, size=size, segment="", rows=1))
        try:
            with self._narrow():
                table.create_write_transaction([action], "append", table.schema(), [], commit_properties=once)
        except CommitFailedError as error:
            self.storage.delete(f"{self.path}/{BATCHES}/{path}")
            raise Conflict from error

    def list_files(self, name: str, version: int | None = None) -> list[File]:
        """Return the files that a version of a table names, by path."""
        return list_named(self.open(name, version))

    @contextlib.contextmanager
    def read(self, name: str, file: File, footer: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
        """Open a file; one of many groups has a long footer, which need not be read again."""
        with (
            self.storage.open(f"{self.path}/{name}/{file.path}") as stream,
            pq.ParquetFile(stream, metadata=footer) as found,
        ):
            yield found

    def _uri(self, name: str) -> str:
        return f"{absolute(self.path).rstrip('/')}/{name}"

    @contextlib.contextmanager
    def _narrow(self) -> Iterator[None]:
        """Let files and folders that are made be no wider open than the folder of the store."""
        if not is_local(self.path):
            yield
            return
        mode = stat.S_IMODE(Path(resolve(self.path)[1]).stat().st_mode)
        # It is of the whole process: what other threads make in these milliseconds is no wider open either.
        before = os.umask(0o777)
        os.umask(before | 0o777 & ~mode)
        try:
            yield
        finally:
            os.umask(before)

    def _make_folder(self, name: str) -> None:
        if is_local(self.path):
            folder = Path(resolve(self.path)[1])
            folder.mkdir(parents=True, exist_ok=True)
            with self._narrow():
                (folder / name).mkdir(exist_ok=True)

    def _add(self, file: File) -> AddAction:
        # No least and greatest values: the log outlives what is deleted.
        stats = json.dumps({"numRecords": file.rows})
        return AddAction(file.path, file.size, _name_segment(file), _now(), data_change=True, stats=stats)


def list_named(table: DeltaTable) -> list[File]:
    """Return the files that an open table names, by path."""
    segments = f"partition.{SEGMENT}"
    found = [
        File(
            path=each["path"],
            size=each["size_bytes"],
            segment=each.get(segments, ""),
            rows=each["num_records"] or 0,
            changed=each["modification_time"],
        )
        for each in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]
    return sorted(found, key=lambda file: file.path)


def _remove(file: File) -> RemoveAction:
    return RemoveAction(file.path, True, _now(), file.size, _name_segment(file))  # noqa: FBT003 - data_change


def _name_segment(file: File) -> dict[str, str | None]:
    return {SEGMENT: file.segment} if file.segment else {}


def _now() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _look_ahead(parts: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    """Yield parts, and whether each is the last."""
    waiting = None
    for part in parts:
        if waiting is not None:
            yield waiting, False
        waiting = part
    if waiting is not None:
        yield waiting, True


def _choose_encoding(name: str) -> dict[str, Any]:
    """Return how pyarrow is to write a table."""
    if name == "sets":
        # Hashes: nothing makes them smaller, and statistics of their many groups would outweigh the footer.
        return {"compression": "none", "use_dictionary": False, "write_statistics": False}
    if name == "bands":
        # Ascending keys lie closer together than 64 bits, numbers of sets need fewer.
        packed = "DELTA_BINARY_PACKED"
        return {"compression": "none", "use_dictionary": False, "column_encoding": {"key": packed, "set": packed}}
    return {"compression": "zstd"}


def _list_options(path: str) -> dict[str, str]:
    """Return what a store's own client must be told besides the environment."""
    scheme = split_url(path)[0]
    if scheme not in {"s3", "s3a"}:
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    # One of two writers of an object must fail.
    options = {"AWS_CONDITIONAL_PUT": "etag"}
    if endpoint:
        options |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http:")).lower()}
        options.setdefault(
            "AWS_REGION", os.environ.get("AWS_REGION", os.environ.get("AWS_DEFAULT_REGION", "us-east-1"))
        )
    return options
