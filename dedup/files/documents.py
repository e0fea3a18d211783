"""Documents read from files, in the form that layers receive."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import DataError
from dedup.files.orders import add_keys
from dedup.files.remaining import Remaining
from dedup.files.source import FileSource, Piece
from dedup.files.splits import Split
from dedup.kernels.ids import apply_renamed, to_doc_ids
from dedup.kernels.runs.bounds import find_bounds

NAMES = ["doc_id", "id", "source", "split", "file", "row", "text_bytes", "order_keys", "merged", "vector", "text"]
"""Columns of the documents, see `dedup.tables.arrow.documents`."""


def to_documents(source: FileSource, piece: Piece, split: int, renamed: Mapping[str, int]) -> pa.RecordBatch:
    """Return the documents of a piece of a source.

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
        batch["vector"],
        batch["text"],
    ]
    return add_keys(pa.RecordBatch.from_arrays(columns, names=NAMES), source.rules)


def read_with(
    source: FileSource, split: Split, left: Remaining, side: pa.RecordBatch, *, number: int, renamed: Mapping[str, int]
) -> Iterator[pa.RecordBatch]:
    """Read some documents of a split, with further columns known of them.

    Parameters
    ----------
    number
        Number of the split.
    side
        `file`, `row`, `text_bytes` as they were first read, and further columns, a row for each of the documents, in
        any order.

    Raises
    ------
    DataError
        When documents are gone, or the lengths of their texts have changed.
    """
    order = np.lexsort((side["row"].to_numpy(), side["file"].to_numpy()))
    side = side.take(pa.array(order))
    files, rows = side["file"].to_numpy(), side["row"].to_numpy()
    bounds = find_bounds(files).tolist()
    wanted = {int(files[begin]): rows[begin:end] for begin, end in pairwise(bounds)}
    begins, missing = dict(zip(wanted, bounds[:-1], strict=True)), side.num_rows
    for piece in left.read(source, split, wanted):
        if piece.batch.num_rows:
            documents = to_documents(source, piece, number, renamed)
            here = np.searchsorted(wanted[piece.file], piece.batch["row"].to_numpy()) + begins[piece.file]
            more, missing = side.take(pa.array(here)), missing - here.size
            # What earlier layers cut is no longer in the text.
            if piece.file not in left.cuts and not documents["text_bytes"].equals(more["text_bytes"]):
                raise refuse_changed()
            for name in side.schema.names:
                if name not in NAMES:
                    documents = documents.append_column(side.schema.field(name), more[name])
            yield documents
    if missing:
        raise refuse_changed()


def refuse_changed() -> DataError:
    """Return the error of documents that have changed between two reads."""
    return DataError(
        "--input: must not change while the job reads it (documents are gone or others): repeat the command"
    )
