"""A sample of documents, the same whatever their order: those of the least hashes."""

from functools import partial

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.kernels import Integers
from dedup.kernels.hashing import mix
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.groups import drop_repeated
from dedup.tables import arrow


def hash_ids(doc_ids: Integers) -> Integers:
    """Return a number of at least 0 for each document, by which it is drawn."""
    return (mix(doc_ids.view(np.uint64)) >> np.uint64(1)).view(np.int64)


def draw(engine: Engine[Rows], name: str, rows: Rows, schema: pa.Schema, most: int) -> pa.Table:
    """Return the columns of a schema, doc_id among them, of so many documents; of equal rows one."""
    drawn = pa.schema([*arrow.integers("group", "draw"), *schema])
    shuffle = Shuffle(
        emit=partial(_draw, most=most, schema=drawn),
        emitted=drawn,
        by=("group",),
        order=("draw", "doc_id"),
        work=partial(_thin, most=most, names=schema.names),
        schema=schema,
    )
    return engine.collect(engine.group(name, rows, shuffle))


def _draw(batches: Batches, *, most: int, schema: pa.Schema) -> Batches:
    """Yield the documents of the least hashes."""
    least: pa.RecordBatch | None = None
    for batch in batches:
        draws = hash_ids(batch["doc_id"].to_numpy())
        found = conform(batch, schema, group=0, draw=draws)
        least = found if least is None else pa.concat_batches([least, found])
        _, firsts = np.unique(least["draw"].to_numpy(), return_index=True)
        least = least.take(pa.array(firsts[:most]))
    if least is not None:
        yield least


def _thin(batches: Batches, *, most: int, names: list[str]) -> Batches:
    left = most
    for batch in drop_repeated(batches, ("draw", "doc_id")):
        yield batch.slice(0, left).select(names)
        left = max(left - batch.num_rows, 0)
