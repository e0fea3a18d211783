"""Tables of Delta Lake in the folder of a store: files written and read as they are, and their commits."""

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.errors import DedupError
from dedup.extras import check_extra
from dedup.files.storage import Storage
from dedup.files.systems import find_reason, is_local, is_of_system, readable, redact, resolve
from dedup.kernels import Integers
from dedup.store.extents import LENGTH_BYTES, PAGE_BYTES, SIZES, pack_sizes, read_values
from dedup.store.folder import Conflict, Damaged, File, list_named, narrow
from dedup.store.schemas import BATCHES, SEGMENT, Layout

if TYPE_CHECKING:
    from dedup.store.log import Log

FIRSTS = b"dedup.firsts"
"""Metadata of a file: the first key of each of its groups, int64."""
GROUP_BYTES = 1 << 26
"""Bytes from which on a group is not filled further: bounds memory."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The folder of a store."""

    path: str
    storage: Storage = field(default_factory=Storage)
    scratch: str = ""
    """Folder, by its absolute path, that files are written to which no commit will name; empty where they may be."""

    @property
    def log(self) -> "Log":
        """The logs of the tables.

        Raises
        ------
        DedupError
            When the package of Delta Lake is not installed.
        """
        check_extra(redact(self.path), "store")
        from dedup.store.log import Log  # noqa: PLC0415 - files can be written and read without Delta Lake

        return Log(self.path)

    def exists(self) -> bool:
        """Tell whether there is a store."""
        # The folder of the log is there before its first entry.
        entries = self.storage.list(f"{self.path}/{BATCHES}/_delta_log")
        return any(entry.path.endswith((".json", ".parquet")) for entry in entries)

    def create(self, name: str, schema: pa.Schema) -> None:
        """Make an empty table, unless there is one."""
        log = self.log
        if is_local(self.path):
            folder = Path(resolve(self.path)[1])
            with readable(self.path):
                folder.mkdir(parents=True, exist_ok=True)
                with narrow(self.path):
                    (folder / name).mkdir(exist_ok=True)
        log.create(name, schema)

    def write(self, name: str, segment: str, layout: Layout, parts: Iterable[pa.Table]) -> list[File]:
        """Write a file of a segment, that no commit names yet; none where there are no rows.

        Parameters
        ----------
        parts
            Rows of the whole file in the order of the key, in parts of any size.
        """
        path = f"{SEGMENT}={segment}/part-{secrets.token_hex(4)}.parquet"
        path = f"{self.scratch}/{name}/{path}" if self.scratch else path
        firsts, sizes, rows = [], list[Integers](), 0
        with contextlib.ExitStack() as stack:
            writer = None
            for taken in _fill_groups(parts, layout):
                if writer is None:
                    with narrow(self.path):
                        stream = stack.enter_context(self.storage.create(self._locate(name, path)))
                    writer = pq.ParquetWriter(stream, layout.schema, write_page_checksum=True, **layout.encoding)
                firsts.append(taken[layout.key].to_numpy()[:: layout.group])
                if layout.apart:
                    own = pc.binary_length(taken[layout.apart]).to_numpy()
                    sizes += np.split(own, range(layout.group, own.size, layout.group))
                writer.write_table(taken, row_group_size=layout.group)
                rows += taken.num_rows
            if writer is None:
                return []
            noted = {FIRSTS: np.concatenate(firsts).astype(np.int64).tobytes().hex()}
            if layout.apart and all(each.sum() + LENGTH_BYTES * each.size < PAGE_BYTES for each in sizes):
                noted[SIZES] = pack_sizes(sizes)
            writer.add_key_value_metadata(noted)
            writer.close()
            size = stream.tell()
        return [File(path=path, size=size, segment=segment, rows=rows)]

    def commit_state(self, version: int, number: int, rows: pa.Table, replaced: Sequence[File] = ()) -> None:
        """Add a row to `batches`, if nobody has since its version was read.

        Parameters
        ----------
        rows
            The row, behind those of the files that it takes the place of.

        Raises
        ------
        Conflict
            When somebody has.
        """
        path = f"{number:09}-{secrets.token_hex(4)}.parquet"
        with narrow(self.path), self.storage.create(f"{self.path}/{BATCHES}/{path}") as stream:
            pq.write_table(rows, stream, compression="zstd", write_page_checksum=True)
            added = File(path=path, size=stream.tell(), segment="", rows=rows.num_rows)
        try:
            self.log.commit_state(version, number, added, replaced)
        except Conflict:
            self.storage.delete(f"{self.path}/{BATCHES}/{path}")
            raise

    def list_files(self, name: str, version: int | None = None) -> list[File]:
        """Return the files that a version of a table names, by path."""
        return list_named(self.log.open(name, version))

    @contextlib.contextmanager
    def read(
        self,
        name: str,
        file: File,
        footer: pq.FileMetaData | None = None,
        as_dictionary: Sequence[str] = (),
        *,
        verifies: bool = False,
    ) -> Iterator[pq.ParquetFile]:
        """Open a file; one of many groups has a long footer, which need not be read again.

        Parameters
        ----------
        verifies
            Whether what is read is held against the checksums of its pages, which files of earlier releases lack.

        Raises
        ------
        StorageError
            When it is missing, or cannot be read; `Damaged` where that is the file's fault.
        """
        path = self._locate(name, file.path)
        try:
            with (
                self.storage.open(path) as stream,
                # Ahead of time, by other threads, is worth it where each request takes long.
                pq.ParquetFile(
                    stream,
                    metadata=footer,
                    pre_buffer=not is_local(self.path),
                    read_dictionary=as_dictionary,
                    page_checksum_verification=verifies,
                ) as found,
            ):
                yield found
        except (MemoryError, DedupError):
            # One of Arrow's exceptions too, and a ValueError some: the file is none the worse.
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            if is_of_system(error):
                with readable(path):
                    raise
            raise Damaged(
                f"{redact(path)}: must be a whole file of parquet ({find_reason(error)}); bring it back from a copy of "
                "the store, whose `check` lists all that are damaged"
            ) from error

    def read_values(self, name: str, file: File, begins: Integers, sizes: Integers) -> pa.ChunkedArray:
        """Return the values of a file that begin at some bytes of it, which ascend, and are of these sizes.

        Raises
        ------
        StorageError
            When one does not lie where it should.
        """
        path = self._locate(name, file.path)
        with readable(path):
            parts = [*read_values(partial(self.storage.read_ranges, path), begins, sizes)]
        return pa.chunked_array(parts, pa.binary())

    def _locate(self, name: str, path: str) -> str:
        is_scratch = bool(self.scratch) and path.startswith(f"{self.scratch}/")
        return path if is_scratch else f"{self.path}/{name}/{path}"


def _fill_groups(parts: Iterable[pa.Table], layout: Layout) -> Iterator[pa.Table]:
    """Yield the rows of parts in whole groups, the last of all, and those of many bytes, perhaps not whole."""
    waiting = layout.schema.empty_table()
    for part in parts:
        waiting = pa.concat_tables([waiting, part.select(layout.schema.names).cast(layout.schema)])
        whole = waiting.num_rows // layout.group * layout.group
        if waiting.nbytes > GROUP_BYTES:
            whole = waiting.num_rows
        if whole:
            yield waiting.slice(0, whole)
            waiting = waiting.slice(whole)
    if waiting.num_rows:
        yield waiting
