"""Corpora of a few rows, searched by the layer near on the memory engine."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from dedup.engine.memory import MemoryEngine
from dedup.engine.workers import Processes
from dedup.files.source import Piece
from dedup.files.splits import Split
from dedup.kernels.digests import number_names
from dedup.kernels.sets.identical import find_repeated
from dedup.kernels.sets.shingles import shingle
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers.near.layer import NearLayer
from dedup.layers.near.search import Search
from dedup.layers.near.signing import Signing
from dedup.tables.counts import Near

SEED = 1
SEARCH = Search(threshold=0.8, bands=21, rows=6, max_bucket=150, estimate_sigmas=4.0)


class Row(NamedTuple):
    """A row of the input; rows without an id column have equal ids where they are equal."""

    id: int | str
    text: str
    source: str | None = None
    value: float | None = None
    """Of a column that a rule asks for."""

    @property
    def doc_id(self) -> int:
        """As `documents.to_doc_id`."""
        if isinstance(self.id, int):
            return self.id
        return int(np.uint64(xxhash.xxh64_intdigest(self.id.encode(), 42)).astype(np.int64))


class Unclocked:
    """Stages that nobody times; what only informs must not fail."""

    inform = staticmethod(lambda _, work, *args: work(*args))

    def time(self, name):
        del name
        return nullcontext()

    def note(self, name, counts):
        assert counts.rows >= 0, name


def make_layer(search: Search, shingle_size: int, labels: pa.Table | None = None, holds: str = "none") -> NearLayer:
    return NearLayer(
        search=search,
        signing=Signing(
            tokenizer=UnicodeWords(),
            shingle_size=shingle_size,
            bands=search.bands if search.mode == "lsh" else 0,
            rows=search.rows,
            signature_seed=SEED,
            sample_share=1.0,
            holds=holds,
        ),
        has_sources=True,
        labels=labels,
        stages=Unclocked(),
    )


class Source(NamedTuple):
    """A source of one file, which these rows are."""

    batch: pa.RecordBatch
    rules: Sequence[tuple[str, str]] = ()

    def read(self, split, rows=None):
        del split
        batch = self.batch if rows is None else self.batch.take(pa.array(rows.get(0, [])))
        yield Piece(file=0, batch=batch)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watched(MemoryEngine):
    """An engine that remembers the tables it has made, and the documents it has read again, by name."""

    made: dict = field(default_factory=dict)
    read: list = field(default_factory=list)
    begin: Callable[[pa.Table], None] = lambda _: None
    """Called with what the pass over the texts has made."""

    def scan(self, name, work, schema):
        rows = MemoryEngine.scan(self, name, work, schema)
        self.begin(rows)
        return rows

    def group(self, name, rows, shuffle, **options):
        self.made[name] = MemoryEngine.group(self, name, rows, shuffle, **options)
        return self.made[name]

    def compare(self, name, *args, **options):
        self.made[name] = MemoryEngine.compare(self, name, *args, **options)
        return self.made[name]

    def connect(self, name, *args):
        self.made[name] = MemoryEngine.connect(self, name, *args)
        return self.made[name]

    def fetch(self, name, wanted, work, schema, **options):
        self.read.extend([sorted(wanted["doc_id"].to_pylist())] * bool(wanted.num_rows))
        return MemoryEngine.fetch(self, name, wanted, work, schema, **options)


class Corpus:
    """Rows, and what a search finds of them."""

    def __init__(self, rows: list[Row], shingle_size: int = 5) -> None:
        self.rows = rows
        self.shingle_size = shingle_size
        self.calls: list[list[int]] = []

    def sets(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return shingle(*UnicodeWords().hash(pa.array(texts, pa.string())), self.shingle_size, UnicodeWords())

    def _order_keys(self, search: Search) -> np.ndarray:
        values = np.array([np.nan if row.value is None else row.value for row in self.rows])
        names = [name for name, _ in search.rules if name in {"highest", "latest", "lowest", "earliest"}]
        signs = [-1 if name in {"highest", "latest"} else 1 for name in names]
        return np.stack([sign * values for sign in signs], axis=1) if names else np.empty((values.size, 0))

    def find(self, search: Search, labels: list[tuple] | None = None, **options) -> SimpleNamespace:
        """Search, with labels as pairs of doc_ids or None."""
        listed = None
        if labels is not None:
            schema = pa.schema({"left_id": pa.int64(), "right_id": pa.int64()})
            listed = pa.Table.from_pylist([{"left_id": left, "right_id": right} for left, right in labels], schema)
        engine = self.open(search, **options)
        found = make_layer(search, self.shingle_size, listed).find(engine)
        self.calls += engine.read
        return self._describe(engine, found)

    def open(self, search: Search, **options) -> Watched:
        """Return the engine of the rows."""
        kind = pa.string() if self.rows and isinstance(self.rows[0].id, str) else pa.int64()
        keys = self._order_keys(search)
        batch = pa.record_batch(
            {
                "id": pa.array([row.id for row in self.rows], kind),
                "text": pa.array([row.text for row in self.rows], pa.string()),
                "source": pa.array([row.source for row in self.rows], pa.string()),
                "row": pa.array(range(len(self.rows)), pa.int64()),
                "order_keys": pa.array(keys.tolist(), pa.list_(pa.float64())),
                "merged": pa.array([[]] * len(self.rows), pa.list_(pa.string())),
                "vector": pa.nulls(len(self.rows), pa.binary()),
            }
        )
        workers = Processes(1, Source(batch, search.rules))
        return Watched(workers=workers, splits=[Split(parts=())], id_type=kind, id_column="", threads=2, **options)

    def _describe(self, engine: Watched, found) -> SimpleNamespace:
        """Return tables in ascending order of their ids, those of edges without identical documents, and counts."""
        made, counts = engine.made, found.counts
        identical = made["identical"].sort_by("doc_id")
        # Each component in the round after which it asks for nothing.
        rounds = pa.concat_tables(table for name, table in made.items() if re.fullmatch(r"members\d*", name))
        elected = rounds.filter(pc.is_valid(rounds["doc_id"])).sort_by("doc_id")
        gone = set(found.removals["doc_id"].to_pylist())
        is_spared = [
            kind != "kept" and doc_id not in gone
            for doc_id, kind in zip(elected["doc_id"].to_pylist(), elected["kind"].to_pylist(), strict=True)
        ]
        names = {None, *(row.source for row in self.rows)}
        named = dict(zip(number_names(pa.array([*names], pa.string())).tolist(), names, strict=True))
        members = [
            row
            | {"charged": row["charged"] and sorted((named[each] for each in row["charged"]), key=str)}
            | ({"representative_doc_id": row["doc_id"], "representative_id": row["id"]} if spared else {})
            | ({"kind": "kept", "jaccard": 1.0} if spared else {})
            for row, spared in zip(elected.to_pylist(), is_spared, strict=True)
        ]
        charged = pa.field("charged", pa.list_(pa.string()))
        schema = elected.schema.set(elected.schema.get_field_index("charged"), charged)
        pairs = [("left_id", "ascending"), ("right_id", "ascending")]
        doc_ids = np.array([row.doc_id for row in self.rows], np.int64)
        return SimpleNamespace(
            identical=identical,
            repeated=pa.table({"doc_id": find_repeated(doc_ids)}),
            candidates=made["candidates"].sort_by(pairs),
            edges=found.edges.slice(0, counts.verified.rows).sort_by(pairs),
            near_misses=found.near_misses.sort_by(pairs),
            components=made["components"].sort_by("doc_id"),
            members=pa.Table.from_pylist(members, schema),
            spared=elected.select(["doc_id", "kind"]).filter(pa.array(is_spared, pa.bool_())),
            recall=[] if counts.labeled is None else counts.labeled.points,
            **{each.name: getattr(counts, each.name) for each in fields(Near)},
        )


def rows_of(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]
