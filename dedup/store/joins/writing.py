"""New files of a store, written by the tasks of Spark; the driver commits them."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedup.kernels.runs.blocks import lists
from dedup.kernels.sets import shingles
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.stages.documents import Corpus
from dedup.stages.exchange import Batches, by_piece
from dedup.store.folder import File
from dedup.store.schemas import Layout
from dedup.store.tables import Tables

FILES = T.StructType().add("path", T.StringType()).add("size", T.LongType()).add("rows", T.LongType())
"""Files that tasks have written."""
WRITTEN = {"documents": 1 << 20, "bands": 1 << 23, "edges": 1 << 22, "members": 1 << 21}
"""Rows of a file, about."""


def write_rows(tables: Tables, name: str, segment: str, layout: Layout, rows: DataFrame, *, count: int) -> list[File]:
    """Write so many rows of a table, about, in files by ranges of the key; shuffles them.

    Files of tasks that are tried again stay unnamed, as those of a crash do, until `vacuum`.
    """
    tasks = -(-max(count, 1) // WRITTEN[name])
    ranged = rows.repartitionByRange(tasks, layout.key) if tasks > 1 else rows.coalesce(1)
    kinds = [each for each in layout.schema.names if not pa.types.is_list(layout.schema.field(each).type)]
    ordered = ranged.sortWithinPartitions(layout.key, *[each for each in kinds if each != layout.key])

    def write(batches: Batches) -> Batches:
        yield from _tell(tables.write(name, segment, layout, (pa.Table.from_batches([batch]) for batch in batches)))

    return _collect(ordered.select(*layout.schema.names).mapInArrow(write, FILES), segment)


def write_sets(
    tables: Tables,
    segment: str,
    layout: Layout,
    corpus: Corpus,
    numbered: DataFrame,
    *,
    tokenizer: Tokenizer,
    shingle_size: int,
    broadcast: bool,
) -> list[File]:
    """Write the shingle sets of documents, which are read again: a file for each split, no shuffle of sets.

    Parameters
    ----------
    numbered
        doc_id, place, digests and number of the set of documents, the numbers in the order of the places.
    """

    def shingle(batch: pa.RecordBatch) -> pa.RecordBatch:
        values, offsets = shingles.shingle(*tokenizer.hash(batch["text"]), shingle_size, tokenizer)
        columns = {name: batch[name] for name in ("split", "set", "digest_high", "digest_low")}
        return pa.record_batch({**columns, "shingles": lists(values, offsets)})

    cut: Callable[[Batches], Batches] = by_piece(shingle)

    def write(batches: Batches) -> Batches:
        for _, group in itertools.groupby(cut(batches), key=lambda batch: batch["split"][0].as_py()):
            parts = (pa.Table.from_batches([batch]).drop_columns(["split"]) for batch in _check_order(group))
            yield from _tell(tables.write("sets", segment, layout, parts))

    wanted = numbered.select("doc_id", "set", "digest_high", "digest_low")
    return _collect(corpus.fetch(numbered, wanted, write, FILES, broadcast=broadcast), segment)


def _check_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make sure that the numbers of a file ascend, by which its rows are found again."""
    last = -1
    for batch in batches:
        numbers = batch["set"].to_numpy()
        if numbers.size:
            assert numbers[0] > last, "sets: must be read in the order of their numbers"
            assert (np.diff(numbers) > 0).all(), "sets: must be read in the order of their numbers"
            last = int(numbers[-1])
        yield batch


def _tell(files: Sequence[File]) -> Batches:
    yield pa.record_batch(
        {
            "path": pa.array([file.path for file in files], pa.string()),
            "size": pa.array([file.size for file in files], pa.int64()),
            "rows": pa.array([file.rows for file in files], pa.int64()),
        }
    )


def _collect(told: DataFrame, segment: str) -> list[File]:
    """Return the files of the tasks that ended well."""
    rows = told.toArrow().sort_by("path").to_pylist()
    return [File(segment=segment, **row) for row in rows]
