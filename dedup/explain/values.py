"""The parts of an explanation, as plain values."""

from dataclasses import dataclass
from typing import Any

from dedup.explain.comparison import Comparison
from dedup.explain.differ import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two documents, and the verdict of the run on them."""

    left_id: Any
    right_id: Any
    jaccard: float | None
    """Exact similarity; None where neither the run nor the texts tell it."""
    verdict: str
    """Why the one removes the other, or why not."""
    fate: str = ""
    """The fate of the right document, where it is not said elsewhere."""
    comparison: Comparison | None = None
    """The comparison of their texts; None where the output does not have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A removed document in a list of such."""

    id: Any
    layer: str
    representative_id: Any
    steps: int
    """Edges of the shortest chain between the two; 0 between equal rows."""
    jaccard: float | None
    """Similarity of the two documents; None where the layer did not measure it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a document's text that a layer cut, or marked."""

    layer: str
    kind: str
    effect: str
    """cut, ignore (by the layers that followed) or mark."""
    begin: int
    """Characters of the text as it was."""
    end: int
    text: str
    kept_id: Any
    """The document in which the text stays; None where it stays nowhere."""
    kept_begin: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The fate of a document, and the reason for it."""

    id: Any
    fate: str
    """kept or removed."""
    layer: str = ""
    """Layer that removed the document, such as near; empty for one that was kept."""
    kind: str = ""
    """Kind of the removal, such as near or identical; empty for a document that was kept."""
    representative_id: Any = None
    """The document kept for it; None where a layer removed it by itself."""
    component_id: Any = None
    """The id of one document of the component, the same for all of it."""
    documents: int = 1
    """Documents in the component, this one included."""
    copies: int = 0
    """Rows removed that equal this one in every column."""
    profile: str = ""
    """Profile of the document; empty where there are none, or its row is not at hand."""
    chain: tuple[Pair, ...] = ()
    """Edges to the document kept, or to the other one asked for."""
    direct: Pair | None = None
    """The document and the one kept, or the other one asked for."""
    removed: tuple[Removal, ...] = ()
    """Removed documents that a kept one stands for, the least similar first, LISTED at most."""
    near_misses: tuple[Pair, ...] = ()
    """Closest documents to a kept one that fell short of the threshold."""
    spans: tuple[Span, ...] = ()
    """Parts of its text that layers cut or marked."""
    text: tuple[Piece, ...] = ()
    """Its text, of which what was cut is the left of pieces that are not shared; empty where nothing was."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component in a list of such."""

    component_id: Any
    representative_id: Any
    documents: int
    text: str
    """Beginning of the representative's text; empty where the output does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The components and removals of a run that are worth a look."""

    largest: tuple[Component, ...]
    longest: tuple[Removal, ...]
    """Removals with the longest chains, the weakest direct similarity first among equals."""
    least_similar: tuple[Removal, ...]
    """Removals least similar to the documents kept."""
