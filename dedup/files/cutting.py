"""Texts written without spans: of columns as Arrow, of lines of JSON and records of CSV as bytes."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from dedup.files import delimited
from dedup.files.columns import Path, find, is_binary
from dedup.files.left import cut_text, cut_texts
from dedup.files.listing import File
from dedup.files.records import BOM, Block
from dedup.files.source import Rows

Spans: TypeAlias = Mapping[int, tuple[list[int], list[int]]]
"""Begins and ends in characters, by row."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_CELL = re.compile(rb'("(?:[^"]|"")*")?[^,\r\n]*')


class Cutting(NamedTuple):
    """What the texts of a file lose."""

    file: File
    name: str
    """Of the column of texts."""
    spans: Spans

    def cut_records(self, block: Block) -> dict[int, bytes]:
        """Return the records of a block that lose something, by their places in it, as they are written then."""
        if not self.spans:
            return {}
        found = {}
        for place, row in enumerate(block.rows.tolist()):
            if row in self.spans:
                record = block.data[block.begins[place] : block.ends[place]]
                found[place] = self.cut_record(record, row)
        return found

    def cut_record(self, record: bytes, row: int) -> bytes:
        """Return a record as it is written."""
        if row not in self.spans:
            return record
        if self.file.format == "jsonl":
            return cut_line(record, self.name, *self.spans[row])
        return cut_record(record, _find_cell(self.file, self.name), *self.spans[row])

    def cut_rows(self, rows: pa.Table, numbers: Rows) -> pa.Table:
        """Return rows of these numbers as they are written."""
        if not any(number in self.spans for number in numbers.tolist()):
            return rows
        return cut_table(rows, find(rows.schema, self.name, "input.text_column", self.file), numbers, self.spans)


@lru_cache(maxsize=1)
def _find_cell(file: File, name: str) -> int:
    """Return the place of a column of CSV."""
    schema = delimited.peek(file)
    assert schema is not None
    place: int = schema.names.index(name)
    return place


def cut_table(rows: pa.Table, path: Path, numbers: Rows, spans: Spans) -> pa.Table:
    """Return rows whose texts have lost their spans; every type stays as it was.

    Parameters
    ----------
    path
        Of the text.
    numbers
        int64, the numbers of the rows in their file.
    """
    place = rows.schema.get_field_index(path[0])
    chunks = rows.column(place).combine_chunks()
    column = chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks
    return rows.set_column(place, rows.schema.field(place), _cut_column(column, path[1:], numbers, spans))


def _cut_column(column: pa.Array, path: Path, numbers: Rows, spans: Spans) -> pa.Array:
    kind = column.type
    if path:
        place = kind.get_field_index(path[0])
        fields = column.flatten()
        fields[place] = _cut_column(fields[place], path[1:], numbers, spans)
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)
    plain = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
    of_text = pa.large_string() if pa.types.is_large_string(plain.type) or is_binary(plain.type) else pa.string()
    shorter = cut_texts(plain.cast(of_text), numbers, spans).cast(plain.type)
    return shorter.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else shorter


def cut_line(line: bytes, name: str, begins: Sequence[int], ends: Sequence[int]) -> bytes:
    """Return a line of JSON whose text, the member of this name or at the end of its dots, has lost spans.

    All other bytes stay as they are.
    """
    found = {path: place for path, *place in _list_strings(line)}
    begin, end = found.get((name,)) or found[tuple(name.split("."))]
    written = line[begin:end]
    text = cut_text(json.loads(written.decode("utf-8", "replace")), begins, ends)
    has_halves = re.search("[\ud800-\udfff]", text) is not None
    shorter = json.dumps(text, ensure_ascii=written.isascii() or has_halves)
    return line[:begin] + shorter.encode() + line[end:]


def _list_strings(line: bytes) -> Iterator[tuple[tuple[str | None, ...], int, int]]:
    """Yield the way to every string of a line, None for the members of arrays, and where it begins and ends."""
    keys: list[str | None] = []
    is_key = False
    for match in _TOKEN.finditer(line):
        token = match[0]
        if token in (b"{", b"["):
            is_key = token == b"{"
            keys.append(None)
        elif token in (b"}", b"]"):
            keys.pop()
            is_key = False
        elif token == b",":
            # A string after a comma is a key where the comma stands between members of an object.
            is_key = bool(keys) and keys[-1] is not None
        elif token == b":":
            is_key = False
        elif token.startswith(b'"'):
            if is_key:
                keys[-1] = json.loads(token.decode("utf-8", "replace"))
            else:
                yield tuple(keys), match.start(), match.end()


def cut_record(record: bytes, place: int, begins: Sequence[int], ends: Sequence[int]) -> bytes:
    """Return a record of CSV whose cell at a place, its text, has lost spans; all other bytes stay as they are."""
    position = len(BOM) if record.startswith(BOM) else 0
    for _ in range(place):
        position = _CELL.match(record, position).end() + 1  # type: ignore[union-attr] # it matches nothing too
    found = _CELL.match(record, position)
    assert found is not None
    content, quoted = found[0], found[1]
    if quoted is not None:
        content = quoted[1:-1].replace(b'""', b'"') + content[len(quoted) :]
    shorter = cut_text(content.decode("utf-8", "replace"), begins, ends).encode()
    if quoted is not None or re.search(rb'[",\r\n]', shorter):
        shorter = b'"' + shorter.replace(b'"', b'""') + b'"'
    return record[: found.start()] + shorter + record[found.end() :]
