"""Spans -> OUT/spans: in the user's ids, with the texts that they hold."""

from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, conform_rows
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.layers.chain import WHOLE
from dedup.tables import arrow


def write_spans(engine: Engine[Rows], spans: Rows, ids: Rows | None = None) -> Rows:
    """Keep doc_id and the columns of `arrow.spans_written`.

    Parameters
    ----------
    engine
        Engine from which no layer has taken anything.
    spans
        SPANS with EFFECT, in characters of the whole texts.
    ids
        doc_id and id of all documents that spans may be kept in; None where these are documents of the engine.
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
    named = written.append(pa.field("kept_doc_id", pa.int64()))
    texts = engine.fetch("spans_texts", whole, partial(_read_texts, schema=named), named, once=True)
    if pa.types.is_integer(engine.id_type):
        # Such an id is the document's own number.
        kept = engine.select(texts, *(name for name in named.names if name != "kept_id"), kept_id="kept_doc_id")
    elif ids is None:
        return engine.name_documents("spans_named", texts, of="kept_doc_id", to="kept_id", schema=written)
    else:
        bare = engine.select(texts, *(name for name in named.names if name != "kept_id"))
        kept = engine.join(bare, engine.select(ids, "doc_id", kept_id="id"), "kept_doc_id", how="left")
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
