"""Values of columns by which documents are preferred, as numbers: less is better, NaN is none."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import DataError

ZONED = r":\d\d(\.\d+)?\s*(Z|[+-]\d\d(:?\d\d)?)$"
"""End of a point in time that names its zone."""
FALLING = ("latest", "highest", "sql")
"""Rules that prefer the greatest."""
STRINGS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
OF_TIME = ("latest", "earliest")


def to_key(values: pa.Array, rule: str, name: str) -> pa.Array:
    """Return a column as float64, the less the better; microseconds since 1970 of points in time.

    Raises
    ------
    DataError
        When a string holds no number, or no point in time by ISO 8601.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = pa.array(values.to_pylist(), kind.value_type)
        kind = values.type
    if any(check(kind) for check in STRINGS):
        found = _parse(values.cast(pa.large_string()), rule, name)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        found = values.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
    elif pa.types.is_boolean(kind):
        found = values.cast(pa.int8())
    else:
        found = values
    keys = pc.fill_null(found.cast(pa.float64(), safe=False), float("nan")).to_numpy(zero_copy_only=False)
    return pa.array(-keys if rule in FALLING else keys, from_pandas=False)


def _parse(values: pa.Array, rule: str, name: str) -> pa.Array:
    values = pc.utf8_trim_whitespace(values)
    values = pc.if_else(pc.equal(values, ""), None, values)
    try:
        if rule not in OF_TIME:
            return values.cast(pa.float64())
        is_zoned = pc.match_substring_regex(values, ZONED)
        zoned = pc.if_else(is_zoned, values, None).cast(pa.timestamp("us", "UTC"))
        plain = pc.if_else(is_zoned, None, values).cast(pa.timestamp("us"))
        return pc.coalesce(zoned.cast(pa.int64()), plain.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        wanted = "dates by ISO 8601, such as 2026-01-31" if rule in OF_TIME else "numbers"
        raise DataError(f"keep.order: {rule}:{name} must find {wanted} ({error})") from error


def join_keys(keys: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return one list of numbers for each row."""
    return _join(keys, rows, pa.float64())


def join_texts(texts: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return one list of strings for each row."""
    return _join(texts, rows, pa.string())


def _join(columns: Sequence[pa.Array], rows: int, kind: pa.DataType) -> pa.Array:
    """Return one list for each row, empty where there are no columns.

    Not null: Spark measures a batch that it sends to a worker after each row, and to measure a column of lists looks
    at all rows since the last one that is not null.
    """
    whole = pa.concat_arrays([pa.array([], kind), *(each.cast(kind) for each in columns)])
    places = np.arange(len(whole)).reshape(len(columns), rows).T.reshape(-1)
    offsets = pa.array(np.arange(rows + 1) * len(columns), pa.int32())
    return pa.ListArray.from_arrays(offsets, whole.take(pa.array(places)))
