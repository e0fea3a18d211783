"""Repacking of several files into one: rows travel as Arrow, and the output has its own format."""

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import pyarrow as pa

from dedup.errors import SchemaError
from dedup.files.compression import compress
from dedup.files.delete_spans import Cuts, Spans, delete_from_rows
from dedup.files.formats.columnar import take_rows
from dedup.files.formats.format import NO_ROWS, FileCounts, FilePart, Format, Rows, Write
from dedup.files.listing import COMPRESSIONS
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.files.storage import OutputFile, Storage
from dedup.files.systems import find_reason, redact


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


def check_columns(format: Format, schema: pa.Schema) -> None:  # noqa: A002 - as the setting is called
    """Refuse columns of which a format has no files.

    Raises
    ------
    SchemaError
        When it has none.
    """
    with _fitting(format), format.create(OutputFile(io.BytesIO(), ""), schema):
        pass


def repack(
    source: FileSource,
    splits: Sequence[Split],
    removed: Mapping[int, Rows],
    *,
    path: str,
    format: Format,  # noqa: A002 - as the setting is called
    schema: pa.Schema,
    removed_path: str | None = None,
    rejected: Mapping[int, Rows] | None = None,
    cuts: Mapping[int, Cuts] | None = None,
) -> FileCounts:
    """Write the rows of splits to one file, and removed rows to another; malformed records are left out.

    Parameters
    ----------
    removed
        Removed rows by file number; int64, ascending.
    path, removed_path
        Paths of the two files, compressed by the ending of their names; `removed_path` is None for none.
    format
        One of `list_creatable`.
    schema
        As from `common_schema`; columns that a file lacks are null.
    rejected
        Rows written to neither, as `removed`.
    cuts
        Spans deleted from texts of kept rows, by file number.

    Raises
    ------
    SchemaError
        When the format cannot hold a column or a value.
    """
    spans = {number: each.by_row() for number, each in (cuts or {}).items()}
    rows = (_read(source, part, spans.get(part.file, {}), schema) for split in splits for part in split.parts)
    every = itertools.chain.from_iterable(rows)
    with _fitting(format), ExitStack() as streams:
        writes = [None if each is None else _create(each, format, schema, streams) for each in (path, removed_path)]
        return _write(writes, every, removed, rejected or {})


@contextmanager
def _fitting(format: Format) -> Iterator[None]:  # noqa: A002 - as above
    """Turn a writer's error about what it is to write into a SchemaError."""
    try:
        yield
    # A time zone that there is not is a KeyError.
    except (ValueError, OverflowError, KeyError, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"output.format: columns and values must fit {format.name} ({find_reason(error)}); keep the input's format "
            "and files"
        ) from error


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
    rejected: Mapping[int, Rows] | None = None,
) -> FileCounts:
    """Write the ids of the rows of splits, except some, to one file; see `repack`."""
    schema = pa.schema([(source.columns.id or "id", source.id_type)])
    pieces = (piece for split in splits for piece in source.read(split))
    rows = (
        (piece.file, piece.batch["row"].to_numpy(), pa.Table.from_arrays([piece.batch["id"]], schema=schema))
        for piece in pieces
    )
    with ExitStack() as streams:
        return _write([_create(path, format, schema, streams), None], rows, removed, rejected or {})


def _conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _write(
    writes: Sequence[Write | None],
    tables: Iterable[tuple[int, Rows, pa.Table]],
    removed: Mapping[int, Rows],
    rejected: Mapping[int, Rows],
) -> FileCounts:
    """Write the rows that stay by the first, and those removed by the second."""
    counts = [0, 0]
    for file, numbers, rows in tables:
        is_removed = np.isin(numbers, removed.get(file, NO_ROWS))
        is_there = ~np.isin(numbers, rejected.get(file, NO_ROWS))
        for place, chosen in enumerate((~is_removed & is_there, is_removed & is_there)):
            taken = np.flatnonzero(chosen)
            counts[place] += len(taken)
            if len(taken) and (write := writes[place]):
                write(take_rows(rows, taken))
    return FileCounts(kept=counts[0], removed=counts[1])


def _create(path: str, format: Format, schema: pa.Schema, streams: ExitStack) -> Write:  # noqa: A002 - as above
    """Return the writer of a new file, which ends with others."""
    output = streams.enter_context(Storage().create(path))
    stream = streams.enter_context(compress(output, COMPRESSIONS.get(path.rpartition(".")[2])))
    return streams.enter_context(format.create(stream, schema))
