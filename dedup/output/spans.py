"""Spans -> OUT/spans, in the user's ids and with the texts that they hold, and the places of texts that lose some."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally, conform_rows
from dedup.kernels import Flags, Integers
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import mark_firsts, rank
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.layers.chain import WHOLE
from dedup.tables import arrow

SPAN, ROW, GONE = 0, 1, 2
KEYED = arrow.integers("doc_id", "split", "file", "row", "role", "begin", "end", "size")
"""Spans of texts with their `size` in bytes, and the places of documents."""
CUTS = arrow.integers("split", "file", "row", "begin", "end")
LOST = "text_bytes"


def write_spans(engine: Engine[Rows], spans: Rows, ids: Rows) -> Rows:
    """Keep doc_id and the columns of `arrow.spans_written`.

    Parameters
    ----------
    engine
        Engine from which no layer has taken anything.
    spans
        SPANS with EFFECT, in characters of the whole texts.
    ids
        doc_id and id of all documents that spans may be kept in, one row each.
    """
    listed = pa.list_(pa.struct(list(WHOLE)))
    grouped = pa.schema([("doc_id", pa.int64()), ("spans", listed)])
    whole = engine.group(
        "spans_grouped",
        spans,
        Shuffle(
            emitted=WHOLE, by=["doc_id"], order=["begin", "end"], work=partial(_group, schema=grouped), schema=grouped
        ),
        once=True,
    )
    written = pa.schema([("doc_id", pa.int64()), *arrow.spans_written(engine.id_type)])
    bare = written.remove(written.get_field_index("kept_id")).append(pa.field("kept_doc_id", pa.int64()))
    texts = engine.fetch("spans_texts", whole, partial(_read_texts, schema=bare), bare, once=True)
    if pa.types.is_integer(engine.id_type):
        # Such an id is the document's own number.
        kept = engine.select(texts, *bare.names, kept_id="kept_doc_id")
    else:
        kept = engine.join(texts, engine.select(ids, "doc_id", kept_id="id"), "kept_doc_id", how="left")
    return conform_rows(engine, kept, written, name="spans_named")


def _group(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Turn spans into a row for each document."""
    for batch in join_groups(batches, ["doc_id"]):
        bounds = bound_groups(batch, ["doc_id"])
        lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), batch.to_struct_array())
        yield pa.RecordBatch.from_arrays([batch["doc_id"].take(pa.array(bounds[:-1])), lists], schema=schema)


def _read_texts(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Turn documents with their spans into spans with what they hold."""
    for batch in batches:
        bounds = np.concatenate(([0], np.cumsum(pc.list_value_length(batch["spans"]).to_numpy())))
        spans = pa.RecordBatch.from_arrays(batch["spans"].flatten().flatten(), schema=WHOLE)
        begins, ends = (spans[name].to_pylist() for name in ("begin", "end"))
        held = [
            text[begin:end]
            for text, (first, last) in zip(
                batch["text"].fill_null("").to_pylist(), pairwise(bounds.tolist()), strict=True
            )
            for begin, end in zip(begins[first:last], ends[first:last], strict=True)
        ]
        ids = batch["id"].take(pc.list_parent_indices(batch["spans"]))
        # The id of the document that a span is kept in comes later.
        yield conform(spans, schema, id=ids, text=pa.array(held, pa.large_string()))


def place_cuts(engine: Engine[Rows], documents: Rows, decisions: Rows, spans: Rows) -> Rows:
    """Keep CUTS of the rows that stay; the tally has LOST, the bytes of what they lose.

    Parameters
    ----------
    spans
        As from `write_spans`.
    """
    cut = engine.map(engine.select(spans, "doc_id", "begin", "end", "effect", "text"), _take_cuts, KEYED)
    places = ("doc_id", "split", "file", "row")
    wanted = engine.select(spans, "doc_id")
    rows, gone = (
        conform_rows(
            engine,
            engine.join(engine.select(table, *places), wanted, "doc_id", how="semi"),
            KEYED,
            role=role,
            begin=0,
            end=0,
            size=0,
        )
        for table, role in ((documents, ROW), (decisions, GONE))
    )
    shuffle = Shuffle(emitted=KEYED, by=["doc_id"], order=["file", "row", "role", "begin"], work=_place, schema=CUTS)
    return engine.group("cuts", engine.concat(cut, rows, gone), shuffle)


def _take_cuts(batches: Batches) -> Batches:
    """Yield the spans that texts lose; they stand before all rows of their document."""
    for batch in batches:
        cut = batch.filter(pc.equal(batch["effect"], "cut"))
        yield conform(cut, KEYED, split=-1, file=-1, row=-1, role=SPAN, size=pc.binary_length(cut["text"]))


def _place(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    """Bring the spans of each document to each of its rows that stay."""
    for batch in join_groups(batches, ["doc_id"]):
        rows = {name: batch[name].to_numpy() for name in KEYED.names}
        documents = np.cumsum(mark_firsts(rows["doc_id"])) - 1
        is_span = rows["role"] == SPAN
        # What goes follows its own row.
        staying = np.flatnonzero((rows["role"] == ROW) & (np.append(rows["role"][1:], ROW) != GONE))
        spans = np.flatnonzero(is_span)
        count = int(documents[-1]) + 1
        counts = np.bincount(documents[spans], minlength=count)
        numbers = np.repeat(staying, counts[documents[staying]])
        firsts = np.concatenate(([0], np.cumsum(counts)))[documents[numbers]]
        chosen = spans[firsts + rank(numbers)]
        lost = np.zeros(count, np.int64)
        outer = spans[_find_outer(documents[spans], rows["begin"][spans], rows["end"][spans])]
        np.add.at(lost, documents[outer], rows["size"][outer])
        yield Tally({LOST: int(lost[documents[staying]].sum())})
        columns = [rows[name][numbers] for name in ("split", "file", "row")]
        columns += [rows[name][chosen] for name in ("begin", "end")]
        yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=CUTS)


def _find_outer(documents: Integers, begins: Integers, ends: Integers) -> Integers:
    """Return the spans that lie in no other: what an earlier layer has cut can lie in what a later one cuts."""
    order = np.lexsort((-ends, begins, documents))
    stride = int(ends.max(initial=0)) + 1
    reach = np.maximum.accumulate(documents[order] * np.int64(stride) + ends[order])
    is_outer: Flags = np.append(True, reach[1:] > reach[:-1])[: order.size]
    return order[is_outer]
