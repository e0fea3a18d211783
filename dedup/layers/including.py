"""What the layer of containment does to batches of documents, of their shingles and of pairs."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.counting import count_groups, drop_repeated
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.kernels.sets import containment
from dedup.kernels.sets.jaccard import bin_similarities, count_shared
from dedup.kernels.sets.shingles import shingle
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.tables import arrow

MOST_HOLDERS = 1 << 16
"""Documents up to which those of a shingle are counted: which of two that are more common is rarer matters little."""
PIECE_ROWS = 1 << 12
"""Rows whose pairs are made at a time."""
PIECE_SHINGLES = 1 << 20
"""Shingles that are sent at a time: 8 MB."""

SETS = arrow.integer_lists("shingles")
HELD = arrow.integers("shingle", "doc_id", "size")
"""Shingles of documents, each with how many the document has."""
SHARED = arrow.integers("shingle", "doc_id", "size", "holders")
"""Those of several documents; `holders` are counted up to MOST_HOLDERS."""
PREFIXES = arrow.integers("shingle", "doc_id", "turn", "chosen")
"""`turn` is the size, negative, and `chosen` 1 of those by which a document finds others."""
PAIRED = arrow.integers("doc_id", "other_id", "missed")
"""Pairs to compare, the first of as many shingles or fewer; rows of a document with itself count pairs left out."""
ASKED = pa.schema([*arrow.integers("doc_id", "missed"), *arrow.integer_lists("others")])
"""Documents to compare, with the others that may contain each; empty for those that only contain."""
MISSING = arrow.integers("doc_id", "missed")
BINNED = arrow.integers("bin", "pairs")
LARGER = "larger_"
"""Begins the names of columns of the other document of a pair."""
RANKED = ("id", "source", "text_bytes", "order_keys")
"""Columns of a document that say which stays."""


def name_schemas(id_type: pa.DataType) -> tuple[pa.Schema, pa.Schema, pa.Schema]:
    """Return the schemas of documents with their sets, of sets on their way to another, and of pairs compared."""
    register = arrow.register(id_type)
    ranked = [register.field(name) for name in RANKED]
    sets = pa.schema([*ASKED, *SETS, *ranked])
    sent = pa.schema([*arrow.integers("to", "turn", "doc_id"), *SETS, *ranked])
    side = [*arrow.integers("doc_id", "size"), *ranked]
    larger = [pa.field(LARGER + field.name, field.type) for field in side]
    return sets, sent, pa.schema([*arrow.integers("shared"), *side, *larger])


def _shingle(texts: pa.Array, shingle_size: int, tokenizer: Tokenizer) -> pa.Array:
    shingles, offsets = shingle(*tokenizer.hash(texts), shingle_size, tokenizer)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(shingles.view(np.int64)))


def shingle_batch(batch: pa.RecordBatch, *, shingle_size: int, tokenizer: Tokenizer) -> Mapping[str, pa.Array]:
    """Return the shingles of documents."""
    return {"shingles": _shingle(batch["text"], shingle_size, tokenizer)}


def list_shingles(batches: Batches) -> Batches:
    """Give every shingle a row."""
    for batch in batches:
        owners = pc.list_parent_indices(batch["shingles"])
        sizes = pc.list_value_length(batch["shingles"]).cast(pa.int64())
        columns = [batch["shingles"].flatten(), batch["doc_id"].take(owners), sizes.take(owners)]
        yield pa.RecordBatch.from_arrays(columns, schema=HELD)


def count_holders(batches: Batches) -> Batches:
    """Take the shingles of several documents."""
    # Equal rows, which share a document id, are one document.
    distinct = drop_repeated(batches, ["shingle", "doc_id"])
    for batch, [counts] in count_groups(distinct, ["shingle"], ["doc_id"], [MOST_HOLDERS]):
        rows = pa.RecordBatch.from_arrays([*batch.columns, pa.array(counts)], schema=SHARED)
        yield rows.filter(pa.array(counts > 1))


def choose_prefixes(batches: Batches, *, threshold: float, least: int) -> Batches:
    """Mark the shingles by which documents find those that may contain them."""
    for batch in join_groups(batches, ["doc_id"]):
        sizes = batch["size"].to_numpy()
        chosen = containment.mark_prefixes(batch["doc_id"].to_numpy(), sizes, threshold, least)
        columns = [batch["shingle"], batch["doc_id"], pa.array(-sizes), pa.array(chosen.astype(np.int64))]
        yield pa.RecordBatch.from_arrays(columns, schema=PREFIXES)


def pair(batches: Batches, *, most: int) -> Batches:
    """Pair documents with larger ones of a shingle: the first `most` of these, which are all that is held back."""
    held, seen = pa.RecordBatch.from_pylist([], PREFIXES), 0
    for whole in batches:
        for begin in range(0, whole.num_rows, PIECE_ROWS):
            batch, before = whole.slice(begin, PIECE_ROWS), 0
            if held.num_rows and held["shingle"][0] == batch["shingle"][0]:
                batch, before = pa.concat_batches([held, batch]), seen - held.num_rows
            shingles, doc_ids, _, chosen = (column.to_numpy() for column in batch.columns)
            ones, others, missed = containment.pair_holders(shingles, chosen == 1, before, most)
            left_out = missed > 0
            columns = [
                np.concatenate((doc_ids[ones], doc_ids[left_out])),
                np.concatenate((doc_ids[others], doc_ids[left_out])),
                np.concatenate((np.zeros_like(ones), missed[left_out])),
            ]
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=PAIRED)
            last = int(bound_groups(batch, ["shingle"])[-2])
            seen = batch.num_rows - last + (0 if last else before)
            held = batch.slice(last, most)
            held = held.set_column(3, "chosen", pa.array(np.zeros(held.num_rows, dtype=np.int64)))


def name_both(batches: Batches) -> Batches:
    """Name every document of a pair."""
    for batch in batches:
        yield batch
        pairs = batch.filter(pc.not_equal(batch["doc_id"], batch["other_id"]))
        none = pa.array(np.zeros(pairs.num_rows, dtype=np.int64))
        yield pa.RecordBatch.from_arrays([pairs["other_id"], pairs["other_id"], none], schema=PAIRED)


def join_pairs(batches: Batches) -> Batches:
    """Join the pairs of each document."""
    for batch in join_groups(batches, ["doc_id"]):
        doc_ids, others, missed = (batch[name].to_numpy() for name in PAIRED.names)
        bounds = bound_groups(batch, ["doc_id"])
        distinct = mark_firsts(doc_ids, others) & (doc_ids != others)
        lists = pa.ListArray.from_arrays(
            pa.array(np.concatenate(([0], np.cumsum(distinct)))[bounds], pa.int32()), pa.array(others[distinct])
        )
        sums = np.add.reduceat(missed, bounds[:-1])
        yield pa.RecordBatch.from_arrays([pa.array(doc_ids[bounds[:-1]]), pa.array(sums), lists], schema=ASKED)


def shingle_again(batches: Batches, *, shingle_size: int, tokenizer: Tokenizer, schema: pa.Schema) -> Batches:
    """Return the sets of documents that are to be compared."""
    for batch in batches:
        shingles = _shingle(batch["text"], shingle_size, tokenizer)
        columns = [shingles if name == "shingles" else batch[name] for name in schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def send_sets(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Send every set to the others that may contain it, and keep one where it is."""
    for batch in batches:
        owners = np.concatenate((np.arange(batch.num_rows), pc.list_parent_indices(batch["others"]).to_numpy()))
        targets = np.concatenate((batch["doc_id"].to_numpy(), batch["others"].flatten().to_numpy()))
        turns = (np.arange(owners.size) >= batch.num_rows).astype(np.int64)
        ends = np.cumsum(pc.list_value_length(batch["shingles"]).to_numpy()[owners])
        begin = 0
        while begin < owners.size:
            spent = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, spent + PIECE_SHINGLES, side="right")), begin + 1)
            taken = batch.take(pa.array(owners[begin:end]))
            known = {"to": pa.array(targets[begin:end]), "turn": pa.array(turns[begin:end])}
            columns = [known[name] if name in known else taken[name] for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            begin = end


def compare(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Count what sets share with the one that they were sent to, which comes first; it alone is held back."""
    held: pa.RecordBatch | None = None
    for received in batches:
        batch = received
        if not batch.num_rows:
            continue
        if held is not None and held["to"][0] == batch["to"][0]:
            batch = pa.concat_batches([held, batch])
        bounds = bound_groups(batch, ["to"])
        firsts = np.repeat(bounds[:-1], np.diff(bounds))
        left = np.flatnonzero(batch["turn"].to_numpy() == 1)
        right = firsts[left]
        sizes = pc.list_value_length(batch["shingles"]).to_numpy().astype(np.int64)
        shared = _count_shared(batch["shingles"], sizes, left, right)
        sides = [
            column
            for rows in (left, right)
            for taken in [batch.take(pa.array(rows))]
            for column in [taken["doc_id"], pa.array(sizes[rows]), *(taken[name] for name in RANKED)]
        ]
        yield pa.RecordBatch.from_arrays([pa.array(shared), *sides], schema=schema)
        held = batch.slice(int(bounds[-2]), 1)


def _count_shared(sets: pa.Array, sizes: Integers, left: Integers, right: Integers) -> Integers:
    shingles: Hashes = sets.flatten().to_numpy().view(np.uint64)
    return count_shared(shingles, np.concatenate(([0], np.cumsum(sizes))), left, right)


def select_edges(batches: Batches, *, threshold: float) -> Batches:
    """Take the pairs of which one contains the other."""
    for batch in batches:
        needed = containment.count_needed(batch["size"].to_numpy(), threshold)
        yield batch.filter(pa.array(batch["shared"].to_numpy() >= needed))


def bin_pairs(batches: Batches) -> Batches:
    """Count pairs by their containment."""
    for batch in batches:
        bins, counts = np.unique(
            bin_similarities(batch["shared"].to_numpy() / batch["size"].to_numpy()), return_counts=True
        )
        yield pa.RecordBatch.from_arrays([pa.array(bins), pa.array(counts)], schema=BINNED)


def select_missing(batches: Batches) -> Batches:
    """Take the documents that were not compared with all that may contain them."""
    for batch in batches:
        yield batch.select(MISSING.names).filter(pc.greater(batch["missed"], 0))


def note_gone(batches: Batches) -> Batches:
    """Give removals a row of MISSING that comes before all others of the document."""
    for batch in batches:
        before = pa.array(np.full(batch.num_rows, -1))
        yield pa.RecordBatch.from_arrays([batch["doc_id"], before], schema=MISSING)


def take_left(batches: Batches) -> Batches:
    """Take the documents that are not gone."""
    for batch in drop_repeated(batches, ["doc_id"]):
        yield batch.filter(pc.greater(batch["missed"], 0))
