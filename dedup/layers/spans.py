"""Spans -> OUT/spans: in the user's ids, with the texts that they hold."""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels.groups import bound_groups, join_groups
from dedup.layers.chain import WHOLE
from dedup.layers.layer import Batches, Engine, Rows
from dedup.tables import arrow

OWN, KEPT = 0, 1


def write_spans(engine: Engine[Rows], documents: Rows, spans: Rows) -> Rows:
    """Return `arrow.spans_written`.

    Parameters
    ----------
    engine
        Of which no layer has taken anything.
    documents
        REGISTER.
    spans
        SPANS with EFFECT, in characters of the whole texts.
    """
    listed = pa.list_(pa.struct(list(WHOLE)))
    grouped = pa.schema([("doc_id", pa.int64()), ("spans", listed)])
    whole = engine.meet(
        "spans_grouped",
        spans,
        None,
        partial(_group, schema=grouped),
        emitted=WHOLE,
        by=["doc_id"],
        order=["begin", "end"],
        schema=grouped,
    )
    named = pa.schema([*arrow.spans_written(engine.id_type), ("kept_doc_id", pa.int64())])
    texts = engine.fetch("spans_texts", whole, partial(_read_texts, schema=named), named)
    keyed = pa.schema([("key", pa.int64()), ("role", pa.int64()), *named])
    kept = engine.turn(documents, partial(_key_documents, schema=keyed), keyed)
    asked = engine.turn(texts, partial(_key_spans, schema=keyed), keyed)
    written = arrow.spans_written(engine.id_type)
    return engine.meet(
        "spans_named",
        engine.unite(kept, asked),
        None,
        partial(_name, schema=written),
        emitted=keyed,
        by=["key"],
        order=["role", "begin"],
        schema=written,
    )


def _group(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Turn spans into a row for each document."""
    for batch in join_groups(batches, ["doc_id"]):
        bounds = bound_groups(batch, ["doc_id"])
        lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), batch.to_struct_array())
        yield pa.RecordBatch.from_arrays([batch["doc_id"].take(pa.array(bounds[:-1])), lists], schema=schema)


def _read_texts(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Turn documents with their spans into spans with what they hold."""
    for batch in batches:
        rows = [
            {**span, "id": user_id, "text": (text or "")[span["begin"] : span["end"]]}
            for user_id, text, spans in zip(*(batch[name].to_pylist() for name in ("id", "text", "spans")), strict=True)
            for span in spans
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _key_documents(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        known = {
            "key": batch["doc_id"],
            "role": pa.repeat(pa.scalar(OWN, pa.int64()), batch.num_rows),
            "id": batch["id"],
        }
        known["begin"] = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        columns = [known.get(field.name, pa.nulls(batch.num_rows, field.type)) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _key_spans(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        roles = pa.repeat(pa.scalar(KEPT, pa.int64()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([batch["kept_doc_id"].fill_null(0), roles, *batch.columns], schema=schema)


def _name(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Give spans the user's id of the document kept."""
    for batch in join_groups(batches, ["key"]):
        is_document = pc.equal(batch["role"], OWN)
        documents, spans = batch.filter(is_document), batch.filter(pc.invert(is_document))
        places = pc.index_in(spans["kept_doc_id"], documents["key"])
        ids = documents["id"].take(places)
        columns = [ids if name == "kept_id" else spans[name] for name in schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
