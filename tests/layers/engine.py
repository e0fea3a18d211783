"""An engine of the layers on tables in memory, whose batches are as small and as odd as an engine may make them."""

from dataclasses import dataclass

import pyarrow as pa

from dedup.kernels.ids import to_doc_ids
from dedup.tables.arrow import documents

STEP = 3
"""Rows of a batch."""


@dataclass
class TestEngine:
    """Documents, and the tables made of them by name."""

    __test__ = False

    texts: pa.Table

    @property
    def id_type(self):
        return self.texts.schema.field("id").type

    def scan(self, name, describe, schema):
        del name
        register = self.texts.drop_columns(["text"])
        found = []
        for batch in self.texts.to_batches(max_chunksize=STEP):
            columns = describe(batch)
            assert set(columns) == set(schema.names)
            found.append(pa.record_batch([columns[name] for name in schema.names], schema=schema))
        described = pa.Table.from_batches(found, schema)
        for field in schema:
            register = register.append_column(field, described[field.name])
        return register

    def meet(self, name, rows, emit, work, *, emitted, by, order, schema):
        del name
        batches = rows.to_batches(max_chunksize=STEP)
        sent = batches if emit is None else list(emit(iter(batches)))
        assert all(batch.schema.equals(emitted) for batch in sent), [batch.schema for batch in sent]
        table = pa.Table.from_batches(sent, emitted).sort_by([(each, "ascending") for each in (*by, *order)])
        return self._make(work(iter(table.to_batches(max_chunksize=STEP))), schema)

    def fetch(self, name, wanted, work, schema):
        del name
        assert len(set(wanted["doc_id"].to_pylist())) == wanted.num_rows
        further = [each for each in wanted.schema.names if each not in self.texts.schema.names]
        places = {doc_id: row for row, doc_id in enumerate(self.texts["doc_id"].to_pylist())}
        rows = self.texts.take(pa.array([places[doc_id] for doc_id in wanted["doc_id"].to_pylist()], pa.int64()))
        for each in further:
            rows = rows.append_column(wanted.schema.field(each), wanted[each])
        return self._make(work(iter(rows.to_batches(max_chunksize=STEP))), schema)

    def turn(self, rows, work, schema):
        return self._make(work(iter(rows.to_batches(max_chunksize=STEP))), schema)

    def unite(self, *tables):
        return pa.concat_tables(tables)

    def spread(self, name, table):
        del name
        return table

    def collect(self, rows):
        return rows

    @staticmethod
    def _make(batches, schema):
        made = list(batches)
        assert all(batch.schema.equals(schema) for batch in made), [batch.schema for batch in made]
        return pa.Table.from_batches(made, schema)


def make_documents(texts, sources=None, ids=None):
    """Return DOCUMENTS of texts with ids from 0 on."""
    ids = pa.array(range(len(texts)), pa.int64()) if ids is None else pa.array(ids, pa.string())
    schema = documents(ids.type)
    known = {
        "doc_id": pa.array(to_doc_ids(ids), pa.int64()),
        "id": ids,
        "source": pa.array(sources or [None] * len(texts), pa.string()),
        "text": pa.array(texts, pa.string()),
        "text_bytes": pa.array([len(text.encode()) for text in texts], pa.int64()),
    }
    return pa.table([known.get(field.name, pa.nulls(len(texts), field.type)) for field in schema], schema=schema)


def run(layer, texts, **kwargs):
    """Return what a layer finds."""
    return layer.find(TestEngine(make_documents(texts, **kwargs)))


def apply_spans(texts, spans):
    """Return texts without their spans."""
    left = list(texts)
    for row in sorted(spans.to_pylist(), key=lambda row: -row["begin"]):
        text = left[row["doc_id"]]
        left[row["doc_id"]] = text[: row["begin"]] + text[row["end"] :]
    return left
