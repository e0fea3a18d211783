"""What the layers of a run on Spark have found, as the output applies it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from dedup.layers.near import NearFound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Applied:
    """Tables for the output, in document ids."""

    documents: DataFrame
    """REGISTER, with further columns perhaps."""
    rows: int
    """Documents."""
    text_bytes: int
    layers: Sequence[str]
    removals: DataFrame
    """REMOVALS."""
    repeated: DataFrame | None
    """Ids of equal rows, of which each but the first goes; None if none do."""
    copies: tuple[str, str]
    """The layer that these go by, and the kind."""
    members: DataFrame
    """doc_id and component_id of documents that stay for others."""
    edges: DataFrame | None
    """EDGES of layers other than near; None where none has any."""
    spans: DataFrame | None
    """As `arrow.spans_written`; None where no layer has any."""
    cuts: DataFrame | None
    """Spans (doc_id, begin, end) that the texts written lose; None where they lose none."""
    near: Sequence[NearFound]
    """Of each profile; none where the layer did not run."""
    few: bool
    """Whether what is removed fits into every executor's memory."""

    removes: bool
    """Whether any row goes."""
    near_misses: DataFrame | None = None
    """EDGES of near misses where `near` does not tell them."""
    named: DataFrame | None = None
    """doc_id and id of all that edges and near misses name, where `documents` are not all of them."""
    examples: Sequence[int] = ()
    """Documents whose texts the report shows, where `near` does not tell them."""

    def list_examples(self) -> list[int]:
        """Return the documents whose texts the report shows."""
        return sorted({*self.examples, *(doc_id for found in self.near for doc_id in found.counts.elected.shown)})
