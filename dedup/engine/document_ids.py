"""Ids of documents: hashes that collide, and ids of several rows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches
from dedup.kernels import Integers
from dedup.kernels.ids import rename
from dedup.kernels.sets.identical import find_repeated
from dedup.tables.ids import SHOWN, SHOWN_LENGTH, refuse_repeated

BEGINS = pa.schema([("text", pa.string())])
"""Beginnings of texts."""


def begin_nameless(batches: Batches) -> Batches:
    """Turn documents without an id into BEGINS."""
    for batch in batches:
        texts = batch.filter(pc.is_null(batch["doc_id"]))["text"].slice(0, SHOWN).fill_null("")
        begins = [
            content[: 4 * SHOWN_LENGTH].decode("utf-8", "replace")[:SHOWN_LENGTH]
            for content in texts.cast(pa.large_binary()).to_pylist()
        ]
        yield pa.RecordBatch.from_arrays([pa.array(begins, pa.string())], schema=BEGINS)


def find_renamed(doc_ids: Integers, ids: pa.Array) -> dict[str, int]:
    """Return other document ids for ids whose hash is that of another, so that no two ids share one."""
    repeated = find_repeated(doc_ids)
    if not repeated.size or pa.types.is_integer(ids.type):
        return {}
    rows = np.flatnonzero(np.isin(doc_ids, repeated))
    groups: dict[int, set[str]] = {}
    for doc_id, user_id in zip(doc_ids[rows].tolist(), ids.take(pa.array(rows)).to_pylist(), strict=True):
        if user_id is not None:
            groups.setdefault(doc_id, set()).add(user_id)
    collided = [sorted(group) for group in groups.values() if len(group) > 1]
    return rename(collided, lambda wanted: set(doc_ids[np.isin(doc_ids, wanted)].tolist()))


def check_repeated(doc_ids: Integers, ids: pa.Array, *, id_column: str) -> None:
    """Refuse ids of several rows; without an id column they are equal rows, and no fault.

    Raises
    ------
    DataError
    """
    repeated = find_repeated(doc_ids)
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
