"""Documents of earlier batches of a store, as the layer semantic has seen them, and what is to be kept of a batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Tally, conform_rows, once, read_histogram
from dedup.errors import DataError
from dedup.kernels.runs.batches import conform, take_equal
from dedup.kernels.vectors.products import VALUE_BYTES
from dedup.layers.layer import DOC_ID, EarlierKeys, Fetch
from dedup.layers.near import comparison, templates
from dedup.layers.semantic.vectors import VECTORS
from dedup.tables import arrow

TABLE = "vectors"
"""Table of a store with STORED and the state that has brought each."""
STORED = pa.schema(
    [
        ("doc_id", pa.int64()),
        ("text", pa.large_string()),
        ("values", pa.binary()),
        ("length", pa.int64()),
        ("kept", pa.bool_()),
    ]
)
"""Documents with a vector and its dimensions, and whether the layer has kept them."""
MARKED = VECTORS.append(STORED.field("kept"))
SEEN = pa.schema([STORED.field(name) for name in ("doc_id", "length", "kept")])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Earlier(Generic[Rows]):
    """Documents of earlier batches with a vector."""

    vectors: Rows
    """VECTORS, without those of documents that come again."""
    count: int
    gone: Rows
    """Documents that the layer has removed."""
    past: EarlierKeys
    fetch: Fetch[Rows]
    """Reads documents again, earlier ones too."""

    def list_met(self, engine: Engine[Rows], pairs: Rows, documents: Rows) -> Rows:
        """Return the earlier documents of pairs, under a name, given those of the batch."""
        named = engine.map(engine.select(pairs, *comparison.PAIRS.names), comparison.list_ends, templates.MEMBERS)
        ends = engine.group("met_ends", named, templates.DISTINCT)
        return conform_rows(engine, engine.join(ends, documents, "doc_id", how="anti"), DOC_ID, name="met")

    def list_documents(self, engine: Engine[Rows], documents: Rows, met: Rows) -> Rows:
        """Return the documents of a batch and earlier ones, as an election looks at them, without a source."""
        dated = self.past.date(engine, TABLE, documents, met)
        schema = pa.schema([*arrow.register(engine.id_type)])
        return conform_rows(engine, dated, schema, source=None)

    def leave(self, engine: Engine[Rows], edges: Rows, documents: Rows) -> Rows:
        """Return the edges of documents of the batch with each other and with earlier ones that were kept."""
        own = engine.join(edges, documents, "left_id", how="semi")
        others = engine.join(engine.join(edges, documents, "left_id", how="anti"), documents, "right_id", how="semi")
        left = engine.concat(own, others)
        for end in ("left_id", "right_id"):
            left = engine.join(left, self.gone, end, how="anti")
        return left


def read_earlier(
    engine: Engine[Rows], past: EarlierKeys, documents: Rows, dimensions: int, setting: str
) -> Earlier[Rows]:
    """Return what a store has of earlier batches, given the documents of one and the dimensions of its vectors.

    Parameters
    ----------
    setting
        Setting that says where vectors come from.

    Raises
    ------
    DataError
        When earlier vectors have other dimensions.
    """
    rows, vectors = (past.read(engine, TABLE, schema.names) for schema in (SEEN, VECTORS))
    others = engine.map(engine.join(rows, documents, "doc_id", how="anti"), _count_lengths, SEEN, name="seen_earlier")
    told = read_histogram(engine.tally(others), "lengths")
    if dimensions and any(length != dimensions for length in told):
        raise DataError(
            f"{setting}: vectors must have the length of those in the store, {next(iter(told)):,} (got {dimensions:,})"
        )
    return Earlier(
        vectors=engine.join(vectors, documents, "doc_id", how="anti"),
        count=sum(told.values()),
        gone=engine.map(others, partial(take_equal, schema=DOC_ID, kept=False), DOC_ID),
        past=past,
        fetch=past.open(engine, TABLE),
    )


def keep(engine: Engine[Rows], vectors: Rows, removals: Rows) -> Rows:
    """Return STORED of documents of a batch, of which some go."""
    gone = engine.join(vectors, removals, "doc_id", how="semi")
    left = engine.join(vectors, removals, "doc_id", how="anti")
    marked = [conform_rows(engine, rows, MARKED, kept=kept) for rows, kept in ((gone, False), (left, True))]
    wanted = engine.group("kept_vectors", engine.concat(*marked), once(MARKED))
    return engine.fetch("texts", wanted, _keep, STORED)


def _count_lengths(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    for batch in batches:
        yield Tally().add_each("lengths", batch["length"].to_numpy())
        yield batch


def _keep(batches: Batches) -> Batches:
    for batch in batches:
        lengths = pc.divide(pc.binary_length(batch["values"]), VALUE_BYTES)
        yield conform(batch, STORED, length=lengths)
