"""An engine of a few lines, which parts batches and rows as no other would."""

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dedup.kernels.ids import to_doc_ids
from dedup.tables import arrow


@dataclass
class TinyEngine:
    """Documents (id, text), and for each, if given, source and order keys."""

    rows: list
    id_type: pa.DataType = field(default_factory=pa.int64)
    keys: dict = field(default_factory=dict)
    seed: int = 0
    size: int = 3
    """Rows of the largest batch."""
    partitions: int = 2
    emitted: dict = field(default_factory=dict)
    """Rows that have travelled, by the name of the table."""
    counted: dict = field(default_factory=dict)
    """Tables by name."""
    sources: list | None = None
    passing: list = field(default_factory=list)
    """Tables that may be read once."""
    spent: list = field(default_factory=list)
    """Those of them that have been."""

    def __post_init__(self):
        self.draw = random.Random(self.seed)
        register = arrow.documents(self.id_type)
        ids = pa.array([each[0] for each in self.rows], self.id_type)
        table = {
            "doc_id": to_doc_ids(ids).tolist(),
            "id": ids.to_pylist(),
            "source": self.sources,
            "text_bytes": [len(text.encode()) for _, text in self.rows],
            "order_keys": [self.keys.get(each, []) for each, _ in self.rows],
            "text": [text for _, text in self.rows],
        }
        columns = [pa.array(table.get(f.name) or [None] * len(self.rows), f.type) for f in register]
        self.documents = pa.Table.from_arrays(columns, schema=register)
        places = list(range(len(self.rows)))
        self.draw.shuffle(places)
        self.documents = self.documents.take(pa.array(places, pa.int64()))

    def _split(self, table):
        """Yield batches of one to `size` rows."""
        batches = table.combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        begin = 0
        while begin < batch.num_rows:
            step = self.draw.randint(1, self.size)
            yield batch.slice(begin, step)
            begin += step

    def scan(self, name, describe, schema):
        whole = pa.schema([*arrow.register(self.id_type), *schema])
        found = []
        for batch in self._split(self.documents):
            columns = describe(batch)
            told = [columns[f.name] if f.name in columns else batch[f.name] for f in whole]
            found.append(pa.RecordBatch.from_arrays(told, schema=whole))
        return self._note(name, pa.Table.from_batches(found, whole))

    def group(self, name, rows, shuffle, *, once=False):
        self._read(rows)
        emitted, by, schema = shuffle.emitted, shuffle.by, shuffle.schema
        emit = shuffle.emit or (lambda batches: (batch.select(emitted.names) for batch in batches))
        every = [pa.Table.from_batches(emit(self._split(part)), emitted) for part in self._part(rows)]
        table = pa.concat_tables(every)
        self.emitted[name] = table.num_rows
        if shuffle.repeated and (self.seed + len(self.emitted)) % 2:
            # An engine may leave them out, or not.
            counts = Counter(table[by[0]].to_pylist())
            table = table.filter(pa.array([counts[key] > 1 for key in table[by[0]].to_pylist()], pa.bool_()))
        keys = [table[key].to_numpy() for key in (*by, *shuffle.order)]
        table = table.take(np.lexsort(keys[::-1]))
        groups = sum(table[key].to_numpy() * (3 + 2 * n) for n, key in enumerate(by)) % self.partitions
        parts = [table.filter(pa.array(groups == part)) for part in range(self.partitions)]
        found = [pa.Table.from_batches(shuffle.work(self._split(part)), schema) for part in parts]
        return self._note(name, pa.concat_tables(found), once=once)

    def fetch(self, name, wanted, work, schema, *, once=False):
        self._read(wanted)
        assert len(set(wanted["doc_id"].to_pylist())) == wanted.num_rows
        found = []
        # Of equal rows, which share a document id, one is read.
        _, firsts = np.unique(self.documents["doc_id"].to_numpy(), return_index=True)
        for part in self._part(self.documents.take(pa.array(np.sort(firsts)))):
            of = {doc_id: row for row, doc_id in enumerate(wanted["doc_id"].to_pylist())}
            rows = [of.get(doc_id) for doc_id in part["doc_id"].to_pylist()]
            chosen = part.filter(pa.array([row is not None for row in rows], pa.bool_()))
            side = wanted.take(pa.array([row for row in rows if row is not None], pa.int64()))
            for column in wanted.schema:
                if column.name != "doc_id":
                    chosen = chosen.append_column(column, side[column.name])
            found.append(pa.Table.from_batches(work(self._split(chosen)), schema))
        return self._note(name, pa.concat_tables([schema.empty_table(), *found]), once=once)

    def connect(self, name, rows, ends):
        component = {doc_id: doc_id for end in ends for doc_id in rows[end].to_pylist()}
        for _ in component:
            for pair in zip(*(rows[end].to_pylist() for end in ends), strict=True):
                component |= dict.fromkeys(pair, min(component[each] for each in pair))
        components = [component[each] for each in rows[ends[0]].to_pylist()]
        return self._note(name, rows.append_column("component", pa.array(components, pa.int64())))

    def map(self, rows, work, schema):
        self._read(rows)
        return pa.Table.from_batches(work(self._split(rows)), schema)

    def select(self, rows, *columns):
        self._read(rows)
        return rows.select(list(columns))

    def concat(self, *tables):
        return pa.concat_tables(tables)

    def parallelise(self, name, table):
        return self._note(name, table)

    def measure(self, rows, *columns):
        return {"rows": rows.num_rows} | {name: sum(rows[name].to_pylist()) for name in columns}

    def collect(self, rows):
        return rows

    def _part(self, table):
        to = np.array([self.draw.randrange(self.partitions) for _ in range(table.num_rows)])
        return [table.filter(pa.array(to == part)) for part in range(self.partitions)]

    def _read(self, rows):
        assert not any(rows is table for table in self.spent)
        self.spent += [table for table in self.passing if rows is table]

    def _note(self, name, table, *, once=False):
        assert name not in self.counted
        self.counted[name] = table
        self.passing += [table] * once
        return table


def run(layer, texts, sources=None, ids=None):
    """Return what a layer finds in texts, with ids from 0 on unless they are given."""
    rows = list(zip(range(len(texts)) if ids is None else ids, texts, strict=True))
    return layer.find(TinyEngine(rows, pa.int64() if ids is None else pa.string(), sources=sources))


def apply_spans(texts, spans):
    """Return texts without their spans."""
    left = list(texts)
    for row in sorted(spans.to_pylist(), key=lambda row: -row["begin"]):
        text = left[row["doc_id"]]
        left[row["doc_id"]] = text[: row["begin"]] + text[row["end"] :]
    return left
