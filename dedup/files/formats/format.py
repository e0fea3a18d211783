"""Interface of a file format: list, split, read and write files.

File --split--> Part --read--> documents of the columns that a job needs
                     --read_rows--> rows with every column
File + Edits --write--> the same file without the rows that go, and these by themselves
rows --create--> a new file
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dedup.errors import DataError, SchemaError, StorageError
from dedup.files.columns import Columns, check, require_type
from dedup.files.delete_spans import Spans
from dedup.files.storage import READS, OutputFile, Storage
from dedup.files.systems import find_reason, is_local, is_of_system, readable, redact, resolve

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Rows = NDArray[np.int64]
NO_ROWS: Rows = np.empty(0, np.int64)
SAMPLED_FILES = 16
UNPACKED = 4
"""Bytes of text per byte of a compressed file, where nothing tells better."""
DOCUMENT_BYTES = 500
"""Assumed bytes of a document where nothing tells better; short, so that the guessed number is rather too large."""
KEPT, COUNT = "dedup_kept", "dedup_count"
UNNOTED = {KEPT: True, COUNT: 1}
"""Values of added columns in rows without a note; null in other columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """File of the input."""

    path: str
    """Path on this machine, or a URL."""
    relative: str
    """Path below the input that the file belongs to, and so its path in a folder of the output; unique in a listing."""
    size: int
    """Bytes as stored."""
    changed: int
    """Time of the last change in nanoseconds since 1970."""
    format: "Format"
    compression: str | None
    """Compression, one of the values of `listing.COMPRESSIONS`; None for bytes as they are and compression within a
    format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Range of one file."""

    file: int
    """Number of the file in the listing."""
    begin: int = 0
    """First row group, record batch or stripe; the first byte for lines."""
    end: int | None = None
    """End, exclusive; None for the whole file."""
    first_row: int = 0
    """Number of the first row in a row group, record batch or stripe."""
    size: int
    """Bytes as stored, approximately."""
    share: tuple[int, int] = (0, 1)
    """Number of this share of the rows, and of how many; (0, 1) is all, and others are of formats with `has_shares`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Columns to read of each file, and the treatment of malformed records."""

    columns: Columns
    id_type: pa.DataType
    """Type of the ids: int64 or string."""
    on_bad_record: str
    """Treatment of malformed records: "fail" or "quarantine"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Malformed record."""

    file: str
    row: int
    """Number of the record, as of documents."""
    reason: str
    record: str
    """Record as it stands in its file; bytes that are not UTF-8 become U+FFFD."""


Documents: TypeAlias = Iterator[tuple[pa.RecordBatch, Sequence[Rejected]]]
"""Batches of documents, as from `columns.gather`, and the malformed records among them."""
Mark: TypeAlias = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""Function that flags the values of a column."""
Write: TypeAlias = Callable[[pa.Table], object]
"""Function that writes rows to an open file, as a unit of their own if the format has units."""
NumberedRows: TypeAlias = Iterator[tuple[Rows, pa.Table]]
"""Numbers of rows, as of documents, and the rows with every column."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edits:
    """Changes to the rows of a file; rows are numbered as documents are, int64, ascending."""

    text_column: str
    removed: Rows = field(default_factory=lambda: NO_ROWS)
    """Rows moved to a file of removed rows."""
    rejected: Rows = field(default_factory=lambda: NO_ROWS)
    """Rows left out of both files."""
    spans: Spans = field(default_factory=dict)
    """Spans deleted from the texts of kept rows, by row."""
    notes: pa.Table | None = None
    """Columns added at the end of kept rows, after `row`; None for no columns."""

    @property
    def is_empty(self) -> bool:
        """Whether the file stays as it is."""
        return not (len(self.removed) or len(self.rejected) or self.spans) and self.notes is None

    @property
    def added(self) -> pa.Schema:
        """Names of the added columns."""
        return pa.schema([]) if self.notes is None else self.notes.drop(["row"]).schema

    def take_notes(self, rows: Rows) -> pa.Table:
        """Return the added columns of these rows."""
        assert self.notes is not None
        known = self.notes["row"].to_numpy()
        places = np.searchsorted(known, rows)
        is_noted = np.zeros(len(rows), bool)
        is_noted[places < len(known)] = known[places[places < len(known)]] == rows[places < len(known)]
        taken = self.notes.drop(["row"]).take(pa.array(np.where(is_noted, places, 0), pa.int64(), mask=~is_noted))
        for name in UNNOTED.keys() & {*taken.column_names}:
            taken = taken.set_column(taken.schema.get_field_index(name), name, pc.fill_null(taken[name], UNNOTED[name]))
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Counts of the rows of one file."""

    kept: int | None
    """Kept rows in the file; None for a file copied without reading."""
    removed: int
    """Removed rows in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Guess of the content of files."""

    documents: int
    text_bytes: int


@dataclass(frozen=True)
class Format(ABC):
    """Format of files; its only state is its name, and it is sent to other processes with the files."""

    name: str
    """Key in FORMATS."""

    extensions: ClassVar[tuple[str, ...]]
    """Endings of file names; the first is for files named by the job."""
    is_compressible: ClassVar[bool] = False
    """Whether files can be compressed as a whole, as a further ending tells."""
    can_reject: ClassVar[bool] = False
    """Whether single records can be malformed."""
    can_create: ClassVar[bool] = False
    """Whether rows of any input can be written in the format."""
    has_shares: ClassVar[bool] = False
    """Whether a part can be read by shares of its rows: see `FilePart`."""
    has_types: ClassVar[bool] = False
    """Whether a file tells the types of its columns ahead of its rows."""
    has_lists: ClassVar[bool] = True
    """Whether columns can be lists."""
    id_column: ClassVar[str] = ""
    """Column with the path of a file, the default id; empty where that is the digest of a row."""
    dataset: ClassVar[str] = ""
    """Name of the format in Arrow's datasets; empty if they lack it."""

    @abstractmethod
    def check(self, files: Sequence[InputFile], columns: Columns) -> pa.DataType:
        """Check the columns of files, and return the type of ids, int64 or string.

        Raises
        ------
        SchemaError
            When a column is missing or of a type that cannot serve, or ids differ in type.
        DataError
            When a file is damaged.
        """

    def list_columns(self, file: InputFile) -> list[str]:
        """Return the names of a file's columns, as far as its beginning shows."""
        return [name for schema in self.schemas(file) for name in schema.names]

    @abstractmethod
    def read(self, file: InputFile, part: FilePart, query: Query, rows: Rows | None) -> Documents:
        """Read the documents of a part.

        Parameters
        ----------
        rows
            Rows wanted, ascending; None for all.

        Raises
        ------
        DataError
            When the file is damaged, or a record is malformed and not to be set aside.
        """

    @abstractmethod
    def read_rows(
        self, file: InputFile, part: FilePart | None = None, on_bad_record: str = "quarantine"
    ) -> NumberedRows:
        """Read the rows of a part, or of the file, with every column, and their numbers.

        Malformed records are left out.

        Raises
        ------
        DataError
            When the file is damaged, or a record is malformed and `on_bad_record` is "fail".
        """

    def read_values(self, file: InputFile, names: Sequence[str]) -> Iterator[Mapping[str, Sequence[Any]]]:
        """Read the values of those of these top-level columns that exist, as Python values.

        Raises
        ------
        DataError
            When the file is damaged or a record is malformed.
        """
        for _, rows in self.read_rows(file, on_bad_record="fail"):
            yield {name: rows[name].to_pylist() for name in names if name in rows.column_names}

    @abstractmethod
    def write(self, file: InputFile, edits: Edits, kept: str, removed: str | None) -> FileCounts:
        """Write a file without the removed rows, and these to another; copy a file that loses nothing.

        Compression, schema, metadata, order and row groups are the file's; lines, CSV records and texts are its bytes
        but for spans and notes.

        Parameters
        ----------
        kept, removed
            Paths of the two files, which appear whole; `removed` is None for none.

        Raises
        ------
        DataError
            When the file is damaged or lacks a row that is removed.
        StorageError
            When a file cannot be written.
        """

    def clear(
        self, file: InputFile, cleared: Mapping[str, Sequence[str]], mark: Mark, output: OutputFile | None
    ) -> int:
        """Make marked cells of added columns null, and those of others that belong to them; return their number.

        None of a format without columns.

        Parameters
        ----------
        cleared
            Columns to look at, each with the others.
        output
            Stream that the file is written to; None: only count.
        """
        return 0

    @abstractmethod
    def schemas(self, file: InputFile) -> Iterator[pa.Schema]:
        """Return schemas that together hold the columns of all rows of a file."""

    @abstractmethod
    def guess(self, files: Sequence[InputFile], text_column: str) -> Guess:
        """Guess the content of files from a look at some.

        Raises
        ------
        DataError
            When one of the files that are looked at is damaged.
        """

    def split(self, number: int, file: InputFile, split_bytes: int) -> Iterator[FilePart]:
        """Split a file, by its number in the listing, into parts of about this many bytes; empty if it stays whole."""
        return iter(())

    def find_rows(self, file: InputFile, part: FilePart, column: str, values: pa.Array) -> Rows | None:
        """Return the rows of a part with one of these values in a top-level column.

        None if that column cannot be read without the others.
        """
        return None

    def open_dataset(self, files: Sequence[InputFile]) -> "ds.Dataset":
        """Return files as an Arrow dataset.

        Raises
        ------
        StorageError
            When Arrow takes none of them, as where two columns have one name, or the first is damaged.
        """
        # It imports pandas where that is installed, which takes a third of a second.
        import pyarrow.dataset as ds  # noqa: PLC0415

        if not self.dataset:
            rows = [rows for file in files for _, rows in self.read_rows(file)]
            return ds.dataset(pa.concat_tables(rows, promote_options="permissive"))
        paths = [resolve(file.path)[1] for file in files]
        with refused(files[0]):
            return ds.dataset(paths, filesystem=resolve(files[0].path)[0], format=self.dataset)

    def create(self, stream: OutputFile, schema: pa.Schema) -> AbstractContextManager[Write]:
        """Open a writer of a new file for rows of a schema.

        Raises
        ------
        SchemaError
            When the format does not hold such columns, or none at all.
        """
        raise SchemaError(f"output.format: must be a format that rows of any input can be written in (got {self.name})")


class RowFormat(Format):
    """Format whose files hold any number of rows."""

    @abstractmethod
    def rewrite(self, file: InputFile, edits: Edits, kept: OutputFile, removed: OutputFile | None) -> FileCounts:
        """Write kept rows, edited, and removed rows, as `write` does."""

    def look(self, file: InputFile, text_column: str) -> Guess:
        """Guess the content of one file; by default, compressed short documents."""
        text_bytes = file.size * UNPACKED
        return Guess(documents=-(-text_bytes // DOCUMENT_BYTES), text_bytes=text_bytes)

    def guess(self, files: Sequence[InputFile], text_column: str) -> Guess:
        """Guess the content of files, see `Format.guess`, from up to SAMPLED_FILES evenly spread ones."""
        sample = [file for file in files[:: -(-len(files) // SAMPLED_FILES)] if file.size]
        looks = [self.look(file, text_column) for file in sample]
        scale = sum(file.size for file in files) / max(sum(file.size for file in sample), 1)
        return Guess(
            documents=round(scale * sum(look.documents for look in looks)),
            text_bytes=round(scale * sum(look.text_bytes for look in looks)),
        )

    def schemas(self, file: InputFile) -> Iterator[pa.Schema]:
        """See `Format.schemas`."""
        return (rows.schema for _, rows in self.read_rows(file))

    def check(self, files: Sequence[InputFile], columns: Columns) -> pa.DataType:
        """See `Format.check`."""
        common = None
        for file, schemas in zip(files, ask_each(files, lambda _, file: [*self.schemas(file)]), strict=True):
            for schema in schemas:
                id_type = check(schema, columns, file.path)[0] or pa.string()
                common = common or id_type
                require_type(id_type, common, file.path)
        return common or pa.string()

    def write(self, file: InputFile, edits: Edits, kept: str, removed: str | None) -> FileCounts:
        """See `Format.write`."""
        storage = Storage()
        if removed is None and edits.is_empty:
            storage.copy(file.path, kept)
            return FileCounts(kept=None, removed=0)
        with damaged(file), ExitStack() as files:
            stays = files.enter_context(storage.create(kept))
            goes = None if removed is None else files.enter_context(storage.create(removed))
            written = self.rewrite(file, edits, stays, goes)
            if written.removed != len(edits.removed):
                raise DataError(
                    f"{redact(file.path)}: must not change while the job reads it (rows that it had are gone)"
                )
        return written


def ask_each(files: Sequence[InputFile], ask: Callable[[int, InputFile], Answer]) -> Iterator[Answer]:
    """Yield an answer of each file, given its number, in their order; of a store's, which is slow, some at a time."""
    numbers = range(len(files))
    if all(is_local(file.path) for file in files):
        yield from map(ask, numbers, files)
        return
    asking = ThreadPoolExecutor(READS)
    try:
        yield from asking.map(ask, numbers, files)
    finally:
        asking.shutdown(cancel_futures=True)


@contextmanager
def damaged(file: InputFile) -> Iterator[None]:
    """Turn an error of a reader into a DataError that names the file, or a StorageError if its storage refused."""
    try:
        yield
    except MemoryError:
        # One of Arrow's exceptions too, and the file is none the worse.
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, RecursionError) as error:
        if is_of_system(error):
            with readable(file.path):
                raise
        reason = "values nested too deep" if isinstance(error, RecursionError) else find_reason(error)
        raise DataError(f"--input: {redact(file.path)} cannot be read as {file.format.name} ({reason})") from error


@contextmanager
def refused(file: InputFile) -> Iterator[None]:
    """Turn an error of Arrow that makes no dataset of files into a StorageError that names the first."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        rule = f"must be whole, with columns that an Arrow dataset takes ({find_reason(error)})"
        raise StorageError(f"{redact(file.path)}: {rule}; read the files one by one") from error
