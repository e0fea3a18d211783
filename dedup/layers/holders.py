"""SHINGLES of documents -> those of several documents, with the number of their holders."""

from functools import partial

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Shuffle
from dedup.kernels.runs import blocks
from dedup.kernels.runs.counting import count_groups
from dedup.kernels.runs.groups import drop_repeated
from dedup.tables import arrow

HELD = arrow.integers("shingle", "doc_id", "size")
"""Shingles of documents, each with how many the document has."""
SHARED = arrow.integers("shingle", "doc_id", "size", "holders")
"""Shingles of several documents, with how many hold each."""


def list_shingles(batches: Batches) -> Batches:
    """Give every shingle of sets, the cells `shingles` of documents, a row of HELD."""
    for batch in batches:
        values, offsets = blocks.unlists(batch["shingles"], "<i8")
        sizes = np.diff(offsets)
        columns = [values, *(np.repeat(each, sizes) for each in (batch["doc_id"].to_numpy(), sizes))]
        yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=HELD)


def share(most: int) -> Shuffle:
    """Return the shuffle of documents with sets -> SHARED; every shingle travels, as 24 bytes.

    Parameters
    ----------
    most
        Number of holders up to which they are counted, at least 2.
    """
    return Shuffle(
        emit=list_shingles,
        emitted=HELD,
        by=("shingle",),
        order=("doc_id",),
        work=partial(_count_holders, most=most),
        schema=SHARED,
        repeated=True,
    )


def _count_holders(batches: Batches, *, most: int) -> Batches:
    # Equal rows, which share a document id, are one document.
    distinct = drop_repeated(batches, ["shingle", "doc_id"])
    for batch, counts in count_groups(distinct, ["shingle"], most):
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(counts)], schema=SHARED).filter(pa.array(counts > 1))
