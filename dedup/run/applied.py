"""What the layers of a run on Spark have found, as the output applies it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame


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
    """EDGES; None where no layer has any."""
    near_misses: DataFrame | None
    """EDGES of near misses; None where no layer has any."""
    spans: DataFrame | None
    """As `arrow.spans_written`; None where no layer has any."""
    cuts: DataFrame | None
    """Spans (doc_id, begin, end) that the texts written lose; None where they lose none."""
    few: bool
    """Whether what is removed fits into every executor's memory."""
    few_edges: bool
    """Whether edges and near misses do, each."""
    removes: bool
    """Whether any row goes."""
    named: DataFrame | None = None
    """doc_id and id of all that edges and near misses name, where `documents` are not all of them."""
    examples: Sequence[int] = ()
    """Documents whose texts the report shows."""
