"""Repacking of several files into one: rows travel as Arrow, and the output has its own format."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from dedup.errors import SchemaError
from dedup.files.delete_spans import Cuts, Spans, delete_from_rows
from dedup.files.formats.columnar import take_rows
from dedup.files.formats.format import NO_ROWS, FileCounts, FilePart, Format, Rows
from dedup.files.listing import COMPRESSIONS
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.files.storage import Storage
from dedup.files.systems import redact


def group(splits: Sequence[Split], count: int) -> list[list[Split]]:
    """Divide splits, in order, into a number of groups of about one size, possibly empty: one for each output file."""
    total = max(sum(split.size for split in splits), 1)
    groups: list[list[Split]] = [[] for _ in range(count)]
    before = 0
    for split in splits:
        groups[min((before + split.size // 2) * count // total, count - 1)].append(split)
        before += split.size
    return groups


def common_schema(source: FileSource) -> pa.Schema:
    """Return the schema with the columns of all files; JSON lines must be read for it.

    Raises
    ------
    SchemaError
        When the columns of two files, or values of two lines, cannot be of one type.
    """
    schemas: list[pa.Schema] = []
    for file in source.listing.files:
        try:
            found = [*file.format.schemas(file)]
            schemas = [pa.unify_schemas([*schemas, *found], promote_options="permissive")] if found else schemas
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            reason = " ".join(str(error).split())
            raise SchemaError(
                f"output.format: columns must be of one type in all records ({redact(file.path)}: {reason}); "
                "keep the input's format and files"
            ) from error
    return schemas[0] if schemas else pa.schema([])


def repack(
    source: FileSource,
    splits: Sequence[Split],
    removed: Mapping[int, Rows],
    *,
    path: str,
    format: Format,  # noqa: A002 - as the setting is called
    schema: pa.Schema,
    cuts: Mapping[int, Cuts] | None = None,
) -> FileCounts:
    """Write the rows of splits, except some, to one file; malformed records are left out.

    Parameters
    ----------
    removed
        Removed rows by file number; int64, ascending.
    path
        Path of the file, compressed by the ending of its name.
    format
        One of `list_creatable`.
    schema
        As from `common_schema`; columns that a file lacks are null.
    cuts
        Spans deleted from texts, by file number.

    Raises
    ------
    SchemaError
        When CSV is to hold lists, structs or maps.
    """
    spans = {number: each.by_row() for number, each in (cuts or {}).items()}
    rows = (_read(source, part, spans.get(part.file, {}), schema) for split in splits for part in split.parts)
    return _write(path, format, schema, itertools.chain.from_iterable(rows), removed)


def _read(source: FileSource, part: FilePart, spans: Spans, schema: pa.Schema) -> Iterator[tuple[int, Rows, pa.Table]]:
    """Read the rows of a part in a schema's columns, preceded by file and row number."""
    file, column = source.listing.files[part.file], source.columns.text
    for numbers, rows in file.format.read_rows(file, part):
        shorter = delete_from_rows(rows, numbers, spans, column=column, path=file.path)
        yield part.file, numbers, _conform(shorter, schema)


def write_ids(
    source: FileSource,
    splits: Sequence[Split],
    removed: Mapping[int, Rows],
    *,
    path: str,
    format: Format,  # noqa: A002 - as the setting is called
) -> FileCounts:
    """Write the ids of the rows of splits, except some, to one file; see `repack`."""
    schema = pa.schema([(source.columns.id or "id", source.id_type)])
    pieces = (piece for split in splits for piece in source.read(split))
    rows = (
        (piece.file, piece.batch["row"].to_numpy(), pa.Table.from_arrays([piece.batch["id"]], schema=schema))
        for piece in pieces
    )
    return _write(path, format, schema, rows, removed)


def _conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _write(
    path: str,
    format: Format,  # noqa: A002 - as the setting is called
    schema: pa.Schema,
    tables: Iterable[tuple[int, Rows, pa.Table]],
    removed: Mapping[int, Rows],
) -> FileCounts:
    kept = gone = 0
    with Storage().create(path) as output, ExitStack() as streams:
        codec = COMPRESSIONS.get(path.rpartition(".")[2])
        stream = output if codec is None else streams.enter_context(pa.CompressedOutputStream(output, codec))
        write = streams.enter_context(format.create(stream, schema))
        for file, numbers, rows in tables:
            staying = np.flatnonzero(~np.isin(numbers, removed.get(file, NO_ROWS)))
            if len(staying):
                write(take_rows(rows, staying))
            kept, gone = kept + len(staying), gone + len(numbers) - len(staying)
    return FileCounts(kept=kept, removed=gone)
