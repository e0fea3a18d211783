"""Labelled pairs of duplicates, and how many of them a search joins."""

import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engines.documents import Documents
from dedup.engines.members import Components, find_parted
from dedup.engines.verification import Sets
from dedup.kernels import Flags, Integers
from dedup.kernels.confidence import SIMILARITY_BINS, measure_share
from dedup.tables.ids import refuse_labels


class Labels(NamedTuple):
    """Labelled pairs left <= right of positions of heads, repetitions among them."""

    left: Integers
    right: Integers
    compared: Flags
    """Flags of pairs of two shingle sets, neither of them empty."""

    def list_compared(self) -> tuple[Integers, Integers]:
        """Return the pairs to be compared."""
        return self.left[self.compared], self.right[self.compared]


def place_labels(labels: pa.Table, documents: Documents) -> Labels:
    """Return the labelled pairs whose documents the corpus has, by the least document of each shingle set.

    Parameters
    ----------
    labels
        left_id and right_id, doc_ids of duplicates, each pair once; an id that cannot be of the corpus is null.

    Raises
    ------
    DataError
        When there is none.
    """
    known = labels.select(["left_id", "right_id"]).drop_null()
    ends = np.stack([known[name].to_numpy() for name in known.column_names])
    places = np.minimum(np.searchsorted(documents.doc_ids, ends), max(documents.doc_ids.size - 1, 0))
    held = (documents.doc_ids[places] == ends).all(axis=0) if documents.doc_ids.size else np.zeros(0, dtype=bool)
    if not held.any():
        raise refuse_labels(labels.num_rows)
    heads = documents.heads[places[:, held]]
    left, right = heads.min(axis=0), heads.max(axis=0)
    full = documents.sizes > 0
    return Labels(left, right, (left != right) & full[left] & full[right])


def measure_recall(labels: Labels, documents: Documents, sets: Sets, components: Components) -> list[dict[str, Any]]:
    """Count the labelled pairs that are in one component, by similarity, in the terms of `labels.measure_recall`."""
    left, right, compared = labels
    # A document without a token resembles nothing, not even another such.
    similarities = np.where(left == right, 1.0, 0.0)
    similarities[compared] = sets.compare(*labels.list_compared())
    joined = ~find_parted(left, right, components, documents.rows.size)
    bins = np.floor(similarities * SIMILARITY_BINS).astype(np.int64)
    points = []
    for number in np.unique(bins).tolist():
        here = bins == number
        share = measure_share(np.array([np.count_nonzero(joined[here])]), np.array([np.count_nonzero(here)]))
        told = {
            "jaccard": math.fsum(similarities[here].tolist()) / share.of,
            "pairs": share.of,
            "joined": share.count,
            "recall": share.share,
            "low": share.low,
            "high": share.high,
        }
        points.append(told)
    return points
