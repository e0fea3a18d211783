"""Lines of JSON -> ids, texts, sources and places.

orjson reads a line at 500 MB/s and pyarrow's reader a block at 350, on one core and with texts in ASCII (220 and 270
beyond); only the first can be asked about each line.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from dedup.errors import DataError, SchemaError
from dedup.files.columns import OFFSET_LIMIT, Columns, gather
from dedup.files.digest import digest_object
from dedup.files.listing import File
from dedup.files.orders import to_key
from dedup.files.records import BOM, SHOWN_LENGTH, Block, Rejected, damaged, find_line, open_bytes, read_lines, reject
from dedup.files.systems import redact

REASON = "no JSON object"
PEEKED = 100
"""Records that tell the type of ids."""
NONE = type(None)
ID_KINDS: dict[pa.DataType, tuple[set[type], str]] = {
    pa.int64(): ({int, NONE}, "an integer of 64 bits, as in the first records"),
    pa.string(): ({str, NONE}, "a string, as in the first records"),
}


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the object that a line holds; None if it holds none.

    As most readers do, it takes NaN and Infinity, halves of surrogate pairs and bytes that are no UTF-8, which are
    replaced. Of keys that come twice the last counts.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def read(
    file: File,
    columns: Columns,
    id_type: pa.DataType,
    *,
    begin: int,
    end: int | None,
    rows: NDArray[np.int64] | None,
    on_bad: str,
) -> Iterator[tuple[pa.RecordBatch, tuple[Rejected, ...]]]:
    """Read the lines that begin in a range of bytes: batches as `columns.gather` makes them, and the lines set aside.

    Raises
    ------
    DataError
        When a line is no JSON object and `on_bad` is "fail", or a value is of the wrong type.
    """
    with damaged(file), open_bytes(file, max(begin - 1, 0)) as stream:
        for block in read_lines(stream, begin, end):
            if rows is not None and len(rows) and len(block.rows) and rows[-1] < block.rows[0]:
                return
            yield _read_block(file, columns, id_type, block, block.choose(rows), begin=begin, on_bad=on_bad)


def _read_block(
    file: File, columns: Columns, id_type: pa.DataType, block: Block, chosen: list[int], *, begin: int, on_bad: str
) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
    rejected: list[Rejected] = []
    records: list[dict[str, Any]] = []
    whole: list[int] = []
    data, begins, ends = block.data, block.begins.tolist(), block.ends.tolist()
    for number in chosen:
        line = data[begins[number] : ends[number]]
        record = parse(line)
        if record is None and block.rows[number] == 0 and line.startswith(BOM):
            record = parse(line[len(BOM) :])
        if record is None:
            rejected.append(reject(file, block, number, begin, REASON, on_bad=on_bad))
        else:
            records.append(record)
            whole.append(number)

    named = columns.list_named()

    def pluck(role: str, kinds: set[type], rule: str) -> list[Any]:
        name, setting = named[role]
        values = _pluck(records, name)
        if set(map(type, values)) <= kinds and not (kinds == ID_KINDS[pa.int64()][0] and _overflows(values)):
            return values
        place = next(place for place, value in enumerate(values) if type(value) not in kinds or _overflows([value]))
        line, shown = find_line(file, block, whole[place], begin), json.dumps(values[place])[:SHOWN_LENGTH]
        raise DataError(f"{setting}: {name!r} must be {rule} (got {shown} in {redact(file.path)}, line {line:,})")

    texts = pluck("text", {str, NONE}, "a string")
    if not columns.id:
        counted = records
        if columns.aside:
            counted = [{name: record[name] for name in record if name not in columns.aside} for record in records]
        ids = pa.array([digest_object(record).hex() for record in counted], pa.string())
    else:
        ids = _to_array(pluck("id", *ID_KINDS[id_type]), id_type)
    sources = None
    if columns.source:
        values = pluck("source", {str, int, bool, NONE}, "a string, an integer or a boolean")
        sources = _to_array([_write(value) for value in values], pa.string())
    kind = pa.string() if len(data) < OFFSET_LIMIT // 3 else pa.large_string()
    return gather(
        ids, _to_array(texts, kind), sources, block.rows[whole], *_pluck_more(columns, records, pluck)
    ), tuple(rejected)


def _pluck_more(
    columns: Columns, records: list[dict[str, Any]], pluck: Callable[[str, set[type], str], list[Any]]
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the keys of `keep.order`, and the values that are read along."""
    keys = []
    for number, rule in enumerate(columns.order):
        is_text = any(isinstance(each, str) for each in _pluck(records, rule[1]))
        kinds: set[type] = {str, NONE} if is_text else {int, float, bool, NONE}
        values = pluck(f"order{number}", kinds, "a string in all records, or a number or boolean in all")
        keys.append(to_key(_to_array(values, pa.string()) if is_text else _to_numbers(values), *rule))
    merged = []
    for number, _ in enumerate(columns.noted):
        values = pluck(f"merge{number}", {str, int, float, bool, NONE}, "a string, a number or a boolean")
        merged.append(_to_array([_write(value) for value in values], pa.string()))
    return keys, merged


def read_records(
    file: File, begin: int = 0, end: int | None = None
) -> Iterator[tuple[NDArray[np.int64], list[dict[str, Any]]]]:
    """Read the objects of the lines that begin in a range of bytes, and their numbers; other lines are left out."""
    with damaged(file), open_bytes(file, max(begin - 1, 0)) as stream:
        for block in read_lines(stream, begin, end):
            found = [parse(line.removeprefix(BOM)) for line in block.lines()]
            is_whole = np.array([record is not None for record in found], bool)
            yield block.rows[is_whole], [record for record in found if record is not None]


def _pluck(records: list[dict[str, Any]], name: str) -> list[Any]:
    """Return a field of every record: the one of this very name, or else of the objects that dots lead through."""
    values = [record.get(name) for record in records]
    parts = name.split(".")
    if len(parts) == 1 or None not in values:
        return values
    return [record[name] if name in record else _walk(record, parts) for record in records]


def _walk(value: object, parts: list[str]) -> object:
    for part in parts:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _overflows(values: list[Any]) -> bool:
    return any(type(value) is int and not -(1 << 63) <= value < 1 << 63 for value in values)


def _write(value: object) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _to_numbers(values: list[Any]) -> pa.Array:
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _to_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([value and mend(value) for value in values], kind)


def mend(text: str) -> str:
    """Return a text with U+FFFD for every half of a surrogate pair, which JSON can escape."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def peek(file: File, columns: Columns) -> tuple[pa.DataType | None, set[str]]:
    """Look at the first records of a file.

    Returns
    -------
    id_type, names
        int64 where every id is an integer, string where one is not, None where there is none to see; the keys found.

    Raises
    ------
    SchemaError
        When an id is neither.
    """
    with damaged(file), open_bytes(file) as stream:
        lines = list(itertools.islice((line for block in read_lines(stream) for line in block.lines()), PEEKED))
    records = [record for line in lines if (record := parse(line.removeprefix(BOM))) is not None]
    names = {key for record in records for key in record}
    for name, _ in columns.list_named().values():
        if any(value is not None for value in _pluck(records, name)):
            names.add(name)
    kinds = {type(value) for value in _pluck(records, columns.id)} - {NONE} if columns.id else set()
    if not kinds <= {int, str}:
        kind = next(iter(kinds - {int, str})).__name__
        raise SchemaError(
            f"input.id_column: column {columns.id!r} must be an integer or a string (got {kind} in {redact(file.path)})"
        )
    return (None if not kinds else pa.int64() if kinds == {int} else pa.string()), names
