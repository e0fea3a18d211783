"""Parameters of the search that all batches of a store share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from dedup.kernels.curve import least_estimate
from dedup.kernels.election import ElectionPolicy
from dedup.kernels.sets.templates import choose_cap
from dedup.settings.banding import SIGMAS
from dedup.settings.keeping import parse_order
from dedup.settings.options import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Parameters of a search, after the settings of the same names."""

    threshold: float
    mode: Literal["lsh", "exact"] = "lsh"
    bands: int
    rows: int
    max_bucket: int
    """The cap `buckets.max_bucket`."""
    estimate_sigmas: float
    per_source: int = 0
    """0: no limit."""
    rules: Sequence[tuple[str, str]] = (("smallest_id", ""),)
    """Entries of `keep.order`, before and after the colon."""
    by_representative: bool = False
    max_component: int = 0
    """0: no limit."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the parameters of settings without "auto"."""
        return cls(
            threshold=config.threshold,
            mode=config.mode,
            bands=config.banding.bands,
            rows=config.banding.rows,
            max_bucket=config.buckets.max_bucket,
            estimate_sigmas=SIGMAS,
            per_source=config.limits.per_source,
            rules=parse_order(config.keep.order, "keep"),
            by_representative=config.cluster.linkage == "representative",
            max_component=config.cluster.max_component,
        )

    @property
    def policy(self) -> ElectionPolicy:
        """Settings of an election."""
        return ElectionPolicy(self.threshold, self.by_representative, self.max_component)

    @property
    def cap(self) -> int:
        """Members of the largest bucket of which all pairs are compared."""
        return choose_cap(self.max_bucket, self.mode)

    @property
    def values(self) -> int:
        """Values of a signature."""
        return self.bands * self.rows

    @property
    def least_estimate(self) -> float:
        """Least estimate of a candidate."""
        return least_estimate(self.threshold, self.values, self.estimate_sigmas)
