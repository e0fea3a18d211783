"""What a layer gives back; one code of each layer searches in memory and on Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol

from dedup.engine.engine import Engine, Rows
from dedup.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found(Generic[Rows]):
    """Result of a layer, which the output applies in one pass over the input."""

    documents: Rows
    """What `scan` has returned."""
    removals: Rows | None = None
    """REMOVALS: documents to remove, at most one row for each."""
    edges: bool = False
    """Whether removals are of pairs of known similarity, which `explain` goes along."""
    spans: Rows | None = None
    """SPANS: parts of texts, none of a document overlapping, in characters of the text that the layer was given."""
    effect: Literal["cut", "ignore", "mark"] = "cut"
    """Of spans: "cut" out of the text, "ignore" by the layers that follow, or "mark" in OUT/spans alone."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What report.json says of the layer besides, as JSON has it."""


class NothingToSearchError(DataError):
    """No document is there, or left, for a layer that needs one."""

    def __init__(self) -> None:
        super().__init__("--input: must hold at least one document (it has none)")


class Layer(Protocol):
    """One kind of duplication: the documents that are left in; what it removes or cuts out of them out."""

    @property
    def name(self) -> str:
        """Name in settings, report and `duplicates`."""

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents."""
