"""A line of JSON: its object, and changes to some of its members that leave all other bytes as they are."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from dedup.errors import DataError
from dedup.files.delete_spans import delete_spans
from dedup.files.formats.records import BOM, SHOWN_LENGTH
from dedup.files.systems import redact

MALFORMED = "no JSON object"
WIDE = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16."""
LONGEST = 2.0**63
"""Least number that may be an integer of more bits than orjson keeps."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line; None without one.

    As most readers do, it takes NaN and Infinity, halves of surrogate pairs and bytes that are no UTF-8, which are
    replaced. Of keys that come twice the last counts.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return parse_exactly(line)
    return value if isinstance(value, dict) else None


def parse_exactly(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line, with integers of more than 64 bits, which `parse` rounds; None without one."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def explain_refusal(line: bytes) -> str:
    """Return the reason for which `parse` finds no object in a line."""
    if line.startswith(WIDE):
        return "UTF-16 for UTF-8"
    if not line.lstrip().startswith(b"{"):
        return MALFORMED
    try:
        json.loads(line.decode("utf-8", "replace"))
    except RecursionError:
        return "values nested too deep"
    except json.JSONDecodeError:
        pass
    except ValueError:
        return f"an integer of more than {sys.get_int_max_str_digits():,} digits"
    return MALFORMED


def may_be_rounded(value: object) -> bool:
    """Tell whether a value that `parse` has read holds a float that may be an integer of more than 64 bits."""
    if isinstance(value, float):
        return abs(value) >= LONGEST
    if isinstance(value, dict):
        return any(map(may_be_rounded, value.values()))
    return isinstance(value, list) and any(map(may_be_rounded, value))


def mend_all(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value with all of its strings mended."""
    if isinstance(value, dict):
        return {mend(name): mend_all(each) for name, each in value.items()}
    return [*map(mend_all, value)] if isinstance(value, list) else mend(value) if isinstance(value, str) else value


def mend(text: str) -> str:
    """Return a text with U+FFFD for every half of a surrogate pair, which JSON can escape."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def delete_from_line(line: bytes, name: str, begins: Sequence[int], ends: Sequence[int]) -> bytes:
    """Delete spans from a line's text, the member with this name or at the end of its dotted path.

    All other bytes stay as they are.
    """
    found = {path: place for path, *place in _list_strings(line)}
    begin, end = found.get((name,)) or found[tuple(name.split("."))]
    written = line[begin:end]
    text = delete_spans(json.loads(written.decode("utf-8", "replace")), begins, ends)
    has_halves = re.search("[\ud800-\udfff]", text) is not None
    shorter = json.dumps(text, ensure_ascii=written.isascii() or has_halves)
    return line[:begin] + shorter.encode() + line[end:]


def clear_members(line: bytes, names: Sequence[str], path: str) -> bytes:
    """Make members null that `JsonlFormat.add_notes` has added; all bytes before them stay as they are.

    Raises
    ------
    DataError
        When the line ends otherwise.
    """
    value = parse(line.removeprefix(BOM)) or {}
    first = min((place for place, name in enumerate(value) if name in names), default=len(value))
    added = {name: value[name] for name in list(value)[first:]}
    content, written = line.rstrip(), orjson.dumps(added)[1:]
    if not content.endswith(written):
        shown = content[-SHOWN_LENGTH:].decode("utf-8", "replace")
        raise DataError(f"{redact(path)}: lines must end as output.mode annotate wrote them (got {shown!r})")
    return content.removesuffix(written) + orjson.dumps(added | dict.fromkeys(names))[1:] + line[len(content) :]


def _list_strings(line: bytes) -> Iterator[tuple[tuple[str | None, ...], int, int]]:
    """Yield the path of every string of a line, None for the members of arrays, with its begin and end."""
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
