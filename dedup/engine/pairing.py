"""The pairs that a table names, of rows of two documents or of buckets up to a cap, and the documents of pairs."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Comparison
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.blocks import unlists
from dedup.kernels.sets import filters, lsh, pairs
from dedup.tables import arrow

PAIRED = ("left_id", "right_id")
ADDRESSED = arrow.integers("doc_id", "target")
"""Documents, and the number of a cell in which they have a pair."""


def list_pairs(batch: pa.RecordBatch, comparison: Comparison[Any]) -> Iterator[tuple[Integers, Integers]]:
    """Yield the pairs of doc_ids that a batch names, with repetitions: left_id < right_id."""
    if PAIRED[0] in batch.schema.names:
        yield batch["left_id"].to_numpy(), batch["right_id"].to_numpy()
        return
    members, offsets = unlists(batch["doc_ids"], "<i8")
    yield from _pair(batch["key"].to_numpy().view(np.uint64), members, offsets, comparison)


def list_ends(rows: pa.Table) -> list[tuple[Integers, Integers]]:
    """Return the doc_ids that each batch names, and where those of each bucket begin; of pairs all at once."""
    if PAIRED[0] in rows.schema.names:
        ends = np.concatenate([rows[name].to_numpy() for name in PAIRED])
        return [(ends, np.empty(0, np.int64))]
    return [unlists(chunk, "<i8") for chunk in rows["doc_ids"].chunks]


def join_pairs(
    rows: pa.Table, doc_ids: Integers, comparison: Comparison[Any], check: Callable[[int], None]
) -> Integers:
    """Return the distinct pairs that a table names, as places among ascending doc_ids: see `pairs.encode`.

    Parameters
    ----------
    check
        Called with the number of pairs before they are stored.
    """
    if PAIRED[0] in rows.schema.names:
        left, right = (np.searchsorted(doc_ids, rows[name].to_numpy()) for name in PAIRED)
        check(left.size)
        return pairs.sort_distinct(pairs.encode(left, right))
    named = list_ends(rows)
    sizes = np.concatenate([np.diff(offsets) for _, offsets in named] or [np.empty(0, np.int64)])
    members = np.searchsorted(doc_ids, np.concatenate([ends for ends, _ in named] or [doc_ids[:0]]))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    keys = rows["key"].to_numpy().view(np.uint64)
    if comparison.share is None:
        return pairs.join(keys, members, offsets, comparison.cap, doc_ids=doc_ids, check=check)
    return pairs.select_distinct(_pair(keys, members, offsets, comparison, doc_ids), check)


def _pair(
    keys: Hashes, members: Integers, offsets: Integers, comparison: Comparison[Any], doc_ids: Integers | None = None
) -> Iterator[tuple[Integers, Integers]]:
    cap, share = comparison.cap, comparison.share
    if share is None or cap is None:
        yield from lsh.pairs(keys, members, offsets, cap, filters.PAIRS_AT_A_TIME, doc_ids=doc_ids)
        return
    left, right = lsh.sample_uncompared(keys, members, offsets, cap, share, doc_ids=doc_ids)
    # Sorted ids take half of the bytes, and small families are drawn from many times.
    order = np.lexsort((right, left))
    yield left[order], right[order]


def take_documents(documents: pa.Table, wanted: Integers) -> pa.Table:
    """Return a row of each document wanted, ascending; a missing one would be taken for its neighbour."""
    known = documents["doc_id"].to_numpy()
    if np.array_equal(known, wanted):
        return documents
    order = np.argsort(known, kind="stable")
    places = order.take(np.searchsorted(known, wanted, sorter=order), mode="clip")
    missing = wanted[known[places] != wanted] if known.size else wanted
    if missing.size:
        raise ValueError(f"every document of a pair must be given (got none of {missing[0]})")
    # Arrow joins all chunks before it takes rows of them, and filters each by itself.
    chosen = np.zeros(known.size, dtype=bool)
    chosen[places] = True
    return documents.filter(pa.array(chosen)).take(pa.array(np.cumsum(chosen)[places] - 1))
