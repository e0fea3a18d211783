"""The journal of a store: documents that were admitted, on storage before they are answered.

It is a folder of segments, files of frames, each the rows of a group of documents behind their length and checksum.
One process at a time writes to the last segment; on an object store each frame is a segment. A batch takes over whole
frames, and the state that it commits says up to where. A frame that a crash cut short was never answered.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import xxhash

from dedup.files.systems import is_local, readable, resolve
from dedup.store.folder import narrow
from dedup.store.tables import Tables

FOLDER = "admitted"
FRAME = struct.Struct("<QQ")
"""Bytes of a frame's rows, and their XXH3-64."""


class Position(NamedTuple):
    """Place in a journal, which ascends as it grows."""

    segment: int
    end: int
    """Bytes of the segment."""


def list_columns(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of ADMITTED: documents with their answers, for the type of the user's ids."""
    return pa.schema(
        [
            ("doc_id", pa.int64()),
            ("id", id_type),
            ("text_bytes", pa.int64()),
            ("shingles", pa.binary()),  # uint64, ascending
            ("of", id_type),  # null where it was no duplicate
            ("jaccard", pa.float64()),
            ("unsure", pa.bool_()),
        ]
    )


def locate(tables: Tables, segment: int) -> str:
    """Return the path of a segment."""
    return f"{tables.path}/{FOLDER}/{segment:012}"


def list_segments(tables: Tables) -> list[int]:
    """Return the segments that are there, ascending."""
    entries = tables.storage.list(f"{tables.path}/{FOLDER}")
    return sorted(int(entry.path) for entry in entries if entry.path.isdigit())


def read_journal(tables: Tables, after: Position, id_type: pa.DataType) -> Iterator[tuple[Position, pa.RecordBatch]]:
    """Yield ADMITTED of the frames behind a position, each with the position of its end."""
    schema = list_columns(id_type)
    for segment in list_segments(tables):
        if segment < after.segment:
            continue
        with tables.storage.open(locate(tables, segment)) as stream:
            content = stream.read_buffer()
        begin = after.end if segment == after.segment else 0
        while len(body := _take_frame(content, begin)):
            begin += FRAME.size + len(body)
            yield Position(segment, begin), pa.ipc.read_record_batch(body, schema)


def _take_frame(content: pa.Buffer, begin: int) -> pa.Buffer:
    """Return the rows of the frame that begins there; nothing where there is no whole one."""
    head, body = content[begin : begin + FRAME.size], content[begin + FRAME.size :]
    if len(head) == FRAME.size:
        size, digest = FRAME.unpack(head)
        if 0 < size <= len(body) and xxhash.xxh3_64_intdigest(body[:size]) == digest:
            return body[:size]
    return body[:0]


def clean(tables: Tables, after: Position, id_type: pa.DataType, *, idle: bool) -> None:
    """Delete the segments whose documents are all before a position.

    Parameters
    ----------
    idle
        Whether no process can be writing to the last one, as none does to an object.
    """
    segments, is_done = list_segments(tables), idle or not is_local(tables.path)
    held = {position.segment for position, _ in read_journal(tables, after, id_type)}
    for segment in segments:
        if segment not in held and (is_done or segment < segments[-1]):
            tables.storage.delete(locate(tables, segment))


class Journal:
    """The end of a journal, of which there is one writer."""

    def __init__(self, tables: Tables, after: Position) -> None:
        self._tables = tables
        self._segment = max([after.segment, *list_segments(tables)])
        self._file: int | None = None

    def begin(self) -> None:
        """Begin another segment, so that those before can be deleted."""
        self.close()
        if not is_local(self._tables.path):
            return
        self._segment += 1
        path = Path(resolve(locate(self._tables, self._segment))[1])
        with readable(str(path)), narrow(self._tables.path):
            path.parent.mkdir(exist_ok=True)
            self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY, 0o666)
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def append(self, rows: pa.RecordBatch) -> Position:
        """Write ADMITTED, and return its position once it cannot be lost any more.

        Raises
        ------
        StorageError
            When the storage fails; whether the rows are there is unknown then.
        """
        body = rows.serialize()
        frame = FRAME.pack(len(body), xxhash.xxh3_64_intdigest(body)) + body.to_pybytes()
        if not is_local(self._tables.path):
            self._segment += 1
            with self._tables.storage.create(locate(self._tables, self._segment)) as stream:
                stream.write(frame)
            return Position(self._segment, len(frame))
        if self._file is None:
            self.begin()
        assert self._file is not None
        try:
            with readable(locate(self._tables, self._segment)):
                left = memoryview(frame)
                while left:
                    left = left[os.write(self._file, left) :]
                os.fsync(self._file)
                return Position(self._segment, os.fstat(self._file).st_size)
        except BaseException:
            # What follows a frame cut short would not be read.
            self.close()
            raise

    def close(self) -> None:
        """Let go of the segment."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
