"""The source: splits -> ids, texts, sources and places, for the kernels."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import DataError
from dedup.files.columns import PIECE_BYTES, Columns, require_type, to_ranked
from dedup.files.formats.format import FilePart, Query, Rejected, Rows
from dedup.files.listing import Listing, naming, part_formats
from dedup.files.orders import list_asking
from dedup.files.splits import Split
from dedup.files.systems import redact
from dedup.kernels.runs.batches import slice_by_bytes

NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Documents of one file."""

    file: int
    """Number of the file in the listing."""
    batch: pa.RecordBatch
    """`id` (int64 or string), `text` (string or large_string), `source` (string), `row` (int64, ascending)."""
    rejected: tuple[Rejected, ...] = ()
    """Malformed records in the same part of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Corpus in files, and the columns to read; made by `open_source`.

    The row of a document is its number in the file, from 0; of lines, the byte at which it begins once decompressed.
    """

    listing: Listing
    columns: Columns
    id_type: pa.DataType
    """Type of the ids: int64 or string."""
    on_bad_record: str
    """Treatment of malformed records: "fail" or "quarantine"."""
    max_text_bytes: int
    """Most bytes of a text."""
    rules: tuple[tuple[str, str], ...] = ()
    """Rules of `keep.order`."""
    foreign: Columns | None = None
    """Columns to read of files whose documents are none of the input; None where there are none."""

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

    def whole(self, file: int) -> FilePart:
        """Return a file, by its number, as a part."""
        return FilePart(file=file, size=self.listing.every[file].size)

    def _check_sizes(self, piece: Piece) -> None:
        sizes = pc.binary_length(piece.batch["text"])
        longest = pc.max(sizes).as_py() or 0
        if longest > self.max_text_bytes:
            found = piece.batch["id"][pc.index(sizes, longest).as_py()].as_py()
            raise DataError(
                f"input.max_text_bytes: a text must be of at most {self.max_text_bytes:,} bytes (got {longest:,} of id "
                f"{found!r} in {redact(self.listing.every[piece.file].path)}); take it out, or raise the limit where "
                "each worker has 8 bytes of memory for a byte of text"
            )

    def _read_part(self, part: FilePart, rows: Rows | None) -> Iterator[Piece]:
        file, columns, on_bad_record = self.listing.every[part.file], self.columns, self.on_bad_record
        foreign = self.foreign if part.file >= len(self.listing.files) else None
        if foreign is not None:
            # Nothing of them is written, so that nothing can be set aside.
            columns, on_bad_record = foreign, "fail"
        query = Query(columns=columns, id_type=self.id_type, on_bad_record=on_bad_record)
        with nullcontext() if foreign is None else naming("--without"):
            for whole, rejected in file.format.read(file, part, query, rows):
                aside = tuple(rejected)
                for piece in slice_by_bytes(whole, 2 * PIECE_BYTES):
                    batch = piece if self.foreign is None else to_ranked(piece, self.columns, columns)
                    yield Piece(file=part.file, batch=batch, rejected=aside)
                    aside = ()


def open_source(
    listing: Listing,
    *,
    id_column: str,
    text_column: str = "",
    text_columns: Sequence[str] = (),
    source_column: str = "",
    on_bad_record: str = "fail",
    max_text_bytes: int = NO_LIMIT,
    aside: tuple[str, ...] = (),
    rules: tuple[tuple[str, str], ...] = (),
    noted: tuple[tuple[str, str], ...] = (),
    vector: str = "",
    has_sets: bool = False,
    has_parts: bool = False,
) -> FileSource:
    """Check the columns of every file and return the source of all.

    `text_columns` are given in place of a `text_column`, and of several each text is that of all, see `join_columns`.
    `aside` names top-level columns that do not count where the id is the digest of a row; `noted`, `vector`, `has_sets`
    and `has_parts` are as of `Columns`, `rules` those of `keep.order`.

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
    columns = Columns(
        id=id_column,
        texts=tuple(text_columns) or (text_column,),
        source=source_column,
        aside=aside,
        order=list_asking(rules),
        noted=noted,
        vector=vector,
        has_sets=has_sets,
        has_parts=has_parts,
    )
    id_type, foreign = listing.format.check(listing.files, columns), None
    if listing.foreign:
        foreign = replace(columns, source="", order=())
        with naming("--without"):
            for kind, files in part_formats(listing.foreign):
                require_type(kind.check(files, foreign), id_type, files[0].path)
    return FileSource(
        listing=listing,
        columns=columns,
        id_type=id_type,
        on_bad_record=on_bad_record,
        max_text_bytes=max_text_bytes,
        rules=rules,
        foreign=foreign,
    )
