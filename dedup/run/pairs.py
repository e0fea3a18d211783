"""Labelled pairs without Spark: what `labels.read_labels` reads, in Arrow."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dedup.errors import DataError, SchemaError, StorageError
from dedup.files import delimited, jsonlines
from dedup.files.columns import Columns
from dedup.files.listing import File, list_files
from dedup.files.records import damaged, open_bytes, read_lines, reject
from dedup.files.tables import open_table
from dedup.kernels.ids import to_doc_ids

SHOWN = 3
"""Offending rows shown in an error."""
ENDS = ("left_id", "right_id")
LABEL = "duplicate"
TRUE, FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
"""What Spark takes for a boolean."""


def read_pairs(path: str, *, id_type: pa.DataType, where: str) -> pa.Table:
    """Read labelled pairs as `labels.read_labels` does.

    Parameters
    ----------
    id_type
        Type of the corpus' own ids: int64 or string.

    Returns
    -------
    pa.Table
        left_id and right_id (int64, doc_ids; null for what can be none of the corpus) and duplicate, each row once.

    Raises
    ------
    StorageError, SchemaError, DataError
        As `labels.read_labels`.
    """
    try:
        pieces = [piece for file in list_files([path]).files for piece in _read(file, where)]
    except (StorageError, DataError) as error:
        # Said of the input, with advice that helps only there.
        raise type(error)(str(error).partition("; ")[0].replace("--input", where, 1)) from error
    names = list(dict.fromkeys(name for piece in pieces for name in piece))
    if not set(ENDS) <= set(names):
        raise _refuse_names(names, where)
    left, right = (_to_ids(_join(pieces, name), name, id_type, where) for name in ENDS)
    rows: dict[tuple[int | None, int | None], set[bool]] = {}
    for one, other, label in zip(left, right, _to_labels(_join(pieces, LABEL), where), strict=True):
        if one != other:
            is_turned = one is not None and other is not None and one > other
            rows.setdefault((other, one) if is_turned else (one, other), set()).add(label)
    twice = sum(len(labels) > 1 and None not in pair for pair, labels in rows.items())
    if twice:
        raise DataError(f"{where} {path}: a pair must have one label (got {twice:,} pairs with both)")
    listed = [(*pair, label) for pair, labels in rows.items() for label in labels]
    schema = pa.schema([*((name, pa.int64()) for name in ENDS), (LABEL, pa.bool_())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in listed], schema)


Piece = Mapping[str, Sequence[Any]]
"""Values of the columns of some rows; of columns that do not matter nothing but the name."""


def _read(file: File, where: str) -> Iterator[Piece]:
    if file.format == "jsonl":
        yield from _read_objects(file)
    elif file.format == "csv":
        schema = delimited.peek(file)
        names = [] if schema is None else schema.names
        if any(names.count(name) != 1 for name in ENDS):
            raise _refuse_names(names, where)
        columns = Columns(id=ENDS[0], text=ENDS[1], source=LABEL if LABEL in names else "")
        for batch, _ in delimited.read(file, columns, rows=None, on_bad="fail"):
            values = [batch[name].to_pylist() for name in ("id", "text", "source")]
            yield dict(zip((*ENDS, LABEL), values, strict=True))
    elif file.format == "text":
        raise _refuse_names(["path", "text"], where)
    else:
        with damaged(file):
            table = open_table(file)
            wanted = [name for name in (*ENDS, LABEL) if name in table.schema.names]
            yield dict.fromkeys(table.schema.names, ())
            for batch in table.read(range(table.unit_count), wanted):
                yield {name: batch[name].to_pylist() for name in wanted}


def _read_objects(file: File) -> Iterator[Piece]:
    with damaged(file), open_bytes(file) as stream:
        for block in read_lines(stream):
            records: list[dict[str, Any]] = []
            for number, line in enumerate(block.lines()):
                record = jsonlines.parse(line.removeprefix(b"\xef\xbb\xbf"))
                if record is None:
                    reject(file, block, number, 0, jsonlines.REASON, on_bad="fail")
                else:
                    records.append(record)
            yield dict.fromkeys(sorted({name for record in records for name in record}), ())
            yield {name: [record.get(name) for record in records] for name in (*ENDS, LABEL)}


def _join(pieces: Sequence[Piece], name: str) -> list[Any]:
    """Return the values of a column, null where a piece lacks it."""
    values: list[Any] = []
    for piece in pieces:
        values += piece.get(name) or [None] * len(piece.get(ENDS[0], ()))
    return values


def _to_ids(values: Sequence[Any], name: str, id_type: pa.DataType, where: str) -> list[int | None]:
    """Return doc_ids, as those of the corpus."""
    kinds = {type(value).__name__ for value in values} - {"NoneType"}
    if not kinds <= {"int", "str"}:
        wrong = ", ".join(sorted(kinds - {"int", "str"}))
        raise SchemaError(f"{where}: column {name!r} must be an integer or a string (got {wrong})")
    if pa.types.is_integer(id_type):
        return [_to_long(value) for value in values]
    ids = pa.array([None if value is None else str(value) for value in values], pa.string())
    known: list[bool] = ids.is_valid().to_pylist()
    return [doc_id if is_known else None for doc_id, is_known in zip(to_doc_ids(ids).tolist(), known, strict=True)]


def _to_long(value: int | str | None) -> int | None:
    try:
        number = int(value) if value is not None and "_" not in str(value) else None
    except ValueError:
        return None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def _to_labels(values: Sequence[Any], where: str) -> list[bool]:
    labels, wrong = [], []
    for value in values:
        shown = str(value).strip().lower()
        if isinstance(value, int | float):
            labels.append(bool(value))
        elif value is None or shown in TRUE:
            labels.append(True)
        elif shown in FALSE:
            labels.append(False)
        else:
            wrong.append(value)
    if wrong:
        shown = ", ".join(map(repr, wrong[:SHOWN]))
        raise DataError(f"{where}: column {LABEL!r} must be true or false (got {shown})")
    return labels


def _refuse_names(names: Sequence[str], where: str) -> SchemaError:
    return SchemaError(
        f"{where}: must have the columns left_id, right_id and perhaps duplicate (got {', '.join(names)})"
    )
