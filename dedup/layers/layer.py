"""What every layer is to its caller: documents in, removals or spans to cut out."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pyspark.sql import DataFrame

from dedup.stages.documents import Corpus

Counts = TypeVar("Counts")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found(Generic[Counts]):
    """Result of a layer, which the output applies in one pass over the input."""

    removals: DataFrame
    """REMOVALS: documents to remove, each with the layer, the kind, the one kept and the score."""
    spans: DataFrame | None
    """SPANS: parts of texts to cut; None where the layer cuts none."""
    counts: Counts


class Layer(Protocol[Counts]):
    """One kind of duplication: documents, less what earlier layers removed, in; what it removes or cuts out."""

    @property
    def name(self) -> str:
        """Name in settings, report and `duplicates`."""

    def find(self, corpus: Corpus) -> Found[Counts]:
        """Search the documents."""
