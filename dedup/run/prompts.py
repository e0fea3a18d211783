"""The sets of `contamination.sets`, read from files of any format."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dedup.errors import DataError, SchemaError, StorageError
from dedup.files.listing import list_files
from dedup.files.source import open_source
from dedup.files.splits import cut
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


def _read(chosen: PromptSet) -> pa.Array:
    try:
        source = open_source(list_files([chosen.path]), id_column="", text_column=chosen.column)
        pieces = [piece for split in cut(source.listing, SPLIT_BYTES) for piece in source.read(split)]
    except (StorageError, SchemaError, DataError) as error:
        # Said of the input, with advice that helps only there.
        said = (
            str(error)
            .partition("; ")[0]
            .removeprefix("--input")
            .removeprefix(":")
            .strip()
            .removeprefix("input.text_column: ")
        )
        raise type(error)(f"{WHERE}: {chosen.name}: {said.replace('the input', 'the set')}") from error
    found = [pa.array([], pa.large_string()), *(piece.batch["text"].cast(pa.large_string()) for piece in pieces)]
    return pa.chunked_array(found).combine_chunks()
