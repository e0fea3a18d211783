"""Distinct documents in the order of their ids; what follows knows them by their positions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.values import Features
from dedup.kernels import Flags, Integers
from dedup.kernels.ids import rename
from dedup.kernels.sets.identical import find_identical, find_repeated
from dedup.tables.ids import SHOWN, refuse_null, refuse_repeated


class Documents(NamedTuple):
    """The n distinct documents among the rows of Features."""

    doc_ids: Integers
    """Ascending, so positions are ordered as ids are."""
    rows: Integers
    """The first row of each."""
    copies: Integers
    """Rows of each."""
    sizes: Integers
    """Shingles of each."""
    heads: Integers
    """The position of the least document of the same shingle set; its own where it has none."""

    @property
    def is_head(self) -> Flags:
        """Documents that are compared: the least of each shingle set."""
        own: Flags = (self.heads == np.arange(self.heads.size)) & (self.sizes > 0)
        return own


def find_renamed(doc_ids: Integers, ids: pa.Array) -> dict[str, int]:
    """Return other document ids for ids whose hash is that of another, so that no two ids share one."""
    repeated, _ = find_repeated(doc_ids)
    if not repeated.size or pa.types.is_integer(ids.type):
        return {}
    rows = np.flatnonzero(np.isin(doc_ids, repeated))
    groups: dict[int, set[str]] = {}
    for doc_id, user_id in zip(doc_ids[rows].tolist(), ids.take(pa.array(rows)).to_pylist(), strict=True):
        if user_id is not None:
            groups.setdefault(doc_id, set()).add(user_id)
    collided = [sorted(group) for group in groups.values() if len(group) > 1]
    return rename(collided, lambda wanted: set(doc_ids[np.isin(doc_ids, wanted)].tolist()))


def check_ids(features: Features, *, id_column: str, null_texts: Sequence[str] = ()) -> None:
    """Refuse ids that are null or repeated.

    Parameters
    ----------
    id_column
        Empty where an id is the digest of its row: then repeated ids are equal rows, and no fault.
    null_texts
        How the texts of rows without an id begin, see `refuse_null`.

    Raises
    ------
    DataError
    """
    if nulls := features.ids.null_count:
        raise refuse_null(nulls, null_texts, id_column=id_column)
    check_repeated(features.doc_ids, features.ids, id_column=id_column)


def check_repeated(doc_ids: Integers, ids: pa.Array, *, id_column: str) -> None:
    """Refuse ids of several rows; without an id column they are equal rows, and no fault.

    Raises
    ------
    DataError
    """
    repeated, _ = find_repeated(doc_ids)
    if not repeated.size:
        return
    rows = np.flatnonzero(np.isin(doc_ids, repeated))
    table = pa.table({"doc_id": doc_ids[rows], "id": ids.take(pa.array(rows))})
    counted = table.group_by(["doc_id", "id"]).aggregate([([], "count_all")])
    counted = counted.sort_by([("doc_id", "ascending"), ("id", "ascending")])
    if id_column:
        least = counted.take(pc.sort_indices(counted["id"])).slice(0, SHOWN)
        shown = list(zip(least["id"].to_pylist(), least["count_all"].to_pylist(), strict=True))
        raise refuse_repeated(repeated.size, shown, id_column=id_column)


def collapse(features: Features) -> Documents:
    """Find the distinct documents and, of these, those of one shingle set.

    Documents without a shingle are identical to none.
    """
    order = np.argsort(features.doc_ids, kind="stable")
    ordered = features.doc_ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: ordered.size])
    rows, doc_ids = order[starts], ordered[starts]
    sizes = features.shingle_counts[rows].astype(np.int64)
    full = np.flatnonzero(sizes)
    high, low = features.digest_high[rows[full]], features.digest_low[rows[full]]
    heads = np.arange(rows.size)
    copied, least = find_identical(high, low, full)
    heads[copied] = least
    copies = np.diff(np.append(starts, ordered.size))
    return Documents(doc_ids, rows, copies, sizes, heads)
