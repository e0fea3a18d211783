"""The sink: an output file for each input file, with the rows left out that go, and everything else as it was."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup.errors import DataError
from dedup.files.cells import read_cells
from dedup.files.cutting import Cutting
from dedup.files.left import Cuts, Left
from dedup.files.listing import COMPRESSIBLE, File
from dedup.files.records import Block, damaged, open_bytes, read_lines
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.files.storage import Output, Storage
from dedup.files.systems import redact
from dedup.files.tables import Parquet, Table, choose, open_table, take_rows
from dedup.files.writers import write_like

UNIT_BYTES = 1 << 28
"""Decoded bytes of a row group that is rewritten as one; larger ones are cut, since each is held in memory."""
Rows = NDArray[np.int64]
NO_ROWS: Rows = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of the rows of one file."""

    kept: int | None
    """Rows in the file of those kept; None where it was copied without being read."""
    removed: int
    """Rows in the file of those removed."""


def write(
    source: FileSource,
    number: int,
    removed: Rows,
    *,
    kept_folder: str,
    removed_folder: str | None = None,
    rejected: Rows = NO_ROWS,
    cuts: Cuts | None = None,
    with_empty: bool = False,
) -> Written:
    """Write a file of the input without the rows that go, and those by themselves, under the file's relative path.

    Format, compression, schema, metadata, order and row groups are the input's; lines, CSV records and texts are its
    bytes but for spans that are cut. A file that loses nothing is copied. `removed_folder` has only files of which rows
    are removed. Each file appears whole under its name, so a task tried twice leaves one, with the same content.

    Parameters
    ----------
    number
        The file's place in the listing.
    with_empty
        Whether `removed_folder` gets a file without rows too, so that there is one that can be read.
    removed, rejected
        Rows as `Piece.batch` and `Rejected` have them, ascending: those that go to `removed_folder` (None: nowhere),
        and those that go to neither.
    cuts
        Spans that the texts of rows that stay lose.

    Raises
    ------
    DataError
        When the file is damaged, has changed since it was listed, or lacks one of these rows.
    StorageError
        When a file cannot be written.
    """
    file = source.listing.files[number]
    storage = Storage()
    check_unchanged(storage, file)
    kept, gone = f"{kept_folder}/{file.relative}", None
    if removed_folder is not None and (len(removed) or with_empty):
        gone = f"{removed_folder}/{file.relative}"
    if file.format == "text":
        if len(removed):
            kept = gone or ""
        if kept:
            if cuts is None or len(removed):
                storage.copy(file.path, kept)
            else:
                _cut_text(source, number, cuts, kept)
        return Written(kept=1 - len(removed), removed=len(removed))
    if gone is None and not len(rejected) and cuts is None:
        storage.copy(file.path, kept)
        return Written(kept=None, removed=0)
    with damaged(file), ExitStack() as files:
        kept_stream = files.enter_context(storage.create(kept))
        gone_stream = None if gone is None else files.enter_context(storage.create(gone))
        divide = _divide_records if file.format in COMPRESSIBLE else _divide_tables
        cutting = Cutting(file, source.columns.text, {} if cuts is None else cuts.by_row())
        counts = divide(cutting, removed, rejected, kept_stream, gone_stream)
        if counts.removed != len(removed):
            raise DataError(f"{redact(file.path)}: must not change while the job reads it (rows that it had are gone)")
    return counts


def check_unchanged(storage: Storage, file: File) -> None:
    """Make sure that a file is as it was listed.

    Raises
    ------
    DataError
        When its length or time has changed, or it is gone.
    """
    entry = storage.look(file.path)
    if entry is None or (entry.size, entry.changed) != (file.size, file.changed):
        raise DataError(f"{redact(file.path)}: must not change while the job reads it (it did since it was listed)")


def _divide_records(
    cutting: Cutting, removed: Rows, rejected: Rows, kept_stream: Output, gone_stream: Output | None
) -> Written:
    kept, gone, file = 0, 0, cutting.file
    is_csv = file.format == "csv"
    with ExitStack() as streams:
        stays = streams.enter_context(compress(file, kept_stream))
        goes = None if gone_stream is None else streams.enter_context(compress(file, gone_stream))
        stream = streams.enter_context(open_bytes(file))
        for block in read_cells(stream) if is_csv else read_lines(stream):
            leaving, aside = block.choose(removed), block.choose(rejected)
            if goes is not None:
                header = 1 if is_csv and len(block.rows) and block.rows[0] < 0 else 0
                goes.write(_join(block, [*range(header), *leaving]))
            stays.write(_exchange(block, cutting.cut_records(block) | dict.fromkeys([*leaving, *aside], b"")))
            kept += int((block.rows >= 0).sum()) - len(leaving) - len(aside)
            gone += len(leaving)
    return Written(kept=kept, removed=gone)


def compress(file: File, stream: Output) -> Output:
    """Return a stream that compresses as a file is."""
    return stream if file.compression is None else pa.CompressedOutputStream(stream, file.compression)


def _join(block: Block, records: list[int]) -> bytes:
    return b"".join(block.data[block.begins[place] : block.ends[place]] for place in records)


def _exchange(block: Block, records: Mapping[int, bytes]) -> bytes:
    """Return the bytes of a block, blank lines included, with others in place of some records."""
    if not records:
        return block.data
    parts = []
    begin = 0
    for place in sorted(records):
        parts += [block.data[begin : block.begins[place]], records[place]]
        begin = block.ends[place]
    parts.append(block.data[begin:])
    return b"".join(parts)


def _cut_text(source: FileSource, number: int, cuts: Cuts, path: str) -> None:
    """Write a file that is one text without spans."""
    for piece in Left(cuts={number: cuts}).read(source, Split(parts=(source.whole(number),))):
        with Storage().create(path) as stream:
            stream.write(piece.batch["text"][0].as_py().encode())


def _divide_tables(
    cutting: Cutting, removed: Rows, rejected: Rows, kept_stream: Output, gone_stream: Output | None
) -> Written:
    kept, gone, file = 0, 0, cutting.file
    with ExitStack() as streams:
        table = open_table(file)
        stays = streams.enter_context(write_like(table, file, table.schema, kept_stream))
        goes = None
        if gone_stream is not None:
            goes = streams.enter_context(write_like(table, file, table.schema, gone_stream))
        left_out = np.union1d(removed, rejected)
        for first, rows in read_units(table):
            leaving = choose(first, rows.num_rows, removed)
            if goes is not None and len(leaving):
                goes.write(take_rows(rows, leaving))
            staying = np.delete(np.arange(rows.num_rows), choose(first, rows.num_rows, left_out))
            if len(staying):
                stays.write(cutting.cut_rows(take_rows(rows, staying), first + staying))
            kept, gone = kept + len(staying), gone + len(leaving)
    return Written(kept=kept, removed=gone)


def read_units(table: Table) -> Iterator[tuple[int, pa.Table]]:
    """Read a file unit by unit, each with the number of its first row."""
    first = 0
    if isinstance(table, Parquet):
        table.check_times(range(table.unit_count))
    for unit in range(table.unit_count):
        batch_rows = None
        if isinstance(table, Parquet):
            group = table.file.metadata.row_group(unit)
            parts = -(-group.total_byte_size // UNIT_BYTES)
            if parts <= 1:
                rows = table.file.read_row_group(unit, use_threads=False)
                yield first, rows
                first += rows.num_rows
                continue
            batch_rows = -(-group.num_rows // parts)
        for batch in table.read([unit], None, batch_rows):
            yield first, pa.Table.from_batches([batch], table.schema)
            first += batch.num_rows
