"""The few columns that a job needs of a schema: found, checked, and put together as documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import SchemaError, suggest
from dedup.files.conversion import is_binary, is_string, join_columns, to_ids, to_source, to_vectors
from dedup.files.digest import digest_rows
from dedup.files.orders import join_keys, join_texts, set_keys, to_keys
from dedup.files.systems import redact
from dedup.kernels.election import OF_TIME

PIECE_BYTES = 1 << 22
"""Bytes of text read at a time: what is done once for each piece costs more than caches save with smaller ones."""
VECTOR_SETTING = "semantic.vector_column"
VECTOR_RULE = "a list of numbers, or the bytes of 32-bit floats"
SET_RULE = 'a list of strings or integers, with shingles.unit = "set"'
OFFSET_LIMIT = 1 << 31
"""Most bytes that a string column with 32-bit offsets holds."""


FOREIGN_PREFIX = "without:"
"""Beginning of the ids of documents that are none of the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of the columns that are read, dots for fields of structs; empty for none."""

    id: str
    texts: tuple[str, ...]
    source: str
    aside: tuple[str, ...] = ()
    """Top-level columns left out of the digest of a row."""
    order: tuple[tuple[str, str], ...] = ()
    """Rules of `keep.order` that ask for columns, each with its column."""
    noted: tuple[tuple[str, str], ...] = ()
    """Columns whose values are read along, each after the setting that names it."""
    vector: str = ""
    has_sets: bool = False
    """Whether the column of texts holds lists, each of the elements of a set."""
    has_parts: bool = False
    """Whether an id is that of a document of which a row is a part."""

    @property
    def text(self) -> str:
        """The first column of texts."""
        return self.texts[0]

    @property
    def text_roles(self) -> tuple[str, ...]:
        """Roles of the columns of texts."""
        return tuple(f"text{number}" for number, _ in enumerate(self.texts)) if self.texts[1:] else ("text",)

    def list_named(self) -> dict[str, tuple[str, str]]:
        """Return the columns that are set, with the settings that name them, by role."""
        named = {role: (getattr(self, role), f"input.{role}_column") for role in ("id", "source")}
        if self.has_parts:
            named["id"] = (self.id, "input.part_of")
        setting = "input.columns" if self.texts[1:] else "input.text_column"
        named |= {role: (name, setting) for role, name in zip(self.text_roles, self.texts, strict=True)}
        named |= {f"order{number}": (name, f"keep.order {rule}") for number, (rule, name) in enumerate(self.order)}
        named |= {f"merge{number}": (name, setting) for number, (setting, name) in enumerate(self.noted)}
        named["vector"] = (self.vector, VECTOR_SETTING)
        # A text there must be, whatever its name.
        return {role: (name, setting) for role, (name, setting) in named.items() if name or role in self.text_roles}


Path = tuple[str, ...]
"""Path of a column: the top-level column and the fields within it."""


def find(schema: pa.Schema, name: str, setting: str, path: str) -> Path:
    """Return the path to a column: a top-level one of this very name, or a field of structs.

    Raises
    ------
    SchemaError
        When no column has the name, or several have.
    """
    if (count := len(schema.get_all_field_indices(name))) == 1:
        return (name,)
    parts = tuple(name.split("."))
    if not count and len(schema.get_all_field_indices(parts[0])) == 1:
        kind = schema.field(parts[0]).type
        for part in parts[1:]:
            place = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
            if place < 0:
                break
            kind = kind.field(place).type
        else:
            return parts
    is_wide = any("\0" in each for each in schema.names)
    is_undivided = len(schema) == 1 and any(mark in schema.names[0] for mark in ";\t|")
    hint = "; cells of csv are divided by commas" if is_undivided else suggest(name, schema.names)
    hint = "; csv must be UTF-8, and this looks like UTF-16" if is_wide else hint
    raise SchemaError(
        f"{setting}: must be the name of one column of the input (got {name!r}, {redact(path)} has "
        f"{', '.join(schema.names) or 'none'}{hint})"
    )


def type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    """Return the type at a path."""
    kind = schema.field(path[0]).type
    for part in path[1:]:
        kind = kind.field(part).type
    return kind


def take(batch: pa.RecordBatch, path: Path) -> pa.Array:
    """Return the values at a path; null where a struct on the way is null."""
    column = batch.column(path[0])
    return pc.struct_field(column, list(path[1:])) if path[1:] else column


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column of this type can be the text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_string(kind) or pa.types.is_null(kind) or is_binary(kind)


def is_set(kind: pa.DataType) -> bool:
    """Tell whether a column of this type can be sets: lists of strings or integers."""
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(check(kind) for check in checks):
        return bool(pa.types.is_null(kind))
    own = kind.value_type
    return is_string(own) or bool(pa.types.is_integer(own) or pa.types.is_null(own))


def check(schema: pa.Schema, columns: Columns, path: str) -> tuple[pa.DataType | None, dict[str, Path]]:
    """Find the columns in a file's schema.

    Returns
    -------
    id_type, paths
        int64 or string, None without an id column; the way to each column that is set, by `id`, `text`, `source`.

    Raises
    ------
    SchemaError
        When one is missing, named twice or of a type that cannot serve.
    """
    rules: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
        "id": (lambda kind: pa.types.is_integer(kind) or is_string(kind), "an integer or a string"),
        **dict.fromkeys(columns.text_roles, (is_set, SET_RULE) if columns.has_sets else (is_text, "a string")),
        "source": (_is_source, "an integer, a string, a date or a boolean"),
        "vector": (_is_vector, VECTOR_RULE),
    }
    of_order = (is_ordered, "a number, a date, a time or a string")
    paths = {}
    for role, (name, setting) in columns.list_named().items():
        accepts, rule = rules.get(role, of_order)
        paths[role] = find(schema, name, setting, path)
        kind = type_at(schema, paths[role])
        if not accepts(kind):
            raise SchemaError(f"{setting}: column {name!r} must be {rule} (got {kind} in {redact(path)})")
    if "id" not in paths:
        return None, paths
    return (pa.int64() if pa.types.is_integer(type_at(schema, paths["id"])) else pa.string()), paths


def require_type(found: pa.DataType, common: pa.DataType, path: str) -> None:
    """Refuse a file whose ids differ in type from the others'.

    Raises
    ------
    SchemaError
    """
    if found != common:
        raise SchemaError(
            f"input.id_column: must be alike in all files (got {found} in {redact(path)}, {common} in others)"
        )


def require_free(names: Sequence[str], added: Sequence[str], setting: str, path: str = "") -> None:
    """Refuse a file, or a table, with columns of names that a setting adds, in any case of letters.

    Raises
    ------
    SchemaError
    """
    lowered = {name.lower() for name in added}
    taken = [name for name in names if name.lower() in lowered]
    if taken:
        where = f" (it has, in {redact(path)})" if path else ""
        raise SchemaError(f"{setting} adds the column {taken[0]!r}, which the input must not have{where}")


def _is_source(kind: pa.DataType) -> bool:
    others = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date, pa.types.is_null)
    return is_string(kind) or any(accepts(kind) for accepts in others)


def _is_vector(kind: pa.DataType) -> bool:
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if any(check(kind) for check in checks):
        numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
        return any(check(kind.value_type) for check in numbers)
    return is_binary(kind) or bool(pa.types.is_null(kind))


def is_ordered(kind: pa.DataType) -> bool:
    """Tell whether a rule of `keep.order` can ask for a column of this type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    others = (
        *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean),
        *(pa.types.is_date, pa.types.is_timestamp, pa.types.is_null),
    )
    return is_string(kind) or any(accepts(kind) for accepts in others)


def to_ranked(batch: pa.RecordBatch, columns: Columns, read: Columns) -> pa.RecordBatch:
    """Put a rank before the keys of the order: 1, and 0 for documents that are none of the input.

    The ids of these are named apart from the input's, by `name_foreign`; keys that are not read of them are NaN.
    """
    width = len(columns.order) + sum(rule in OF_TIME for rule, _ in columns.order)
    keys = np.full((batch.num_rows, 1 + width), np.nan)
    is_own = read is columns
    keys[:, 0] = is_own
    if is_own:
        keys[:, 1:] = batch["order_keys"].flatten().to_numpy(zero_copy_only=False).reshape(batch.num_rows, width)
    else:
        batch = batch.set_column(batch.schema.get_field_index("id"), "id", name_foreign(batch["id"]))
    return set_keys(batch, [pa.array(each) for each in keys.T])


def name_foreign(ids: pa.Array) -> pa.Array:
    """Return the ids by which a run calls documents that are none of the input: -1 - ID, or without:ID of strings.

    >>> name_foreign(pa.array([0, 5])).to_pylist(), name_foreign(pa.array(["5"])).to_pylist()
    ([-1, -6], ['without:5'])
    """
    if pa.types.is_integer(ids.type):
        return pc.bit_wise_not(ids)
    return pc.binary_join_element_wise(pa.scalar(FOREIGN_PREFIX, ids.type), ids, "")


def gather(
    ids: pa.Array,
    texts: pa.Array,
    sources: pa.Array | None,
    rows: Sequence[int] | np.ndarray,
    *further: Sequence[pa.Array],
    vectors: pa.Array | None = None,
) -> pa.RecordBatch:
    """Put the columns of a piece together.

    They are id, text, source, row, `order_keys` of keys as from `orders.to_keys`, `merged` of strings, and `vector`;
    `further` has the arrays of keys and strings.
    """
    keys, merged = further
    sources = pa.nulls(len(ids), pa.string()) if sources is None else sources
    numbers = pa.array(rows, pa.int64())
    columns = {"id": ids, "text": texts, "source": sources, "row": numbers, "order_keys": join_keys(keys, len(ids))}
    columns["merged"] = join_texts(merged, len(ids))
    columns["vector"] = pa.nulls(len(ids), pa.binary()) if vectors is None else to_vectors(vectors)
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns])


def select_documents(
    batch: pa.RecordBatch,
    paths: Mapping[str, Path],
    columns: Columns,
    id_type: pa.DataType,
    *,
    rows: Sequence[int] | np.ndarray,
    path: str,
) -> pa.RecordBatch:
    """Return the documents of rows, as `gather` does; an id that no column holds is the digest of the row.

    Parameters
    ----------
    paths
        As from `check`.
    rows
        Their numbers.
    path
        File of the rows.
    """
    aside = [name for name in columns.aside if name in batch.schema.names]
    return gather(
        to_ids(take(batch, paths["id"]), id_type, path)
        if "id" in paths
        else digest_rows(batch.drop_columns(aside) if aside else batch),
        join_columns([take(batch, paths[role]) for role in columns.text_roles]),
        to_source(take(batch, paths["source"])) if "source" in paths else None,
        rows,
        to_keys((take(batch, paths[f"order{number}"]) for number, _ in enumerate(columns.order)), columns.order),
        [to_source(take(batch, paths[f"merge{number}"])) for number, _ in enumerate(columns.noted)],
        vectors=take(batch, paths["vector"]) if "vector" in paths else None,
    )
