"""Deletion of spans from texts in Arrow columns; the columns' types stay."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dedup.errors import DataError
from dedup.files.columns import find
from dedup.files.conversion import cast_views, decode
from dedup.files.systems import redact
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.runs.span_offsets import unite_spans

Rows: TypeAlias = NDArray[np.int64]
Spans: TypeAlias = Mapping[int, tuple[list[int], list[int]]]
"""Begins and ends in characters, by row."""


class Cuts(NamedTuple):
    """Spans of one file, in ascending order of row and begin; spans of a row do not overlap."""

    rows: Rows
    begins: Rows
    """Begins and ends in characters of the text."""
    ends: Rows

    @classmethod
    def of(cls, rows: Rows, begins: Rows, ends: Rows) -> Self:
        """Make cuts of spans, given in ascending order of rows; overlapping or touching ones are united."""
        if not rows.size:
            return cls(rows, begins, ends)
        bounds = find_bounds(rows).tolist()
        united = [unite_spans(begins[begin:end], ends[begin:end]) for begin, end in pairwise(bounds)]
        sizes = [each[0].size for each in united]
        firsts, lasts = (np.concatenate([each[place] for each in united]) for place in (0, 1))
        return cls(np.repeat(rows[bounds[:-1]], sizes), firsts, lasts)

    def by_row(self) -> dict[int, tuple[list[int], list[int]]]:
        """Return begins and ends by row."""
        return {
            int(self.rows[begin]): (self.begins[begin:end].tolist(), self.ends[begin:end].tolist())
            for begin, end in pairwise(find_bounds(self.rows).tolist())
        }


def delete_spans(text: str, begins: Sequence[int], ends: Sequence[int]) -> str:
    """Return a text without spans of characters, which ascend."""
    return "".join(text[begin:end] for begin, end in zip([0, *ends], [*begins, len(text)], strict=True))


def delete_from_texts(texts: pa.Array, rows: Rows, spans: Spans) -> pa.Array:
    """Return texts of the given rows, strings or bytes, without the spans of their rows; of the same type.

    What is no UTF-8 is replaced in the texts that lose spans, as they were read; all other texts stay as they are.
    """
    wanted = np.isin(rows, list(spans))
    if not wanted.any():
        return texts
    places = pa.array(np.flatnonzero(wanted))
    contents = texts.take(places).cast(pa.large_binary()).to_pylist()
    shorter = [
        None if content is None else delete_spans(content.decode("utf-8", "replace"), *spans[row]).encode()
        for content, row in zip(contents, rows[wanted].tolist(), strict=True)
    ]
    return pc.replace_with_mask(texts, pa.array(wanted), pa.array(shorter, pa.large_binary()).cast(texts.type))


def delete_from_rows(rows: pa.Table, numbers: Rows, spans: Spans, *, column: str, path: str) -> pa.Table:
    """Return rows of these numbers without the spans of their texts.

    Parameters
    ----------
    column
        Name of the column of texts, dots for fields of structs.
    path
        File of the rows.
    """
    if not any(number in spans for number in numbers.tolist()):
        return rows
    top, *fields = find(rows.schema, column, "input.text_column", path)
    place = rows.schema.get_field_index(top)
    chunks = rows.column(place).combine_chunks()
    whole = chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks
    try:
        shorter = _delete_from_column(whole, fields, numbers, spans)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"input.text_column: {column!r} of {redact(path)} cannot be cut ({error}); write it as strings"
        ) from error
    return rows.set_column(place, rows.schema.field(place), shorter)


def _delete_from_column(column: pa.Array, fields: Sequence[str], rows: Rows, spans: Spans) -> pa.Array:
    kind = column.type
    if fields:
        place = kind.get_field_index(fields[0])
        columns = column.flatten()
        columns[place] = _delete_from_column(columns[place], fields[1:], rows, spans)
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    shorter = delete_from_texts(cast_views(decode(column)), rows, spans)
    if not pa.types.is_dictionary(kind):
        return shorter.cast(kind)
    encoded = shorter.dictionary_encode()
    indices, distinct = encoded.indices.cast(kind.index_type), encoded.dictionary.cast(kind.value_type)
    return pa.DictionaryArray.from_arrays(indices, distinct, ordered=kind.ordered)
