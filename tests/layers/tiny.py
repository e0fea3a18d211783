"""An engine of a few lines, which parts batches and rows as no other would."""

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Tally
from dedup.engine.pairing import list_pairs
from dedup.files.conversion import to_vectors
from dedup.files.orders import add_keys
from dedup.kernels.ids import to_doc_ids
from dedup.tables import arrow


@dataclass
class TinyEngine:
    """Documents (id, text), and for each, if given, source and order keys of columns."""

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
    rules: tuple = ()
    """Rules of `keep.order`."""
    sources: list | None = None
    merged: list | None = None
    """Values of the columns that are read along."""
    vectors: list | None = None
    """Values of the column of vectors."""
    passing: list = field(default_factory=list)
    """Tables that may be read once."""
    spent: list = field(default_factory=list)
    """Those of them that have been."""

    is_placed: bool = False
    """Whether the documents are rows of a file, in their order, and not of a table."""
    collectable: int = 1 << 62
    tallies: dict = field(default_factory=dict)
    """Counts by the id of a table."""
    engines: dict = field(default_factory=dict)
    held: list = field(default_factory=list)
    """Tables, so that no other has the id of one."""

    def __post_init__(self):
        self.draw = random.Random(self.seed)
        register = arrow.documents(self.id_type)
        ids = pa.array([each[0] for each in self.rows], self.id_type)
        table = {
            "doc_id": to_doc_ids(ids).tolist(),
            "id": ids.to_pylist(),
            "source": self.sources,
            "text_bytes": [len((text or "").encode()) for _, text in self.rows],
            "order_keys": [self.keys.get(each, []) for each, _ in self.rows],
            "merged": self.merged,
            "vector": None if self.vectors is None else to_vectors(pa.array(self.vectors)).to_pylist(),
            "text": [text for _, text in self.rows],
        }
        if self.is_placed:
            table |= {"split": [0] * len(self.rows), "file": [0] * len(self.rows), "row": list(range(len(self.rows)))}
        columns = [pa.array(table.get(f.name) or [None] * len(self.rows), f.type) for f in register]
        documents = pa.RecordBatch.from_arrays(columns, schema=register)
        self.documents = pa.Table.from_batches([add_keys(documents, self.rules)])
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

    def scan(self, name, work, schema):
        parts = [self._run(work, part, schema) for part in self._part(self.documents)]
        return self._note(name, self._concat(parts, schema))

    def group(self, name, rows, shuffle, *, expected=None, once=False):
        assert expected is None or expected >= 0
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
        table = table.take(np.lexsort(keys[::-1]) if shuffle.in_order else self._draw(table.num_rows))
        groups = sum(table[key].to_numpy() * (3 + 2 * n) for n, key in enumerate(by)) % self.partitions
        parts = [table.filter(pa.array(groups == part)) for part in range(self.partitions)]
        found = [self._run(shuffle.work, part, schema) for part in parts]
        whole = self._concat(found, schema)
        self.tallies[id(whole)]["emitted"] = self.emitted[name]
        return self._note(name, whole, once=once)

    def compare(self, name, pairs, documents, comparison, size):
        assert len(size) == 4
        self._read(pairs)
        self._read(documents)
        named = {pair for batch in self._split(pairs) for pair in self._list_pairs(batch, comparison)}
        parts = [[] for _ in range(self.partitions)]
        for pair in sorted(named):
            parts[self.draw.randrange(self.partitions)].append(pair)
        found = []
        for part in parts:
            ids = sorted({doc_id for pair in part for doc_id in pair})
            chosen = documents.select(list(comparison.columns))
            known = chosen["doc_id"].to_pylist()
            chosen = chosen.take(pa.array([known.index(doc_id) for doc_id in ids], pa.int64()))
            left, right = (np.array([ids.index(pair[side]) for pair in part], np.int64) for side in (0, 1))
            compared = comparison.work(comparison.prepare(chosen), left, right)
            kept = [np.array(ids, np.int64)[ends[compared.chosen]] for ends in (left, right)]
            rows = pa.Table.from_arrays([*kept, *compared.columns.values()], schema=comparison.schema)
            self.tallies[id(rows)] = compared.tally
            found.append(rows)
        return self._note(name, self._concat(found, comparison.schema))

    def _list_pairs(self, batch, comparison):
        for left, right in list_pairs(batch, comparison):
            assert (left < right).all()
            yield from zip(left.tolist(), right.tolist(), strict=True)

    def join(self, rows, others, on, *, key="doc_id", how="inner"):
        self._read(rows)
        self._read(others)
        known = others[key].to_pylist()
        if how in {"semi", "anti"}:
            return rows.filter(
                pa.array([(each in known) == (how == "semi") for each in rows[on].to_pylist()], pa.bool_())
            )
        assert len(set(known)) == len(known)
        of = {each: place for place, each in enumerate(known)}
        places = [of.get(each) for each in rows[on].to_pylist()]
        if how == "inner":
            rows = rows.filter(pa.array([place is not None for place in places], pa.bool_()))
            places = [place for place in places if place is not None]
        taken = others.drop_columns([key]).take(pa.array(places, pa.int64()))
        for each in taken.schema:
            rows = rows.append_column(each, taken[each.name])
        return rows

    def lookup(self, rows, doc_ids):
        return rows.filter(pc.is_in(rows["doc_id"], doc_ids))

    def tally(self, rows):
        return self.tallies.get(id(rows), Tally()).to_dict() | {"rows": rows.num_rows} | self.engines.get(id(rows), {})

    @property
    def collectable_bytes(self):
        return self.collectable

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
            found.append(self._run(work, chosen, schema))
        return self._note(name, self._concat(found, schema), once=once)

    def connect(self, name, links, count):
        assert count >= links.num_rows
        ends = list(zip(*(links[end].to_pylist() for end in ("left_id", "right_id")), strict=True))
        component = {doc_id: doc_id for pair in ends for doc_id in pair}
        for _ in component:
            for pair in ends:
                component |= dict.fromkeys(pair, min(component[each] for each in pair))
        components = pa.table([list(component), list(component.values())], schema=arrow.COMPONENTS)
        self.engines[id(components)] = {"engine": "tiny"}
        return self._note(name, components)

    def map(self, rows, work, schema, *, name=""):
        self._read(rows)
        table = self._run(work, rows, schema)
        return self._note(name, table) if name else table

    def select(self, rows, *columns, **renamed):
        self._read(rows)
        return rows.select([*columns, *renamed.values()]).rename_columns([*columns, *renamed])

    def drop_null(self, rows, column):
        self._read(rows)
        return rows.filter(rows[column].is_valid())

    def expect(self, rows, count):
        assert count >= 0
        return rows

    def range(self, count, work, schema):
        return self._run(work, pa.table({"number": pa.array(range(count), pa.int64())}), schema)

    def sort(self, rows, by, work, schema, *, pieces=1):
        self._read(rows)
        ordered = rows.sort_by(by)
        bounds = sorted(self.draw.randint(0, rows.num_rows) for _ in range(pieces))
        parts = zip([0, *bounds], [*bounds, rows.num_rows], strict=True)
        return self._concat(
            [self._run(work, ordered.slice(begin, end - begin), schema) for begin, end in parts], schema
        )

    def concat(self, *tables):
        return pa.concat_tables(tables)

    def parallelise(self, name, table):
        return self._note(name, table)

    def measure(self, rows, *columns):
        return {"rows": rows.num_rows} | {name: sum(rows[name].to_pylist()) for name in columns}

    def collect(self, rows):
        return rows

    def _run(self, work, rows, schema):
        """Return what work makes of rows, and remember what it counts."""
        found, tally = [], Tally()
        for each in work(self._split(rows)):
            if isinstance(each, Tally):
                tally.update(each)
            else:
                found.append(each)
        table = pa.Table.from_batches(found, schema)
        self.tallies[id(table)] = tally
        return table

    def _concat(self, tables, schema):
        whole = pa.concat_tables([schema.empty_table(), *tables])
        self.tallies[id(whole)] = tally = Tally()
        for table in tables:
            tally.update(self.tallies[id(table)])
        self.held += [whole, *tables]
        return whole

    def _draw(self, count):
        places = list(range(count))
        self.draw.shuffle(places)
        return pa.array(places, pa.int64())

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
    id_type, rules = pa.int64() if ids is None else pa.string(), layer.choice.rules if hasattr(layer, "choice") else ()
    return layer.find(TinyEngine(rows, id_type, rules=rules, sources=sources))


def apply_spans(texts, spans):
    """Return texts without their spans."""
    left = list(texts)
    for row in sorted(spans.to_pylist(), key=lambda row: -row["begin"]):
        text = left[row["doc_id"]]
        left[row["doc_id"]] = text[: row["begin"]] + text[row["end"] :]
    return left
