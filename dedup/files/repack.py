"""The sink's third way: rows of several files through Arrow into one, in a format of its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from dedup.errors import SchemaError
from dedup.files import delimited, jsonlines
from dedup.files.cutting import Cutting
from dedup.files.left import Cuts
from dedup.files.listing import COMPRESSIONS, File
from dedup.files.records import damaged
from dedup.files.sink import NO_ROWS, Rows, Written
from dedup.files.source import FileSource
from dedup.files.splits import Part, Split
from dedup.files.storage import Output, Storage
from dedup.files.systems import redact
from dedup.files.tables import Parquet, open_table, take_rows

TEXTS = pa.schema([("path", pa.string()), ("text", pa.string())])
FORMATS = ("parquet", "jsonl", "csv")
GROUP_BYTES = 1 << 26
"""Bytes of rows gathered to a row group of parquet."""


def group(splits: Sequence[Split], count: int) -> list[list[Split]]:
    """Part splits, in order, into so many groups of about one size, maybe empty: one for each output file."""
    total = max(sum(split.size for split in splits), 1)
    groups: list[list[Split]] = [[] for _ in range(count)]
    before = 0
    for split in splits:
        groups[min((before + split.size // 2) * count // total, count - 1)].append(split)
        before += split.size
    return groups


def common_schema(source: FileSource) -> pa.Schema:
    """Return the schema that holds the columns of all files; of lines of JSON it takes reading them.

    Raises
    ------
    SchemaError
        When the columns of two files, or values of two lines, cannot be of one type.
    """
    schemas: list[pa.Schema] = []
    for file in source.listing.files:
        try:
            found = [*_schemas(file)]
            schemas = [pa.unify_schemas([*schemas, *found], promote_options="permissive")] if found else schemas
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            reason = " ".join(str(error).split())
            raise SchemaError(
                f"output.format: columns must be of one type in all records ({redact(file.path)}: {reason}); "
                "keep the input's format and files"
            ) from error
    return schemas[0] if schemas else pa.schema([])


def _schemas(file: File) -> Iterator[pa.Schema]:
    if file.format == "text":
        yield TEXTS
    elif file.format == "csv":
        schema = delimited.peek(file)
        if schema is not None:
            yield schema
    elif file.format == "jsonl":
        for _, records in jsonlines.read_records(file):
            yield pa.schema(list(pa.array(records or [{}]).type))
    else:
        with damaged(file):
            schema = open_table(file).schema
        yield schema


def repack(
    source: FileSource,
    splits: Sequence[Split],
    removed: Mapping[int, Rows],
    *,
    path: str,
    format: str,  # noqa: A002 - as the setting is called
    schema: pa.Schema,
    cuts: Mapping[int, Cuts] | None = None,
) -> Written:
    """Write the rows of splits, but for some, to one file; malformed records are left out.

    Parameters
    ----------
    removed
        Rows that go, int64, ascending, by the number of their file.
    path
        Compressed as its name ends.
    format
        One of FORMATS.
    schema
        As from `common_schema`; columns that a file lacks are null.
    cuts
        Spans that texts lose, by the number of their file.

    Raises
    ------
    SchemaError
        When CSV is to hold lists, structs or maps.
    """
    spans = {file: each.by_row() for file, each in (cuts or {}).items()}
    cutting = [
        Cutting(file, source.columns.text, spans.get(number, {})) for number, file in enumerate(source.listing.files)
    ]
    rows = ((part.file, each) for split in splits for part in split.parts for each in _read(source, part))
    tables = (
        (file, numbers, _conform(cutting[file].cut_rows(table, numbers), schema)) for file, (numbers, table) in rows
    )
    return _write(path, format, schema, tables, removed)


def write_ids(
    source: FileSource,
    splits: Sequence[Split],
    removed: Mapping[int, Rows],
    *,
    path: str,
    format: str,  # noqa: A002 - as the setting is called
) -> Written:
    """Write the ids of the rows of splits, but for some, to one file; see `repack`."""
    schema = pa.schema([(source.columns.id or "id", source.id_type)])
    pieces = (piece for split in splits for piece in source.read(split))
    rows = (
        (piece.file, piece.batch["row"].to_numpy(), pa.Table.from_arrays([piece.batch["id"]], schema=schema))
        for piece in pieces
    )
    return _write(path, format, schema, rows, removed)


def _read(source: FileSource, part: Part) -> Iterator[tuple[Rows, pa.Table]]:
    """Read the rows of a part with every column, and their numbers."""
    file = source.listing.files[part.file]
    if file.format == "text":
        for piece in source.read(Split(parts=(part,))):
            yield piece.batch["row"].to_numpy(), pa.Table.from_arrays(piece.batch.columns[:2], schema=TEXTS)
    elif file.format == "jsonl":
        for rows, records in jsonlines.read_records(file, part.begin, part.end):
            yield rows, pa.Table.from_struct_array(pa.array(records or [{}])).slice(0, len(rows))
    elif file.format == "csv":
        for rows, batch in delimited.read_records(file):
            yield rows, pa.Table.from_batches([batch])
    else:
        with damaged(file):
            table, first = open_table(file), part.first_row
            units = range(part.begin, table.unit_count if part.end is None else part.end)
            if isinstance(table, Parquet):
                table.check_times(units)
            for batch in table.read(units, None, 1 << 14):
                yield first + np.arange(batch.num_rows), pa.Table.from_batches([batch])
                first += batch.num_rows


def _conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _write(
    path: str,
    kind: str,
    schema: pa.Schema,
    tables: Iterable[tuple[int, Rows, pa.Table]],
    removed: Mapping[int, Rows],
) -> Written:
    kept = gone = 0
    with Storage().create(path) as output, ExitStack() as streams:
        codec = COMPRESSIONS.get(path.rpartition(".")[2])
        stream = output if codec is None else streams.enter_context(pa.CompressedOutputStream(output, codec))
        write = _open(kind, schema, stream, streams)
        for file, numbers, rows in tables:
            staying = np.flatnonzero(~np.isin(numbers, removed.get(file, NO_ROWS)))
            if len(staying):
                write(take_rows(rows, staying))
            kept, gone = kept + len(staying), gone + len(numbers) - len(staying)
    return Written(kept=kept, removed=gone)


def _open(kind: str, schema: pa.Schema, stream: Output, streams: ExitStack) -> Callable[[pa.Table], None]:
    """Open a writer that is closed along with the streams."""
    if kind == "jsonl":
        return lambda rows: _write_lines(rows, stream)
    if kind == "csv":
        try:
            writer = streams.enter_context(pcsv.CSVWriter(stream, schema))
        except pa.ArrowInvalid as error:
            raise SchemaError(f"output.format: csv must have no lists, structs or maps ({error})") from error
        return cast("Callable[[pa.Table], None]", writer.write_table)
    parquet = streams.enter_context(pq.ParquetWriter(stream, schema, compression="zstd"))
    gathered: list[pa.Table] = []

    def flush() -> None:
        if gathered:
            parquet.write_table(pa.concat_tables(gathered), row_group_size=sum(rows.num_rows for rows in gathered))
            gathered.clear()

    def gather(rows: pa.Table) -> None:
        gathered.append(rows)
        if sum(each.nbytes for each in gathered) >= GROUP_BYTES:
            flush()

    streams.callback(flush)
    return gather


def _write_lines(rows: pa.Table, stream: Output) -> None:
    options = orjson.OPT_APPEND_NEWLINE
    stream.write(b"".join(orjson.dumps(row, default=_to_text, option=options) for row in rows.to_pylist()))


def _to_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
