"""The digest of a row, its id where the input has none: XXH3-128 of its values, whatever format they come in.

The digest of a value is XXH3-128, big-endian as its 16 bytes are usually written, of a tag and the value:

==========================  ====  ==============================================================================
value                       tag   bytes
==========================  ====  ==============================================================================
false, true                 b     0 or 1
integer of any width        i     little-endian with a sign, in the fewest multiples of 8 bytes
floating point              f     as a double, little-endian; every NaN is one
string                      s     UTF-8
bytes                       y     as they are
decimal                     m     text without an exponent and without zeros at its end
date                        d     days since 1970, as an integer
time of day                 h     nanoseconds, as an integer
timestamp; with a zone      t; z  nanoseconds since 1970, as an integer
duration                    u     nanoseconds, as an integer
months, days, nanoseconds   v     each as an integer
list                        l     digests of its elements; 16 zero bytes for null
map                         p     digests of its keys and values in turn
struct, JSON object, row    o     for every member that is not null, by name: digests of the name and of the value
==========================  ====  ==============================================================================

So neither the order of columns, nor the width of integers and offsets, nor a dictionary, nor the difference between a
null and a member that is missing changes it. `1` and `1.0` are unlike, and so are 0.0 and -0.0, a null and "".
"""

import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_128_digest

from dedup.errors import SchemaError
from dedup.files.conversion import is_string

NULL = bytes(16)
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def digest_rows(batch: pa.RecordBatch) -> pa.Array:
    """Return the digest of every row as 32 hexadecimal digits."""
    rows = _digest_members(batch.schema.names, batch.columns, batch.num_rows)
    return pa.array([row.hex() for row in rows], pa.string())


def digest_object(value: Mapping[str, Any]) -> bytes:
    """Return the digest of a JSON object as `orjson` or `json` reads it."""
    members = sorted((_digest_text(name), member) for name, member in value.items() if member is not None)
    return xxh3_128_digest(b"o" + b"".join(name + _digest_json(member) for name, member in members))


def _digest_json(value: object) -> bytes:
    if isinstance(value, str):
        return _digest_text(value)
    if isinstance(value, bool):
        return xxh3_128_digest(b"b\1" if value else b"b\0")
    if isinstance(value, int):
        return _digest_integer(b"i", value)
    if isinstance(value, float):
        return _digest_float(value)
    if isinstance(value, list):
        return xxh3_128_digest(b"l" + b"".join(NULL if each is None else _digest_json(each) for each in value))
    assert isinstance(value, dict)
    return digest_object(value)


def _digest_text(value: str) -> bytes:
    return xxh3_128_digest(b"s" + value.encode("utf-8", "surrogatepass"))


def _digest_integer(tag: bytes, value: int) -> bytes:
    size = 8 * ((value if value >= 0 else ~value).bit_length() // 64 + 1)
    return xxh3_128_digest(tag + value.to_bytes(size, "little", signed=True))


def _digest_float(value: float) -> bytes:
    return xxh3_128_digest(b"f" + struct.pack("<d", math.nan if math.isnan(value) else value))


def _digest_members(names: list[str], columns: list[pa.Array], count: int) -> list[bytes]:
    """Return the digest of every row of columns."""
    tags = [_digest_text(name) for name in names]
    parts = [_digest_values(columns[place]) for place in np.argsort(np.array(tags, object), kind="stable")]
    tags.sort()
    rows = []
    for values in zip(*parts, strict=True) if parts else [()] * count:
        members = [tag + value for tag, value in zip(tags, values, strict=True) if value is not NULL]
        rows.append(xxh3_128_digest(b"o" + b"".join(members)))
    return rows


def _digest_values(values: pa.Array) -> list[bytes]:  # noqa: PLR0911 - one for each kind of type
    """Return the digest of every value; NULL itself for null."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _digest_values(values.storage)
    if pa.types.is_dictionary(kind):
        distinct = _digest_values(values.dictionary)
        return [NULL if place is None else distinct[place] for place in values.indices.to_pylist()]
    if pa.types.is_run_end_encoded(kind):
        return _digest_values(pc.run_end_decode(values))
    if pa.types.is_struct(kind):
        rows = _digest_members([field.name for field in kind], values.flatten(), len(values))
        return [row if is_there else NULL for row, is_there in zip(rows, values.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind):
        pairs = zip(_digest_values(values.keys), _digest_values(values.items), strict=True)
        return _digest_lists(b"p", values, [*chain.from_iterable(pairs)], 2)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _digest_lists(b"l", values, _digest_values(values.values), 1)
    if pa.types.is_union(kind):
        raise SchemaError(f"input.id_column: must be set where a column is a union (got {kind})")
    if pa.types.is_nested(kind):
        # Lists of one length, and list views.
        return _digest_values(values.cast(pa.large_list(kind.value_type)))
    return _digest_flat(values, kind)


def _digest_lists(tag: bytes, values: pa.Array, elements: list[bytes], width: int) -> list[bytes]:
    ends: NDArray[np.int64] = values.offsets.to_numpy().astype(np.int64) * width
    is_there = values.is_valid().to_pylist()
    return [
        xxh3_128_digest(tag + b"".join(elements[ends[row] : ends[row + 1]])) if is_there[row] else NULL
        for row in range(len(values))
    ]


def _digest_flat(values: pa.Array, kind: pa.DataType) -> list[bytes]:
    types = pa.types
    if types.is_null(kind):
        return [NULL] * len(values)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _digest_times(values, kind)
    digest: Callable[[Any], bytes]
    if types.is_boolean(kind) or types.is_integer(kind):
        digest = _digest_json
    elif types.is_floating(kind):
        values, digest = values.cast(pa.float64()), _digest_float
    elif types.is_decimal(kind):
        digest = _digest_decimal
    elif types.is_interval(kind):
        digest = _digest_interval
    else:
        tag = b"s" if is_string(kind) else b"y"
        values, digest = values.cast(pa.large_binary()), lambda value: xxh3_128_digest(tag + value)
    return [NULL if each is None else digest(each) for each in values.to_pylist()]


def _digest_times(values: pa.Array, kind: pa.DataType) -> list[bytes]:
    types = pa.types
    if types.is_date(kind):
        tag, factor, integers = b"d", 1, values.cast(pa.date32()).cast(pa.int32())
    else:
        tag = b"h" if types.is_time(kind) else b"u" if types.is_duration(kind) else b"z" if kind.tz else b"t"
        width = pa.int32() if types.is_time32(kind) else pa.int64()
        factor, integers = NANOSECONDS[kind.unit], values.cast(width)
    return [NULL if each is None else _digest_integer(tag, each * factor) for each in integers.to_pylist()]


def _digest_interval(value: Any) -> bytes:  # noqa: ANN401 - pyarrow publishes no types
    return xxh3_128_digest(b"v" + b"".join(_digest_integer(b"i", part) for part in value))


def _digest_decimal(value: Decimal) -> bytes:
    text = format(value, "f")
    return xxh3_128_digest(b"m" + (text.rstrip("0").rstrip(".") if "." in text else text).encode())
