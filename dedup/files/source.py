"""The source: splits -> ids, texts, sources and places, for the kernels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dedup.errors import DataError, SchemaError
from dedup.files import delimited, jsonlines
from dedup.files.columns import Columns, Path, check, gather, slice_by_bytes, take, to_ids, to_source, to_text
from dedup.files.digest import digest_rows
from dedup.files.listing import COMPRESSIBLE, File, Listing
from dedup.files.orders import to_key
from dedup.files.records import BLOCK_BYTES, Rejected, damaged, open_bytes
from dedup.files.splits import Part, Split
from dedup.files.systems import redact
from dedup.files.tables import Parquet, Table, choose, open_table, take_rows

PIECE_BYTES = 1 << 19
"""Bytes of text given at a time: what the caches of a core hold."""
NO_LIMIT = (1 << 63) - 1
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some documents of one file."""

    file: int
    """Its number in the listing."""
    batch: pa.RecordBatch
    """`id` (int64 or string), `text` (string or large_string), `source` (string), `row` (int64, ascending)."""
    rejected: tuple[Rejected, ...] = ()
    """Malformed records of the same part of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """A corpus of files, and what is read of it; made by `open_source`.

    The row of a document is its number in the file, from 0; of lines, the byte at which it begins once decompressed.
    """

    listing: Listing
    columns: Columns
    id_type: pa.DataType
    """int64 or string."""
    on_bad_record: str
    """"fail" or "quarantine"."""
    max_text_bytes: int
    """Of the longest text that is read."""

    def read(self, split: Split, rows: Mapping[int, Rows] | None = None) -> Iterator[Piece]:
        """Read the documents of a split in their order.

        Parameters
        ----------
        rows
            The rows wanted of each file, by its number, int64, ascending; None for all. Row groups of parquet, record
            batches and stripes that hold none are not decoded.

        Raises
        ------
        DataError
            When a file is damaged, a record is malformed and not to be set aside, a text is too long, or an id is not
            of the corpus' type.
        SchemaError
            When a column is missing or of a type that cannot serve.
        """
        for part in split.parts:
            if rows is None or len(rows.get(part.file, ())):
                wanted = None if rows is None else np.asarray(rows[part.file], np.int64)
                for piece in self._read_part(part, wanted):
                    # A block of lines may hold none of the rows wanted.
                    if piece.batch.num_rows or piece.rejected:
                        self._check_sizes(piece)
                        yield piece

    def whole(self, file: int) -> Part:
        """Return a file, by its number, as a part."""
        return Part(file=file, size=self.listing.files[file].size)

    def _check_sizes(self, piece: Piece) -> None:
        sizes = pc.binary_length(piece.batch["text"])
        longest = pc.max(sizes).as_py() or 0
        if longest > self.max_text_bytes:
            found = piece.batch["id"][pc.index(sizes, longest).as_py()].as_py()
            raise DataError(
                f"input.max_text_bytes: a text must be of at most {self.max_text_bytes:,} bytes (got {longest:,} of id "
                f"{found!r} in {redact(self.listing.files[piece.file].path)}); take it out, or raise the limit where "
                "each worker has 8 bytes of memory for a byte of text"
            )

    def _read_part(self, part: Part, rows: Rows | None) -> Iterator[Piece]:
        file = self.listing.files[part.file]
        if file.format == "text":
            if rows is None or 0 in rows:
                yield Piece(file=part.file, batch=_read_text(file))
            return
        if file.format not in COMPRESSIBLE:
            for batch in self._read_table(part, file, rows):
                yield Piece(file=part.file, batch=batch)
            return
        on_bad = self.on_bad_record
        if file.format == "csv":
            found = delimited.read(file, self.columns, rows=rows, on_bad=on_bad)
        else:
            found = jsonlines.read(
                file, self.columns, self.id_type, begin=part.begin, end=part.end, rows=rows, on_bad=on_bad
            )
        for whole, rejected in found:
            aside = rejected
            for batch in slice_by_bytes(whole, 2 * PIECE_BYTES):
                yield Piece(file=part.file, batch=batch, rejected=aside)
                aside = ()

    def _read_table(self, part: Part, file: File, rows: Rows | None) -> Iterator[pa.RecordBatch]:
        with damaged(file):
            table = open_table(file)
            id_type, paths = check(table.schema, self.columns, file)
            _require_type(id_type or pa.string(), self.id_type, file)
            names = list(dict.fromkeys(path[0] for path in paths.values())) if "id" in paths else None
            for first, batch in _read_batches(table, part, names, rows, paths["text"]):
                places = np.arange(batch.num_rows) if rows is None else choose(first, batch.num_rows, rows)
                if not len(places):
                    continue
                chosen = batch
                if len(places) < batch.num_rows:
                    [chosen] = take_rows(pa.Table.from_batches([batch]), places).combine_chunks().to_batches()
                piece = gather(
                    to_ids(take(chosen, paths["id"]), self.id_type, file)
                    if "id" in paths
                    else digest_rows(_leave_out(chosen, self.columns.aside)),
                    to_text(take(chosen, paths["text"])),
                    to_source(take(chosen, paths["source"])) if "source" in paths else None,
                    first + places,
                    [to_key(take(chosen, paths[f"order{n}"]), *rule) for n, rule in enumerate(self.columns.order)],
                    [to_source(take(chosen, paths[f"merge{n}"])) for n, _ in enumerate(self.columns.noted)],
                )
                yield from slice_by_bytes(piece, 2 * PIECE_BYTES)


def _read_batches(
    table: Table, part: Part, names: list[str] | None, rows: Rows | None, text: Path
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read the batches of a part that can hold rows that are wanted, each with the number of its first row."""
    units = range(part.begin, table.unit_count if part.end is None else part.end)
    batch_rows = None
    if isinstance(table, Parquet):
        batch_rows = int(min(max(PIECE_BYTES / max(table.value_bytes(text), 1), 1), 1 << 16))
        if names is None:
            table.check_times(units)
    first = part.first_row
    counts = None if rows is None else table.count_rows()
    if rows is None or counts is None:
        for batch in table.read(units, names, batch_rows):
            yield first, batch
            first += batch.num_rows
        return
    for unit in units:
        if len(choose(first, counts[unit], rows)):
            begin = first
            for batch in table.read([unit], names, batch_rows):
                yield begin, batch
                begin += batch.num_rows
        first += counts[unit]


def _leave_out(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    return batch.drop_columns([name for name in names if name in batch.schema.names]) if names else batch


def _read_text(file: File) -> pa.RecordBatch:
    with damaged(file), open_bytes(file) as stream:
        content = b"".join(iter(lambda: stream.read(BLOCK_BYTES), b""))
    text = to_text(pa.array([content], pa.large_binary()))
    return gather(pa.array([file.path], pa.string()), text, None, [0], [], [])


def open_source(
    listing: Listing,
    *,
    id_column: str,
    text_column: str,
    source_column: str = "",
    on_bad_record: str = "fail",
    max_text_bytes: int = NO_LIMIT,
    aside: tuple[str, ...] = (),
    order: tuple[tuple[str, str], ...] = (),
    noted: tuple[tuple[str, str], ...] = (),
) -> FileSource:
    """Check the columns of every file and return the source of them all.

    `aside` names top-level columns that do not count where the id is the digest of a row; `order` and `noted` are as of
    `Columns`.

    Of parquet, IPC, ORC and CSV the schema is read, of lines of JSON the first records; texts have the columns `path`
    and `text`. Without an id column, the id of a text is its path, any other the digest of its row.

    Raises
    ------
    SchemaError
        When a column is missing or of a type that cannot serve, or ids are integers in some files and strings in
        others.
    DataError
        When a file is damaged.
    """
    columns = Columns(id=id_column, text=text_column, source=source_column, aside=aside, order=order, noted=noted)
    id_type = {"text": _check_texts, "jsonl": _check_lines, "csv": _check_cells}.get(listing.format, _check_tables)(
        listing, columns
    )
    return FileSource(
        listing=listing,
        columns=columns,
        id_type=id_type,
        on_bad_record=on_bad_record,
        max_text_bytes=max_text_bytes,
    )


def _check_texts(listing: Listing, columns: Columns) -> pa.DataType:
    schema = pa.schema({"path": pa.string(), "text": pa.string()})
    check(schema, columns, listing.files[0])
    further = [setting for role, (_, setting) in columns.list_named().items() if role[-1].isdigit()]
    if further:
        raise SchemaError(f"{further[0]}: must name no column of texts, which have none")
    for role, own in (("id", "path"), ("text", "text"), ("source", "")):
        if getattr(columns, role) not in {"", own}:
            raise SchemaError(f"input.{role}_column: must be {own or 'empty'!r} for texts")
    return pa.string()


def _check_lines(listing: Listing, columns: Columns) -> pa.DataType:
    names: set[str] = set()
    kinds = set()
    for file in listing.files:
        kind, found = jsonlines.peek(file, columns)
        kinds.add(kind)
        names |= found
    if not names:
        raise DataError("--input: must hold records (got none that is a JSON object)")
    for name, setting in columns.list_named().values():
        if name not in names:
            known = ", ".join(sorted(names))
            rule = f"must be the name of one column of the input (got {name!r}, the input has {known})"
            raise SchemaError(f"{setting}: {rule}")
    return pa.int64() if kinds - {None} == {pa.int64()} else pa.string()


def _check_cells(listing: Listing, columns: Columns) -> pa.DataType:
    for file in listing.files:
        schema = delimited.peek(file)
        if schema is not None:
            check(schema, columns, file)
    return pa.string()


def _check_tables(listing: Listing, columns: Columns) -> pa.DataType:
    common = None
    for file in listing.files:
        with damaged(file):
            schema = open_table(file).schema
        id_type, _ = check(schema, columns, file)
        common = common or id_type or pa.string()
        _require_type(id_type or pa.string(), common, file)
    return common or pa.string()


def _require_type(found: pa.DataType, common: pa.DataType, file: File) -> None:
    if found != common:
        raise SchemaError(
            f"input.id_column: must be alike in all files (got {found} in {redact(file.path)}, {common} in others)"
        )
