"""Rows with columns of any types, as lines of JSON."""

from collections.abc import Callable
from datetime import datetime, timedelta

import orjson
import pyarrow as pa

from dedup.errors import DataError
from dedup.files.systems import find_reason


def to_lines(rows: pa.Table) -> bytes:
    """Return rows as lines.

    Raises
    ------
    DataError
        When a string is not UTF-8.
    ArrowInvalid
        When values are nested deeper than orjson writes.
    ArrowNotImplementedError
        When times of day in ns are within a type that Arrow does not cast.
    """
    try:
        values = _spell_times(rows).to_pylist()
        return b"".join(orjson.dumps(row, default=_to_text, option=orjson.OPT_APPEND_NEWLINE) for row in values)
    except orjson.JSONEncodeError as error:
        raise pa.ArrowInvalid(find_reason(error)) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"output.format: strings must be UTF-8 to be written as jsonl ({find_reason(error)}); keep the format of "
            "the input, which keeps its bytes"
        ) from error


def _to_text(value: object) -> str:
    if isinstance(value, datetime):
        # That of pandas, which holds nanoseconds, as its durations do.
        return value.isoformat()
    if isinstance(value, timedelta):
        told, rest = str(timedelta(value.days, value.seconds, value.microseconds)), getattr(value, "nanoseconds", 0)
        return f"{told}{'' if value.microseconds else '.000000'}{rest:03}" if rest else told
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _spell_times(rows: pa.Table) -> pa.Table:
    """Return rows with texts for times of day in ns, of which Python has the µs only."""
    schema = pa.schema([*map(_spell, rows.schema)])
    return rows if schema == rows.schema else rows.cast(schema)


def _spell(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_dictionary(kind):
        plain = field.with_type(kind.value_type)
        return field if _spell(plain) == plain else _spell(plain)
    within = [kind.field(place) for place in range(kind.num_fields)]
    spelled = [*map(_spell, within)]
    if kind == pa.time64("ns"):
        kind = pa.string()
    elif spelled != within:
        makers: dict[int, Callable[[], pa.DataType]] = {
            pa.lib.Type_LIST: lambda: pa.list_(*spelled),
            pa.lib.Type_LARGE_LIST: lambda: pa.large_list(*spelled),
            pa.lib.Type_FIXED_SIZE_LIST: lambda: pa.list_(*spelled, kind.list_size),
            pa.lib.Type_MAP: lambda: pa.map_(_spell(kind.key_field), _spell(kind.item_field)),
            pa.lib.Type_STRUCT: lambda: pa.struct(spelled),
        }
        if kind.id not in makers:
            raise pa.ArrowNotImplementedError(f"times in ns within {kind}")
        kind = makers[kind.id]()
    return field.with_type(kind)
