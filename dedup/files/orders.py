"""Values by which documents are preferred, as numbers: less is better, NaN for null.

`order_keys` of a document has a number for each rule of `keep.order` but the smallest id, then for each rule of time
the nanoseconds beyond its number. Whoever reads a document makes those of columns, `add_keys` the others once its text
is the one that the layer is given, and no layer looks at anything else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dedup.errors import DataError
from dedup.files import times
from dedup.files.conversion import decode, is_string
from dedup.kernels.election import BY_ID, OF_TIME, to_matrix

FALLING = ("latest", "highest", "sql")
"""Rules that prefer the greatest value."""
SHOWN_LENGTH = 60
"""Most characters shown of a string that is no point in time."""


def _place_source(rows: pa.RecordBatch, of: str) -> pa.Array:
    """Return the place of each source: the listed ones in order, then all others, then null."""
    listed = pa.array([each.strip() for each in of.split(",")], pa.string())
    found = pc.index_in(rows["source"], listed).fill_null(len(listed))
    return pc.add(found, rows["source"].is_null().cast(pa.int32()))


OF_DOCUMENT: Mapping[str, Callable[[pa.RecordBatch, str], pa.Array]] = {
    "source": _place_source,
    "longest": lambda rows, _: pc.negate(rows["text_bytes"]),
    "shortest": lambda rows, _: rows["text_bytes"],
}
"""Rules on what every document has, and their numbers, less being better."""


def list_asking(rules: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the rules that need a value of every row: a column's, or an expression's."""
    return tuple(rule for rule in rules if rule[1] and rule[0] not in OF_DOCUMENT)


def add_keys(rows: pa.RecordBatch, rules: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """Complete the `order_keys` of documents, which have those of columns, with those of `OF_DOCUMENT`."""
    made = {place: OF_DOCUMENT[name](rows, of) for place, (name, of) in _list_made(rules).items()}
    if not made:
        return rows
    keys = [pa.array(each) for each in to_matrix(rows["order_keys"]).T]
    for place, key in made.items():
        keys.insert(place, key)
    return set_keys(rows, keys)


def drop_keys(rows: pa.RecordBatch, rules: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """Undo `add_keys`, where it was called."""
    made, width = _list_made(rules), len(_list_keyed(rules)) + sum(name in OF_TIME for name, _ in rules)
    if not made or pc.max(pc.list_value_length(rows["order_keys"])).as_py() != width:
        return rows
    return set_keys(rows, [pa.array(each) for each in np.delete(to_matrix(rows["order_keys"]), [*made], axis=1).T])


def set_keys(rows: pa.RecordBatch, keys: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return rows with these columns of numbers as their `order_keys`."""
    place = rows.schema.get_field_index("order_keys")
    field = rows.schema.field(place)
    return rows.set_column(place, field, join_keys(keys, rows.num_rows).cast(field.type))


def _list_keyed(rules: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [rule for rule in rules if rule[0] != BY_ID]


def _list_made(rules: Sequence[tuple[str, str]]) -> dict[int, tuple[str, str]]:
    """Return the rules of `OF_DOCUMENT` by the places of their numbers, ascending."""
    return {place: rule for place, rule in enumerate(_list_keyed(rules)) if rule[0] in OF_DOCUMENT}


def to_keys(columns: Iterable[pa.Array], rules: Sequence[tuple[str, str]]) -> list[pa.Array]:
    """Return the columns of rules as float64, less being better, NaN for null.

    Returns
    -------
    list of pa.Array
        One for each rule, points in time as microseconds since 1970; then one for each rule of time, the nanoseconds
        that its points are beyond the first, which holds 53 bits of them.

    Raises
    ------
    DataError
        When a string holds no number, or no point in time by ISO 8601.
    """
    found = [(rule[0] in OF_TIME, _to_key(column, *rule)) for column, rule in zip(columns, rules, strict=True)]
    return [*(key for _, (key, _) in found), *(beyond for is_timed, (_, beyond) in found if is_timed)]


def _to_key(values: pa.Array, rule: str, name: str) -> tuple[pa.Array, pa.Array]:
    """Return the numbers that a rule compares, and those that decide between equal ones."""
    values = decode(values)
    kind, is_text = values.type, is_string(values.type)
    if is_text:
        values = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
        values = pc.if_else(pc.equal(values, ""), None, values)
    if is_text and rule in OF_TIME:
        keys, beyond = _split(_parse(values, rule, name))
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        keys, beyond = _split(times.count(values))
    else:
        keys = _to_numbers(values, rule, name)
        beyond = np.zeros_like(keys)
    keys = np.where(values.is_valid().to_numpy(zero_copy_only=False), keys, np.nan)
    sign = -1 if rule in FALLING else 1
    return pa.array(sign * keys, from_pandas=False), pa.array(sign * beyond)


def _parse(values: pa.Array, rule: str, name: str) -> times.Times:
    found, is_time = times.parse(values)
    wrong = values.filter(pa.array(~is_time)).drop_null()
    if len(wrong):
        shown = wrong[0].as_py()[:SHOWN_LENGTH]
        raise DataError(f"keep.order: {rule}:{name} must find dates by ISO 8601, such as 2026-01-31 (got {shown!r})")
    return found


def _split(found: times.Times) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    keys = found.microseconds.astype(np.float64)
    return keys, np.asarray((found.microseconds - keys.astype(np.int64)) * 1000 + found.nanoseconds, np.float64)


def _to_numbers(values: pa.Array, rule: str, name: str) -> NDArray[np.float64]:
    values = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    try:
        numbers: NDArray[np.float64] = (
            values.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"keep.order: {rule}:{name} must find numbers ({error})") from error
    return numbers


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
