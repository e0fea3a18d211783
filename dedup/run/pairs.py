"""Pairs of documents that somebody has labelled, as the truth to hold a result against."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dedup.errors import DataError, SchemaError
from dedup.files.listing import list_files, naming
from dedup.kernels.ids import to_doc_ids
from dedup.settings.options import Config

SHOWN = 3
"""Offending rows shown in an error."""
ENDS = ("left_id", "right_id")
LABEL = "duplicate"
TRUE, FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
"""Texts that stand for a boolean."""


def read_pairs(path: str, *, id_type: pa.DataType, where: str) -> pa.Table:
    """Read labelled pairs from files with columns left_id, right_id and, if wanted, duplicate.

    Parameters
    ----------
    id_type
        Type of the corpus' own ids, to which those of the labels are turned: int64 or string.
    where
        Name by which the user calls the file, for messages.

    Returns
    -------
    pa.Table
        left_id and right_id (int64, doc_ids; null for what can be none of the corpus) and duplicate, each row once.
        Pairs of a document with itself say nothing and are left out. Without a column `duplicate`, or where its cell is
        null, a pair is one of duplicates.

    Raises
    ------
    StorageError
        When there is no such file, or its name tells no format.
    SchemaError
        When a column is missing, or of a type that cannot serve.
    DataError
        When a label is neither true nor false, or a pair has both.
    """
    with naming(where):
        files = list_files([path]).files
        named = [names for file in files if (names := file.format.list_columns(file))]
        wrong = [names for names in named or [[]] if any(names.count(name) != 1 for name in ENDS)]
        if wrong:
            raise SchemaError(
                f"{where}: must have the columns left_id, right_id and perhaps duplicate "
                f"(got {', '.join(wrong[0]) or 'none'})"
            )
        pieces = [piece for file in files for piece in file.format.read_values(file, (*ENDS, LABEL))]
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


def read_labels(config: Config, id_type: pa.DataType) -> pa.Table | None:
    """Return the labelled pairs of the settings, as `read_pairs`; None where none are given."""
    path = config.evaluation.labeled_pairs
    return read_pairs(path, id_type=id_type, where="evaluation.labeled_pairs") if path else None


def _join(pieces: Sequence[Mapping[str, Sequence[Any]]], name: str) -> list[Any]:
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
