"""Sink: an output file for each input file, without the removed rows and otherwise unchanged."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import DataError, SchemaError
from dedup.files.columns import require_free
from dedup.files.delete_spans import Cuts
from dedup.files.formats.format import KEPT, NO_ROWS, Edits, FileCounts, InputFile, Rows
from dedup.files.source import FileSource
from dedup.files.storage import Storage
from dedup.files.systems import redact


def write(
    source: FileSource,
    number: int,
    removed: Rows,
    *,
    kept_folder: str,
    removed_folder: str | None = None,
    rejected: Rows = NO_ROWS,
    cuts: Cuts | None = None,
    notes: pa.Table | None = None,
    with_empty: bool = False,
) -> FileCounts:
    """Write a file of the input without the removed rows, and these by themselves, under the file's relative path.

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
    notes
        `row`, int64, ascending, and further columns, which rows that stay gain at their end: members at the end of
        objects, or cells. Of rows without a note, `dedup_kept` is true, `dedup_count` 1 and any other null.

    Raises
    ------
    DataError
        When the file is damaged, has changed since it was listed, or lacks one of these rows.
    SchemaError
        When a record already has a member of the name of a note.
    StorageError
        When a file cannot be written.
    """
    file = source.listing.files[number]
    storage = Storage()
    check_unchanged(storage, file)
    kept, gone = f"{kept_folder}/{file.relative}", None
    if removed_folder is not None and (len(removed) or with_empty):
        gone = f"{removed_folder}/{file.relative}"
    spans = {} if cuts is None else cuts.by_row()
    edits = Edits(
        text_column=source.columns.text,
        removed=removed,
        rejected=rejected,
        spans=spans,
        notes=None if notes is None else notes.combine_chunks(),
    )
    return file.format.write(file, edits, kept, gone)


def annotate(source: FileSource, number: int, notes: pa.Table, *, folder: str, rejected: Rows = NO_ROWS) -> FileCounts:
    """Write every row of a file with notes, and count as removed those noted as such; see `write`."""
    written = write(source, number, NO_ROWS, kept_folder=folder, rejected=rejected, notes=notes)
    gone = int(pc.sum(pc.invert(notes[KEPT])).as_py() or 0) if KEPT in notes.column_names else 0
    return FileCounts(kept=(written.kept or 0) - gone, removed=gone)


def check_names(source: FileSource, names: Sequence[str], setting: str = "output.mode: annotate") -> None:
    """Refuse files with columns of these names, in any case of letters; only the first JSON lines are looked at.

    The setting that adds them is named in the error.

    Raises
    ------
    SchemaError
        When one has, or the input is texts, which have no columns.
    """
    if source.listing.format.id_column:
        raise SchemaError(f"{setting} needs columns (got texts, which have none)")
    for file in source.listing.files:
        require_free(file.format.list_columns(file), names, setting, file.path)


def check_unchanged(storage: Storage, file: InputFile) -> None:
    """Refuse a file that has changed since it was listed.

    Raises
    ------
    DataError
        When its length or time has changed, or it is gone.
    """
    entry = storage.look(file.path)
    if entry is None or (entry.size, entry.changed) != (file.size, file.changed):
        raise DataError(f"{redact(file.path)}: must not change while the job reads it (it did since it was listed)")
