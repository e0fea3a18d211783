"""What a layer gives back; one code of each layer searches in memory and on Spark."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows
from dedup.errors import DataError
from dedup.informing import Inform
from dedup.kernels.ids import to_doc_ids
from dedup.tables import arrow
from dedup.tables.counts import Near


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found(Generic[Rows]):
    """Result of a layer, which the output applies in one pass over the input."""

    documents: Rows
    """What `scan` has returned."""
    removals: Rows | None = None
    """REMOVALS: documents to remove, at most one row for each."""
    kept: Rows | None = None
    """Documents that stay for others: rows in the form of REMOVALS, of kind "kept"."""
    edges: Rows | None = None
    """EDGES: pairs of known similarity, which `explain` goes along."""
    near_misses: Rows | None = None
    """EDGES a little below the threshold."""
    sample: Rows | None = None
    """doc_id and tokens of a sample of documents, by which tokens are counted."""
    spans: Rows | None = None
    """SPANS: parts of texts, none of a document overlapping, in characters of the text that the layer was given."""
    effect: Literal["cut", "ignore", "mark"] = "cut"
    """Of spans: "cut" out of the text, "ignore" by the layers that follow, or "mark" in OUT/spans alone."""
    counts: Near | None = None
    """Counts of the layer near; None of others."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What report.json says of the layer besides, as JSON has it."""


class NothingToSearchError(DataError):
    """No document is there, or left, for a layer that needs one."""

    def __init__(self) -> None:
        super().__init__("--input: must hold at least one document (it has none)")


class Stages(Protocol):
    """A clock that a layer of several stages tells of each."""

    inform: Inform
    """Runs what is no part of the search, which goes on without what fails of it."""

    def time(self, name: str) -> AbstractContextManager[object]:
        """Return the context in which a stage is done."""

    def note(self, name: str, counts: Any) -> None:  # noqa: ANN401 - any of `tables.counts`
        """Take note of what a stage has counted."""


class Layer(Protocol):
    """One kind of duplication: the documents that are left in; what it removes or cuts out of them out."""

    @property
    def name(self) -> str:
        """Name in settings, report and `duplicates`."""

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents."""


def to_edges(engine: Engine[Rows], removals: Rows) -> Rows:
    """Return EDGES of each document removed and its representative."""
    return engine.map(removals, _to_edges, arrow.EDGES)


def _to_edges(batches: Batches) -> Batches:
    for batch in batches:
        others = pa.array(to_doc_ids(batch["representative_id"]))
        ends = [pc.min_element_wise(batch["doc_id"], others), pc.max_element_wise(batch["doc_id"], others)]
        yield pa.RecordBatch.from_arrays([*ends, batch["jaccard"]], schema=arrow.EDGES)
