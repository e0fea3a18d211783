"""The sets of `contamination.sets`, read from files of any format."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from dedup.errors import DataError, SchemaError, StorageError
from dedup.files.listing import list_files
from dedup.files.source import open_source
from dedup.files.splits import split_files
from dedup.layers.prompts import Prompts
from dedup.settings.layers import PromptSet

WHERE = "contamination.sets"
SPLIT_BYTES = 64 << 20
"""Read at a time."""


def read_prompts(sets: Sequence[PromptSet]) -> Prompts:
    """Read the texts of all sets into memory; an item's number is its row's, through all files of its set.

    Raises
    ------
    StorageError
        When there is no such file, or the names do not tell one format.
    SchemaError
        When a column is missing, or of a type that cannot serve.
    DataError
        When a file is damaged, or a record is malformed.
    """
    texts = [_read(each) for each in sets]
    sizes = np.array([len(each) for each in texts], dtype=np.int64)
    return Prompts(
        names=[each.name for each in sets],
        sets=np.repeat(np.arange(sizes.size), sizes),
        items=np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes),
        texts=pa.chunked_array([pa.array([], pa.large_string()), *texts]).combine_chunks(),
    )


def list_fingerprints(sets: Sequence[PromptSet]) -> dict[str, str]:
    """Return fingerprints that change when a file of a set does, by what they are called.

    Raises
    ------
    StorageError
        As `read_prompts`.
    """
    found = {}
    for each in sets:
        with _said_of(each):
            found[f"{WHERE} {each.name}"] = list_files([each.path]).fingerprint
    return found


def _read(chosen: PromptSet) -> pa.Array:
    with _said_of(chosen):
        source = open_source(list_files([chosen.path]), id_column="", text_column=chosen.column)
        pieces = [piece for split in split_files(source.listing, SPLIT_BYTES) for piece in source.read(split)]
    found = [pa.array([], pa.large_string()), *(piece.batch["text"].cast(pa.large_string()) for piece in pieces)]
    return pa.chunked_array(found).combine_chunks()


@contextmanager
def _said_of(chosen: PromptSet) -> Iterator[None]:
    """Say of a set what readers say of the input, without advice that helps only there."""
    try:
        yield
    except (StorageError, SchemaError, DataError) as error:
        said = re.sub(r"^(--input:?|input\.text_column:) ", "", str(error).partition("; ")[0])
        raise type(error)(f"{WHERE}: {chosen.name}: {said.replace('the input', 'the set')}") from error
