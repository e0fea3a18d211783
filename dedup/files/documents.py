"""Documents of files as the layers receive them."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.files.source import Piece
from dedup.kernels.ids import apply_renamed, to_doc_ids

NAMES = ["doc_id", "id", "source", "split", "file", "row", "text_bytes", "order_keys", "merged", "text"]
"""Columns, see `dedup.tables.arrow.documents`."""


def to_documents(piece: Piece, split: int, renamed: Mapping[str, int]) -> pa.RecordBatch:
    """Return the documents of a piece.

    Parameters
    ----------
    split
        Number of the split that was read.
    renamed
        Document ids of ids whose hash is that of another.
    """
    batch = piece.batch
    count, ids = batch.num_rows, batch["id"]
    doc_ids = apply_renamed(to_doc_ids(ids), ids, renamed)
    columns = [
        pa.array(doc_ids, mask=ids.is_null().to_numpy(zero_copy_only=False)),
        ids,
        batch["source"],
        pa.array(np.full(count, split, np.int32)),
        pa.array(np.full(count, piece.file, np.int32)),
        batch["row"],
        pc.binary_length(batch["text"]).fill_null(0).cast(pa.int64()),
        batch["order_keys"],
        batch["merged"],
        batch["text"],
    ]
    return pa.RecordBatch.from_arrays(columns, names=NAMES)
