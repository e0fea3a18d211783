"""Lines of JSON, one object each; the row of a document is the byte at which its line begins once decompressed.

orjson reads a line at 500 MB/s and pyarrow's reader a block at 350, on one core and with texts in ASCII (220 and 270
beyond); only the first can be asked about each line.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from dedup.errors import NO_DOCUMENT, DataError, SchemaError, suggest
from dedup.files.columns import OFFSET_LIMIT, SET_RULE, VECTOR_RULE, VECTOR_SETTING, Columns, gather, require_free
from dedup.files.compression import Stream, open_bytes
from dedup.files.conversion import join_columns, to_text
from dedup.files.digest import digest_object
from dedup.files.formats import records
from dedup.files.formats.format import (
    Documents,
    FilePart,
    InputFile,
    NumberedRows,
    Query,
    Rejected,
    Rows,
    Write,
    ask_each,
    damaged,
)
from dedup.files.formats.json_line import (
    MALFORMED,
    clear_members,
    delete_from_line,
    explain_refusal,
    may_be_rounded,
    mend,
    mend_all,
    parse,
    parse_exactly,
)
from dedup.files.formats.json_rows import to_lines
from dedup.files.formats.records import BOM, NEWLINE, SHOWN_LENGTH, Block, Clearer, Eraser, RecordFormat
from dedup.files.orders import to_keys
from dedup.files.storage import OutputFile
from dedup.files.systems import redact

PEEKED = 100
"""Records read to find the type of ids."""
NONE = type(None)
ID_KINDS: dict[pa.DataType, tuple[set[type], str]] = {
    pa.int64(): ({int, NONE}, "an integer of 64 bits, as in the first records"),
    pa.string(): ({str, NONE}, "a string, as in the first records"),
}


class JsonlFormat(RecordFormat):
    """Files of JSON objects, one a line."""

    extensions = ("jsonl", "json", "ndjson")
    can_create: ClassVar = True
    dataset = "json"

    def check(self, files: Sequence[InputFile], columns: Columns) -> pa.DataType:
        """See `Format.check`: of the first records."""
        names: set[str] = set()
        kinds = set()
        for kind, found in ask_each(files, lambda _, file: _peek(file, columns)):
            kinds.add(kind)
            names |= found
        if not names:
            if not any(map(_peek_lines, files)):
                raise DataError(NO_DOCUMENT)
            shown = "".join(f" in {redact(file.path)}" for file in files[:1])
            reasons = [explain_refusal(line) for file in files[:1] for line in _peek_lines(file)[:1]]
            reason = "none" if reasons in ([], [MALFORMED]) else reasons[0]
            raise DataError(
                f"--input: must have a JSON object on each line (got {reason}{shown}; pandas writes them with "
                'to_json(FILE, orient="records", lines=True))'
            )
        for name, setting in columns.list_named().values():
            if name not in names:
                known = ", ".join(sorted(names)) + suggest(name, names)
                rule = f"must be the name of one column of the input (got {name!r}, the input has {known})"
                raise SchemaError(f"{setting}: {rule}")
        return pa.int64() if kinds - {None} == {pa.int64()} else pa.string()

    def list_columns(self, file: InputFile) -> list[str]:
        """See `Format.list_columns`."""
        return list(_peek(file, Columns(id="", texts=("",), source=""))[1])

    def split(self, number: int, file: InputFile, split_bytes: int) -> Iterator[FilePart]:
        """See `Format.split`; a line belongs to the part in which it begins."""
        for begin in range(0, file.size, split_bytes) if file.compression is None else ():
            end = min(begin + split_bytes, file.size)
            yield FilePart(file=number, begin=begin, end=end, size=end - begin)

    def read(self, file: InputFile, part: FilePart, query: Query, rows: Rows | None) -> Documents:
        """See `Format.read`."""
        with damaged(file):
            for objects in _read_objects(file, part, rows, on_bad=query.on_bad_record):
                yield _select(file, part, query, objects), objects.rejected

    def read_rows(
        self, file: InputFile, part: FilePart | None = None, on_bad_record: str = "quarantine"
    ) -> NumberedRows:
        """See `Format.read_rows`."""
        for objects in _read_objects(file, part or FilePart(file=0, size=file.size), None, on_bad=on_bad_record):
            try:
                values = [_read_exactly(objects, number, value) for number, value in enumerate(objects.values)]
                rows = pa.Table.from_struct_array(_to_structs(values or [{}]))
            except RecursionError:
                raise pa.ArrowInvalid("values are nested too deep") from None
            yield objects.rows, rows.slice(0, len(values))

    def read_values(self, file: InputFile, names: Sequence[str]) -> Iterator[Mapping[str, Sequence[Any]]]:
        """See `Format.read_values`."""
        for objects in _read_objects(file, FilePart(file=0, size=file.size), None, on_bad="fail"):
            yield {name: [value.get(name) for value in objects.values] for name in names}

    def read_blocks(self, stream: Stream) -> Iterator[Block]:
        """See `RecordFormat.read_blocks`."""
        return read_lines(stream)

    def open_eraser(self, file: InputFile, column: str) -> Eraser:
        """See `RecordFormat.open_eraser`."""
        return lambda record, begins, ends: delete_from_line(record, column, begins, ends)

    def add_notes(self, file: InputFile, records: Iterable[bytes], rows: Rows, notes: pa.Table) -> Iterator[bytes]:
        """See `RecordFormat.add_notes`: members."""
        for record, note in zip(records, notes.to_pylist(), strict=True):
            content = record.rstrip()
            body = content[:-1].removeprefix(BOM).strip()
            if b'"dedup' in record.lower() or b"\\u" in record:
                names = list(parse(record.removeprefix(BOM)) or ())
                require_free(names, notes.column_names, "output.mode: annotate", file.path)
            if not content.endswith(b"}"):
                raise DataError(
                    f"{redact(file.path)}: must not change while the job reads it (a line is no JSON object)"
                )
            comma = b"" if body == b"{" else b","
            yield content[:-1] + comma + orjson.dumps(note)[1:-1] + b"}" + record[len(content) :]

    def read_notes(self, file: InputFile, records: Sequence[bytes], names: Sequence[str]) -> Iterable[pa.Array]:
        """See `RecordFormat.read_notes`."""
        del file
        values = [parse(record.removeprefix(BOM)) or {} for record in records]
        return (_to_array([_write(value.get(name)) for value in values], pa.string()) for name in names)

    def open_clearer(self, file: InputFile) -> Clearer:
        """See `RecordFormat.open_clearer`."""
        return lambda record, names: clear_members(record, names, file.path)

    @contextmanager
    def create(self, stream: OutputFile, schema: pa.Schema) -> Iterator[Write]:
        """See `Format.create`."""
        yield lambda rows: stream.write(to_lines(rows))


class _Objects(NamedTuple):
    """Objects of a block of lines."""

    block: Block
    values: list[dict[str, Any]]
    places: list[int]
    """Places of the objects in the block."""
    rejected: tuple[Rejected, ...]
    """Places of the other lines."""

    @property
    def rows(self) -> Rows:
        return self.block.rows[np.array(self.places, np.int64)]


def _read_objects(file: InputFile, part: FilePart, rows: Rows | None, *, on_bad: str) -> Iterator[_Objects]:
    """Read the lines that begin in a part, and of these the wanted rows (None: all).

    Raises
    ------
    DataError
        When a line is no JSON object and `on_bad` is "fail".
    """
    with damaged(file), open_bytes(file, max(part.begin - 1, 0)) as stream:
        for block in read_lines(stream, part.begin, part.end):
            if records.is_past(block, rows):
                return
            rejected: list[Rejected] = []
            values: list[dict[str, Any]] = []
            places: list[int] = []
            data, begins, ends = block.data, block.begins.tolist(), block.ends.tolist()
            for number in block.choose(rows):
                line = data[begins[number] : ends[number]]
                value = parse(line)
                if value is None and block.rows[number] == 0 and line.startswith(BOM):
                    value = parse(line[len(BOM) :])
                if value is None:
                    reason = explain_refusal(line.removeprefix(BOM))
                    rejected.append(records.reject(file, block, number, part.begin, reason, on_bad=on_bad))
                else:
                    values.append(value)
                    places.append(number)
            yield _Objects(block, values, places, tuple(rejected))


def _select(file: InputFile, part: FilePart, query: Query, objects: _Objects) -> pa.RecordBatch:
    """Return the documents of objects.

    Raises
    ------
    DataError
        When a value is of the wrong type.
    """
    columns, id_type, values = query.columns, query.id_type, objects.values
    named = columns.list_named()

    def pluck(role: str, kinds: set[type], rule: str) -> list[Any]:
        name, setting = named[role]
        found = _pluck(values, name)
        if set(map(type, found)) <= kinds and not (kinds == ID_KINDS[pa.int64()][0] and _overflows(found)):
            return found
        place = next(place for place, value in enumerate(found) if type(value) not in kinds or _overflows([value]))
        line = records.find_line(file, objects.block, objects.places[place], part.begin)
        shown = json.dumps(found[place])[:SHOWN_LENGTH]
        raise DataError(f"{setting}: {name!r} must be {rule} (got {shown} in {redact(file.path)}, line {line:,})")

    kind = pa.string() if len(objects.block.data) < OFFSET_LIMIT // 3 else pa.large_string()
    texts = []
    rule: tuple[set[type], str] = ({list, NONE}, SET_RULE) if columns.has_sets else ({str, NONE}, "a string")
    for role in columns.text_roles:
        found = pluck(role, *rule)
        texts.append(to_sets(found, *named[role]) if columns.has_sets else _to_array(found, kind))
    if not columns.id:
        counted = [_read_exactly(objects, number, value) for number, value in enumerate(values)]
        if columns.aside:
            counted = [{name: value[name] for name in value if name not in columns.aside} for value in counted]
        ids = pa.array([digest_object(value).hex() for value in counted], pa.string())
    else:
        ids = _to_array(pluck("id", *ID_KINDS[id_type]), id_type)
    sources = None
    if columns.source:
        found = pluck("source", {str, int, bool, NONE}, "a string, an integer or a boolean")
        sources = _to_array([_write(value) for value in found], pa.string())
    more = _pluck_more(columns, values, pluck)
    vectors = None
    if columns.vector:
        try:
            vectors = pa.array(pluck("vector", {list, NONE}, VECTOR_RULE), pa.list_(pa.float64()))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError(f"{VECTOR_SETTING}: {columns.vector!r} must be {VECTOR_RULE} ({error})") from error
    return gather(ids, join_columns(texts), sources, objects.rows, *more, vectors=vectors)


def _read_exactly(objects: _Objects, number: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without integers that `parse` has rounded."""
    if not may_be_rounded(value):
        return value
    line = objects.block.join([objects.places[number]])
    return parse_exactly(line.removeprefix(BOM)) or value


def to_sets(values: list[list[Any] | None], name: str, setting: str) -> pa.Array:
    """Return the texts of sets.

    Raises
    ------
    DataError
        When an element is neither a string nor an integer.
    """
    elements = [each for value in values for each in value or ()]
    if wrong := [each for each in elements if type(each) not in {str, int, NONE}]:
        raise DataError(f"{setting}: {name!r} must be {SET_RULE} (got {json.dumps(wrong[0])[:SHOWN_LENGTH]} in a list)")
    sizes = [len(value or ()) for value in values]
    texts = _to_array([each if each is None else str(each) for each in elements], pa.large_string())
    return to_text(pa.LargeListArray.from_arrays(np.cumsum([0, *sizes]), texts))


def _pluck_more(
    columns: Columns, records: list[dict[str, Any]], pluck: Callable[[str, set[type], str], list[Any]]
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the keys of `keep.order`, and the values read along."""
    ordered = []
    for number, rule in enumerate(columns.order):
        is_text = any(isinstance(each, str) for each in _pluck(records, rule[1]))
        kinds: set[type] = {str, NONE} if is_text else {int, float, bool, NONE}
        values = pluck(f"order{number}", kinds, "a string in all records, or a number or boolean in all")
        ordered.append(_to_array(values, pa.string()) if is_text else _to_numbers(values))
    merged = []
    for number, _ in enumerate(columns.noted):
        values = pluck(f"merge{number}", {str, int, float, bool, NONE}, "a string, a number or a boolean")
        merged.append(_to_array([_write(value) for value in values], pa.string()))
    return to_keys(ordered, columns.order), merged


def _pluck(records: list[dict[str, Any]], name: str) -> list[Any]:
    """Return a field of every record: the one of this very name, or else the one at the end of its dotted path."""
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


def _to_structs(values: list[dict[str, Any]]) -> pa.Array:
    """Return objects as structs.

    Raises
    ------
    ArrowInvalid
        When values cannot be of one type.
    """
    try:
        return pa.array(values)
    except UnicodeEncodeError:
        return _to_structs(mend_all(values))
    except OverflowError:
        # It is refused in words of its own only beside floats.
        raise pa.ArrowInvalid("an integer is beyond 64 bits with a sign") from None


def _peek(file: InputFile, columns: Columns) -> tuple[pa.DataType | None, set[str]]:
    """Look at the first records of a file for the type of ids and the keys.

    Returns
    -------
    id_type, names
        int64 where every id is an integer, string where one is not, None where there is none to see; the keys found.

    Raises
    ------
    SchemaError
        When an id is neither.
    """
    records = [record for line in _peek_lines(file) if (record := parse(line)) is not None]
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


def _peek_lines(file: InputFile) -> list[bytes]:
    """Read the first lines of a file."""
    with damaged(file), open_bytes(file) as stream:
        lines = (line.removeprefix(BOM) for block in read_lines(stream) for line in block.lines())
        return list(itertools.islice(lines, PEEKED))


def read_lines(stream: Stream, begin: int = 0, end: int | None = None) -> Iterator[Block]:
    """Read the lines of a file that begin in a range of bytes; a line's number is the byte at which it begins.

    Parameters
    ----------
    stream
        One byte before `begin`, unless that is 0: a line that begins before it belongs to the range before.
    end
        None for the whole file.
    """
    place, rest, line = max(begin - 1, 0), b"", 0
    is_torn = begin > 0
    while end is None or place < end:
        # A line longer than a block is read in ever larger steps, or it would be copied again for each.
        chunk = stream.read(max(records.BLOCK_BYTES, len(rest)))
        data = rest + chunk if rest else chunk
        cut = (data.find(b"\n") if is_torn else data.rfind(b"\n")) + 1 if chunk else len(data)
        if is_torn and cut:
            place, rest, is_torn = place + cut, data[cut:], False
            continue
        rest, data = data[cut:], data[:cut]
        if data:
            stops = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE) + 1
            if not len(stops) or stops[-1] < len(data):
                stops = np.append(stops, len(data))
            begins = np.concatenate([[0], stops[:-1]])
            if end is not None and place + len(data) > end:
                begins = begins[: np.searchsorted(begins, end - place)]
                stops = stops[: len(begins)]
                data = data[: stops[-1]]
            block = Block(data=data, begins=begins, ends=stops, rows=place + begins, line=line)
            yield records.drop_blank(block, begins_file=not place)
            line, place = line + len(begins), place + len(data)
        if not chunk:
            return
