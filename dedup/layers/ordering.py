"""Documents -> their ranks in the order of `keep.order`, without all of them in one place.

A sample of documents divides the order into ranges, as in sample sort [1]_; those of a range meet and are ranked.

References
----------
.. [1] W. D. Frazer, A. C. McKellar: Samplesort: a sampling approach to minimal storage tree sorting. JACM 17 (1970).
"""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.kernels import Integers
from dedup.kernels.election import RANKED, rank_rows
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.layers.drawing import draw
from dedup.tables import arrow

Rules: TypeAlias = Sequence[tuple[str, str]]
"""Rules of `keep.order`, as `dedup.settings.keeping.parse_order` gives them."""
SAMPLE = 1024
"""Documents drawn: a range of n has about n / SAMPLE."""
RANGE_BITS = 40
"""A rank is the number of its range, and in so many bits its place there."""


def ordered(id_type: pa.DataType) -> pa.Schema:
    """Return the columns of REGISTER that decide the order."""
    return pa.schema([arrow.register(id_type).field(name) for name in ("doc_id", *RANKED)])


def sourced(id_type: pa.DataType) -> pa.Schema:
    """Return the columns of `ordered`, and the source."""
    return pa.schema([*ordered(id_type), arrow.register(id_type).field("source")])


def rank_documents(engine: Engine[Rows], rows: Rows, schema: pa.Schema, rules: Rules) -> Rows:
    """Add the column `rank`: int64, less is earlier, of each document another; equal rows may be left once.

    Parameters
    ----------
    rows
        Documents of the schema, which has the columns of `ordered`.
    """
    ranked = schema.append(pa.field("rank", pa.int64()))
    if engine.id_type == pa.int64() and all(name == "smallest_id" for name, _ in rules):
        return engine.map(rows, partial(_rank_by_id, schema=ranked), ranked)
    keys = ordered(engine.id_type)
    chosen = draw(engine, "sample", rows, keys, SAMPLE).combine_chunks().to_batches()
    return engine.group(
        "ranked",
        rows,
        Shuffle(
            emit=partial(_find_ranges, splitters=chosen[0] if chosen else None, rules=tuple(rules)),
            emitted=schema.append(pa.field("range", pa.int64())),
            by=["range"],
            order=["doc_id"],
            work=partial(_rank_ranges, rules=tuple(rules)),
            schema=ranked,
        ),
    )


def _rank_by_id(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([*batch.columns, batch["id"]], schema=schema)


def _find_ranges(batches: Batches, *, splitters: pa.RecordBatch | None, rules: Rules) -> Batches:
    """Add to each document how many of the sample precede it, or are it."""
    for batch in batches:
        if splitters is None or not batch.num_rows:
            continue
        rows = pa.concat_batches([splitters, batch.select(splitters.schema.names)])
        order = _sort(rows, rules)
        before = np.empty_like(order)
        before[order] = np.cumsum(order < splitters.num_rows)
        yield batch.append_column("range", pa.array(before[splitters.num_rows :]))


def _rank_ranges(batches: Batches, *, rules: Rules) -> Batches:
    for whole in join_groups(batches, ["range"]):
        # Equal rows, which share a document id, are one document.
        batch = whole.filter(pa.array(mark_firsts(whole["range"].to_numpy(), whole["doc_id"].to_numpy())))
        bounds = bound_groups(batch, ["range"])
        ranges = batch["range"].to_numpy()
        order = _sort(batch, rules)
        order = order[np.argsort(ranges[order], kind="stable")]
        ranks = np.empty_like(order)
        ranks[order] = np.arange(order.size) - np.repeat(bounds[:-1], np.diff(bounds))
        yield batch.drop_columns("range").append_column("rank", pa.array((ranges << RANGE_BITS) | ranks))


def _sort(rows: pa.RecordBatch, rules: Rules) -> Integers:
    """Return the rows in the order of the rules: int64 [n]."""
    return np.lexsort(rank_rows(rules, rows).T[::-1])
