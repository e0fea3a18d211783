"""Values that make up an explanation."""

from dataclasses import dataclass
from typing import Any

from dedup.explain.comparison import TextComparison
from dedup.explain.differ import WordRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two documents, and the verdict of the run on them."""

    left_id: Any
    right_id: Any
    jaccard: float | None
    """Exact similarity; None where neither the run nor the texts tell it."""
    verdict: str
    """Reason why one removes the other, or why not."""
    fate: str = ""
    """Fate of the right document, unless stated elsewhere."""
    comparison: TextComparison | None = None
    """Comparison of their texts; None where the output does not have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Removed document in a list."""

    id: Any
    layer: str
    representative_id: Any
    steps: int
    """Edges of the shortest chain between the two; 0 between equal rows, and where edges do not lead there."""
    jaccard: float | None
    """Similarity of the two documents; None where the layer did not measure it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Part of a document's text that a layer cut or marked."""

    layer: str
    kind: str
    effect: str
    """Action: cut, ignore (by the layers that followed) or mark."""
    begin: int
    """Offsets in characters of the text as it was in the input."""
    end: int
    text: str
    kept_id: Any
    """Document in which the text stays; None where it stays nowhere."""
    kept_begin: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Fate of a document, and the reason for it."""

    id: Any
    fate: str
    """Fate: kept or removed."""
    layer: str = ""
    """Layer that removed the document, such as near; empty for one that was kept."""
    kind: str = ""
    """Kind of the removal, such as near or identical; empty for a document that was kept."""
    representative_id: Any = None
    """Document kept for it; None where a layer removed it by itself."""
    component_id: Any = None
    """Id that names the component: that of one of its documents."""
    documents: int = 1
    """Documents in the component, this one included."""
    stands_for: int = 0
    """Removed documents that a kept one stands for."""
    is_dropped: bool = False
    """Whether the document went with all that are alike, as `keep.drop` asked for."""
    copies: int = 0
    """Removed rows that equal this one in every column."""
    profile: str = ""
    """Profile of the document; empty without profiles, or where its row is not stored."""
    chain: tuple[Pair, ...] = ()
    """Edges to the document kept, or to the other one asked for; the last may be a removal by a later layer."""
    direct: Pair | None = None
    """Comparison of the document with the one kept, or with the other one asked for."""
    removed: tuple[Removal, ...] = ()
    """Removed documents that a kept one stands for, the least similar first; at most LISTED."""
    near_misses: tuple[Pair, ...] = ()
    """Closest documents to a kept one that fell short of the threshold."""
    spans: tuple[Span, ...] = ()
    """Parts of the document's text that layers cut or marked."""
    text: tuple[WordRun, ...] = ()
    """Text of the document in pieces; those that are not shared have the cut text on the left. Empty where nothing was
    cut."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Component in a list."""

    component_id: Any
    representative_id: Any
    documents: int
    text: str
    """Beginning of the text of the document kept, else of the one that names it; empty where the output has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """Components and removals of a run that are worth a look."""

    largest: tuple[Component, ...]
    longest: tuple[Removal, ...]
    """Removals with the longest chains, the weakest direct similarity first among equals."""
    least_similar: tuple[Removal, ...]
    """Removals least similar to the documents kept."""
