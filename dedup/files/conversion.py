"""Conversion of the values of columns, of whatever type a file has them, to ids, texts, sources and vectors."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import DataError
from dedup.files.systems import redact
from dedup.kernels.text.joining import SEPARATOR

ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\0", "\\0"))
"""Characters of an element of a set and what stands for them in its text, in this order."""

VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types of views, with those of arrays that hold the same."""


def is_string(kind: pa.DataType) -> bool:
    """Tell whether a type is one of the string types, or a dictionary of them."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Tell whether a type is one of the binary types."""
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(check(kind) for check in checks)


def to_ids(values: pa.Array, id_type: pa.DataType, path: str) -> pa.Array:
    """Return ids as int64 or string.

    Raises
    ------
    DataError
        When an integer is beyond 63 bits, or a string is not UTF-8.
    """
    try:
        ids = decode(values).cast(id_type)
    except pa.ArrowInvalid as error:
        raise DataError(f"--input: ids must lie within 64 bits with a sign ({redact(path)}: {error})") from error
    if not is_valid(ids):
        found = ids.cast(pa.binary()).drop_null().to_pylist()
        wrong = next(each for each in found if each.decode("utf-8", "ignore").encode() != each)
        raise DataError(f"--input: ids must be UTF-8 (got {wrong!r} in {redact(path)})")
    return ids


def to_text(values: pa.Array) -> pa.Array:
    """Return texts as string or large_string; bytes that are no UTF-8 become U+FFFD, as in Python's decoder.

    A list becomes the text of its elements, as of `dedup.kernels.text.set_elements`.
    """
    values = decode(values)
    kind = values.type
    if pa.types.is_nested(kind):
        return _join_elements(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if is_valid(values):
            return values
        values = values.cast(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    elif pa.types.is_null(kind):
        return values.cast(pa.string())
    elif pa.types.is_string_view(kind):
        return values.cast(pa.large_string())
    elif not pa.types.is_binary(kind):
        values = values.cast(pa.large_binary())
    target = pa.string() if pa.types.is_binary(values.type) else pa.large_string()
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        texts = [None if each is None else each.decode("utf-8", "replace") for each in values.to_pylist()]
        return pa.array(texts, pa.large_string())


def join_columns(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the texts of one column as they are, and those of several as `TextColumns` reads them."""
    texts, kind = [*map(to_text, columns)], pa.large_string()
    if not texts[1:]:
        return texts[0]
    plain = (pc.replace_substring(each.cast(kind).fill_null(""), SEPARATOR, " ") for each in texts)
    return pc.binary_join_element_wise(*plain, pa.scalar(SEPARATOR, kind))


def _join_elements(lists: pa.Array) -> pa.Array:
    """Return the elements of lists of strings or integers, each on a line; those that are null do not count."""
    elements, owners = decode(lists.flatten()), pc.list_parent_indices(lists)
    held, kind = elements.is_valid(), pa.large_string()
    elements = elements.filter(held)
    texts = to_text(elements if is_string(elements.type) else elements.cast(kind)).cast(kind)
    for plain, escaped in ESCAPES:
        texts = pc.replace_substring(texts, plain, escaped)
    lines = pc.binary_join_element_wise(texts, pa.scalar("\n", kind), pa.scalar("", kind))
    counts = np.bincount(owners.filter(held).to_numpy(), minlength=len(lists))
    _, begins, data = pa.concat_arrays([lines]).buffers()
    offsets = np.frombuffer(begins, np.int64)[np.concatenate(([0], np.cumsum(counts)))]
    return pa.Array.from_buffers(kind, len(lists), [None, pa.py_buffer(offsets), data])


def is_valid(values: pa.Array) -> bool:
    """Tell whether a string array is valid UTF-8, as it should be."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def to_source(values: pa.Array) -> pa.Array:
    """Return sources as strings; bytes that are no UTF-8 become U+FFFD."""
    return to_text(decode(values).cast(pa.string())).cast(pa.string())


def to_vectors(values: pa.Array) -> pa.Array:
    """Return vectors as the bytes of 32-bit floats, little-endian; a null within one becomes NaN."""
    if pa.types.is_null(values.type) or is_binary(values.type):
        return values.cast(pa.large_binary()).cast(pa.binary())
    sizes = pc.list_value_length(values).fill_null(0).to_numpy().astype(np.int64)
    # Without what stands in the places of nulls.
    flat = values.flatten().cast(pa.float32(), safe=False)
    numbers = np.ascontiguousarray(flat.to_numpy(zero_copy_only=False), "<f4")
    offsets = np.concatenate(([0], np.cumsum(sizes * numbers.itemsize)))
    whole = [None, pa.py_buffer(offsets), pa.py_buffer(numbers)]
    found = pa.Array.from_buffers(pa.large_binary(), len(values), whole).cast(pa.binary())
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.binary())) if values.null_count else found


def decode(values: pa.Array) -> pa.Array:
    """Return the values of a dictionary array; other arrays as they are."""
    if not pa.types.is_dictionary(values.type):
        return values
    # pyarrow decodes no dictionary of views, which is how polars writes one.
    return pa.DictionaryArray.from_arrays(values.indices, cast_views(values.dictionary)).dictionary_decode()


def cast_views(values: pa.Array) -> pa.Array:
    """Return views of texts or bytes as arrays of which pyarrow takes rows and looks values up; others as they are."""
    return values.cast(VIEWS[values.type]) if values.type in VIEWS else values
