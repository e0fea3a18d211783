"""Plain text, one document a file, whose id is its path."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from dedup.errors import SchemaError
from dedup.files.columns import Columns, check, gather
from dedup.files.compression import compress, open_bytes
from dedup.files.conversion import to_text
from dedup.files.delete_spans import delete_spans
from dedup.files.formats.format import (
    UNPACKED,
    Documents,
    Edits,
    FileCounts,
    FilePart,
    Format,
    Guess,
    InputFile,
    NumberedRows,
    Query,
    Rows,
    damaged,
)
from dedup.files.storage import Storage

if TYPE_CHECKING:
    import pyarrow.dataset as ds

BLOCK_BYTES = 1 << 19
"""Bytes read at a time."""
SCHEMA = pa.schema([("path", pa.string()), ("text", pa.string())])


class TextFormat(Format):
    """Files of plain text."""

    extensions = ("txt", "text", "md", "rst", "html", "htm")
    is_compressible: ClassVar = True
    has_lists: ClassVar = False
    id_column = "path"

    def check(self, files: Sequence[InputFile], columns: Columns) -> pa.DataType:
        """See `Format.check`."""
        check(SCHEMA, columns, files[0].path)
        further = [setting for role, (_, setting) in columns.list_named().items() if role[-1].isdigit()]
        if further:
            raise SchemaError(f"{further[0]}: must name no column of texts, which have none")
        for role, own in (("id", "path"), ("text", "text"), ("source", "")):
            if getattr(columns, role) not in {"", own}:
                raise SchemaError(f"input.{role}_column: must be {own or 'empty'!r} for texts")
        return pa.string()

    def schemas(self, file: InputFile) -> Iterator[pa.Schema]:
        """See `Format.schemas`."""
        yield SCHEMA

    def guess(self, files: Sequence[InputFile], text_column: str) -> Guess:
        """See `Format.guess`."""
        ratio = UNPACKED if any(file.compression for file in files) else 1
        return Guess(documents=len(files), text_bytes=ratio * sum(file.size for file in files))

    def read(self, file: InputFile, part: FilePart, query: Query, rows: Rows | None) -> Documents:
        """See `Format.read`."""
        if rows is None or 0 in rows:
            yield gather(pa.array([file.path], pa.string()), _read(file), None, [0], [], []), ()

    def read_rows(
        self, file: InputFile, part: FilePart | None = None, on_bad_record: str = "quarantine"
    ) -> NumberedRows:
        """See `Format.read_rows`."""
        yield np.zeros(1, np.int64), pa.table([pa.array([file.path], pa.string()), _read(file)], schema=SCHEMA)

    def write(self, file: InputFile, edits: Edits, kept: str, removed: str | None) -> FileCounts:
        """See `Format.write`."""
        is_removed, storage = len(edits.removed), Storage()
        if edits.spans and not is_removed:
            with storage.create(kept) as output, compress(output, file.compression) as stream:
                stream.write(delete_spans(_read(file)[0].as_py(), *edits.spans[0]).encode())
        elif target := removed if is_removed else kept:
            storage.copy(file.path, target)
        return FileCounts(kept=1 - is_removed, removed=is_removed)

    def open_dataset(self, files: Sequence[InputFile]) -> "ds.Dataset":
        """See `Format.open_dataset`; paths are those below the folder of the files."""
        import pyarrow.dataset as ds  # noqa: PLC0415 - as `Format.open_dataset`

        texts = pa.chunked_array([_read(file).cast(pa.string()) for file in files], pa.string())
        return ds.dataset(pa.table([[file.relative for file in files], texts], schema=SCHEMA))


def _read(file: InputFile) -> pa.Array:
    """Return the one text of a file; bytes that are no UTF-8 become U+FFFD."""
    with damaged(file), open_bytes(file) as stream:
        content = b"".join(iter(lambda: stream.read(BLOCK_BYTES), b""))
    return to_text(pa.array([content], pa.large_binary()))
